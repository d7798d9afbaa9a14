"""Reductions, sorting and counting under PyTorch's names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pullback as pb
from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_reduction as operators
from pullback._generated import functions_shape as shapes
from pullback._generated import functions_sorting as sorting
from pullback.compat.torch.spelling import numpy_names, spell
from pullback.compat.torch.tensor import convert, convert_array, values_of

__all__ = [
    "Pair",
    "amax",
    "amin",
    "aminmax",
    "argmax",
    "argmin",
    "argsort",
    "bincount",
    "bucketize",
    "corrcoef",
    "count_nonzero",
    "cov",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "dist",
    "histc",
    "histogram",
    "isin",
    "kthvalue",
    "logcumsumexp",
    "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "msort",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "nonzero",
    "norm",
    "prod",
    "quantile",
    "searchsorted",
    "sort",
    "std",
    "std_mean",
    "sum",
    "topk",
    "trapezoid",
    "trapz",
    "unique",
    "unique_consecutive",
    "var",
    "var_mean",
]
__all__ += ["all", "any"]


class Pair(NamedTuple):
    """Elements, and their places along an axis."""

    values: Any
    indices: Any


class _Extremes(NamedTuple):
    """The smallest and the largest element."""

    min: Any
    max: Any


def _axes(dim: Any) -> Any:
    return (
        None
        if dim is None or dim == () or dim == []
        else tuple(dim)
        if isinstance(dim, list)
        else dim
    )


@numpy_names
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum along axes.

    >>> import pullback.compat.torch as torch
    >>> torch.sum(torch.ones(2, 3), dim=1, keepdim=True).tolist()
    [[3.0], [3.0]]
    """
    if dtype is None and input.dtype.kind == "u":
        dtype = np.int64
    return operators.sum(input, _axes(dim), keepdim, dtype=dtype)


def _floating(name: str, input: Any, dtype: Any) -> None:
    if (input.dtype if dtype is None else np.dtype(dtype)).kind not in "fc":
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {input.dtype}"
        )


@numpy_names
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean along axes."""
    _floating("mean", input, dtype)
    return operators.mean(input, _axes(dim), keepdim, dtype=dtype)


@numpy_names
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of the elements that are not NaN."""
    return operators.nansum(input, _axes(dim), keepdim, dtype=dtype)


@numpy_names
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of the elements that are not NaN."""
    return operators.nanmean(input, _axes(dim), keepdim, dtype=dtype)


@numpy_names
def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product along an axis."""
    return operators.prod(input, dim, keepdim, dtype=dtype)


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, Any]:
    """The axes and the correction: ``std(False)`` is ``std(unbiased=False)``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is None:
        correction = int(unbiased)
    return _axes(dim), 1 if correction is None else correction


@numpy_names
def var(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    """The variance along axes, divided by the count minus `correction`, which is 1 by default."""
    axes, correction = _correction(dim, unbiased, correction)
    return operators.var(input, axes, keepdim, correction=correction)


@numpy_names
def std(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    """The square root of `var`."""
    axes, correction = _correction(dim, unbiased, correction)
    return operators.std(input, axes, keepdim, correction=correction)


def var_mean(input: Any, dim: Any = None, **options: Any) -> Any:
    """`var` and `mean`."""
    kept = {name: options[name] for name in ("keepdim",) if name in options}
    return var(input, dim, **options), mean(
        input, _axes(None if isinstance(dim, bool) else dim), **kept
    )


def std_mean(input: Any, dim: Any = None, **options: Any) -> Any:
    """`std` and `mean`."""
    variance, average = var_mean(input, dim, **options)
    return pb.sqrt(variance), average


@numpy_names
def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The largest elements; equal ones share the gradient."""
    return operators.max(input, _axes(dim), keepdim)


@numpy_names
def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The smallest elements; equal ones share the gradient."""
    return operators.min(input, _axes(dim), keepdim)


def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    """`amin` and `amax`."""
    return _Extremes(operators.min(input, dim, keepdim), operators.max(input, dim, keepdim))


def _picked(input: Any, places: Any, dim: int, keepdim: bool) -> Pair:
    """The elements at places along an axis, which has length one in `places`."""
    values = indexing.take_along_axis(input, places, dim)
    if keepdim:
        return Pair(values, places)
    return Pair(shapes.squeeze(values, dim), shapes.squeeze(places, dim))


def _extreme(name: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return getattr(operators, name)(input)
    if hasattr(dim, "_array"):
        return getattr(pb, f"{name}imum")(input, dim)
    if not input.ndim:
        return Pair(input.clone(), convert_array(np.zeros((), np.int64)))
    return _picked(input, getattr(operators, f"arg{name}")(input, dim, keepdims=True), dim, keepdim)


@numpy_names
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with an axis, those along it with their places; or of two tensors.

    >>> import pullback.compat.torch as torch
    >>> torch.max(torch.tensor([[1, 5], [7, 2]]), 1).values.tolist()
    [5, 7]
    """
    return _extreme("max", input, dim if other is None else other, keepdim)


@numpy_names
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; see `max`."""
    return _extreme("min", input, dim if other is None else other, keepdim)


@numpy_names
def median(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The element in the middle, the lower one of two; with an axis, with its place.

    >>> import pullback.compat.torch as torch
    >>> torch.median(torch.tensor([1.0, 4.0, 2.0, 3.0])).item()
    2.0
    """
    flat = shapes.reshape(input, -1) if dim is None else input
    axis, keeps = (0, False) if dim is None else (dim, keepdim)
    if not flat.ndim:
        return Pair(flat.clone(), convert_array(np.zeros((), np.int64)))
    order = sorting.argsort(flat, axis)
    middle = shapes.narrow(order, axis, (flat.shape[axis] - 1) // 2, 1)
    values, places = _picked(flat, middle, axis, keeps)
    if flat.dtype.kind == "f":
        bad = operators.any(pb.isnan(flat), axis, keeps)
        if not isinstance(bad._array, np.ndarray) or bad._array.any():
            values = pb.where(bad, float("nan"), values)
    return values if dim is None else Pair(values, places)


@numpy_names
def nanmedian(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN."""
    flat = shapes.reshape(input, -1) if dim is None else input
    axis = 0 if dim is None else dim
    count = operators.sum(pb.logical_not(pb.isnan(flat)), axis, keepdims=True)
    places = pb.maximum((count - 1) // 2, 0)
    order = indexing.take_along_axis(sorting.argsort(flat, axis), places, axis)
    found = _picked(flat, order, axis, keepdim and dim is not None)
    return found.values if dim is None else found


@numpy_names
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent elements along an axis, with their places."""
    return Pair(*sorting.mode(input, dim, keepdim))


@numpy_names
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest elements along an axis, with their places."""
    return Pair(*sorting.kthvalue(input, k, dim, keepdim))


@numpy_names
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest or smallest elements along an axis, with their places."""
    return Pair(*sorting.topk(input, k, dim, largest, sorted))


@numpy_names
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements in order along an axis, with their places."""
    del stable  # it always is
    if not input.ndim:
        return Pair(input.clone(), convert_array(np.zeros((), np.int64)))
    places = sorting.argsort(input, dim, descending=descending)
    return Pair(indexing.take_along_axis(input, places, dim), places)


@numpy_names
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The places of the elements in order along an axis."""
    del stable
    return sorting.argsort(input, dim, descending=descending)


def msort(input: Any) -> Any:
    """The elements in order along the first axis."""
    return sort(input, 0).values


@numpy_names
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials along axes."""
    return operators.logsumexp(input, _axes(dim), keepdim)


@numpy_names
def argmax(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The place of the largest element."""
    return operators.argmax(input, dim, keepdims=keepdim)


@numpy_names
def argmin(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The place of the smallest element."""
    return operators.argmin(input, dim, keepdims=keepdim)


@numpy_names
def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements are true."""
    return operators.all(input, _axes(dim), keepdim)


@numpy_names
def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element is true."""
    return operators.any(input, _axes(dim), keepdim)


@numpy_names
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """The number of elements that are not zero."""
    return operators.count_nonzero(input, _axes(dim))


@numpy_names
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Sums of the elements so far along an axis."""
    return operators.cumsum(input, dim, dtype=dtype)


@numpy_names
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Products of the elements so far along an axis."""
    return operators.cumprod(input, dim, dtype=dtype)


@numpy_names
def cummax(input: Any, dim: int) -> Any:
    """The largest elements so far along an axis, with their places."""
    return Pair(*operators.cummax(input, dim))


@numpy_names
def cummin(input: Any, dim: int) -> Any:
    """The smallest elements so far along an axis, with their places."""
    return Pair(*operators.cummin(input, dim))


logcumsumexp = spell(operators.logcumsumexp)
diff = spell(operators.diff)
isin = spell(sorting.isin, first=("elements", "test_elements"))


def trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule."""
    return operators.trapezoid(y, x, dx, dim)


trapz = trapezoid


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """The integrals up to each place along an axis."""
    return operators.cumulative_trapezoid(y, x, dx, dim)


@numpy_names
def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Quantiles along an axis; several of them make a new first axis."""
    return sorting.quantile(input, q, dim, method=interpolation, keepdims=keepdim)


@numpy_names
def nanquantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Quantiles of the elements that are not NaN."""
    return sorting.nanquantile(input, q, dim, method=interpolation, keepdims=keepdim)


@numpy_names
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """A norm of the vector of all elements, or along axes."""
    given = input if dtype is None else pb.astype(input, dtype)
    axes = _axes(dim)
    if p == "nuc":
        return pb.linalg.norm(given, "nuc", axes, keepdim)
    order = 2 if p in ("fro", None) else p
    return pb.linalg.vector_norm(given, axis=axes, keepdims=keepdim, ord=order)


def dist(input: Any, other: Any, p: Any = 2) -> Any:
    """The norm of a difference."""
    return norm(input - other, p)


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariances of rows."""
    return operators.cov(input, ddof=correction, fweights=fweights, aweights=aweights)


corrcoef = spell(operators.corrcoef)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Counts of each integer, or the sums of its weights."""
    return sorting.bincount(input, weights, minlength)


def histc(input: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """Counts of the elements in equal intervals from `min` to `max`."""
    array = values_of(input)
    low, high = (array.min(), array.max()) if min == max else (min, max)
    counts = np.histogram(array, bins, (low, high))[0]
    return convert_array(counts.astype(array.dtype))


def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Counts of elements in intervals, and the ends of the intervals."""
    edges = values_of(bins) if hasattr(bins, "_array") else bins
    weights = None if weight is None else values_of(weight)
    found = np.histogram(values_of(input), edges, range, density, weights)
    return tuple(convert_array(part.astype(input.dtype)) for part in found)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The places at which elements would be put into sorted boundaries."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Any:
    """The places at which elements would be put into a sorted sequence, row by row."""
    values = values_of(pb.asarray(input))
    side = side or ("right" if right else "left")
    rows, order = values_of(sorted_sequence), None if sorter is None else values_of(sorter)
    if rows.ndim == 1:
        found = np.searchsorted(rows, values, side, order)
    else:
        flat = values.reshape(-1, values.shape[-1])
        orders = [None] * len(flat) if order is None else order.reshape(-1, order.shape[-1])
        lines = zip(rows.reshape(-1, rows.shape[-1]), flat, orders, strict=True)
        found = np.stack([np.searchsorted(*line[:2], side, line[2]) for line in lines])
        found = found.reshape(values.shape)
    return convert_array(np.asarray(found, np.int32 if out_int32 else np.int64))


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
) -> Any:
    """The different elements in order, optionally with where they went and how often they occur."""
    del sorted  # they always are
    unique_elements: Any = np.unique
    found = unique_elements(
        values_of(input), return_inverse=return_inverse, return_counts=return_counts, axis=dim
    )
    parts = found if isinstance(found, tuple) else (found,)
    made = tuple(map(convert_array, parts))
    if return_inverse:
        made[1]._array = made[1]._array.reshape(input.shape if dim is None else -1)
    return made if len(made) > 1 else made[0]


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The elements without those that equal the one before."""
    values = values_of(input)
    array = values.ravel() if dim is None else np.moveaxis(values, dim, 0)
    rows = array.reshape(len(array), -1)
    starts = np.ones(len(array), bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    kept = array[starts] if dim is None else np.moveaxis(array[starts], 0, dim)
    results = [convert_array(kept)]
    inverse = np.cumsum(starts) - 1
    if return_inverse:
        results.append(convert_array(inverse.reshape(input.shape if dim is None else -1)))
    if return_counts:
        results.append(convert_array(np.bincount(inverse, minlength=int(starts.sum()))))
    return tuple(results) if len(results) > 1 else results[0]


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The places of elements that are not zero, one in a row; or one tensor for each axis."""
    return convert(sorting.nonzero(input)) if as_tuple else sorting.argwhere(input)
