"""``checkpoint`` and ``checkpoint_sequential``, with PyTorch's arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.levels import records_in_transform
from pullback.autograd.modes import is_grad_enabled
from pullback.dispatch.modes import MAPPING, NUMPY, TRANSFORM, get_state
from pullback.errors import AutogradValueError
from pullback.interrupts import VariableGuard
from pullback.utils.checkpoint.frame import Contexts, run_in_frame
from pullback.utils.checkpoint.reentrant import run_reentrant

if TYPE_CHECKING:
    from pullback.interop import mode
else:
    mode = lazy_module("pullback.interop.mode")

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

_CHECKS = {"default": True, "none": False}
_early_stop: ContextVar[bool | None] = ContextVar("pullback_early_stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("pullback_checkpoint_debug", default=None)


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Two context managers that do nothing.

    >>> import pullback as pb
    >>> from pullback.utils.checkpoint import noop_context_fn
    >>> len(noop_context_fn())
    2
    """
    return nullcontext(), nullcontext()


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """A block whose checkpoints end their recomputation early, or never do.

    >>> with set_checkpoint_early_stop(False):
    ...     pass
    """
    return VariableGuard(_early_stop, enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """A block whose checkpoints all have ``debug=True``, or none has; None leaves it to each.

    >>> with set_checkpoint_debug_enabled(True):
    ...     pass
    """
    return VariableGuard(_debug, enabled)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls a function without saving values for backward; they are recomputed.

    Args:
        function: what to call with the other arguments; it has to do the same every time.
        use_reentrant: False has no limitations; True is PyTorch's older variant, and the default,
            with a warning, as in PyTorch.
        context_fn: makes two context managers, for the forward and for the recomputation.
        determinism_check: "default" compares shapes and dtypes of the two runs, "none" does not.
        debug: say in errors where tensors were saved.
        early_stop: end the recomputation when all needed values are recomputed.
        preserve_rng_state: draw the same random numbers in the recomputation.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda x: pb.sin(x) * x, x, use_reentrant=False)
    >>> y.sum().backward()
    """
    debug = debug if _debug.get() is None else bool(_debug.get())
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: the use_reentrant parameter should be passed explicitly; "
            "use_reentrant=False is recommended. It is True now.",
            stacklevel=2,
        )
        use_reentrant = True
    if get_state().modes & NUMPY:
        function = mode.run_in_mode(function)  # the recomputation, too
    if use_reentrant:
        _refuse_for_reentrant(kwargs, context_fn is not noop_context_fn or debug)
        return run_reentrant(function, args, preserve_rng_state)
    if determinism_check not in _CHECKS:
        raise AutogradValueError(
            f"checkpoint: determinism_check should be one of {list(_CHECKS)}, but got "
            f"{determinism_check!r}"
        )
    if not is_grad_enabled() or _is_in_forward_transform():
        with context_fn()[0] if is_grad_enabled() else nullcontext():
            return function(*args, **kwargs)
    stop = _early_stop.get()
    return run_in_frame(
        function,
        args,
        kwargs,
        context_fn,
        early_stop=early_stop if stop is None else stop,
        checks_metadata=_CHECKS[determinism_check],
        preserves_rng=preserve_rng_state,
        debug=debug,
    )


def _is_in_forward_transform() -> bool:
    """Whether all transforms around are vmap or of forward mode, which save nothing for backward.

    What a tensor from outside of them has recorded there is kept, as without a checkpoint.
    """
    return bool(get_state().modes & (TRANSFORM | MAPPING)) and not records_in_transform()


def _refuse_for_reentrant(kwargs: dict[str, Any], has_options: bool) -> None:
    if kwargs:
        raise AutogradValueError(f"checkpoint: Unexpected keyword arguments: {', '.join(kwargs)}")
    if has_options:
        raise AutogradValueError(
            "checkpoint: Passing `context_fn` or `debug` is only supported when "
            "use_reentrant=False."
        )


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Runs functions one after the other, in segments that are checkpointed, all but the last.

    Args:
        functions: a sequence of functions, or a module whose children are to run.
        segments: how many parts to make of it.
        input: what the first function gets.
        use_reentrant: as for ``checkpoint``.
        preserve_rng_state: as for ``checkpoint``.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint_sequential([pb.sin, pb.cos, pb.exp], 2, x, use_reentrant=False)
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: the use_reentrant parameter should be passed explicitly; "
            "use_reentrant=False is recommended. It is True now.",
            stacklevel=2,
        )
        use_reentrant = True
    if kwargs:
        raise AutogradValueError(
            f"checkpoint_sequential: Unexpected keyword arguments: {', '.join(kwargs)}"
        )
    parts = list(functions.children() if hasattr(functions, "children") else functions)
    if not isinstance(segments, int) or not 1 <= segments <= max(len(parts), 1):
        raise AutogradValueError(
            f"checkpoint_sequential: segments is {segments!r}; between 1 and the number of "
            f"functions, {len(parts)}, is expected"
        )
    size = len(parts) // segments
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            _in_turn(parts[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return _in_turn(parts[last:])(input)


def _in_turn(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run
