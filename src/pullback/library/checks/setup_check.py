"""Does the setup of a backward pass write to what the call returns or was given?

It runs in recorded calls only, so such a write makes their values differ from those of all others.
"""

from __future__ import annotations

from typing import Any

from pullback.autograd.modes import no_grad
from pullback.library.checks.case import Case, CheckFailedError, named_tensors
from pullback.library.checks.outcome import describe_difference
from pullback.library.kernel_call import tensors_in
from pullback.library.named import saved_tree
from pullback.library.rules import Rules, rules_of

__all__ = ["check_setup"]


class _Context:
    """Stands for ``ctx``: accepts what a setup does with it, and keeps nothing."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Ignores the tensors."""

    save_for_forward = mark_non_differentiable = mark_dirty = save_for_backward

    def set_materialize_grads(self, value: bool) -> None:
        """Ignores the choice."""


def check_setup(case: Case) -> None:
    """Raises if ``setup_context``, or the first half of gradients by name, writes to a tensor."""
    rules = rules_of(case.operator)
    if rules is None or case.schema.is_mutable or (rules.setup_context or rules.save) is None:
        return
    args, kwargs = case.fresh()
    with no_grad():
        result = case.operator(*args, **kwargs)
        watched = {f"output {number}": tensor for number, tensor in enumerate(tensors_in([result]))}
        watched |= {f"the input {p.name!r}": p.tensor for p in named_tensors(case, args, kwargs)}
        before = {what: tensor._array.copy() for what, tensor in watched.items()}
        try:
            name = _run(rules, args, kwargs, result)
        except Exception:  # for the checks that record calls to say
            return
    for what, tensor in watched.items():
        if tensor._array.tobytes() != before[what].tobytes():
            is_output = what.startswith("output")
            start = "" if is_output else f"{what} is not defined as mutable but was mutated: "
            raise CheckFailedError(
                f"{start}{name} writes to {what}, which is "
                f"{describe_difference(tensor._array, before[what])}, after it.",
                f"have {name} only keep what backward needs, in ctx or in copies: it runs in "
                f"recorded calls only, whose values would differ from those of all others.",
            )


def _run(rules: Rules, args: list[Any], kwargs: dict[str, Any], result: Any) -> str:
    """Runs the setup, and returns its name."""
    if rules.setup_context is None:
        saved_tree(rules, tuple(args), kwargs, result)
        return "save_for_backward"
    context: Any = _Context()
    context.needs_input_grad = (True,) * len(args)
    named = {"keyword_only_inputs": kwargs} if rules.schema.arguments.flat_kwarg_only else {}
    rules.setup_context(ctx=context, inputs=tuple(args), output=result, **named)
    return "setup_context"
