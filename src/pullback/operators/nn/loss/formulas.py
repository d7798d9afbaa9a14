"""Formulas of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "bce_logits_jvp",
    "bce_logits_vjp",
    "bce_slope",
    "clamped_log",
    "difference_jvp",
    "difference_vjp",
    "place_evenly",
]

_SMALLEST = 3.7200759760208361e-44  # exp(-100)


def place_evenly(xp: Any, grad: Any, target: Any, classes: int, ignore_index: int) -> Any:
    """Rows of zeros with one number at each target's class."""
    return xp._place(xp.expand(grad, target.shape), target, classes, ignore_index)


def _slope(xp: Any, kind: str, gap: Any, bound: float) -> Any:
    """The derivative of a loss in the difference of input and target."""
    if kind == "mse":
        return 2 * gap
    if kind == "huber":
        return xp.hardtanh(gap, -bound, bound)
    if kind == "l1" or not bound:
        return xp.sign(gap)
    return xp.hardtanh(gap / bound, -1.0, 1.0)


def difference_vjp(
    xp: Any,
    grad: Any,
    kind: str,
    x: Any,
    target: Any,
    reduction: str,
    bound: float,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """Gradients of input and target of a loss of their difference."""
    gap = x - target
    grad = grad / gap.size if reduction == "mean" else grad
    slope = _slope(xp, kind, gap, bound) * grad
    return slope if wanted[0] else None, -slope if wanted[1] else None


def difference_jvp(
    xp: Any, kind: str, x: Any, target: Any, x_t: Any, target_t: Any, reduction: str, bound: float
) -> Any:
    """The tangent of a loss of a difference."""
    gap = x - target
    tangent = _slope(xp, kind, gap, bound) * (x_t - target_t)
    if reduction == "none":
        return tangent
    total = xp.sum(tangent)
    return total / gap.size if reduction == "mean" else total


def bce_slope(xp: Any, x: Any, target: Any) -> Any:
    """The derivative of the cross entropy in the probability."""
    spread = x * (1 - x)
    return (x - target) / xp.where(spread < 1e-12, 1e-12, spread)


def clamped_log(xp: Any, x: Any) -> Any:
    """The logarithm, no smaller than -100."""
    tiny = x < _SMALLEST
    return xp.where(tiny, -100.0, xp.log(xp.where(tiny, 1, x)))


def bce_logits_vjp(
    xp: Any, grad: Any, x: Any, target: Any, pos_weight: Any, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """Gradients of input, target and weight of the cross entropy of logits."""
    to_x = to_target = to_weight = None
    if wanted[0]:
        odds = xp._logsigmoid_slope(x)  # the probability of no
        cost = odds if pos_weight is None else odds * (1 + (pos_weight - 1) * target)
        to_x = grad * (1 - target - cost)
    if wanted[1]:
        slope = -x if pos_weight is None else (1 - pos_weight) * xp.logsigmoid(x) - x
        to_target = grad * slope
    if wanted[2]:
        to_weight = -grad * target * xp.logsigmoid(x)
    return to_x, to_target, to_weight


def bce_logits_jvp(
    xp: Any, x: Any, x_t: Any, target: Any, target_t: Any, pos_weight: Any, pos_weight_t: Any
) -> Any:
    """The tangent of the cross entropy of logits."""
    wanted = (True, True, pos_weight is not None)
    to_x, to_target, to_weight = bce_logits_vjp(xp, 1, x, target, pos_weight, wanted)
    tangent = to_x * x_t + to_target * target_t
    return tangent if pos_weight is None else tangent + to_weight * pos_weight_t
