"""Formulas of reductions over axes, and of running ones along an axis."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from pullback.kernels.broadcasting import broadcast_ufunc, reduced_axes
from pullback.kernels.threads import MIN_THREADED_HEAVY_SIZE, spread
from pullback.operators.pointwise.formulas import conj
from pullback.operators.reduction.kernels import degrees_lost, ties

__all__ = [
    "cumprod_backward",
    "cumprod_jvp",
    "cumsum_backward",
    "exclusive_cumprod_backward",
    "exclusive_cumprod_jvp",
    "exp_difference",
    "extreme_backward",
    "extreme_jvp",
    "half_over",
    "logcumsumexp_backward",
    "logcumsumexp_jvp",
    "logsumexp_backward",
    "other_factors",
    "recurrence_backward",
    "reduced_count",
    "var_backward",
    "var_jvp",
]

Shape = tuple[int, ...]


def reduced_count(xp: Any, shape: Shape, axis: Any) -> int:  # noqa: ARG001 - called as a formula
    """The number of elements of each result, at least 1, to divide by."""
    return max(prod(shape[a] for a in reduced_axes(shape, axis)), 1)


def deviation(
    xp: Any, x: Any, axis: Any, ddof: float, correction: float | None
) -> tuple[Any, float]:
    """The differences from the mean, and what their squares are multiplied by, twice over."""
    count = prod(x.shape[a] for a in reduced_axes(x.shape, axis))
    free = count - degrees_lost(ddof, correction)
    return x - xp.mean(x, axis, True), 2 / free if free > 0 else inf


def var_backward(
    xp: Any,
    grad: Any,
    x: Any,
    axis: Any,
    keepdims: bool,
    ddof: float,
    correction: float | None,
) -> Any:
    """The gradient of a variance."""
    if not x.size:
        return xp.zeros_like(x)
    difference, scale = deviation(xp, x, axis, ddof, correction)
    return scale * xp.expand_reduced(grad, x.shape, axis, keepdims) * difference


def var_jvp(
    xp: Any,
    tangent: Any,
    x: Any,
    axis: Any,
    keepdims: bool,
    ddof: float,
    correction: float | None,
) -> Any:
    """The tangent of a variance."""
    difference, scale = deviation(xp, x, axis, ddof, correction)
    return scale * xp.real(xp.sum(tangent * xp.conj(difference), axis, keepdims))


def half_over(xp: Any, grad: Any, root: Any) -> Any:
    """The derivative of a square root, taken as zero where the root is zero."""
    singular = root == 0
    return xp.where(singular, 0, grad / xp.where(singular, 1, 2 * root))


def exp_difference(xp: Any, x: Any, result: Any, axis: Any, keepdims: bool) -> Any:
    """The share of each exponential in the sum whose logarithm is the result."""
    difference = x - xp.expand_reduced(result, x.shape, axis, keepdims)
    if isinstance(difference, np.ndarray) and difference.size >= MIN_THREADED_HEAVY_SIZE:
        return spread(np.exp, difference)
    return xp.exp(difference)


def logsumexp_backward(xp: Any, grad: Any, x: Any, result: Any, axis: Any, keepdims: bool) -> Any:
    """The gradient of the logarithm of a sum of exponentials."""
    are_arrays = isinstance(x, np.ndarray) and isinstance(grad, np.ndarray | np.generic)
    if not are_arrays or grad.dtype is not x.dtype or grad.shape != result.shape:
        shares = exp_difference(xp, x, result, axis, keepdims)
        return xp.expand_reduced(grad, x.shape, axis, keepdims) * xp.conj(shares)
    reduced = reduced_axes(x.shape, axis)
    shape = [1 if i in reduced else n for i, n in enumerate(x.shape)]
    # Arrays in the smaller shape: views of them in the larger one take long to make.
    shares = np.asarray(broadcast_ufunc(np.subtract, x, result.reshape(shape)))
    grad = grad.reshape(shape)
    if shares.size >= MIN_THREADED_HEAVY_SIZE:
        return broadcast_ufunc(np.multiply, conj(xp, spread(np.exp, shares)), grad)
    np.exp(shares, out=shares)
    shares = np.asarray(conj(xp, shares))
    return np.multiply(shares, grad, out=shares)


def extreme_backward(xp: Any, grad: Any, x: Any, result: Any, axis: Any, keepdims: bool) -> Any:
    """The gradient of a largest or smallest element, shared by those that tie; 0 for all others."""
    if type(x) is np.ndarray and isinstance(grad, np.ndarray | np.generic):
        tied, count = ties(x, result, axis, keepdims)
        return np.where(tied, np.reshape(grad, count.shape) / count, grad.dtype.type(0))
    weights = xp._tie_weights(x, result, axis, keepdims)
    grad = xp.expand_reduced(grad, x.shape, axis, keepdims)
    return xp.where(weights == 0, xp.zeros([], grad.dtype), grad) * weights


def extreme_jvp(xp: Any, tangent: Any, x: Any, result: Any, axis: Any, keepdims: bool) -> Any:
    """The tangent of a largest or smallest element: the mean of the changes of those that tie."""
    weights = xp._tie_weights(x, result, axis, keepdims)
    tangent = xp.where(weights == 0, xp.zeros([], tangent.dtype), tangent)
    return xp.sum(tangent * weights, axis, keepdims)


def other_factors(xp: Any, x: Any, axis: Any) -> Any:
    """For each element the product of all others that it is multiplied with."""
    shape = x.shape
    reduced = sorted(reduced_axes(shape, axis))
    if not reduced:
        return xp.reshape(_products(xp, xp.reshape(x, [*shape, 1])), list(shape))
    if len(reduced) == len(shape):
        return xp.reshape(_products(xp, xp.reshape(x, [-1])), list(shape))
    order = [a for a in range(len(shape)) if a not in reduced] + reduced
    kept = [shape[a] for a in order[: -len(reduced)]]
    moved = xp.permute_dims(x, order)
    count = prod(shape[a] for a in reduced)
    products = xp.reshape(_products(xp, xp.reshape(moved, [*kept, count])), list(moved.shape))
    return xp.permute_dims(products, [order.index(a) for a in range(len(shape))])


def _products(xp: Any, x: Any) -> Any:
    """The product of all others along the last axis: of those before and those after each one."""
    axis = x.ndim - 1
    return xp._exclusive_cumprod(x, axis, False) * xp._exclusive_cumprod(x, axis, True)


def exclusive_cumprod_backward(
    xp: Any, grad: Any, x: Any, result: Any, axis: int, reverse: bool
) -> Any:
    """The gradient of products of all elements before each one, or after each one."""
    by = 1 if reverse else -1
    factor = xp.conj(xp._shift(x, axis, by, 0))
    later = xp._recurrence(xp._shift(grad, axis, by, 0), factor, axis, not reverse)
    return xp.conj(result) * later


def exclusive_cumprod_jvp(
    xp: Any, tangent: Any, x: Any, result: Any, axis: int, reverse: bool
) -> Any:
    """The tangent of products of all elements before each one, or after each one."""
    by = -1 if reverse else 1
    own = xp._shift(tangent * result, axis, by, 0)
    return xp._recurrence(own, xp._shift(x, axis, by, 0), axis, reverse)


def recurrence_backward(
    xp: Any, grad: Any, factor: Any, result: Any, axis: int, reverse: bool
) -> tuple[Any, Any]:
    """The gradients of a recurrence: one that runs the other way."""
    by = 1 if reverse else -1
    later = xp._recurrence(grad, xp.conj(xp._shift(factor, axis, by, 0)), axis, not reverse)
    return later, later * xp.conj(xp._shift(result, axis, -by, 0))


def cumsum_backward(xp: Any, grad: Any, shape: Shape, axis: int | None) -> Any:
    """The sums of all gradients from each one to the end."""
    axis = axis if axis is not None and shape else 0
    summed = xp.flip(xp.cumsum(xp.flip(grad, axis), axis), axis)
    return xp.reshape(summed, list(shape))


def cumprod_backward(xp: Any, grad: Any, x: Any, result: Any, axis: int | None) -> Any:
    """The gradient of running products, without a division."""
    line, axis = _along(xp, x, axis)
    later = xp._recurrence(grad, xp.conj(xp._shift(line, axis, -1, 0)), axis, True)
    return xp.reshape(later * xp.conj(xp._shift(result, axis, 1, 1)), list(x.shape))


def cumprod_jvp(xp: Any, tangent: Any, x: Any, result: Any, axis: int | None) -> Any:
    """The tangent of running products."""
    line, _ = _along(xp, x, axis)
    tangent, axis = _along(xp, tangent, axis)
    return xp._recurrence(tangent * xp._shift(result, axis, 1, 1), line, axis, False)


def _along(xp: Any, x: Any, axis: int | None) -> tuple[Any, int]:
    """A value as a running reduction sees it: flat where it has no axis to run along."""
    return (x, axis) if axis is not None and x.shape else (xp.reshape(x, [-1]), 0)


def logcumsumexp_backward(xp: Any, grad: Any, x: Any, result: Any, axis: int) -> Any:
    """The gradient of running logarithms of sums; no factor is larger than one."""
    factor = xp.exp(result - xp._shift(result, axis, -1, inf))
    return xp.exp(x - result) * xp._recurrence(grad, factor, axis, True)


def logcumsumexp_jvp(xp: Any, tangent: Any, x: Any, result: Any, axis: int) -> Any:
    """The tangent of running logarithms of sums."""
    factor = xp.exp(xp._shift(result, axis, 1, -inf) - result)
    return xp._recurrence(tangent * xp.exp(x - result), factor, axis, False)
