"""Reductions, differences and statistics that are made of other operators.

Called through the dispatcher with tensors; a number may stand in the place of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback._generated.functions_pointwise import _astype as astype
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_pointwise import (
    conj,
    isnan,
    logical_not,
    multiply,
    not_equal,
    real,
    sqrt,
)
from pullback._generated.functions_reduction import cumprod, cumsum, max, mean, min, prod, sum
from pullback._generated.functions_shape import (
    broadcast_to,
    concatenate,
    diagonal,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
)
from pullback.operators.reduction.kernels import degrees_lost
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "Axes",
    "average",
    "corrcoef",
    "cov",
    "cumulative_prod",
    "cumulative_sum",
    "cumulative_trapezoid",
    "diff",
    "gradient",
    "nancumprod",
    "nancumsum",
    "nanmean",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "ptp",
    "trapezoid",
]

Axes = int | tuple[int, ...] | list[int] | None


def _positive_axes(x: Tensor, axis: Axes) -> list[int]:
    """Axes counted from the front."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else [axis]
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise np.exceptions.AxisError(a, x.ndim)
    return [a % x.ndim for a in axes]


def ptp(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The difference of the largest and the smallest element."""
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def average(
    x: Tensor, axis: Axes = None, weights: Tensor | None = None, *, keepdims: bool = False
) -> Tensor:
    """The mean, with weights for all elements or for the places of the axes."""
    if weights is None:
        return mean(x, axis, keepdims)
    if x.dtype.kind in "biu" and weights.dtype.kind in "biu":  # products would overflow
        x = astype(x, np.float64)
    if weights.shape != x.shape:
        weights = _along_axes(x, axis, weights)
    return sum(x * weights, axis, keepdims) / sum(weights, axis, keepdims)


def _along_axes(x: Tensor, axis: Axes, weights: Tensor) -> Tensor:
    """Weights for the places of some axes, made to broadcast with all elements."""
    if axis is None:
        raise TypeError(
            f"average: axis must be given when the shapes of the input {x.shape} and of the "
            f"weights {weights.shape} differ"
        )
    axes = _positive_axes(x, axis)
    if weights.shape != tuple(x.shape[a] for a in axes):
        raise ValueError(
            f"average: weights of shape {weights.shape} fit neither the input's shape {x.shape} "
            f"nor its axes {axis}"
        )
    ordered = permute_dims(weights, sorted(range(len(axes)), key=axes.__getitem__))
    return reshape(ordered, [n if i in axes else 1 for i, n in enumerate(x.shape)])


def _without_nan(x: Tensor, fill: float) -> Tensor:
    """NaN replaced by a number; only dtypes that have NaN are looked at."""
    return where(isnan(x), fill, x) if x.dtype.kind in "fc" else x


def nansum(
    x: Tensor, axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The sum of the elements that are not NaN."""
    return sum(_without_nan(x, 0), axis, keepdims, dtype=dtype)


def nanprod(
    x: Tensor, axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The product of the elements that are not NaN."""
    return prod(_without_nan(x, 1), axis, keepdims, dtype=dtype)


def nancumsum(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """The running sum, with NaN counted as zero."""
    return cumsum(_without_nan(x, 0), axis, dtype=dtype)


def nancumprod(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """The running product, with NaN counted as one."""
    return cumprod(_without_nan(x, 1), axis, dtype=dtype)


def _count(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """The number of elements that are not NaN, in a real dtype that divides without promotion."""
    return sum(logical_not(isnan(x)), axis, keepdims, dtype=_real_dtype(x))


def _real_dtype(x: Tensor) -> np.dtype[Any]:
    """The dtype of real numbers that go with a tensor without promoting it."""
    return np.empty(0, x.dtype if x.dtype.kind in "fc" else np.float64).real.dtype


def nanmean(
    x: Tensor, axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The mean of the elements that are not NaN."""
    x = x if dtype is None else astype(x, np.dtype(dtype))
    if x.dtype.kind not in "fc":  # a sum of integers would overflow
        return mean(x, axis, keepdims)
    return nansum(x, axis, keepdims) / _count(x, axis, keepdims)


def nanvar(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    correction: float | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The variance of the elements that are not NaN; NaN where no degree of freedom is left."""
    x = x if dtype is None else astype(x, np.dtype(dtype))
    difference = where(isnan(x), 0, x - nanmean(x, axis, True))
    squares = real(difference * conj(difference))
    free = _count(x, axis, keepdims) - degrees_lost(ddof, correction)
    return sum(squares, axis, keepdims) / where(free > 0, free, np.nan)


def nanstd(
    x: Tensor,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    correction: float | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The standard deviation of the elements that are not NaN; its gradient is zero at zero."""
    variance = nanvar(x, axis, keepdims, ddof=ddof, correction=correction, dtype=dtype)
    constant = variance == 0
    return where(constant, 0, sqrt(where(constant, 1, variance)))


def cumulative_sum(
    x: Tensor,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The running sum along an axis."""
    axis = _only_axis("cumulative_sum", x, axis)
    return _with_initial(cumsum(x, axis, dtype=dtype), axis, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The running product along an axis."""
    axis = _only_axis("cumulative_prod", x, axis)
    return _with_initial(cumprod(x, axis, dtype=dtype), axis, 1 if include_initial else None)


def _only_axis(name: str, x: Tensor, axis: int | None) -> int:
    """An axis that may be left out where there is one only."""
    if not x.ndim:
        raise ValueError(f"{name}: the input must have at least one axis; its shape is ()")
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name}: axis is needed for an input with several axes, shape {x.shape}")
    return axis or 0


def _with_initial(x: Tensor, axis: int, initial: float | None) -> Tensor:
    """A running reduction with what it starts from in front."""
    if initial is None:
        return x
    shape = list(x.shape)
    shape[axis] = 1
    start = broadcast_to(wrap(np.full((), initial, x.dtype)), shape)
    return concatenate([start, x], axis)


def diff(
    x: Tensor,
    n: int = 1,
    axis: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, n times over."""
    if n < 0:
        raise ValueError(f"diff: n must not be negative, but is {n}")
    if not x.ndim:
        raise ValueError("diff: the input must have at least one axis; its shape is ()")
    if n == 0:
        return x
    (axis,) = _positive_axes(x, axis)
    ends = [_as_slice(x, axis, end) for end in (prepend, append)]
    parts = [part for part in (ends[0], x, ends[1]) if part is not None]
    line = moveaxis(concatenate(parts, axis) if len(parts) > 1 else x, axis, 0)
    for _ in range(n):
        is_bool = line.dtype.kind == "b"
        line = not_equal(line[1:], line[:-1]) if is_bool else line[1:] - line[:-1]
    return moveaxis(line, 0, axis)


def _as_slice(x: Tensor, axis: int, end: Tensor | None) -> Tensor | None:
    """Values to join before or after a tensor; a number is expanded to a slice."""
    if end is None or end.ndim:
        return end
    return broadcast_to(end, [1 if i == axis else length for i, length in enumerate(x.shape)])


def gradient(
    x: Tensor, spacing: list[Tensor] | tuple[()] = (), *, axis: Axes = None, edge_order: int = 1
) -> list[Tensor]:
    """Slopes along each axis, from differences that are of second order inside."""
    axes = _positive_axes(x, axis)
    if x.dtype.kind in "iu":  # differences of unsigned integers would wrap
        x = astype(x, np.dtype(float))
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, but is {edge_order}")
    if len(spacing) not in (0, 1, len(axes)) or (len(spacing) == 1 < len(axes) and spacing[0].ndim):
        raise TypeError(
            f"gradient: {len(spacing)} spacings are given for {len(axes)} axes; give a distance or "
            "coordinates for each axis, or one distance for all"
        )
    steps: list[Any] = list(spacing) * (len(axes) if len(spacing) == 1 else 1) or [1] * len(axes)
    return [_slope(x, a, step, edge_order) for a, step in zip(axes, steps, strict=True)]


def _slope(x: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    y = moveaxis(x, axis, 0)
    if len(y) < edge_order + 1:
        raise ValueError(
            f"gradient: axis {axis} of shape {x.shape} is too short; edge_order {edge_order} needs "
            f"at least {edge_order + 1} elements"
        )
    if isinstance(step, Tensor) and step.ndim:
        parts = _uneven_slope(y, _steps(y, axis, step), edge_order)
    else:
        parts = [part / step for part in _even_slope(y, edge_order)]
    return moveaxis(concatenate(parts, 0), 0, axis)


def _steps(y: Tensor, axis: int, coordinates: Tensor) -> Tensor:
    """The distances of neighbours along the first axis, from their coordinates."""
    if coordinates.shape != y.shape[:1]:
        raise ValueError(
            f"gradient: coordinates of shape {coordinates.shape} do not match axis {axis} of "
            f"length {len(y)}"
        )
    return reshape(coordinates[1:] - coordinates[:-1], [-1] + [1] * (y.ndim - 1))


def _even_slope(y: Tensor, edge_order: int) -> list[Tensor]:
    """First, inner and last slopes at distances of one."""
    if edge_order == 1:
        first, last = y[1:2] - y[:1], y[-1:] - y[-2:-1]
    else:
        first = 2 * y[1:2] - 1.5 * y[:1] - 0.5 * y[2:3]
        last = 1.5 * y[-1:] - 2 * y[-2:-1] + 0.5 * y[-3:-2]
    return [first, (y[2:] - y[:-2]) / 2, last]


def _uneven_slope(y: Tensor, step: Tensor, edge_order: int) -> list[Tensor]:
    """First, inner and last slopes at given distances."""
    slope = (y[1:] - y[:-1]) / step
    before, after = step[:-1], step[1:]
    inner = (slope[:-1] * after + slope[1:] * before) / (before + after)
    if edge_order == 1:
        return [slope[:1], inner, slope[-1:]]
    return [2 * slope[:1] - inner[:1], inner, 2 * slope[-1:] - inner[-1:]]


def trapezoid(y: Tensor, x: Tensor | None = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis by the trapezoid rule."""
    return sum(_trapezoids(y, x, dx, axis), axis)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, dx: Any = 1.0, axis: int = -1
) -> Tensor:
    """The integrals up to each coordinate but the first."""
    return cumsum(_trapezoids(y, x, dx, axis), axis)


def _trapezoids(y: Tensor, x: Tensor | None, dx: Any, axis: int) -> Tensor:
    """The areas between neighbours along an axis."""
    if x is not None:
        dx = diff(x, 1, axis if x.ndim > 1 else -1)
        if x.ndim == 1:
            (place,) = _positive_axes(y, axis)
            dx = reshape(dx, [-1] + [1] * (y.ndim - 1 - place))
    line = moveaxis(y, axis, 0)
    sums = moveaxis(line[1:] + line[:-1], 0, axis)
    return multiply(dx, sums) / 2.0


def cov(
    x: Tensor,
    y: Tensor | None = None,
    *,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of variables in rows or columns."""
    rows = _variables(x, rowvar)
    if y is not None:
        rows = concatenate([rows, _variables(y, rowvar)], 0)
    lost = ddof if ddof is not None else int(not bias)
    if fweights is None and aweights is None:
        centred = rows - mean(rows, 1, True)
        products = centred @ conj(centred).T
        return squeeze(products / _at_least_zero(rows.shape[1] - lost))
    dtype = _real_dtype(rows)
    w = astype(aweights if fweights is None else fweights, dtype)
    if fweights is not None and aweights is not None:
        w = w * aweights
    total = sum(w)
    centred = rows - sum(rows * w, 1, True) / total
    squared = 0 if lost == 0 else lost if aweights is None else lost * sum(w * aweights) / total
    return squeeze((centred * w) @ conj(centred).T / (total - squared))


def _at_least_zero(free: int) -> float:
    """Degrees of freedom to divide by; none gives infinities, not an exception."""
    return float(np.maximum(free, 0))


def _variables(x: Tensor, rowvar: bool) -> Tensor:
    """A matrix with a variable in each row."""
    if x.ndim > 2:
        raise ValueError(f"cov: the input has more than 2 axes: shape {x.shape}")
    if x.ndim < 2:
        return reshape(x, [1, -1])
    return x if rowvar else x.T


def corrcoef(x: Tensor, y: Tensor | None = None, *, rowvar: bool = True) -> Tensor:
    """The correlation coefficients of variables in rows or columns."""
    covariance = cov(x, y, rowvar=rowvar)
    if not covariance.ndim:
        return covariance / covariance
    deviation = sqrt(real(diagonal(covariance)))
    return covariance / deviation[:, None] / deviation[None, :]
