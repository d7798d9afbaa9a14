"""One call or more of every NumPy function that is differentiable on tensors.

Each entry is a function of arrays, written with NumPy only. The tests run it on arrays, which gives
the reference, and on tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = tuple[Callable[..., Any], tuple[Any, ...]]

CALLS: dict[str, list[Call]] = {}

_random = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return _random.normal(size=shape)


def positive(*shape: int) -> Any:
    return _random.uniform(0.5, 1.5, size=shape)


V, W = np.array([0.3, -1.2, 2.5, 0.9]), np.array([1.1, 0.4, -0.7, 2.2])
A, B = normal(2, 3), normal(2, 3)
S = normal(3, 3) + 3 * np.eye(3)
C = normal(2, 3, 4)
P = positive(4)
Z = normal(3, 3) + 1j * normal(3, 3)
SPD = S @ S.T + np.eye(3)
HOLES = np.array([[1.0, np.nan, 3.0], [0.5, 2.5, np.nan]])
MASK = np.array([[True, False, True], [True, True, False]])


def calls(name: str, *entries: Any) -> None:
    """Adds calls: a function, and the arrays that it is called on."""
    CALLS.setdefault(name, []).extend((entry[0], entry[1:]) for entry in entries)


def written(write: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes, on a copy."""

    def call(a: Any, *rest: Any) -> Any:
        target = np.copy(a)
        assert write(target, *rest) is None
        return target

    return call


# --- reductions ----------------------------------------------------------------------------------

for _name in ("sum", "prod", "max", "min", "amax", "amin"):
    _f = getattr(np, _name)
    calls(
        _name,
        (lambda a, f=_f: f(a), A),
        (lambda a, f=_f: f(a, axis=1, keepdims=True), A),
        (lambda a, f=_f: f(a=a, axis=(0, 1)), A),
        (lambda a, i, f=_f: f(a, axis=0, initial=i, where=MASK), A, np.array(0.25)),
        (lambda a, f=_f: f(a, 0, out=np.zeros_like(a[0])), A),
    )
calls("sum", (lambda a: np.sum(a, dtype=np.complex128), A))
calls("prod", (lambda a: np.prod(a, axis=1), A * np.array([1, 0, 1])))
calls("max", (lambda a, i: np.max(a, axis=0, initial=i), np.zeros((0, 2)), np.array(2.0)))
for _name in ("mean", "std", "var", "nanmean", "nanstd", "nanvar", "nansum", "nanprod"):
    _f = getattr(np, _name)
    calls(
        _name,
        (lambda a, f=_f: f(a), A),
        (lambda a, f=_f: f(a, axis=0, keepdims=True), A),
        (lambda a, f=_f: f(a, axis=1, where=MASK), A),
        (lambda a, f=_f: f(a, dtype=np.float64, axis=-1), A),
    )
    if _name.startswith("nan"):
        calls(_name, (lambda a, f=_f: f(a, axis=1), HOLES), (lambda a, f=_f: f(a), HOLES))
for _name in ("std", "var", "nanstd", "nanvar"):
    _f = getattr(np, _name)
    calls(
        _name,
        (lambda a, f=_f: f(a, ddof=1), V),
        (lambda a, f=_f: f(a, axis=1, correction=1), A),
        (lambda a, f=_f: f(a, axis=1, mean=np.mean(a, axis=1, keepdims=True)), A),
        (lambda a, m, f=_f: f(a, mean=m), V, np.array([0.1])),
    )
for _name in ("nanmax", "nanmin"):
    _f = getattr(np, _name)
    calls(
        _name,
        (lambda a, f=_f: f(a), HOLES),
        (lambda a, f=_f: f(a, axis=0), HOLES),
        (lambda a, i, f=_f: f(a, axis=1, initial=i, where=MASK), HOLES, np.array(0.75)),
    )
calls("ptp", (np.ptp, A), (lambda a: np.ptp(a, axis=0, keepdims=True), A))
calls(
    "average",
    (np.average, A),
    (lambda a, w: np.average(a, axis=1, weights=w), A, positive(3)),
    (lambda a, w: np.average(a, weights=w, returned=True), A, positive(2, 3)),
    (lambda a, w: np.average(a, axis=1, weights=w, returned=True), A, positive(3)),
    (lambda a: np.average(a, axis=0, returned=True, keepdims=True), A),
)
for _name in ("median", "nanmedian"):
    _f = getattr(np, _name)
    calls(_name, (_f, V), (lambda a, f=_f: f(a, axis=1, keepdims=True), A))
calls("nanmedian", (lambda a: np.nanmedian(a, axis=1), HOLES))
for _name, _whole in (("quantile", 1), ("percentile", 100)):
    for _prefix in ("", "nan"):
        _f = getattr(np, _prefix + _name)
        calls(
            _prefix + _name,
            (lambda a, q, f=_f: f(a, q), V, np.array(0.37 * _whole)),
            (lambda a, q, f=_f: f(a, q, axis=1), A, np.array([0.21, 0.68]) * _whole),
            (lambda a, f=_f, w=_whole: f(a, 0.3 * w, axis=0, method="hazen", keepdims=True), A),
            (
                lambda a, f=_f, w=_whole: f(
                    a, [0.2 * w, 0.6 * w], weights=P, method="inverted_cdf"
                ),
                V,
            ),
        )
calls(
    "quantile",
    (lambda a: np.quantile(a, [0.2, 0.7], 1, weights=np.ones(3), method="inverted_cdf"), A),
)
for _name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
    _f = getattr(np, _name)
    calls(_name, (_f, A), (lambda a, f=_f: f(a, axis=1), A), (lambda a, f=_f: f(a, 0, float), A))
for _name in ("cumulative_sum", "cumulative_prod"):
    if hasattr(np, _name):
        _f = getattr(np, _name)
        calls(_name, (_f, V), (lambda a, f=_f: f(a, axis=1, include_initial=True), A))
calls("trapezoid", (np.trapezoid, V), (np.trapezoid, V, np.cumsum(P)))
calls("trapezoid", (lambda y: np.trapezoid(y, dx=0.5, axis=0), A))
calls(
    "cov",
    (np.cov, A),
    (lambda x, y: np.cov(x, y, rowvar=False, ddof=0), V, W),
    (lambda x: np.cov(x, aweights=[1.0, 2.0, 0.5]), A),
)
calls("corrcoef", (np.corrcoef, A), (np.corrcoef, V, W))
calls(
    "histogram",
    (lambda a, w: np.histogram(a, bins=3, weights=w), V, P),
    (lambda a, w: np.histogram(a, [-2.0, 0.0, 1.0, 3.0], weights=w, density=True), V, P),
    (lambda a: np.histogram(a, 4), V),
    (lambda a: np.histogram(a, "sturges"), V),
    (lambda a: np.histogram(a, 4, range=(-1.0, 2.0), density=True), V),
)
calls("histogram_bin_edges", (lambda a: np.histogram_bin_edges(a, 3), V))
calls(
    "histogram2d",
    (lambda x, y, w: np.histogram2d(x, y, bins=(2, 3), weights=w), V, W, P),
    (lambda x, y: np.histogram2d(x, y, bins=2, density=True), V, W),
)
calls("histogramdd", (lambda s, w: np.histogramdd(s, bins=2, weights=w), normal(5, 2), positive(5)))
calls("bincount", (lambda w: np.bincount([0, 2, 2, 1], weights=w, minlength=5), P))

# --- shapes --------------------------------------------------------------------------------------

for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    _f = getattr(np, _name)
    calls(_name, (_f, V), (_f, V, A))
calls("array_split", (lambda a: np.array_split(a, 3), V))
calls("split", (lambda a: np.split(a, [1, 3]), V), (lambda a: np.split(a, 3, axis=1), A))
calls("hsplit", (lambda a: np.hsplit(a, 3), A))
calls("vsplit", (lambda a: np.vsplit(a, 2), A))
calls("dsplit", (lambda a: np.dsplit(a, 2), C))
calls("broadcast_arrays", (lambda a, b: np.broadcast_arrays(a, b), A, np.array([[0.5], [1.5]])))
calls("broadcast_to", (lambda a: np.broadcast_to(a, (2, 4)), V))
for _name in ("concat", "concatenate"):
    _f = getattr(np, _name)
    calls(
        _name,
        (lambda a, b, f=_f: f([a, b]), A, B),
        (lambda a, f=_f: f((a, [[7.0], [8.0]]), axis=1), A),
        (lambda a, f=_f: f([[a[0]], a, [2 * a[1], 1.0]]), V),
        (lambda a, b, f=_f: f([a, b], axis=None, dtype=np.float64), A, B),
    )
for _name in ("stack", "hstack", "vstack", "dstack", "column_stack"):
    _f = getattr(np, _name)
    calls(_name, (lambda a, b, f=_f: f([a, b]), V, W), (lambda a, f=_f: f([a, np.ones(4)]), V))
calls("stack", (lambda a, b: np.stack([a, b], axis=-1), A, B))
calls("diag", (np.diag, S), (lambda a: np.diag(a, 1), V))
calls("diagflat", (np.diagflat, V))
calls("diagonal", (np.diagonal, S), (lambda a: np.diagonal(a, 1, 0, 2), C))
calls("expand_dims", (lambda a: np.expand_dims(a, (0, 2)), V))
calls("flip", (np.flip, A), (lambda a: np.flip(m=a, axis=1), A))
calls("fliplr", (np.fliplr, A))
calls("flipud", (np.flipud, A))
if hasattr(np, "matrix_transpose"):
    calls("matrix_transpose", (np.matrix_transpose, C))
calls("meshgrid", (lambda x, y: np.meshgrid(x, y), V, W))
calls("meshgrid", (lambda x, y: np.meshgrid(x, y, indexing="ij", sparse=True), V, W))
calls("ix_", (lambda x, y: np.ix_(x, y), V, W), (lambda x: np.ix_(x, [1, 2], [True, False]), V))
calls("moveaxis", (lambda a: np.moveaxis(a, 0, -1), C))
calls("permute_dims", (lambda a: np.permute_dims(a, (2, 0, 1)), C))
calls("ravel", (np.ravel, A), (lambda a: np.ravel(a, order="F"), A))
calls("repeat", (lambda a: np.repeat(a, 2), V), (lambda a: np.repeat(a, [1, 2, 0], axis=1), A))
calls("reshape", (lambda a: np.reshape(a, (3, -1)), A), (lambda a: np.reshape(a, 6, order="F"), A))
calls("resize", (lambda a: np.resize(a, (3, 3)), V))
calls("roll", (lambda a: np.roll(a, 1), V), (lambda a: np.roll(a, (1, 2), (0, 1)), A))
calls("rollaxis", (lambda a: np.rollaxis(a, 2), C))
calls("rot90", (np.rot90, A), (lambda a: np.rot90(a, 3, (1, 2)), C))
calls("squeeze", (lambda a: np.squeeze(a[None]), V), (lambda a: np.squeeze(a[:, None], 1), V))
calls("swapaxes", (lambda a: np.swapaxes(a, 0, 2), C))
calls("tile", (lambda a: np.tile(a, (2, 2)), V))
calls("transpose", (np.transpose, C), (lambda a: np.transpose(a, (1, 0, 2)), C))
calls("tril", (np.tril, S), (lambda a: np.tril(a, -1), S))
calls("triu", (np.triu, S), (lambda a: np.triu(m=a, k=1), S))
if hasattr(np, "unstack"):
    calls("unstack", (np.unstack, A), (lambda a: np.unstack(a, axis=1), A))
calls("copy", (np.copy, A))
calls("astype", (lambda a: np.astype(a, np.complex128), A))
calls("append", (np.append, V, W), (lambda a, b: np.append(a, b, axis=0), A, B))
calls("block", (lambda a, b: np.block([[a, b], [b, a]]), S, S + 1), (lambda a: np.block([a, 1]), V))
calls("delete", (lambda a: np.delete(a, 1), V), (lambda a: np.delete(a, [0, 2], axis=1), A))
calls("insert", (lambda a, v: np.insert(a, 1, v), V, np.array(0.5)))
calls("insert", (lambda a, v: np.insert(arr=a, obj=[0, 2], values=v, axis=1), A, normal(2, 2)))
for _mode in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean", "maximum"):
    calls("pad", (lambda a, mode=_mode: np.pad(a, ((1, 2), (2, 1)), mode=mode), S))
calls(
    "pad",
    (lambda a, c: np.pad(a, 1, constant_values=c), A, np.array(0.7)),
    (lambda a, c: np.pad(a, (1, 2), constant_values=(c, 2.0)), V, np.array(0.7)),
    (lambda a, c: np.pad(a, 1, constant_values=c), A, normal(2, 2)),
    (lambda a, c: np.pad(a, 2, "linear_ramp", end_values=((c[0], c[1]), (0, c[2]))), A, W),
    (lambda a: np.pad(a, 2, "median", stat_length=2), A),
)
calls("trim_zeros", (lambda a: np.trim_zeros(np.append(np.append([0.0, 0.0], a), 0.0)), V))
calls("trim_zeros", (lambda a: np.trim_zeros(np.append(0.0, a), "b"), V))
