"""Quantiles, interpolation, histograms and searches that are made of other operators.

Called through the dispatcher with tensors; a number may stand in the place of one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pullback._generated.functions_indexing import index_put, take_along_axis
from pullback._generated.functions_pointwise import _astype as astype
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_pointwise import (
    equal,
    greater_equal,
    isfinite,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    remainder,
)
from pullback._generated.functions_reduction import any as any_of
from pullback._generated.functions_reduction import diff, max, min, sum
from pullback._generated.functions_shape import concatenate, moveaxis, reshape
from pullback._generated.functions_sorting import (
    _quantile_places,
    _ranked,
    argpartition,
    argsort,
    argwhere,
    searchsorted,
)
from pullback.errors import DataDependentError
from pullback.operators.reduction.kernels import require_order
from pullback.operators.sorting.kernels import EXACT_METHODS, quantile_places
from pullback.tensor.tensor import Tensor, has_values, holds_number, is_true, wrap, zeros_beside

__all__ = [
    "Axes",
    "histogram",
    "interp",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "nonzero",
    "partition",
    "percentile",
    "quantile",
]

Axes = int | tuple[int, ...] | list[int] | None


def partition(x: Tensor, kth: int | list[int], axis: int | None = -1) -> Tensor:
    """The elements with the kth in its sorted place."""
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    return take_along_axis(x, argpartition(x, kth, axis), axis)


def nonzero(x: Tensor) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one tensor an axis."""
    if not x.ndim:
        raise ValueError("nonzero: the input must have at least one axis; its shape is ()")
    rows = argwhere(x)
    return tuple(rows[:, axis] for axis in range(x.ndim))


def median(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The middle element."""
    return _median("median", x, axis, keepdims, skip_nan=False)


def nanmedian(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The middle one of the elements that are not NaN."""
    return _median("nanmedian", x, axis, keepdims, skip_nan=True)


def quantile(
    x: Tensor, q: Tensor, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """A quantile of the elements."""
    return _quantile("quantile", x, q, 1, axis, method, keepdims, skip_nan=False)


def nanquantile(
    x: Tensor, q: Tensor, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """A quantile of the elements that are not NaN."""
    return _quantile("nanquantile", x, q, 1, axis, method, keepdims, skip_nan=True)


def percentile(
    x: Tensor, q: Tensor, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The quantile for a share in percent."""
    return _quantile("percentile", x, q, 100, axis, method, keepdims, skip_nan=False)


def nanpercentile(
    x: Tensor, q: Tensor, axis: Axes = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The quantile for a share in percent of the elements that are not NaN."""
    return _quantile("nanpercentile", x, q, 100, axis, method, keepdims, skip_nan=True)


def _median(name: str, x: Tensor, axis: Axes, keepdims: bool, *, skip_nan: bool) -> Tensor:
    lines = _Lines(name, x, axis, skip_nan)
    below, above, _ = lines.places(wrap(np.array([0.5])), "midpoint", True)
    low, high = lines.at(below, above)
    if low.dtype.kind not in "fc":  # the sum of two small integers, or truths, need not be one
        low = astype(low, np.float64)
    return reshape((low + high) / 2, lines.reduced_shape(keepdims))


def _quantile(
    name: str,
    x: Tensor,
    q: Tensor,
    whole: int,
    axis: Axes,
    method: str,
    keepdims: bool,
    *,
    skip_nan: bool,
) -> Tensor:
    lines = _Lines(name, x, axis, skip_nan)
    is_number = holds_number(q)
    if is_number or q.dtype.kind != "f":
        kind = x.dtype if is_number and x.dtype.kind == "f" else np.dtype(np.float64)
        q = wrap(np.asarray(q._array, kind)) if is_number else astype(q, kind)
    flat = wrap(q._array.reshape(-1) / whole) if is_number else reshape(q, [-1]) / whole
    below, above, share = lines.places(flat, method, is_number)
    if method in EXACT_METHODS:
        (result,) = lines.at(below)
    else:
        result, high = lines.at(below, above)
        if result.dtype.kind not in "fc":  # a difference of small integers need not be one
            result = astype(result, np.float64)
        result = result + (high - result) * share
    shape = [*q.shape, *lines.reduced_shape(keepdims)]
    return reshape(moveaxis(result, -1, 0), shape)


class _Lines:
    """A tensor seen by a reduction that needs order: all reduced axes are one axis, the last."""

    def __init__(self, name: str, x: Tensor, axis: Axes, skip_nan: bool):
        require_order(name, x.dtype)
        axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else [axis]
        for a in axes:
            if not -x.ndim <= a < x.ndim:
                raise np.exceptions.AxisError(a, x.ndim, name)
        self.shape = x.shape
        self.reduced = sorted({a % x.ndim for a in axes})
        length = prod(x.shape[a] for a in self.reduced)
        if not length:
            raise ValueError(f"{name}: no elements to choose from: shape {x.shape}, axis {axis}")
        moved = moveaxis(x, self.reduced, list(range(-len(self.reduced), 0)))
        self.values = reshape(moved, [*self.reduced_shape(False), length])
        self.skip_nan = skip_nan
        # NaN is sorted behind all else, so what is to be left out needs only not be counted.
        self.count = wrap(np.array(length))
        if skip_nan:
            self.count = sum(logical_not(isnan(self.values)), -1, True)

    def reduced_shape(self, keepdims: bool) -> list[int]:
        """The shape of the reduction's result."""
        if keepdims:
            return [1 if a in self.reduced else n for a, n in enumerate(self.shape)]
        return [n for a, n in enumerate(self.shape) if a not in self.reduced]

    def places(self, q: Tensor, method: str, is_constant: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The ranks of a quantile's neighbours, and the share of the one above."""
        if is_constant and has_values(self.count):
            found = quantile_places(q._array, self.count._array, method)
            below, above, share = map(wrap, found)
            return below, above, share
        return _quantile_places(q, self.count, method)

    def at(self, *ranks: Tensor) -> list[Tensor]:
        """The elements of some ranks in sorted order; NaN where a line holds one that counts."""
        together = concatenate(list(ranks), -1) if len(ranks) > 1 else ranks[0]
        order = _ranked(self.values, together, self.skip_nan)
        found = take_along_axis(self.values, order, -1)
        count = ranks[0].shape[-1]
        return [found[..., n * count : (n + 1) * count] for n in range(len(ranks))]


def interp(
    x: Tensor,
    xp: Tensor,
    fp: Tensor,
    *,
    left: Any = None,
    right: Any = None,
    period: Any = None,
) -> Tensor:
    """Values between given points by linear interpolation, and constants outside of them."""
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(
            "interp: xp and fp must be sequences of one length, with at least one element; their "
            f"shapes are {xp.shape} and {fp.shape}"
        )
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    left = fp[0] if left is None or period is not None else left
    right = fp[-1] if right is None or period is not None else right
    inside = fp[0]
    if xp.size > 1:
        place = searchsorted(xp[1:-1], x, "right")
        step = xp[place + 1] - xp[place]
        flat = equal(step, 0)  # of equal points at the end, the last one has the value
        share = where(flat, 1, x - xp[place]) / where(flat, 1, step)
        inside = fp[place] + (fp[place + 1] - fp[place]) * share
    return where(x < xp[0], left, where(x > xp[-1], right, inside))


def _periodic(x: Tensor, xp: Tensor, fp: Tensor, period: Any) -> tuple[Tensor, Tensor, Tensor]:
    """One period of the points, with one more on either side, and places in it."""
    if period == 0:
        raise ValueError("interp: period must not be 0")
    period = abs(period)
    xp = remainder(xp, period)
    order = argsort(xp)
    xp, fp = xp[order], fp[order]
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period], 0)
    return remainder(x, period), xp, concatenate([fp[-1:], fp, fp[:1]], 0)


def histogram(
    x: Tensor,
    bins: Tensor | None = None,
    range: Any = None,
    *,
    density: bool = False,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The counts, or sums of weights, of bins, and the edges of the bins.

    What an element falls into is constant, so gradients pass to the weights and to the edges.
    """
    if weights is not None and weights.shape != x.shape:
        raise ValueError("histogram: weights should have the same shape as a.")
    line = reshape(x, [-1])
    edges = _edges(line, bins, range)
    count = edges.shape[0] - 1
    place = where(equal(line, edges[-1]), count - 1, searchsorted(edges, line, "right") - 1)
    inside = logical_and(greater_equal(line, edges[0]), less_equal(line, edges[-1]))
    kind = np.dtype(np.intp) if weights is None else weights.dtype
    nothing = zeros_beside(x, (), kind)
    share = nothing + 1 if weights is None else reshape(weights, [-1])
    share = where(inside, astype(share, kind), nothing)
    hist = index_put(zeros_beside(x, (count,), kind), [where(inside, place, 0)], share, True)
    if density:
        hist = hist / astype(diff(edges), np.dtype(float)) / sum(hist)
    return hist, edges


def _edges(x: Tensor, bins: Tensor | None, range: Any) -> Tensor:
    """The edges of the bins, given or in even steps between the least and the largest element."""
    if bins is not None and bins.ndim:
        if bins.ndim > 1:
            raise ValueError("histogram: `bins` must be 1d, when an array")
        if is_true(any_of(less(diff(bins), 0))):
            raise ValueError("histogram: `bins` must increase monotonically, when an array")
        return bins
    if bins is not None and bins.device == "meta":
        raise DataDependentError(
            "histogram: the number of bins is a meta tensor, which has no value; give an int"
        )
    count = 10 if bins is None else int(bins.item())
    if count < 1:
        raise ValueError("histogram: `bins` must be positive, when an integer")
    kind = np.result_type(x.dtype, 1.0)
    first, last = _ends(x, range)
    half = astype(where(equal(first, last), 0.5, 0.0), first.dtype)  # for elements that are equal
    first, last = first - half, last + half
    steps = wrap(np.arange(count, dtype=first.dtype))
    rising = steps * ((last - first) / count) + first
    return astype(concatenate([rising, reshape(last, [1])], 0), kind)


def _ends(x: Tensor, range: Any) -> tuple[Tensor, Tensor]:
    """The lower edge of the first bin and the upper edge of the last."""
    if range is None and x.size:
        kind = np.result_type(x.dtype, 1.0)
        ends = astype(min(x), kind), astype(max(x), kind)
    else:
        low, high = (0.0, 1.0) if range is None else range
        if low > high:
            raise ValueError("histogram: max must be larger than min in range parameter.")
        zero = zeros_beside(x, (), np.dtype(float))
        ends = zero + float(low), zero + float(high)
    if any(is_true(logical_not(isfinite(end))) for end in ends):
        bounds = f" of {[end.item() for end in ends]}" if all(map(has_values, ends)) else ""
        raise ValueError(f"histogram: the range{bounds} is not finite")
    return ends
