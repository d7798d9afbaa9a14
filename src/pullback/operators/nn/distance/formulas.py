"""Formulas of lengths and distances: 0 at the points where they have no derivative."""

from __future__ import annotations

from typing import Any

from pullback.operators.pointwise.formulas import zero_gradient

__all__ = ["euclidean_jvp", "euclidean_vjp", "length_slope"]


def length_slope(xp: Any, x: Any, result: Any, ord: float, axis: int) -> Any:
    """The gradient of a norm along an axis that is kept."""
    if ord == 0:
        return zero_gradient(xp, x)
    if ord == 2:
        return x / _not_zero(xp, result)
    if ord == 1:
        return xp.sign(x)
    size = xp.abs(x)
    if ord in (float("inf"), -float("inf")):
        ties = xp.where(size == result, xp.sign(x), 0)
        return ties / xp.sum(xp.where(size == result, 1, 0), axis, True)
    nothing = size == 0
    powers = xp.where(nothing, 1, size) ** (ord - 1)
    return xp.where(nothing, 0, xp.sign(x) * powers) / _not_zero(xp, result) ** (ord - 1)


def _not_zero(xp: Any, x: Any) -> Any:
    return xp.where(x == 0, 1, x)


def _shares(xp: Any, grad: Any, result: Any) -> Any:
    """The gradient over the distance, and 0 between points that are the same."""
    return xp.where(result == 0, 0, grad / _not_zero(xp, result))


def euclidean_vjp(xp: Any, grad: Any, x: Any, y: Any, result: Any) -> Any:
    """The gradient of the distances in their first argument."""
    shares = _shares(xp, grad, result)
    return x * xp.sum(shares, -1, True) - xp.matmul(shares, y)


def euclidean_jvp(xp: Any, x: Any, x_t: Any, y: Any, y_t: Any, result: Any) -> Any:
    """The tangent of the distances."""
    own = xp.sum(x * x_t, -1, True) + xp.matrix_transpose(xp.sum(y * y_t, -1, True))
    crossed = xp.matmul(x_t, xp.matrix_transpose(y))
    crossed = crossed + xp.matmul(x, xp.matrix_transpose(y_t))
    return _shares(xp, own - crossed, result)
