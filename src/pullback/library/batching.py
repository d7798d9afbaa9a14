"""Batching rules of custom operators: ``register_vmap``.

Inside ``vmap`` a call reaches the key Python. A custom operator has a kernel of its own there,
because its kernel takes tensors without the batch dimension: the registered rule, or else a loop
over the batch dimension, which warns. Where the rule can be recorded it runs above autograd:
``autograd/function/vmap.py`` has the condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.autograd.function.vmap import call_outside, innermost_level
from pullback.batching.loop import loop_kernel
from pullback.batching.tensor_rules import rule_kernel
from pullback.dispatch import OpOverload
from pullback.errors import UnsupportedSchemaError
from pullback.library.kernel_call import tensors_in
from pullback.library.rules import Rules

__all__ = ["batching_linker", "outside_or"]


def batching_linker(rules: Rules) -> Callable[[OpOverload, int], Callable[..., Any]]:
    """Links the operator's key Python."""

    def link(operator: OpOverload, flags: int) -> Callable[..., Any]:  # noqa: ARG001 - a linker
        if rules.vmap is not None:
            return rule_kernel(operator, rules.vmap)
        return _refusing(operator) if operator.schema.is_mutable else loop_kernel(operator)

    return link


def _refusing(operator: OpOverload) -> Callable[..., Any]:
    def run(*_: Any, **__: Any) -> Any:
        raise UnsupportedSchemaError(
            f"vmap: {operator.name()} writes to its arguments and has no batching rule; register "
            f"one with register_vmap(rule), where rule(info, in_dims, *args) returns the output "
            f"and its out_dims"
        )

    return run


def outside_or(
    operator: OpOverload, rule: Callable[..., Any], inside: Callable[..., Any]
) -> Callable[..., Any]:
    """A batching rule runs outside of its level, where its gradients are plain, if it can."""
    name = operator.name()

    def run(*args: Any, **kwargs: Any) -> Any:
        level = innermost_level(tensors_in((*args, *kwargs.values())))
        outside = None if level is None else call_outside(name, rule, operator.call, level)
        return inside(*args, **kwargs) if outside is None else outside(args, kwargs)

    return run
