"""``while_loop``: a loop that ends when a condition on its carry fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated.public import any as any_of
from pullback.errors import AutogradTypeError
from pullback.fx.tracer import Tracer
from pullback.loops.carry import Carry, as_tensor, check_callable, kind_of
from pullback.loops.traced import in_mode, loop_tracer, promote_traced, trace_loop
from pullback.operators.array_functions import where
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["while_loop"]


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """Runs ``carry = body(carry)`` while ``cond(carry)`` is true; returns the last carry.

    As ``jax.lax.while_loop``. The carry is a tree that keeps its structure, shapes and dtypes, and
    `cond` returns one truth value. Derivatives are those of the steps that were run, in forward
    mode and, unlike JAX's, in reverse mode too. Inside ``vmap`` the loop runs until the condition
    is false for all, and those for which it is false keep their carry; `body` is computed for them
    all the same, and a derivative that is infinite there makes their gradients NaN.

    >>> import pullback as pb
    >>> pb.while_loop(lambda c: c < 100.0, lambda c: c * 2, 3.0)
    tensor(192.)
    >>> pb.grad(lambda x: pb.while_loop(lambda c: c < 100.0, lambda c: c * 2, x))(3.0)
    64.0
    """
    check_callable("while_loop: cond", cond)
    check_callable("while_loop: body", body)
    carry = Carry("while_loop", init)
    tracer = loop_tracer()
    if tracer is not None:
        return _trace(tracer, in_mode(cond), in_mode(body), carry)
    leaves = carry.first
    is_first = True
    while True:
        condition = _condition(cond(carry.tree(leaves)))
        is_batched = isinstance(condition._array, BatchedArray)
        if not _is_true(condition):
            return carry.tree(leaves)
        after = carry.leaves(body(carry.tree(leaves)))
        if is_first and carry.promote(carry.promotions(after)):
            leaves = carry.first
            after = carry.leaves(body(carry.tree(leaves)))
        is_first = False
        carry.check(leaves, after)
        if is_batched:
            pairs = zip(after, leaves, strict=True)
            after = [where(condition, new, old) for new, old in pairs]
        leaves = after


def _trace(
    tracer: Tracer, cond: Callable[[Any], Any], body: Callable[[Any], Any], carry: Carry
) -> Any:
    """The loop in a traced program: one loop, whose body is traced once.

    Its carry has two truth values in front: whether any element of the batch goes on, and the
    condition of each.
    """

    def call(leaves: list[Tensor], _: Any) -> list[Tensor]:
        return carry.leaves(body(carry.tree(leaves)))

    def run(leaves: list[Tensor], _: Any) -> tuple[list[Tensor], list[Tensor]]:
        _, condition, *before = leaves
        after = call(before, _)
        carry.check(before, after)
        if isinstance(condition._array, BatchedArray):
            pairs = zip(after, before, strict=True)
            after = [where(condition, new, old) for new, old in pairs]
        condition = _condition(cond(carry.tree(after)))
        return [_any(condition), condition, *after], []

    if any(carry.is_number):
        promote_traced(tracer, carry, [], call)
    condition = _condition(cond(carry.tree(carry.first)))
    found, _ = trace_loop(tracer, run, [_any(condition), condition, *carry.first], [], None)
    return carry.tree(found[2:])


def _any(condition: Tensor) -> Tensor:
    """Whether a condition holds for one element of the batch at least, as a tensor."""
    held = condition._array
    return any_of(wrap(held.array)) if isinstance(held, BatchedArray) else condition


def _condition(found: Any) -> Tensor:
    condition = as_tensor(found, "while_loop: the result of cond")
    if condition.shape != () or condition.dtype != np.bool_:
        raise AutogradTypeError(
            f"while_loop: cond has to return one truth value, bool[], not {kind_of(condition)}"
        )
    return condition


def _is_true(condition: Tensor) -> bool:
    """Whether a condition holds, for one element of the batch at least."""
    return bool(_any(condition))
