"""``test_autograd_registration``: are gradients registered where the dispatcher looks for them?

A kernel at a backend key is below autograd. If its results require grad although nothing is
registered at an autograd key, the graph was recorded by accident, and other systems that work below
autograd will not see it.
"""

from __future__ import annotations

from typing import Any

from pullback.autograd.graph.views import requires_grad
from pullback.dispatch import DispatchKey, OpOverload, set_autograd_fallback_mode
from pullback.errors import AutogradError, OpCheckError, UnsupportedSchemaError
from pullback.library.checks.case import Case, CheckFailedError, Skipped
from pullback.library.checks.history_check import is_fallthrough
from pullback.library.kernel_call import tensors_in

__all__ = ["autograd_registration_check", "check_registration"]

_ANYWHERE = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def autograd_registration_check(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> None:
    """Raises if an operator's gradients are not registered at an autograd key.

    Args:
        op: one overload of an operator.
        args: positional arguments; at least one tensor has to require grad.
        kwargs: keyword arguments.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0], requires_grad=True)
    >>> autograd_registration_check(pb.ops.pullback.sin.default, (x,))
    """
    if not isinstance(op, OpOverload):
        raise OpCheckError(
            f"autograd_registration_check: expected op to be an OpOverload, such as "
            f"pullback.ops.mylib.my_op.default, but got {type(op).__name__}"
        )
    given = list(tensors_in([args, list((kwargs or {}).values())]))
    if not any(requires_grad(tensor) for tensor in given):
        raise AutogradError(
            "autograd_registration_check: no inputs have requires_grad=True, so there is nothing "
            "to check; pass a tensor that requires grad"
        )
    devices = {str(tensor.device) for tensor in given}
    if devices != {"cpu"}:
        raise UnsupportedSchemaError(
            f"autograd_registration_check: NYI devices {sorted(devices)}; pass CPU tensors"
        )
    registered = op.entry.kernels
    if any(key in registered for key in (DispatchKey.AutogradCPU, *_ANYWHERE)):
        return
    with set_autograd_fallback_mode("nothing"):
        result = op(*args, **(kwargs or {}))
    if any(
        requires_grad(out) and not any(out is tensor for tensor in given)
        for out in tensors_in([result])
    ):
        keys = ", ".join(key.name for key in registered)
        raise CheckFailedError(
            f"{op.name()}: at least one output of this operator has requires_grad=True but the "
            f"operator does not have an autograd kernel. Its kernels are at {keys}, below "
            f"autograd, so the graph that they record is invisible to everything that works there.",
            "if the kernel is made of differentiable operators, register it to "
            "CompositeImplicitAutograd; if it is an autograd.Function, register that to Autograd, "
            "or use register_autograd.",
        )


def _check_fallthrough(case: Case) -> None:
    """Below a fallthrough at Autograd, kernels of backends must not record."""
    args, kwargs = case.fresh()
    given = list(tensors_in([args, list(kwargs.values())]))
    for number, out in enumerate(tensors_in([case.operator(*args, **kwargs)])):
        if requires_grad(out) and not any(out is tensor for tensor in given):
            raise CheckFailedError(
                f"output {number} has requires_grad=True, recorded by the backend kernel, because "
                f"the kernel at Autograd is a fallthrough: what works between autograd and the "
                f"backend does not see that graph, and another backend would have none.",
                "register the kernel to CompositeImplicitAutograd, and drop the fallthrough; or "
                "register the derivative at Autograd.",
            )


def check_registration(case: Case) -> str:
    """The check on copies of the arguments."""
    if not case.needs_grad():
        raise Skipped("no input requires grad")
    if case.schema.is_mutable:
        raise Skipped("the operator writes to its arguments")
    args, kwargs = case.fresh()
    autograd_registration_check(case.operator, tuple(args), kwargs)
    if is_fallthrough(case.operator):
        _check_fallthrough(case)
    keys = [key.name for key in case.operator.entry.kernels if "Autograd" in key.name]
    return f"registered at {', '.join(keys)}" if keys else "1 call without fallback: no history"
