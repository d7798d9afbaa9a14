"""Rules of distances: metrics, ``cdist``, ``pdist``, ``squareform``, nearest neighbours.

A metric is a function of points along the last axis, so that one definition serves single vectors,
all pairs and the neighbours that a tree has found. Where a distance has a kink (equal points), its
derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isinf
from typing import Any

import numpy as np
from scipy import spatial as theirs

from pullback.autograd.namespaces import tensors as xp
from pullback.errors import DerivativeMissingError
from pullback.func.primitive import all_values
from pullback.interop.arguments import as_tensor, raw
from pullback.scipy.batches import call_on_values
from pullback.scipy.conversions import as_floating
from pullback.scipy.registry import class_rule, constant, option_without_rule, refused, rule
from pullback.scipy.rules.interpolate_local import gather
from pullback.scipy.rules.linalg_tools import diagonal
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["METRICS", "KDTreeTensor"]

_NAME = "scipy.spatial.distance"


def _safe(condition: Any, function: Callable[[Any], Tensor], x: Tensor) -> Any:
    """A function where a condition holds, zero elsewhere, without its derivatives there."""
    found = function(xp.where(condition, x, xp.ones_like(x)))
    return xp.where(condition, found, xp.zeros_like(found))


def _root(x: Tensor) -> Any:
    return _safe(x > 0, xp.sqrt, x)


def _ratio(x: Tensor, y: Tensor) -> Any:
    """x / y, and zero where y is."""
    return x * _safe(y != 0, xp.reciprocal, y)


# --- metrics: of two arrays of points, with weights of the coordinates ----------------------------


def _total(x: Tensor, w: Any) -> Any:
    return xp.sum(x if w is None else x * as_tensor(w), -1)


def _minkowski(u: Tensor, v: Tensor, w: Any = None, p: Any = 2) -> Any:
    if not isinstance(p, Tensor):
        if p <= 0:
            raise ValueError("p must be greater than 0")
        if isinf(p):
            return _chebyshev(u, v, w)
    power = as_tensor(p)
    size = xp.abs(u - v)
    total = _total(_safe(size > 0, lambda x: x**power, size), w)
    return _safe(total > 0, lambda x: x ** (1 / power), total)


def _chebyshev(u: Tensor, v: Tensor, w: Any = None) -> Any:
    size = xp.abs(u - v)
    return xp.max(size if w is None else size * (all_values(as_tensor(w)) > 0), -1)


def _correlation(u: Tensor, v: Tensor, w: Any = None, centered: bool = True) -> Any:
    if centered:
        count = u.shape[-1] if w is None else xp.sum(as_tensor(w))
        u = u - xp.expand_dims(_total(u, w) / count, -1)
        v = v - xp.expand_dims(_total(v, w) / count, -1)
    return 1 - _total(u * v, w) / xp.sqrt(_total(u * u, w) * _total(v * v, w))


def _jensenshannon(u: Tensor, v: Tensor) -> Any:
    u, v = (x / xp.sum(x, -1, keepdims=True) for x in (u, v))
    middle = (u + v) / 2
    parts = [
        xp.sum(x * (_safe(x > 0, xp.log, x) - _safe(x > 0, xp.log, middle)), -1) for x in (u, v)
    ]
    return _root((parts[0] + parts[1]) / 2)


def _mahalanobis(u: Tensor, v: Tensor, VI: Any) -> Any:
    apart = u - v
    return _root(xp.sum((apart @ as_tensor(VI)) * apart, -1))


METRICS: dict[str, Callable[..., Tensor]] = {
    "braycurtis": lambda u, v, w=None: _total(xp.abs(u - v), w) / _total(xp.abs(u + v), w),
    "canberra": lambda u, v, w=None: _total(_ratio(xp.abs(u - v), xp.abs(u) + xp.abs(v)), w),
    "chebyshev": _chebyshev,
    "cityblock": lambda u, v, w=None: _total(xp.abs(u - v), w),
    "correlation": _correlation,
    "cosine": partial(_correlation, centered=False),
    "euclidean": lambda u, v, w=None: _root(_total((u - v) ** 2, w)),
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": lambda u, v, V: _root(xp.sum((u - v) ** 2 / as_tensor(V), -1)),
    "sqeuclidean": lambda u, v, w=None: _total((u - v) ** 2, w),
}
_COUNTING = "dice hamming jaccard matching rogerstanimoto russellrao sokalsneath yule"


def _declare_metric(name: str) -> None:
    metric = METRICS[name]

    def apply(u: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        first, second = as_floating(u), as_floating(v)
        if first.ndim != 1 or second.ndim != 1:
            raise ValueError("Input vector should be 1-D.")
        if name == "minkowski" and args:  # whose third argument is p
            kwargs.update(zip(("p", "w"), args, strict=False))
            args = ()
        return metric(first, second, *args, **kwargs)

    rule(f"{_NAME}.{name}", tensors="u v w p V VI")(apply)


for _metric in METRICS:
    if _metric != "jensenshannon":  # SciPy's own code, which has an axis, is recorded
        _declare_metric(_metric)


def _find_metric(function: str, metric: Any, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """The metric that cdist and pdist are called with."""
    if not isinstance(metric, str) and not callable(metric):
        raise TypeError("2nd argument metric must be a string identifier or a function.")
    name = metric.lower() if isinstance(metric, str) else getattr(metric, "__name__", "")
    known = theirs.distance._METRIC_ALIAS.get(name.removeprefix("test_"))
    if known is None or (callable(metric) and known.dist_func is not metric):
        if isinstance(metric, str):
            raise ValueError(f"Unknown Distance Metric: {metric}")
        return partial(_pairwise, metric, kwargs)
    if known.canonical_name not in METRICS:
        raise DerivativeMissingError(
            f"{_NAME}.{function}: the metric {known.canonical_name!r} compares and counts, and has "
            f"no derivative; choose one of {', '.join(METRICS)}, or detach the points"
        )
    return partial(METRICS[known.canonical_name], **kwargs)


def _pairwise(metric: Callable[..., Any], kwargs: dict[str, Any], u: Tensor, v: Tensor) -> Any:
    """A user's metric of two vectors, for arrays of points."""
    lead = np.broadcast_shapes(u.shape[:-1], v.shape[:-1])
    shape = (*lead, u.shape[-1])
    first, second = (xp.reshape(x + xp.zeros(shape), [-1, shape[-1]]) for x in (u, v))
    found = [as_tensor(metric(first[i], second[i], **kwargs)) for i in range(first.shape[0])]
    return xp.reshape(xp.stack(found) if found else xp.zeros((0,)), list(lead))


def _fill_parameters(metric: Any, kwargs: dict[str, Any], points: list[Tensor]) -> None:
    """Gives metrics that need the spread of the points what SciPy computes from them."""
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "")
    known = theirs.distance._METRIC_ALIAS.get(name.lower())
    name = known.canonical_name if known is not None else ""
    wanted = {"seuclidean": "V", "mahalanobis": "VI"}.get(name, "")
    if not wanted or kwargs.get(wanted) is not None:
        return
    everything = xp.concatenate(points) if len(points) > 1 else points[0]
    apart = everything - xp.mean(everything, 0, keepdims=True)
    covariance = xp.matrix_transpose(apart) @ apart / (everything.shape[0] - 1)
    if name == "mahalanobis" and everything.shape[0] <= everything.shape[1]:
        raise ValueError(
            f"The number of observations ({everything.shape[0]}) is too small; the covariance "
            f"matrix is singular. For observations with {everything.shape[1]} dimensions, at least "
            f"{everything.shape[1] + 1} observations are required."
        )
    is_inverse = name == "mahalanobis"
    kwargs[wanted] = xp.linalg_inv(covariance) if is_inverse else diagonal(covariance)


@rule(f"{_NAME}.cdist", tensors="XA XB kwargs")
def _cdist(XA: Any, XB: Any, metric: Any, out: Any, **kwargs: Any) -> Any:
    """The distances of each point of one set from each of another."""
    if out is not None:
        raise option_without_rule(f"{_NAME}.cdist", "out", type(out).__name__)
    a, b = (xp.astype(as_tensor(points), np.float64) for points in (XA, XB))
    for name, points in (("XA", a), ("XB", b)):
        if points.ndim != 2:
            raise ValueError(f"{name} must be a 2-dimensional array.")
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    _fill_parameters(metric, kwargs, [a, b])
    found = _find_metric("cdist", metric, kwargs)
    return found(xp.expand_dims(a, 1), xp.expand_dims(b, 0))


@rule(f"{_NAME}.pdist", tensors="X kwargs")
def _pdist(X: Any, metric: Any, out: Any, **kwargs: Any) -> Any:
    """The distances between the points of a set, each pair once."""
    if out is not None:
        raise option_without_rule(f"{_NAME}.pdist", "out", type(out).__name__)
    x = xp.astype(as_tensor(X), np.float64)
    if x.ndim != 2:
        raise ValueError(f"A 2-dimensional array must be passed. (Shape was {x.shape}).")
    _fill_parameters(metric, kwargs, [x])
    first, second = np.triu_indices(x.shape[0], 1)
    return _find_metric("pdist", metric, kwargs)(x[first], x[second])


@rule(f"{_NAME}.squareform", tensors="X")
def _squareform(X: Any, force: str, checks: bool) -> Any:
    """A vector of distances as a symmetric matrix, or back, where the upper triangle is read."""
    x = as_tensor(X)
    values = all_values(x)
    sample = values.reshape(-1, *x.shape)[0] if values.size else np.zeros(x.shape)
    shape = np.shape(theirs.distance.squareform(sample, force, checks))  # raises as SciPy does
    if x.ndim == 2:
        return x[np.triu_indices(x.shape[0], 1)]
    upper = np.triu_indices(shape[0], 1)
    places = np.zeros(shape, int)
    places[upper] = np.arange(len(upper[0]))
    if not places.size or not len(upper[0]):
        return as_tensor(np.zeros(shape, x.dtype))
    return x[places + places.T] * (1 - np.eye(shape[0], dtype=x.dtype))


@rule(f"{_NAME}.directed_hausdorff", tensors="u v")
def _directed_hausdorff(u: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
    """The largest distance from a point of u to its nearest of v; the pair counts as constant."""
    find = theirs.distance.directed_hausdorff
    _, i, j = call_on_values(f"{_NAME}.directed_hausdorff", find, (u, v, *args), kwargs)
    return METRICS["euclidean"](as_tensor(u)[i], as_tensor(v)[j]), i, j


# --- trees ----------------------------------------------------------------------------------------


def _apart(tree: Any, points: Tensor, data: Tensor, index: Any) -> Any:
    """The differences of points from those that a query has found, shortest in a periodic box."""
    extra = index.ndim - (points.ndim - 1)
    x = xp.reshape(points, [*points.shape[:-1], *[1] * extra, points.shape[-1]])
    apart = x - gather(data, xp.minimum(index, data.shape[0] - 1))
    if tree.boxsize is None:
        return apart
    box = np.where(tree.boxsize > 0, tree.boxsize, np.inf)
    turns = xp.round(apart.detach() / box)
    return apart - turns * np.where(np.isinf(box), 0, box)


@rule("scipy.spatial.KDTree.query", tensors="x")
def _query(
    self: Any,
    x: Any,
    k: Any = 1,
    eps: float = 0.0,
    p: float = 2.0,
    distance_upper_bound: float = np.inf,
    workers: int = 1,
) -> Any:
    """Distances and indices of the nearest points; the indices count as constant."""
    points = as_floating(x)
    data = self._points if isinstance(self, KDTreeTensor) else as_tensor(np.asarray(self.data))

    def search(at: Any) -> Any:
        return theirs.cKDTree.query(self, at, k, eps, p, distance_upper_bound, workers)[1]

    found = call_on_values("scipy.spatial.KDTree.query", search, (points,), {})
    index = as_tensor(found)
    apart = _apart(self, points, data, index)
    options = {} if p == 2 else {"p": p}
    metric = METRICS["euclidean" if p == 2 else "minkowski"]
    far = metric(apart, xp.zeros_like(apart), **options)
    return xp.where(index == data.shape[0], as_tensor(np.inf), far), found


@class_rule("scipy.spatial.KDTree", tensors="data")
class KDTreeTensor(theirs.KDTree):  # type: ignore[misc]
    """A tree of points that are tensors: it searches among their values."""

    def __init__(self, data: Any, *args: Any, **kwargs: Any) -> None:
        self._points = as_floating(data)
        if levels_of(self._points):
            raise DerivativeMissingError(
                "scipy.spatial.KDTree: inside vmap there is one tree for each sample; use cdist"
            )
        super().__init__(raw(self._points), *args, **kwargs)

    @property
    def data(self) -> Any:
        """The points."""
        return self._points

    query = _query


_CONSTANT = "count_neighbors query_ball_point query_ball_tree query_pairs"
for _method in _CONSTANT.split():
    constant(f"scipy.spatial.KDTree.{_method}", "it counts and lists neighbours")
refused("scipy.spatial.KDTree.sparse_distance_matrix", "its pattern depends on the points")
for _metric in _COUNTING.split():
    if hasattr(theirs.distance, _metric):
        constant(f"{_NAME}.{_metric}", "it compares and counts")
