"""Formulas of operators that order elements and pick some."""

from __future__ import annotations

from typing import Any

from pullback.operators.sorting.kernels import CONTINUOUS_METHODS

__all__ = ["picked", "picked_backward", "quantile_slope", "sort_backward", "sort_jvp"]

Shape = tuple[int, ...]


def sort_backward(
    xp: Any, grad: Any, x: Any, axis: int | None, descending: bool, stable: bool
) -> Any:
    """Moves the gradients of sorted elements back to where these came from."""
    line, axis = (xp.reshape(x, [-1]), 0) if axis is None else (x, axis)
    order = xp.argsort(line, axis, descending=descending, stable=stable)
    back = xp.put_along_axis(xp.zeros_for(grad, line.shape), order, grad, axis)
    return xp.reshape(back, list(x.shape))


def sort_jvp(
    xp: Any, tangent: Any, x: Any, axis: int | None, descending: bool, stable: bool
) -> Any:
    """The tangents of the elements, in the elements' order."""
    if axis is None:
        tangent, x, axis = xp.reshape(tangent, [-1]), xp.reshape(x, [-1]), 0
    order = xp.argsort(x, axis, descending=descending, stable=stable)
    return xp.take_along_axis(tangent, order, axis)


def picked(xp: Any, x: Any, indices: Any, axis: int, keepdims: bool) -> Any:
    """The elements at one index along an axis."""
    if keepdims:
        return xp.take_along_axis(x, indices, axis)
    return xp.squeeze(xp.take_along_axis(x, xp.expand_dims(indices, axis), axis), axis)


def picked_backward(
    xp: Any, grad: Any, shape: Shape, indices: Any, axis: int, keepdims: bool
) -> Any:
    """Moves the gradients of picked elements back to where these came from."""
    if not keepdims:
        grad, indices = xp.expand_dims(grad, axis), xp.expand_dims(indices, axis)
    return xp.put_along_axis(xp.zeros_for(grad, shape), indices, grad, axis)


def quantile_slope(xp: Any, count: Any, method: str) -> Any:  # noqa: ARG001 - called as a formula
    """The derivative of the position of a quantile in sorted order by its fraction."""
    if method not in CONTINUOUS_METHODS:
        return count * 0
    first, last = CONTINUOUS_METHODS[method]
    return count + (1 - first - last)
