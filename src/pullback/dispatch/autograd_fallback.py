"""Fallback at the autograd keys, for operators without an autograd kernel.

Without a tensor that requires grad, or under ``no_grad``, the entry is linked straight to the
kernel below and costs nothing. Otherwise the result cannot carry a gradient, and the mode decides
whether and when the user is warned. The mode holds for the whole process.

This module also registers the other fallbacks that exist from the start: ADInplaceOrView and
BackendSelect are skipped unless an operator uses them, and Meta raises an error about what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from pullback.dispatch import registry
from pullback.dispatch.caller import warn_caller
from pullback.dispatch.keys import (
    BACKENDS,
    REQUIRES_GRAD,
    DispatchKey,
    after_autograd,
)
from pullback.dispatch.operator import OpOverload
from pullback.dispatch.table import Kernel, fallthrough_kernel
from pullback.errors import AutogradNotRegisteredError, DispatchError, KernelNotFoundError
from pullback.interrupts import uninterrupted_entry

if TYPE_CHECKING:
    from pullback.schema import FunctionSchema

__all__ = [
    "Record",
    "autograd_fallback_mode",
    "autograd_not_registered",
    "record_results_with",
    "set_autograd_fallback_mode",
]

_MODES = ("nothing", "warn", "error")
_mode = "warn"

Record = Callable[[str, tuple[Any, ...], Any], bool]


def _no_graph(complaint: str, inputs: tuple[Any, ...], results: Any) -> bool:  # noqa: ARG001
    """Warns at the call, because there is no graph that could warn in backward."""
    return False


_record: Record = _no_graph


def autograd_fallback_mode() -> str:
    """The mode in force: ``"nothing"``, ``"warn"`` or ``"error"``.

    >>> autograd_fallback_mode()
    'warn'
    """
    return _mode


class set_autograd_fallback_mode:  # noqa: N801 - PyTorch's name
    """Chooses what happens when an operator without an autograd kernel meets a tensor that requires
    grad. Takes effect at once; as a context manager it puts the previous mode back.

    Args:
        mode: ``"nothing"`` (the result is cut from the graph in silence), ``"warn"`` (the default:
            a backward pass that reaches the result warns) or ``"error"`` (the call raises before
            the kernel runs).

    >>> with set_autograd_fallback_mode("error"):
    ...     autograd_fallback_mode()
    'error'
    >>> autograd_fallback_mode()
    'warn'
    """

    def __init__(self, mode: str):
        global _mode
        if mode not in _MODES:
            raise DispatchError(
                f"Unsupported AutogradFallbackMode: {mode!r}. Choose one of {', '.join(_MODES)}."
            )
        self._previous = _mode
        _mode = mode

    def __enter__(self) -> Self:
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        global _mode
        _mode = self._previous


def autograd_not_registered(operator: OpOverload, flags: int) -> Callable[..., Any]:
    """The kernel below autograd, inside the mode's behaviour where history would be lost."""
    below = operator.below(flags & after_autograd)
    if not _loses_history(operator, flags):
        return below

    def run(*args: Any, **kwargs: Any) -> Any:
        if _mode == "error":
            raise AutogradNotRegisteredError(f"{_complaint(operator)}.")
        results = below(*args, **kwargs)
        if _mode == "warn":
            complaint = _complaint(operator)
            if not _record(complaint, (*args, *kwargs.values()), results):
                warn_caller(f"{complaint}: its result is cut from the graph.")
        return results

    return run


def record_results_with(record: Record) -> None:
    """Has `record` put results into the graph, so that the warning comes with the backward pass.

    It gets the complaint, the arguments and the results, and says whether it could.
    """
    global _record
    _record = record


def _loses_history(operator: OpOverload, flags: int) -> bool:
    return bool(flags & REQUIRES_GRAD) and _makes_tensors(operator.schema)


def _refusal(operator: OpOverload, flags: int) -> str:
    """The reason why the fallback raises, for explanations."""
    refuses = _mode == "error" and _loses_history(operator, flags)
    return f"{_complaint(operator)}, and the fallback mode is 'error'" if refuses else ""


def _makes_tensors(schema: FunctionSchema) -> bool:
    """Whether a result is a tensor that is not simply one of the written arguments."""
    return any(
        ret.type.is_tensor_like() and not (ret.annotation and ret.annotation.is_write)
        for ret in schema.returns
    )


def _complaint(operator: OpOverload) -> str:
    return (
        f"{operator.name()}: an autograd kernel was not registered to the Autograd key(s), but an "
        f"input requires grad. Register one with Library.impl(op, fn, 'Autograd'), register the "
        f"kernel to CompositeImplicitAutograd if it is made of differentiable operators, or call "
        f"it under no_grad"
    )


def _meta_missing(operator: OpOverload, *_: Any, **__: Any) -> Any:
    raise KernelNotFoundError(
        f"{operator.name()}: attempted to run this operator with Meta tensors, but there was no "
        f"fake impl or Meta kernel registered. Register a function that computes the result's "
        f"shape and dtype with Library.impl(op, fn, 'Meta')."
    )


def _register_defaults() -> None:
    for key in (DispatchKey.BackendSelect, DispatchKey.ADInplaceOrView):
        place = _location(_register_defaults)
        registry.register_fallback(Kernel(fallthrough_kernel, key, place, fallthrough=True))
    place = _location(_meta_missing)
    registry.register_fallback(Kernel(_meta_missing, DispatchKey.Meta, place, with_operator=True))
    for name in ("AutogradOther", *("Autograd" + backend for backend in BACKENDS)):
        registry.register_fallback(
            Kernel(
                autograd_not_registered,
                DispatchKey[name],
                _location(autograd_not_registered),
                linker=autograd_not_registered,
                goes_on_with=after_autograd,
                refusal=_refusal,
            )
        )


def _location(fn: Callable[..., Any]) -> str:
    return f"{__file__}:{fn.__code__.co_firstlineno}"


_register_defaults()
