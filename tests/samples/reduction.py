"""Records of reductions over axes, and of running ones along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

Samples = Callable[[Make], Iterator[Sample]]

_REDUCED: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((3,), None),
    ((3,), 0),
    ((2, 3), None),
    ((2, 3), 1),
    ((2, 3, 2), -2),
    ((2, 3), (0, -1)),
    ((2, 3, 2), (2, 0)),
    ((1, 3), 0),
]


def over_axes(*, empty: bool = True, **options: Any) -> Samples:
    """Samples of a reduction: all axes, one, several, none left; kept or not."""

    def samples(make: Make) -> Iterator[Sample]:
        for shape, axis in _REDUCED:
            for keepdims in (False, True):
                yield call(make(*shape), axis=axis, keepdims=keepdims, **options)
        yield call(make(2, 3), 1, keepdims=True, **options)
        yield call(make(2, 0), axis=0, **options)
        if empty:
            yield call(make(0, 3), axis=0, **options)

    return samples


def _wider(make: Make) -> Any:
    """A dtype to compute in that is not the input's, and as precise."""
    return np.complex64 if make.dtype == np.float32 else np.complex128


def with_dtype(make: Make) -> Iterator[Sample]:
    """Samples of a reduction that can compute in a larger dtype."""
    yield from over_axes()(make)
    yield call(make(2, 3), axis=0, dtype=_wider(make))
    yield call(make.ints(3), dtype=np.float32)
    yield call(make.bools(2, 3), axis=1)


def with_ddof(make: Make) -> Iterator[Sample]:
    """Samples of a variance or deviation."""
    for shape, axis in (((3,), None), ((2, 3), None), ((2, 3), 1), ((2, 3, 2), (2, 0))):
        for keepdims in (False, True):
            for ddof in (0, 1, 0.5):
                yield call(make(*shape), axis=axis, keepdims=keepdims, ddof=ddof)
    yield call(make(4), correction=1)
    yield call(make(3, 2), -1, keepdims=True, correction=0.5)
    yield call(make(2, 0), axis=0, ddof=1)


def along_axis(make: Make) -> Iterator[Sample]:
    """Samples of a running reduction with an axis."""
    for shape, axis in (((3,), 0), ((2, 5), 1), ((4, 3), 0), ((2, 3, 2), -2), ((1,), -1)):
        yield call(make(*shape), axis=axis)
    yield call(make(2, 3), 1)
    yield call(make(2, 0), axis=0)
    yield call(make(3, 0), axis=1)


def maybe_flat(make: Make) -> Iterator[Sample]:
    """Samples of a running reduction that flattens where it gets no axis."""
    yield from along_axis(make)
    yield call(make(2, 3))
    yield call(make())
    yield call(make(7), dtype=_wider(make))
    yield call(make.ints(4))


def cumulative(make: Make) -> Iterator[Sample]:
    """Samples of a running reduction of the Array API."""
    for include_initial in (False, True):
        yield call(make(4), include_initial=include_initial)
        yield call(make(2, 3), axis=-1, include_initial=include_initial)
        yield call(make(2, 3), axis=0, include_initial=include_initial)
        yield call(make(2, 0), axis=1, include_initial=include_initial)
    yield call(make(4), dtype=_wider(make))


def filled(samples: Samples) -> Samples:
    """Samples without those that have no elements."""
    return lambda make: (sample for sample in samples(make) if np.size(sample.args[0]))


def some_nan(samples: Samples) -> Samples:
    """Samples with NaN put in the place of some elements; nothing can be compared there."""

    def spoiled(make: Make) -> Iterator[Sample]:
        for sample in samples(make):
            x, *rest = sample.args
            if x.size > 1 and x.dtype.kind in "fc":
                x.ravel()[:: x.size] = np.nan
            yield Sample((x, *rest), sample.kwargs)

    return spoiled


def _indices(make: Make) -> Iterator[Sample]:
    for shape, axis in (((3,), None), ((2, 3), None), ((2, 3), 1), ((2, 3, 2), -2)):
        for keepdims in (False, True):
            yield call(make(*shape), axis=axis, keepdims=keepdims)
    yield call(make(2, 3), 0)


def _truths(make: Make) -> Iterator[Sample]:
    for shape, axis in (((), None), ((3,), None), ((2, 3), 1), ((2, 3, 2), (0, -1)), ((0,), None)):
        for keepdims in (False, True):
            yield call(make.ints(*shape, high=2), axis=axis, keepdims=keepdims)
    yield call(make(2, 3))
    yield call(make.bools(2, 3), 0)


def _average(make: Make) -> Iterator[Sample]:
    yield call(make(3))
    yield call(make(2, 3), 1, keepdims=True)
    yield call(make(2, 3), weights=make(2, 3, low=1))
    yield call(make(2, 3), axis=1, weights=make(2, 3, low=1))
    yield call(make(2, 3), axis=1, weights=make(3, low=1))
    yield call(make(2, 3), axis=-2, weights=make(2, low=1), keepdims=True)
    yield call(make(2, 3, 4), axis=(2, 0), weights=make(4, 2, low=1))
    yield call(make(2, 3), (0, 1), make(2, 3, low=1))


def _diff(make: Make) -> Iterator[Sample]:
    yield call(make(4))
    yield call(make(2, 4), 2)
    yield call(make(3, 2), axis=0)
    yield call(make(2, 3, 2), n=1, axis=-2)
    yield call(make(3), 0)
    yield call(make(3), prepend=make(2), append=make(1))
    yield call(make(2, 3), axis=0, prepend=make())
    yield call(make.ints(2, 3), append=2)
    yield call(make(2, 3), 3, 1)
    yield call(make.bools(5))
    yield call(make(2, 1))


def _increasing(make: Make, length: int) -> NDArray[Any]:
    return np.cumsum(make(length, low=0.5, high=1.5), dtype=make(1).dtype)


def _gradient(make: Make) -> Iterator[Sample]:
    yield call(make(4))
    yield call(make(3, 4))
    for edge_order in (1, 2):
        yield call(make(3, 4), edge_order=edge_order)
        yield call(make(3, 4), 0.5, edge_order=edge_order)
        yield call(make(3, 4), 0.5, _increasing(make, 4), edge_order=edge_order)
        yield call(make(5), _increasing(make, 5), edge_order=edge_order)
    yield call(make(2, 3, 4), make(low=1), axis=(2, -2))
    yield call(make(2, 3), axis=1)


def _trapezoid(make: Make) -> Iterator[Sample]:
    yield call(make(4))
    yield call(make(2, 3), dx=0.5)
    yield call(make(2, 3), make(3))
    yield call(make(3, 2), make(3), axis=0)
    yield call(make(2, 3), x=make(2, 3), axis=-1)
    yield call(make(2, 3, 2), make(1, 3, 1), axis=1)
    yield call(make(1))


def _cumulative(function: Callable[..., Any], initial: int) -> Callable[..., Any]:
    """``np.cumulative_sum`` and its kin, which NumPy has since version 2.1."""

    def reference(x: Any, axis: int | None = None, dtype: Any = None, **options: Any) -> Any:
        axis = 0 if axis is None else axis
        result = function(x, axis=axis, dtype=dtype)
        if not options.get("include_initial"):
            return result
        first = np.full_like(result, initial, shape=_one_long(result.shape, axis))
        return np.concatenate([first, result], axis)

    return reference


def _one_long(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    sizes = list(shape)
    sizes[axis] = 1
    return tuple(sizes)


def _cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    line = np.moveaxis(y, axis, -1)
    if x is not None:
        dx = np.diff(x if x.ndim == 1 else np.moveaxis(np.broadcast_to(x, y.shape), axis, -1))
    return np.moveaxis(np.cumsum(dx * (line[..., 1:] + line[..., :-1]) / 2, -1), -1, axis)


def _cov(make: Make) -> Iterator[Sample]:
    yield call(make(4))
    yield call(make(3, 4))
    yield call(make(4, 3), rowvar=False)
    yield call(make(2, 4), make(3, 4), bias=True)
    yield call(make(5), make(5), ddof=2)
    yield call(make(2, 4), fweights=np.array([1, 2, 3, 1]))
    real = Make(1)
    yield call(make(2, 4), aweights=real(4, low=1).astype(make.dtype))
    weights = real(4, low=1).astype(make.dtype)
    yield call(make(2, 4), fweights=np.array([1, 2, 3, 1]), aweights=weights, ddof=0)


def _corrcoef(make: Make) -> Iterator[Sample]:
    yield call(make(3, 5))
    yield call(make(5, 2), rowvar=False)
    yield call(make(5), make(5))


def _dims(x: Any, axis: Any) -> Any:
    return tuple(range(x.ndim)) if axis is None else axis


def reduced(name: str) -> Any:
    """The function of PyTorch that reduces over one axis or several."""

    def run(t: Any, x: Any, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
        return getattr(t, name)(x, dim=_dims(x, axis), keepdim=keepdims, **options)

    return run


def deviated(name: str) -> Any:
    """The function of PyTorch for a variance or deviation."""

    def run(
        t: Any, x: Any, axis: Any = None, keepdims: bool = False, ddof: Any = 0, correction: Any = 0
    ) -> Any:
        lost = ddof or correction
        return getattr(t, name)(x, dim=_dims(x, axis), keepdim=keepdims, correction=lost)

    return run


def running(name: str) -> Any:
    """The function of PyTorch that runs along an axis."""
    return lambda t, x, axis: getattr(t, name)(x, axis)


def _torch_prod(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    for a in sorted((a % x.ndim for a in np.atleast_1d(_dims(x, axis))), reverse=True):
        x = t.prod(x, dim=int(a), keepdim=keepdims)
    return x


def _logsumexp(x: Any, *args: Any, **options: Any) -> Any:
    return np.log(np.sum(np.exp(x), *args, **options))


def _cummax(x: Any, axis: int) -> Any:
    values = np.maximum.accumulate(x, axis=axis)
    indices = np.zeros(x.shape, np.intp)
    for place in np.ndindex(x.shape):
        upto = tuple(slice(i + 1) if a == axis % x.ndim else i for a, i in enumerate(place))
        indices[place] = np.argmax(x[upto])
    return values, indices


def _cummin(x: Any, axis: int) -> Any:
    values, indices = _cummax(-x, axis)
    return -values, indices


_plain = over_axes()
_nonempty = over_axes(empty=False)

OPS = [
    OpInfo("sum", with_dtype, np.sum),
    OpInfo("sum", _plain, None, reduced("sum")),
    OpInfo("mean", _nonempty, np.mean, reduced("mean")),
    OpInfo("average", _average, np.average),
    OpInfo("var", with_ddof, np.var),
    OpInfo("var", filled(with_ddof), None, deviated("var")),
    OpInfo("std", with_ddof, np.std),
    OpInfo("std", filled(with_ddof), None, deviated("std")),
    OpInfo("logsumexp", _nonempty, _logsumexp, reduced("logsumexp")),
    OpInfo("prod", with_dtype, np.prod),
    OpInfo("prod", _plain, None, _torch_prod),
    OpInfo("max", _nonempty, np.max, reduced("amax"), has_complex=False),
    OpInfo("min", _nonempty, np.min, reduced("amin"), has_complex=False),
    OpInfo("ptp", _nonempty, np.ptp, has_complex=False),
    OpInfo("argmax", _indices, np.argmax, differentiable=False),
    OpInfo("argmin", _indices, np.argmin, differentiable=False),
    OpInfo("all", _truths, np.all, differentiable=False),
    OpInfo("any", _truths, np.any, differentiable=False),
    OpInfo("count_nonzero", _truths, np.count_nonzero, differentiable=False),
    OpInfo("nansum", with_dtype, np.nansum),
    OpInfo("nanprod", with_dtype, np.nanprod),
    OpInfo("nanmean", _nonempty, np.nanmean),
    OpInfo("nanvar", with_ddof, np.nanvar),
    OpInfo("nanstd", with_ddof, np.nanstd),
    OpInfo("nanmax", _nonempty, np.nanmax, has_complex=False),
    OpInfo("nanmin", _nonempty, np.nanmin, has_complex=False),
    OpInfo("nanargmax", some_nan(_indices), np.nanargmax, differentiable=False),
    OpInfo("nanargmin", some_nan(_indices), np.nanargmin, differentiable=False),
    OpInfo("cumsum", maybe_flat, np.cumsum),
    OpInfo("cumsum", along_axis, None, running("cumsum")),
    OpInfo("cumprod", maybe_flat, np.cumprod),
    OpInfo("cumprod", along_axis, None, running("cumprod")),
    OpInfo("cumulative_sum", cumulative, _cumulative(np.cumsum, 0)),
    OpInfo("cumulative_prod", cumulative, _cumulative(np.cumprod, 1)),
    OpInfo("nancumsum", maybe_flat, np.nancumsum),
    OpInfo("nancumprod", maybe_flat, np.nancumprod),
    OpInfo(
        "logcumsumexp",
        along_axis,
        np.logaddexp.accumulate,
        running("logcumsumexp"),
        has_complex=False,
    ),
    OpInfo("cummax", along_axis, _cummax, has_complex=False),
    OpInfo("cummax", filled(along_axis), None, running("cummax"), has_complex=False),
    OpInfo("cummin", along_axis, _cummin, has_complex=False),
    OpInfo("cummin", filled(along_axis), None, running("cummin"), has_complex=False),
    OpInfo("diff", _diff, np.diff),
    OpInfo("gradient", _gradient, np.gradient),
    OpInfo("trapezoid", _trapezoid, np.trapezoid),
    OpInfo("cumulative_trapezoid", _trapezoid, _cumulative_trapezoid),
    OpInfo("cov", _cov, np.cov),
    OpInfo("corrcoef", _corrcoef, np.corrcoef),
]
