"""Records of operators that order elements, search among them and count them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

Samples = Callable[[Make], Iterator[Sample]]


def _sort(make: Make) -> Iterator[Sample]:
    for descending in (False, True):
        yield call(make(5), descending=descending)
        yield call(make(2, 3), descending=descending, stable=False)
        yield call(make(3, 2), 0, descending=descending)
        yield call(make(2, 3, 2), axis=-2, descending=descending)
        yield call(make(2, 3), axis=None, descending=descending)
    yield call(make(2, 0))


def _np_sort(x: Any, axis: int | None = -1, descending: bool = False, **options: Any) -> Any:
    ordered = np.sort(x, axis=axis, **options)
    return np.flip(ordered, 0 if axis is None else axis) if descending else ordered


def _np_argsort(x: Any, axis: int | None = -1, descending: bool = False, **options: Any) -> Any:
    return np.argsort(-x if descending else x, axis=axis, **options)


def _torch_sort(
    t: Any, x: Any, axis: int | None = -1, descending: bool = False, stable: bool = True
) -> Any:
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return t.sort(x, dim=axis, descending=descending, stable=stable)[0]


def _partition(make: Make) -> Iterator[Sample]:
    yield call(make(5), 2)
    yield call(make(2, 5), (1, 3))
    yield call(make(4, 2), -1, axis=0)
    yield call(make(2, 3), 1, None)


def _np_partition(x: Any, kth: Any, axis: int | None = -1) -> Any:
    order = np.argpartition(x, kth, axis)
    return np.take_along_axis(x.reshape(-1) if axis is None else x, order, axis or 0)


def _topk(make: Make) -> Iterator[Sample]:
    for largest in (False, True):
        yield call(make(5), 2, largest=largest)
        yield call(make(2, 4), 3, -1, largest, True)
        yield call(make(3, 2), k=1, axis=0, largest=largest, sorted=False)
    yield call(make(2, 3), 0)
    yield call(make(0, 3), 2)


def _np_topk(x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    del sorted
    indices = np.take(np.argsort(-x if largest else x, axis), np.arange(k), axis)
    return np.take_along_axis(x, indices, axis), indices


def _torch_topk(
    t: Any, x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    return t.topk(x, k, axis, largest, sorted)


def _kthvalue(make: Make) -> Iterator[Sample]:
    for keepdims in (False, True):
        yield call(make(5), 2, keepdims=keepdims)
        yield call(make(2, 4), 4, keepdims=keepdims)
        yield call(make(3, 2), 1, 0, keepdims)
        yield call(make(2, 3, 2), k=2, axis=-2, keepdims=keepdims)
    yield call(make(0, 3), 2)


def _np_kthvalue(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    index = np.take(np.argsort(x, axis), [k - 1], axis)
    picked = np.take_along_axis(x, index, axis), index
    return picked if keepdims else tuple(np.squeeze(p, axis) for p in picked)


def _torch_kthvalue(t: Any, x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    return t.kthvalue(x, k, axis, keepdims)


def _mode(make: Make) -> Iterator[Sample]:
    for keepdims in (False, True):
        yield call(make(1), keepdims=keepdims)
        yield call(make(2, 4), keepdims=keepdims)
        yield call(make(3, 2), 0, keepdims)
    yield call(make.ints(4, 6, high=3))
    yield call(make.ints(6, 3, high=3), axis=0)


def _torch_mode(t: Any, x: Any, axis: int = -1, keepdims: bool = False) -> Any:
    return t.mode(t.as_tensor(x), axis, keepdims)


_REDUCED: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((5,), None),
    ((4,), 0),
    ((3, 4), None),
    ((3, 4), 1),
    ((2, 3, 2), -2),
    ((2, 3, 2), (2, 0)),
]


def _median(make: Make) -> Iterator[Sample]:
    for shape, axis in _REDUCED:
        for keepdims in (False, True):
            yield call(make(*shape), axis=axis, keepdims=keepdims)
    yield call(make(0, 3), axis=1)


_METHODS = (
    "linear",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
    "interpolated_inverted_cdf",
    "midpoint",
    "averaged_inverted_cdf",
    "lower",
    "higher",
    "nearest",
    "inverted_cdf",
    "closest_observation",
)


def shares(whole: float) -> Samples:
    """Samples of a quantile, of which `whole` is the largest."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape, axis in _REDUCED:
            for keepdims in (False, True):
                yield call(make(*shape), 0.37 * whole, axis=axis, keepdims=keepdims)
        for method in _METHODS:
            q = np.array([[0.13, 0.29, 0.41], [0.58, 0.73, 0.97]]) * whole
            yield call(make(2, 9), q.astype(make.dtype), -1, method=method)
        yield call(make(4), whole)
        yield call(make(2, 4), 0, 1)

    return samples


def _np_quantile(function: Any) -> Any:
    """NumPy's function, which calls its method a keyword of a later place."""
    return lambda x, q, axis=None, **options: function(x, q, axis=axis, **options)


def _searchsorted(make: Make) -> Iterator[Sample]:
    line = np.sort(make(6).real)
    for side in ("left", "right"):
        yield call(line, make(2, 3).real, side)
        yield call(line, line, side=side)
    order = np.array([3, 0, 2, 1])
    yield call(np.array([2.0, 4.0, 3.0, 1.0], make.dtype), make(3).real, sorter=order)
    yield call(line, 0.5)


def _digitize(make: Make) -> Iterator[Sample]:
    line = np.sort(make(4))
    yield call(make(2, 3), line)
    yield call(line, line, right=True)


def _increasing(make: Make, length: int) -> Any:
    return np.cumsum(Make(1)(length, low=0.5, high=1.5)).astype(make.dtype)


def _interp(make: Make) -> Iterator[Sample]:
    real = Make(2, dtype=str(make.dtype))
    xp = _increasing(make, 5)
    yield call(real(2, 3, low=-1, high=6), xp, make(5))
    yield call(real(6, low=-2, high=9), xp, make(5), left=-1.5, right=2.5)
    yield call(real(6, low=-9, high=9), xp, make(5), period=6.0)
    yield call(2.3, xp, make(5))
    yield call(real(3), xp[:1], make(1))
    yield call(real(0), xp, make(5))


def _isin(make: Make) -> Iterator[Sample]:
    yield call(make.ints(2, 3), np.array([1, 3]))
    yield call(make.ints(4), 2, invert=True)
    yield call(np.arange(4), np.arange(2, 6), assume_unique=True)


def _nonzero(make: Make) -> Iterator[Sample]:
    yield call(make.ints(4, high=2))
    yield call(make.bools(2, 3))
    yield call(make(0, 3))


def _bincount(make: Make) -> Iterator[Sample]:
    yield call(make.ints(6))
    yield call(make.ints(6), minlength=9)
    yield call(make.ints(6), make(6))
    yield call(make.ints(6), weights=make(6), minlength=8)
    yield call(make.ints(0), minlength=2)


def _histogram(make: Make) -> Iterator[Sample]:
    yield call(make(2, 9))
    yield call(make(9), 4)
    yield call(make(9), bins=4, range=(-1.0, 1.5))
    yield call(make(9), np.array([-2.0, -1.0, 0.5, 2.0], make.dtype), density=True)
    yield call(make.ints(9), 3, weights=make(9))
    yield call(make(9), 3, density=True, weights=make(9, low=0.5, high=1.5))


def _np_histogram(x: Any, bins: Any = 10, range: Any = None, **options: Any) -> Any:
    return np.histogram(x, bins, range, **options)


def _unique_dim(make: Make) -> Iterator[Sample]:
    x = np.round(make(4, 3, low=-1.0, high=1.0))
    yield call(np.concatenate([x, x[::-1]]), 0)
    yield call(np.concatenate([x, x[:, :2]], axis=1), axis=-1)
    yield call(make(5), 0)


def _np_unique_dim(x: Any, axis: int) -> Any:
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=axis)
    return values, inverse.reshape(-1), counts


def _unique(make: Make) -> Iterator[Sample]:
    yield call(make.ints(2, 5))
    yield call(make.ints(0))
    yield call(np.array([2.0, 1.0, 2.0, 3.0], make.dtype))


def plain(name: str, samples: Samples, reference: Any) -> OpInfo:
    """The record of an operator that has no derivative."""
    return OpInfo(name, samples, reference, differentiable=False, has_complex=False)


OPS = [
    OpInfo("sort", _sort, _np_sort, _torch_sort, has_complex=False),
    plain("argsort", _sort, _np_argsort),
    OpInfo("partition", _partition, _np_partition, has_complex=False),
    plain("argpartition", _partition, np.argpartition),
    OpInfo("topk", _topk, _np_topk, _torch_topk, has_complex=False),
    OpInfo("kthvalue", _kthvalue, _np_kthvalue, _torch_kthvalue, has_complex=False),
    OpInfo("mode", _mode, None, _torch_mode, has_complex=False),
    OpInfo("median", _median, np.median, has_complex=False),
    OpInfo("nanmedian", _median, np.nanmedian, has_complex=False),
    OpInfo("quantile", shares(1), _np_quantile(np.quantile), has_complex=False),
    OpInfo("nanquantile", shares(1), _np_quantile(np.nanquantile), has_complex=False),
    OpInfo("percentile", shares(100), _np_quantile(np.percentile), has_complex=False),
    OpInfo("nanpercentile", shares(100), _np_quantile(np.nanpercentile), has_complex=False),
    plain("searchsorted", _searchsorted, np.searchsorted),
    plain("digitize", _digitize, np.digitize),
    OpInfo("interp", _interp, np.interp),
    plain("isin", _isin, np.isin),
    plain("argwhere", _nonzero, np.argwhere),
    plain("flatnonzero", _nonzero, np.flatnonzero),
    plain("nonzero", _nonzero, np.nonzero),
    OpInfo("bincount", _bincount, np.bincount),
    OpInfo("histogram", _histogram, _np_histogram, has_complex=False),
    plain("unique_dim", _unique_dim, _np_unique_dim),
    plain("unique_all", _unique, np.unique_all),
    plain("unique_counts", _unique, np.unique_counts),
    plain("unique_inverse", _unique, np.unique_inverse),
    plain("unique_values", _unique, np.unique_values),
]
