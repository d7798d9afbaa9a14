"""Formulas of normalisation.

Mean and variance are results of their operators, so gradients also arrive for them: that is how
second derivatives find their way through the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["mean_of", "norm_jvp", "norm_vjp", "rms_norm_jvp", "rms_norm_vjp"]


def mean_of(xp: Any, x: Any, axis: Sequence[int]) -> Any:
    """The mean over axes, which are kept."""
    count = 1
    for a in axis:
        count *= x.shape[a]
    return xp.sum(x, axis, True) / count


def norm_vjp(
    xp: Any,
    grads: Sequence[Any],
    x: Any,
    weight: Any,
    mean: Any,
    var: Any,
    axis: Sequence[int],
    eps: float,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """Gradients of input, weight and bias from those of output, mean and variance."""
    grad, grad_mean, grad_var = grads
    scale = 1 / xp.sqrt(var + eps)
    unit = (x - mean) * scale
    to_x = None
    if wanted[0]:
        count = x.size // mean.size if mean.size else 1
        inner = grad if weight is None else grad * weight
        shift = mean_of(xp, inner, axis) * scale - grad_mean / count
        stretch = mean_of(xp, inner * unit, axis) * scale - 2 * grad_var / (count * scale)
        to_x = inner * scale - shift - unit * stretch
    return to_x, grad * unit if wanted[1] else None, grad if wanted[2] else None


def norm_jvp(
    xp: Any,
    x: Any,
    x_t: Any,
    weight: Any,
    weight_t: Any,
    bias_t: Any,
    mean: Any,
    var: Any,
    axis: Sequence[int],
    eps: float,
) -> Any:
    """The tangent of the output from those of input, weight and bias."""
    scale = 1 / xp.sqrt(var + eps)
    unit = (x - mean) * scale
    moved = (x_t - mean_of(xp, x_t, axis)) * scale
    tangent = moved - unit * mean_of(xp, unit * moved, axis)
    if weight is not None:
        tangent = tangent * weight + unit * weight_t
    return tangent if bias_t is None else tangent + bias_t


def rms_norm_vjp(
    xp: Any,
    grads: Sequence[Any],
    x: Any,
    weight: Any,
    square: Any,
    axis: Sequence[int],
    eps: float,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """Gradients of input and weight from those of output and mean square."""
    grad, grad_square = grads
    scale = 1 / xp.sqrt(square + eps)
    unit = x * scale
    to_x = None
    if wanted[0]:
        count = x.size // square.size if square.size else 1
        inner = grad if weight is None else grad * weight
        stretch = mean_of(xp, inner * unit, axis) * scale - 2 * grad_square / (count * scale)
        to_x = inner * scale - unit * stretch
    return to_x, grad * unit if wanted[1] else None


def rms_norm_jvp(
    xp: Any,
    x: Any,
    x_t: Any,
    weight: Any,
    weight_t: Any,
    square: Any,
    axis: Sequence[int],
    eps: float,
) -> Any:
    """The tangent of the output from those of input and weight."""
    scale = 1 / xp.sqrt(square + eps)
    unit = x * scale
    moved = x_t * scale
    tangent = moved - unit * mean_of(xp, unit * moved, axis)
    return tangent if weight is None else tangent * weight + unit * weight_t
