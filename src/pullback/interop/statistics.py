"""Histograms, weighted averages and quantiles, differences and repairs, with NumPy's signatures.

How many elements fall into a bin does not change with their values, so a histogram passes gradients
to its weights, and to its edges where these are computed from the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated import functions_sorting as sorting
from pullback.interop.adapt import into, typed
from pullback.interop.arguments import as_tensor, given, plain, raw, tensors_in
from pullback.operators.creation import functions_ranges as ranges
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["average", "bincount", "clip", "corrcoef", "cov", "ediff1d", "fix", "histogram"]
__all__ += ["histogram2d", "histogram_bin_edges", "histogramdd", "interp", "nan_to_num"]
__all__ += ["nanpercentile", "nanquantile", "percentile", "quantile", "real_if_close"]
__all__ += ["sort_complex", "unwrap"]


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """``numpy.average``."""
    keep = bool(keepdims) and keepdims is not np._NoValue
    made = reduction.average(as_tensor(a), axis, weights, keepdims=keep)
    if not returned:
        return made
    tensor = as_tensor(a)
    if weights is None:
        total: Any = fresh(np.asarray(tensor.size / max(made.size, 1), made.dtype))
    else:
        spread = as_tensor(weights)
        if spread.shape != tensor.shape:
            lengths = [1] * tensor.ndim
            for own, place in zip(spread.shape, np.atleast_1d(axis).tolist(), strict=True):
                lengths[place] = own
            spread = shape.reshape(spread, lengths)
        spread = shape.broadcast_to(spread, tensor.shape)
        total = reduction.sum(pointwise._astype(spread, made.dtype), axis, keep)
    return made, shape.reshape(shape.broadcast_to(total, made.shape), made.shape, copy=True)


def clip(
    a: Any,
    a_min: Any = np._NoValue,
    a_max: Any = np._NoValue,
    out: Any = None,
    *,
    min: Any = np._NoValue,
    max: Any = np._NoValue,
    **kwargs: Any,
) -> Any:
    """``numpy.clip``."""
    low = a_min if a_min is not np._NoValue else min
    high = a_max if a_max is not np._NoValue else max
    low, high = (bound if given(bound) else None for bound in (low, high))
    made = pointwise.clip(as_tensor(a), low, high)
    if kwargs.get("dtype") is not None:
        made = pointwise._astype(made, np.dtype(kwargs["dtype"]))
    return into(out, made, "numpy.clip")


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tensor:
    """``numpy.cov``, which computes in float64 at least."""
    given = [as_tensor(x) for x in (m, y) if x is not None]
    kind = np.result_type(*(x.dtype for x in given), np.float64) if dtype is None else dtype
    return reduction.cov(
        *(typed(x, kind) for x in given),
        rowvar=rowvar,
        bias=bias,
        ddof=ddof,
        fweights=fweights,
        aweights=aweights,
    )


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """``numpy.corrcoef``, which computes in float64 at least."""
    given = [as_tensor(part) for part in (x, y) if part is not None]
    kind = np.result_type(*(part.dtype for part in given), np.float64) if dtype is None else dtype
    return reduction.corrcoef(*(typed(part, kind) for part in given), rowvar=rowvar)


def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Tensor:
    """``numpy.bincount``, which adds weights in float64; complex ones, too."""
    if weights is not None:
        kind = complex if as_tensor(weights).dtype.kind == "c" else float
        weights = typed(weights, kind)
    return sorting.bincount(as_tensor(x), weights, minlength)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Tensor:
    """``numpy.interp``, which computes in float64, or complex128."""
    kind = complex if as_tensor(fp).dtype.kind == "c" else float
    ends = {"left": left, "right": right}
    bounds: dict[str, Any]
    bounds = {name: None if end is None else typed(end, kind) for name, end in ends.items()}
    values = typed(fp, kind)
    return sorting.interp(typed(x, float), typed(xp, float), values, **bounds, period=period)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """``numpy.ediff1d``."""
    flat = shape.reshape(as_tensor(ary), -1)
    parts = [flat[1:] - flat[:-1]]
    if to_begin is not None:
        parts.insert(0, shape.reshape(as_tensor(to_begin), -1))
    if to_end is not None:
        parts.append(shape.reshape(as_tensor(to_end), -1))
    return shape.concatenate([pointwise._astype(part, flat.dtype) for part in parts])


def fix(x: Any, out: Any = None) -> Any:
    """``numpy.fix``."""
    return into(out, pointwise.trunc(x), "numpy.fix")


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: Any = 2 * math.pi
) -> Any:
    """``numpy.unwrap``: how many periods are added is constant, so gradients pass unchanged."""
    tensor = as_tensor(p)
    values, length = raw(tensor), np.asarray(plain(period))
    shifted = np.unwrap(values, plain(discont), axis, period=length.item())
    if not isinstance(period, Tensor):
        return tensor + fresh(np.where(shifted == values, 0, shifted - values))
    turns = np.round((shifted - values) / length)
    return tensor + fresh(turns) * period


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """``numpy.nan_to_num``; gradients pass to numbers that are tensors too."""
    numbers = {"nan": nan, "posinf": posinf, "neginf": neginf}
    if next(tensors_in(numbers), None) is not None:
        made = _with_numbers(as_tensor(x), nan, posinf, neginf)
        return made if copy else indexing.copy_(as_tensor(x), made)
    if copy:
        return pointwise.nan_to_num(x, **numbers)
    return pointwise.nan_to_num_(as_tensor(x), **numbers)


def _with_numbers(x: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    """A tensor with other tensors' elements in the place of NaN and infinities."""
    if x.dtype.kind not in "fc":
        return pointwise.clone(x)
    if x.dtype.kind == "c":
        parts = (pointwise.real(x), pointwise.imag(x))
        real, imag = (_with_numbers(part, nan, posinf, neginf) for part in parts)
        return pointwise._astype(real + 1j * imag, x.dtype)
    limits = np.finfo(x.dtype)
    for test, number in (
        (pointwise.isnan(x), nan),
        (pointwise.equal(x, np.inf), limits.max if posinf is None else posinf),
        (pointwise.equal(x, -np.inf), limits.min if neginf is None else neginf),
    ):
        x = pointwise._where(test, pointwise._astype(as_tensor(number), x.dtype), x)
    return x


def real_if_close(a: Any, tol: float = 100) -> Tensor:
    """``numpy.real_if_close``."""
    tensor = as_tensor(a)
    close = np.isrealobj(np.real_if_close(raw(tensor), tol))
    return pointwise.real(tensor) if close and tensor.dtype.kind == "c" else tensor


def sort_complex(a: Any) -> Tensor:
    """``numpy.sort_complex``."""
    flat = as_tensor(a)
    order = np.argsort(raw(flat), axis=-1)
    kind = np.sort_complex(raw(flat)).dtype
    return pointwise._astype(indexing.take_along_axis(flat, order, -1), kind)


# --- histograms ----------------------------------------------------------------------------------


def _edges(x: Tensor, bins: Any, range: Any, weights: Any) -> Tensor:
    """The edges of the bins; where they come from the data, gradients pass to its ends."""
    if isinstance(bins, Tensor) and bins.ndim:
        return bins
    found = np.histogram_bin_edges(raw(x), plain(bins), plain(range), plain(weights))
    if np.ndim(plain(bins)) or not x.size:
        return fresh(found)
    low, high = (reduction.min(x), reduction.max(x)) if range is None else range
    if found[0] != plain(as_tensor(low)) or found[-1] != plain(as_tensor(high)):
        return fresh(found)  # all elements are equal: NumPy puts one half on either side
    kind = np.result_type(found, x._array)
    return ranges.linspace(low, high, found.size, dtype=kind)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """``numpy.histogram_bin_edges``."""
    return _edges(as_tensor(a), bins, range, weights)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """``numpy.histogram``."""
    tensor = as_tensor(a)
    edges = _edges(tensor, bins, range, weights)
    column = shape.reshape(tensor, (-1, 1))
    flat = None if weights is None else shape.reshape(as_tensor(weights), -1)
    made = _counted(column, [edges], density, flat, integers=True)
    if flat is not None and not density:
        made = typed(made, flat.dtype)
    return made, edges


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, list[Tensor]]:
    """``numpy.histogramdd``."""
    columns: Any
    if isinstance(sample, Tensor | np.ndarray):
        columns = shape.permute_dims(as_tensor(np.atleast_2d(sample)))
        columns = shape.unbind(columns)
    else:
        columns = [shape.reshape(as_tensor(one), -1) for one in sample]
    each = bins if isinstance(bins, list | tuple) else [bins] * len(columns)
    if len(each) != len(columns):
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    spans = [None] * len(columns) if range is None else list(range)
    edges = [_edges(x, b, s, None) for x, b, s in zip(columns, each, spans, strict=True)]
    flat = None if weights is None else shape.reshape(as_tensor(weights), -1)
    return _counted(shape.stack(columns, 1), edges, density, flat, integers=False), edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """``numpy.histogram2d``."""
    several = isinstance(bins, list | tuple) and len(bins) == 2
    per_axis = bins if several else [bins, bins]
    counts, (first, second) = histogramdd([x, y], per_axis, range, density, weights)
    return counts, first, second


def _counted(
    rows: Tensor, edges: list[Tensor], density: Any, weights: Tensor | None, *, integers: bool
) -> Tensor:
    """Counts, or sums of weights, for each bin of a grid."""
    lengths = [edge.shape[0] - 1 for edge in edges]
    points = raw(rows)
    places = []
    inside = np.ones(points.shape[0], bool)
    for axis, edge in enumerate(edges):
        values, bounds = points[:, axis], raw(edge)
        place = np.searchsorted(bounds, values, "right") - 1
        place[values == bounds[-1]] = lengths[axis] - 1  # the last bin has both of its edges
        inside &= (values >= bounds[0]) & (values <= bounds[-1])
        places.append(place)
    number = np.ravel_multi_index([p[inside] for p in places], lengths)
    share = None if weights is None else indexing.take(weights, np.flatnonzero(inside))
    counts: Any = sorting.bincount(number, share, math.prod(lengths))
    counts = shape.reshape(counts, lengths)
    if not integers and counts.dtype.kind != "f":
        counts = pointwise._astype(counts, np.dtype(float))
    if not density:
        return counts  # type: ignore[no-any-return]
    total = reduction.sum(counts)
    for axis, edge in enumerate(edges):
        widths = shape.reshape(reduction.diff(edge), (-1,) + (1,) * (len(edges) - axis - 1))
        counts = counts / widths
    return counts / total  # type: ignore[no-any-return]


# --- quantiles -----------------------------------------------------------------------------------


def _quantile_function(name: str) -> Any:
    ours = getattr(sorting, name)

    def call(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        del overwrite_input
        keep = bool(keepdims) and keepdims is not np._NoValue
        if weights is None:
            made = ours(as_tensor(a), q, axis, method=method, keepdims=keep)
        else:
            made = _weighted(name, a, q, axis, method, keep, weights)
        return into(out, made, f"numpy.{name}")

    return call


def _weighted(name: str, a: Any, q: Any, axis: Any, method: str, keep: bool, weights: Any) -> Any:
    """With weights the result is an element, which NumPy finds among the elements' ranks."""
    tensor = as_tensor(a)
    axes = tuple(range(tensor.ndim)) if axis is None else axis
    lines = np.moveaxis(raw(tensor), axes, range(-np.size(axes), 0))
    lines = lines.reshape((*lines.shape[: tensor.ndim - np.size(axes)], -1))
    order = np.argsort(lines, -1)
    ranks = np.argsort(order, -1).astype(float)
    ranks[np.isnan(lines)] = np.nan
    ranks = np.moveaxis(
        ranks.reshape(np.moveaxis(raw(tensor), axes, range(-np.size(axes), 0)).shape),
        range(-np.size(axes), 0),
        axes,
    )
    chosen = getattr(np, name)(ranks, plain(q), axis, method=method, weights=plain(weights))
    chosen = np.asarray(chosen)
    moved = shape.moveaxis(tensor, axes, tuple(range(-np.size(axes), 0)))
    flat = shape.reshape(moved, lines.shape)
    leading = chosen.ndim - (lines.ndim - 1)
    picks = np.moveaxis(chosen.reshape((-1, *lines.shape[:-1])), 0, -1)
    missing = np.isnan(picks)
    where = np.take_along_axis(order, np.where(missing, 0, picks).astype(int), -1)
    found = pointwise._where(missing, np.nan, indexing.take_along_axis(flat, where, -1))
    found = shape.reshape(shape.moveaxis(found, -1, 0), chosen.shape)
    if keep:
        positions = tuple(leading + a % tensor.ndim for a in np.atleast_1d(axes).tolist())
        found = shape.expand_dims(found, positions)
    return found


quantile = _quantile_function("quantile")
percentile = _quantile_function("percentile")
nanquantile = _quantile_function("nanquantile")
nanpercentile = _quantile_function("nanpercentile")
