"""Has every output that depends on an input a history that says so?"""

from __future__ import annotations

import numpy as np

from pullback.dispatch import DispatchKey, OpOverload
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import CheckFailedError
from pullback.library.checks.numeric import ladder_slope
from pullback.library.checks.problem import Problem
from pullback.library.rules import rules_of

__all__ = ["check_history", "find_hidden_output", "is_fallthrough"]

_KEYS = (DispatchKey.AutogradCPU, DispatchKey.Autograd)
_RECORDING = (*_KEYS, DispatchKey.CompositeImplicitAutograd)


def is_fallthrough(operator: OpOverload) -> bool:
    """Whether the kernel in force at Autograd only hands the call on."""
    kernels = operator.entry.kernels
    for key in _KEYS:
        if kernels.get(key):
            return bool(kernels[key][-1].fallthrough)
    return False


def check_history(problem: Problem) -> None:
    """Finds outputs whose values follow the inputs, and that have no history."""
    has_history = problem.is_differentiable
    operator = problem.case.operator
    composite = DispatchKey.CompositeImplicitAutograd in operator.entry.kernels
    if all(has_history):
        return
    rules = rules_of(operator)
    # Flags in the order of the returns are easily exchanged; mark_non_differentiable(output) names
    # an output, and for formulas of ``define_op`` there is no other way to leave one out.
    has_flags = rules is not None and rules.differentiable is not None
    if any(has_history) and not composite and not has_flags and _depends(problem, has_history):
        return  # the others are declared as not differentiable, as statistics may be
    wanted = [not has for has in has_history]
    found = _depends(problem, wanted)
    if found is None:
        return
    number, name, value = found
    start = (
        f"output {number} depends on {name!r} (finite differences give {value:.6g}) but has no "
        f"history: its gradient would be lost in silence"
    )
    if is_fallthrough(operator):
        raise CheckFailedError(
            f"{start}, because the kernel at Autograd is a fallthrough, and nothing below it "
            f"records.",
            "register the derivative at Autograd, with register_autograd or an autograd.Function; "
            "a fallthrough is for outputs that have no derivative.",
        )
    if has_flags:
        raise CheckFailedError(
            f"{start}, because output_differentiability declares it as not differentiable.",
            "give it the flag True and use its cotangent in backward; where the gradient is not "
            "wanted, as of statistics, say so by register_autograd with a setup_context that calls "
            "ctx.mark_non_differentiable(output).",
        )
    if rules is not None and rules.has_formula:
        raise CheckFailedError(
            f"{start}, because output_differentiability (or mark_non_differentiable) declares "
            f"every output that depends on the inputs as not differentiable.",
            "check the order of the flags in output_differentiability, one for each return, and "
            "let the outputs that backward has cotangents for be differentiable.",
        )
    raise CheckFailedError(
        f"{start}: the kernel computes under no_grad(), or on detached values or arrays.",
        "compute with differentiable operators while grad mode is on; or register the kernel at "
        "a backend key (CPU), and its derivative with register_autograd.",
    )


def find_hidden_output(problem: Problem) -> str:
    """A sentence about the registration that loses a gradient, where there is one."""
    entry = problem.case.operator.entry
    if rules_of(problem.case.operator) is None and not any(
        entry.kernels.get(k) for k in _RECORDING
    ):
        return (
            " The likely cause: the operator has no derivative; nothing is registered at Autograd. "
            "Register one with register_autograd."
        )
    if all(problem.is_differentiable):
        return ""
    found = _depends(problem, [not known for known in problem.is_differentiable])
    if found is None:
        return ""
    return (
        f" The likely cause: output_differentiability (or mark_non_differentiable) declares output "
        f"{found[0]} as not differentiable, which depends on {found[1]!r}; check the order of the "
        f"flags, one for each return."
    )


def _depends(problem: Problem, wanted: list[bool]) -> tuple[int, str, float] | None:
    """The first of some outputs that changes smoothly with an input: number, name, slope."""
    for name in problem.names:
        at = problem.at[name]
        if not at.size:
            continue
        direction = problem.noise(at)
        sizes = np.maximum(np.abs(np.where(np.isfinite(at), at, 1)), 1e-3)
        with errstate(all="ignore"):
            found = ladder_slope(
                problem.along(name), at, (direction * sizes).astype(at.dtype), {1.0}
            )
        for number, (value, error) in enumerate(zip(found.values, found.errors, strict=True)):
            if not wanted[number]:
                continue
            certain = np.abs(value) > 1e-6 * np.abs(problem.here[number]) + 100 * error
            certain &= np.isfinite(error)
            if certain.any():
                return number, name, float(np.abs(value[certain]).max())
    return None
