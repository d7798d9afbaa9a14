"""Functions that order elements, search among them and count them.

Called by generated kernels with arrays, and by derivative formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pullback.operators.reduction.kernels import require_order

__all__ = [
    "CONTINUOUS_METHODS",
    "EXACT_METHODS",
    "Array",
    "argsort",
    "bincount",
    "kthvalue",
    "mode",
    "quantile_places",
    "ranked",
    "searchsorted",
    "sort",
    "topk",
    "unique_dim",
]

Array = NDArray[Any]
_LONG_LINE = 1000  # elements of which some are found sooner than all are sorted


def sort(
    x: Array,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,  # noqa: ARG001 - equal values look the same in any order
) -> Array:
    """The elements in order along an axis, or all of them."""
    require_order("sort", x.dtype)
    ordered = np.sort(x, axis=axis)
    return np.flip(ordered, 0 if axis is None else axis) if descending else ordered


def argsort(
    x: Array, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:
    """The indices that put the elements in order along an axis, or all of them."""
    require_order("argsort", x.dtype)
    if axis is None:
        x, axis = np.ravel(x), 0
    if not descending:
        return _order(x, axis, stable)
    # Equals keep their order only if both the input and the result are turned round.
    backwards = _order(np.flip(x, axis), axis, stable)
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis))


def _order(x: Array, axis: int, stable: bool) -> Array:
    """The indices that sort along an axis.

    Where no elements are equal, one order alone is right, and NumPy finds it sooner if it need not
    be stable (a million numbers: 30 instead of 90 ms with AVX-512).
    """
    if not stable:
        return np.argsort(x, axis=axis)
    if x.ndim == 1 and x.size >= _LONG_LINE and x.dtype.kind in "iuf":
        order = np.argsort(x)
        step = x.size // 64
        parts = (x[order[n : n + step + 1]] for n in range(0, x.size, step))
        # one after the other, so that no copy of all elements is made; NaN is sorted to the end
        if not np.isnan(x[order[-1]]) and all((p[1:] != p[:-1]).all() for p in parts):
            return order
    return np.argsort(x, axis=axis, kind="stable")


def unique_dim(
    x: Array,
    axis: int,
    sorted: bool = True,  # noqa: ARG001 - always in order
    return_inverse: bool = False,  # noqa: ARG001 - always computed
    return_counts: bool = False,  # noqa: ARG001 - always computed
) -> tuple[Array, Array, Array]:
    """The distinct slices of an axis, the number of each slice among them, and their counts."""
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=axis)
    return values, inverse.reshape(-1), counts


def topk(
    x: Array,
    k: int,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: ARG001 - always in order
) -> tuple[Array, Array]:
    """The k largest or smallest elements along an axis, and where they are."""
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(
            f"topk: k must be from 0 to {x.shape[axis]}, the length of axis {axis} of shape "
            f"{x.shape}, but is {k}"
        )
    require_order("topk", x.dtype)
    lines = np.moveaxis(x, axis, -1)
    indices = _first_of_order(lines, k, largest) if k else np.zeros((*lines.shape[:-1], 0), np.intp)
    values = np.take_along_axis(lines, indices, -1)
    order = argsort(values, -1, descending=largest)
    values, indices = (np.take_along_axis(a, order, -1) for a in (values, indices))
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)


def _first_of_order(lines: Array, k: int, largest: bool) -> Array:
    """The indices of the k largest or smallest elements of lines; the first ones of equals."""
    place = lines.shape[-1] - k if largest else k - 1
    bound = np.partition(lines, place, -1)[..., place : place + 1]
    inside = lines > bound if largest else lines < bound
    equal = lines == bound
    is_nan = np.isnan(lines)
    if is_nan.any():  # and then NaN counts as the largest
        inside |= is_nan & ~np.isnan(bound) if largest else ~is_nan & np.isnan(bound)
        equal |= is_nan & np.isnan(bound)
    room = k - np.count_nonzero(inside, axis=-1, keepdims=True)
    chosen = inside | (equal & (np.cumsum(equal, axis=-1) <= room))
    return np.nonzero(chosen)[-1].reshape(*lines.shape[:-1], k)


def kthvalue(x: Array, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Array, Array]:
    """The kth smallest element along an axis, and where it is."""
    require_order("kthvalue", x.dtype)
    if not 1 <= k <= x.shape[axis]:
        raise ValueError(
            f"kthvalue: k must be from 1 to {x.shape[axis]}, the length of axis {axis} of shape "
            f"{x.shape}, but is {k}"
        )
    partitioned = np.moveaxis(np.partition(x, k - 1, axis=axis), axis, 0)
    values = np.moveaxis(partitioned[k - 1 : k], 0, axis)
    found = (x == values) | (np.isnan(x) & np.isnan(values))
    return _picked(values, np.argmax(found, axis=axis, keepdims=True), axis, keepdims)


def mode(x: Array, axis: int = -1, keepdims: bool = False) -> tuple[Array, Array]:
    """The most frequent element along an axis, and where it is last."""
    if not x.shape[axis]:
        raise ValueError(f"mode: axis {axis} of shape {x.shape} has no elements")
    order = np.moveaxis(argsort(x, axis), axis, -1)
    ordered = np.take_along_axis(np.moveaxis(x, axis, -1), order, -1)
    places = np.arange(ordered.shape[-1])
    begins = np.ones(ordered.shape, bool)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run = places - np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    # The longest run is longest at its end, and a stable order has its last element there.
    end = np.argmax(run, axis=-1, keepdims=True)
    values, indices = (np.take_along_axis(a, end, -1) for a in (ordered, order))
    return _picked(np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis), axis, keepdims)


def _picked(values: Array, indices: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """One element along an axis, with or without the axis."""
    return (values, indices) if keepdims else (values.squeeze(axis), indices.squeeze(axis))


CONTINUOUS_METHODS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Methods by the two numbers that say where in sorted order the shares 0 and 1 lie."""


_EXACT: dict[str, Callable[[Array, Array], Array]] = {
    "lower": lambda q, n: np.floor((n - 1) * q),
    "higher": lambda q, n: np.ceil((n - 1) * q),
    "nearest": lambda q, n: np.around((n - 1) * q),
    "inverted_cdf": lambda q, n: np.ceil(n * q) - 1,
    # The nearest, and of two as near the one whose number counted from one is even.
    "closest_observation": lambda q, n: np.around(n * q - 2) + 1,
}
EXACT_METHODS = frozenset(_EXACT)
"""Methods that take one element as it is."""


def _midpoint(q: Array, n: Array) -> tuple[Array, Array]:
    place = (n - 1) * q
    return np.floor(place), np.where(place % 1 == 0, 0, 0.5)


def _averaged(q: Array, n: Array) -> tuple[Array, Array]:
    place = n * q - 1
    return np.floor(place), np.where(place % 1 == 0, 0.5, 1)


_MEANS = {"midpoint": _midpoint, "averaged_inverted_cdf": _averaged}


def quantile_places(q: Array, count: Array, method: str) -> tuple[Array, Array, Array]:
    """The places of a quantile's neighbours in sorted order, and the share of the one above."""
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("quantile: q must be in the range [0, 1] (percentiles: [0, 100])")
    if method in CONTINUOUS_METHODS:
        first, last = CONTINUOUS_METHODS[method]
        place = count * q + (first + q * (1 - first - last)) - 1
        below = np.floor(place)
        share = place - below
    elif method in _MEANS:
        below, share = _MEANS[method](q, count)
    elif method in _EXACT:
        below = _EXACT[method](q, count)
        share = np.zeros(below.shape)
    else:
        known = ", ".join([*CONTINUOUS_METHODS, *_MEANS, *_EXACT])
        raise ValueError(f"quantile: unknown method {method!r}; the methods are {known}")
    above = np.where(share == 0, below, below + 1)
    top = np.maximum(count - 1, 0)
    below, above = (np.clip(place, 0, top).astype(np.intp) for place in (below, above))
    return below, above, share.astype(q.dtype)


def ranked(x: Array, ranks: Array, skip_nan: bool) -> Array:
    """The indices of the elements of lines that have some ranks in sorted order, which is stable.

    Unless NaN is skipped, a line that has one stands for it: all ranks are that of its last NaN.
    """
    nan = np.isnan(x)
    is_nan = nan if nan.any() else None
    del nan
    if is_nan is not None and not skip_nan:
        ranks = np.where(is_nan.any(axis=-1, keepdims=True), x.shape[-1] - 1, ranks)
    if x.ndim == 1 and x.size < _LONG_LINE:
        return argsort(x)[ranks]
    ranks = np.broadcast_to(ranks, (*x.shape[:-1], ranks.shape[-1]))
    distinct = np.unique(ranks)
    if len(distinct) > 4:  # sorting has become cheaper than to search for each
        return np.take_along_axis(argsort(x, -1), ranks, -1)
    values = np.take_along_axis(np.partition(x, distinct, -1), ranks, -1)
    columns = [
        _of_rank(x, is_nan, values[..., [i]], ranks[..., [i]]) for i in range(values.shape[-1])
    ]
    return np.concatenate(columns, -1)


def _of_rank(x: Array, is_nan: Array | None, value: Array, rank: Array) -> Array:
    """The index of one rank in each line, where the value of that rank is known."""
    found = x < value
    if is_nan is not None:
        found |= ~is_nan & np.isnan(value)
    before = rank - np.count_nonzero(found, axis=-1, keepdims=True)
    np.equal(x, value, out=found)
    if is_nan is not None:
        found |= is_nan & np.isnan(value)
    if before.any():  # others are equal
        found &= np.cumsum(found, axis=-1) > before
    return np.asarray(np.argmax(found, axis=-1, keepdims=True))


def searchsorted(
    x: Array, v: Array, side: Literal["left", "right"] = "left", sorter: Array | None = None
) -> Any:
    """The indices at which elements are inserted into a sorted array."""
    return np.searchsorted(x, v, side=side, sorter=sorter)


def bincount(x: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """The count of each integer from zero up, or the sum of its weights."""
    if weights is None:
        return np.bincount(x, minlength=minlength)
    weights = np.asarray(weights)
    if weights.dtype.kind == "c":
        parts = (np.bincount(x, w, minlength) for w in (weights.real, weights.imag))
        return np.asarray(next(parts) + 1j * next(parts)).astype(weights.dtype)
    result = np.bincount(x, weights, minlength)
    return result.astype(weights.dtype) if weights.dtype.kind == "f" else result
