"""Dispatch modes: Python code that sees, and may change, every operator call below autograd.

The names are PyTorch's, ``torch.utils._python_dispatch``. ``docs/tracing.md`` has examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from pullback.dispatch.python_dispatch import ModeStack, active_modes, without_modes
from pullback.errors import DispatchError
from pullback.interrupts import run_to_end, uninterrupted_entry

__all__ = [
    "TorchDispatchMode",
    "_disable_current_modes",
    "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack",
    "_pop_mode",
    "_pop_mode_temporarily",
    "_push_mode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
]


class TorchDispatchMode:
    """Context manager whose ``__torch_dispatch__`` gets every operator call of this thread.

    A call arrives after autograd has recorded it, and after composite operators have been replaced
    by those that they are made of; the backward pass arrives as the operators of its formulas.
    While the handler runs this mode is off, so that ``func(*args, **kwargs)`` goes on to the mode
    around it, to tensors with a ``__torch_dispatch__`` of their own, or to the kernel.

    >>> import pullback as pb
    >>> class Log(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with Log():
    ...     y = (x * 3).sum()
    pullback.mul.default
    pullback.sum.default
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Returns the result of a call of the operator `func`; subclasses override it.

        Args:
            func: the operator, an ``OpOverload``.
            types: the classes with ``__torch_dispatch__`` among the arguments.
            args: the positional arguments, every default filled in.
            kwargs: the arguments by name.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no __torch_dispatch__(self, func, types, args=(), "
            f"kwargs=None); define it, and return func(*args, **(kwargs or {{}}))"
        )

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run_to_end(_leave, type(self).__name__, [])


_entered: ContextVar[tuple[ModeStack, ...]] = ContextVar("pullback_entered_modes", default=())


def _push_mode(mode: Any) -> None:
    """Makes a mode the innermost one of this thread.

    >>> mode = TorchDispatchMode()
    >>> _push_mode(mode)
    >>> _pop_mode() is mode
    True
    """
    stack = ModeStack((*active_modes(), mode))
    before = _entered.get()
    try:
        _entered.set((*before, stack))
        stack.__enter__()
    except BaseException:
        _entered.set(before)
        raise


def _pop_mode() -> Any:
    """Ends the innermost mode of this thread, and returns it.

    A `with` block that ends while one that began later is active ends that one, as in PyTorch: no
    mode is left after the last block.

    >>> _push_mode(TorchDispatchMode())
    >>> type(_pop_mode()).__name__
    'TorchDispatchMode'
    """
    mode = _get_current_dispatch_mode()
    run_to_end(_leave, "_pop_mode", [])
    return mode


def _leave(name: str, left: list[tuple[ModeStack, ...]]) -> None:
    """Ends the innermost mode; a second call with the same list does what is left to do."""
    entered = _entered.get()
    if not entered and not left:
        raise DispatchError(f"{name} is not active: it ends a `with` block that never began")
    if not left:
        left.append(entered[:-1])
    if entered != left[0]:
        try:
            entered[-1].__exit__()
        finally:
            _entered.set(left[0])


def _get_current_dispatch_mode() -> Any:
    """The innermost active mode of this thread, or None.

    >>> _get_current_dispatch_mode() is None
    True
    """
    modes = active_modes()
    return modes[-1] if modes else None


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """A block in which the innermost mode is not active; its variable is that mode.

    >>> mode = TorchDispatchMode()
    >>> with mode, _pop_mode_temporarily() as found:
    ...     found is mode, _get_current_dispatch_mode_stack()
    (True, [])
    """
    *rest, mode = active_modes()
    with ModeStack(tuple(rest)):
        yield mode


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The active modes of this thread, the innermost last.

    >>> _get_current_dispatch_mode_stack()
    []
    """
    return list(active_modes())


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """A block in which no mode is active; its variable is the list of those that were.

    >>> with TorchDispatchMode(), _disable_current_modes() as found:
    ...     len(found), _get_current_dispatch_mode_stack()
    (1, [])
    """
    modes = list(active_modes())
    with without_modes():
        yield modes


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a value is a wrapper tensor whose class says by what methods it is taken apart.

    >>> import pullback as pb
    >>> is_traceable_wrapper_subclass(pb.ones(2))
    False
    """
    methods = ("__tensor_flatten__", "__tensor_unflatten__")
    return hasattr(t, "__torch_dispatch__") and all(hasattr(t, name) for name in methods)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """The result of a handler: of an operator that writes, the argument that it writes to.

    For the end of a ``__torch_dispatch__`` that wraps all results, also those of operators that
    return an argument. Views need nothing: tensors know what they are views of.

    >>> import pullback as pb
    >>> x, other = pb.ones(2), pb.zeros(2)
    >>> return_and_correct_aliasing(pb.ops.pullback.sin.default, (x,), {}, other) is other
    True
    >>> return_and_correct_aliasing(pb.ops.pullback.sin_.default, (x,), {}, other) is x
    True
    """
    arguments = func.schema.arguments.flat_all
    given = dict(zip((argument.name for argument in arguments), args, strict=False))
    given.update(kwargs or {})
    written = {a.annotation: given[a.name] for a in arguments if a.is_write and a.name in given}
    returns = func.schema.returns
    if len(returns) == 1:
        return written.get(returns[0].annotation, out)
    found = zip(returns, out or (), strict=False)
    return tuple(written.get(one.annotation, value) for one, value in found) if written else out
