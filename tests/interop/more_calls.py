"""Calls of NumPy functions, continued: choosing, writing, mathematics, matrices, transforms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .calls import (
    CALLS,
    MASK,
    SPD,
    A,
    B,
    C,
    P,
    S,
    V,
    W,
    Z,
    calls,
    normal,
    written,
)

__all__ = ["CALLS"]

# --- choosing and writing ------------------------------------------------------------------------

calls("choose", (lambda a, b: np.choose([0, 1, 1, 0], [a, b]), V, W))
calls("choose", (lambda a, b: np.choose([0, 3, 1, 0], [a, b], mode="wrap"), V, W))
calls("compress", (lambda a: np.compress([True, False, True], a, axis=1), A))
calls("extract", (lambda a: np.extract(MASK, a), A))
calls("take", (lambda a: np.take(a, [2, 0, 2]), V), (lambda a: np.take(a, [[1]], axis=1), A))
calls("take", (lambda a: np.take(a, [5, -1], mode="clip"), V))
calls("take_along_axis", (lambda a: np.take_along_axis(a, np.argsort(a, 1), 1), A))
calls("where", (lambda a, b: np.where(a > b, a, b * 2), A, B))
calls("select", (lambda a: np.select([a > 1, a < 0], [a * a, -a], a * 3), V))
calls("piecewise", (lambda a: np.piecewise(a, [a < 0, a > 1], [lambda v: -v, 2.0, np.sin]), V))
calls("sort", (np.sort, A), (lambda a: np.sort(a, axis=0, kind="stable"), A))
calls("partition", (lambda a: np.sort(np.partition(a, 2)), V))
calls("sort_complex", (np.sort_complex, V + 0j))
calls("unique", (np.unique, V), (lambda a: np.unique(a, return_inverse=True)[0], V))
calls("unique", (lambda a: np.unique(a, axis=0), A))
for _name in ("unique_all", "unique_counts", "unique_inverse"):
    _f = getattr(np, _name)
    calls(_name, (lambda a, f=_f: f(a).values, V))
calls("unique_values", (lambda a: np.sort(np.unique_values(a)), V))
calls("union1d", (np.union1d, V, W))
calls("setxor1d", (np.setxor1d, V, W))
calls("setdiff1d", (np.setdiff1d, V, W))
calls("intersect1d", (lambda a: np.intersect1d(a, a[1:]), V))
calls("apply_along_axis", (lambda a: np.apply_along_axis(np.cumsum, 0, a), A))
calls("apply_along_axis", (lambda a: np.apply_along_axis(lambda v: v.sum(), 1, a), C))
calls("apply_over_axes", (lambda a: np.apply_over_axes(np.sum, a, (0, 2)), C))
calls("copyto", (written(lambda t, s: np.copyto(t, s)), A, normal(3)))
calls("copyto", (written(lambda t, s: np.copyto(t, s, where=MASK)), A, B))
calls("fill_diagonal", (written(lambda t, s: np.fill_diagonal(t, s)), S, np.array(0.7)))
calls("fill_diagonal", (written(lambda t, s: np.fill_diagonal(t, s)), S, normal(3)))
calls("place", (written(lambda t, s: np.place(t, MASK, s)), A, normal(2)))
calls("put", (written(lambda t, s: np.put(t, [0, 4], s)), A, normal(2)))
calls("put", (written(lambda t, s: np.put(t, [0, 4], [s[0], s[1] * 2])), A, normal(2)))
calls("putmask", (written(lambda t, s: np.putmask(t, MASK, s)), A, normal(4)))
calls(
    "put_along_axis",
    (written(lambda t, s: np.put_along_axis(t, np.array([[1], [0]]), s, 1)), A, B[:, :1]),
)
for _name in ("zeros_like", "ones_like"):
    _f = getattr(np, _name)
    calls(_name, (lambda a, f=_f: _filled(f(a), a), V))
calls("empty_like", (lambda a: _filled(np.empty_like(a), a), V))
calls(
    "full_like", (lambda a: np.full_like(a, a[0]), V), (lambda a, v: np.full_like(a, v), A, V[:3])
)


def _filled(target: Any, values: Any) -> Any:
    target[0] = 1.0
    target[1:] = values[1:] * 2
    return target


# --- mathematics ---------------------------------------------------------------------------------

calls("angle", (np.angle, Z), (lambda a: np.angle(a, deg=True), Z))
calls("real", (np.real, Z))
calls("imag", (np.imag, Z))
calls("real_if_close", (np.real_if_close, V + 0j))
for _name in ("round", "around"):
    _f = getattr(np, _name)
    calls(_name, (lambda a, f=_f: f(a, 1), V))


def _deprecated(name: str) -> Any:
    def call(*arrays: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return getattr(np, name)(*arrays)

    return call


for _name, _arrays in {"fix": (V,), "trapz": (V, np.cumsum(P))}.items():
    if hasattr(np, _name):  # until NumPy 2.4: trapz; since 2.5, fix is deprecated
        calls(_name, (_deprecated(_name), *_arrays))
calls("clip", (lambda a: np.clip(a, -0.5, 1.0), V), (lambda a, m: np.clip(a, m, None), V, W))
calls("clip", (lambda a: np.clip(a, a_min=0.0, a_max=1.0, out=np.zeros_like(a)), V))
calls("nan_to_num", (lambda a: np.nan_to_num(np.where(a > 0.5, a, np.nan), nan=2.0), V))
_HOLES = np.array([1.0, np.nan, np.inf, -np.inf])
_GAPS = np.array([complex(0.0, part) for part in _HOLES])
calls(
    "nan_to_num",
    (
        lambda a, n, p, m: np.nan_to_num(a + _HOLES, nan=n, posinf=p, neginf=m),
        *(V, np.array(0.5), np.array(9.0), np.array(-9.0)),
    ),
    (lambda a, n: np.nan_to_num(a + _GAPS, nan=n, posinf=1.0, neginf=0.0), V, np.array(0.5)),
    (lambda a, n: np.nan_to_num(a + _HOLES, copy=False, nan=n)[:2], V, np.array(0.5)),
)
calls("sinc", (np.sinc, V))
calls("i0", (np.i0, V))
calls("unwrap", (np.unwrap, 3 * V), (lambda p: np.unwrap(p, axis=0, period=2.0), 3 * A))
calls("unwrap", (lambda p, t: np.unwrap(p, period=t), 3 * V, np.array(1.9)))
calls("diff", (np.diff, V), (lambda a, b: np.diff(a, n=2, axis=0, prepend=b), A, B))
calls("ediff1d", (np.ediff1d, A), (lambda a, b: np.ediff1d(a, to_end=b, to_begin=b * 2), V, W))
calls("gradient", (np.gradient, V), (lambda a: np.gradient(a, 0.5, axis=1), A), (np.gradient, A))
calls("gradient", (lambda a, x: np.gradient(a, x, edge_order=2), V, np.cumsum(P)))
calls("interp", (lambda x, f: np.interp(x, [-1.0, 0.0, 1.0], f), V, W[:3]))
calls("interp", (lambda x, xp, f: np.interp(x, xp, f), V, np.array([-1.5, 0.1, 2.0]), W[:3]))
calls("interp", (lambda x, f: np.interp(x, [0.1, 0.4, 0.83], f, period=1.0), V, W[:3]))
calls(
    "interp", (lambda x, f, b: np.interp(x, [0.0, 0.5, 1.0], f, b, b * 2), V, W[:3], np.array(0.3))
)
calls("linspace", (lambda a, b: np.linspace(a, b, 5), np.array(0.5), np.array(2.0)))
calls("linspace", (lambda a, b: np.linspace(a, b, 3, endpoint=False, axis=1, retstep=True), V, W))
calls("logspace", (lambda a, b: np.logspace(a, b, 4, base=2.0), np.array(0.5), np.array(2.0)))
calls("geomspace", (lambda a, b: np.geomspace(a, b, 4), np.array(0.5), np.array(2.0)))

# --- products and polynomials --------------------------------------------------------------------

for _name in ("dot", "inner", "outer", "vdot", "kron", "convolve", "correlate"):
    _f = getattr(np, _name)
    calls(_name, (_f, V, W), (lambda a, f=_f: f(a, np.ones(4)), V))
calls("dot", (lambda a, b: np.dot(b=b, a=a), A, S))
calls("kron", (np.kron, A, B))
calls("convolve", (lambda a, v: np.convolve(a, v, mode="same"), V, W[:3]))
calls("correlate", (lambda a, v: np.correlate(a, v, mode="full"), V, W[:3]))
calls("cross", (np.cross, A, B), (lambda a, b: np.cross(a, b, axis=0), A.T, B.T))
calls("tensordot", (np.tensordot, A, B), (lambda a, b: np.tensordot(a, b, axes=([1], [1])), A, B))
calls("trace", (np.trace, S), (lambda a: np.trace(a, offset=1), S))
calls(
    "einsum", (lambda a, b: np.einsum("ij,kj->ik", a, b), A, B), (lambda a: np.einsum("ii", a), S)
)
calls("einsum", (lambda a, b: np.einsum("ij,jk,kl", a, b, b, optimize=True), A, S))
calls("vander", (np.vander, V), (lambda a: np.vander(a, N=3, increasing=True), V))
calls("poly", (np.poly, V), (np.poly, S))
calls("polyadd", (np.polyadd, V, W[:2]))
calls("polysub", (np.polysub, V[:2], W))
calls("polymul", (np.polymul, V, W[:2]))
calls("polydiv", (np.polydiv, V, W[:2]))
calls("polyder", (np.polyder, V), (lambda p: np.polyder(p, 2), V))
calls("polyint", (np.polyint, V), (lambda p, k: np.polyint(p, 2, k), V, W[:2]))
calls("polyval", (np.polyval, V, W), (lambda x: np.polyval([1.0, 2.0, 3.0], x), V))
calls("polyfit", (lambda x, y: np.polyfit(x, y, 1), V, W))
calls("polyfit", (lambda x, y, w: np.polyfit(x, y, 1, w=w, cov=True), V, W, P))
calls("polyfit", (lambda x, y: np.polyfit(x, y, 2), V, normal(4, 2)))
calls(
    "roots",
    (np.roots, np.array([1.0, -6.0, 11.0, -6.1])),
    (lambda p: np.roots(np.append(np.append(0.0, p), 0.0)), W),
)

# --- linear algebra and transforms ---------------------------------------------------------------

L = np.linalg
calls("linalg.cholesky", (lambda a: L.cholesky(a @ a.T + np.eye(3)), S))
calls("linalg.cholesky", (lambda a: L.cholesky(a @ a.T + np.eye(3), upper=True), S))
calls("linalg.cond", (L.cond, S), (lambda a: L.cond(a, "fro"), S))
calls("linalg.cross", (L.cross, A, B))
calls("linalg.det", (L.det, S))
calls("linalg.diagonal", (L.diagonal, C), (lambda a: L.diagonal(a, offset=1), C))
calls("linalg.eig", (lambda a: np.sort(np.real(L.eig(a + a.T).eigenvalues)), S))
calls("linalg.eigh", (lambda a: L.eigh(a @ a.T).eigenvalues, S))
calls("linalg.eigh", (lambda a: L.eigh(a @ a.T, UPLO="U")[1] ** 2, S))
calls("linalg.eigvals", (lambda a: np.sort(np.real(L.eigvals(a + a.T))), S))
calls("linalg.eigvalsh", (lambda a: L.eigvalsh(a + a.T), S))
calls("linalg.inv", (L.inv, S), (lambda a: L.inv(a=a), S))
calls("linalg.lstsq", (lambda a, b: L.lstsq(a, b, rcond=None)[0], normal(4, 2), V))
calls("linalg.matmul", (L.matmul, A, S))
calls("linalg.matrix_norm", (L.matrix_norm, A), (lambda a: L.matrix_norm(a, ord="nuc"), A))
calls(
    "linalg.matrix_power", (lambda a: L.matrix_power(a, 3), S), (lambda a: L.matrix_power(a, -1), S)
)
calls("linalg.matrix_transpose", (L.matrix_transpose, C))
calls("linalg.multi_dot", (lambda a, b: L.multi_dot([a, b, b]), A, S))
calls("linalg.norm", (L.norm, A), (lambda a: L.norm(a, 1, axis=0, keepdims=True), A))
calls("linalg.outer", (L.outer, V, W))
calls("linalg.pinv", (L.pinv, A), (lambda a: L.pinv(a, rtol=1e-10), A))
calls("linalg.qr", (lambda a: L.qr(a), S), (lambda a: L.qr(a, mode="r"), S))
calls("linalg.slogdet", (lambda a: L.slogdet(a), S))
calls("linalg.solve", (L.solve, S, normal(3)), (lambda b: L.solve(SPD, b), normal(3, 2)))
calls("linalg.svd", (lambda a: L.svd(a, compute_uv=False), A))
calls("linalg.svd", (lambda a: L.svd(a, full_matrices=False)[0] ** 2, A))
calls("linalg.svdvals", (L.svdvals, A))
calls("linalg.tensordot", (lambda a, b: L.tensordot(a, b, axes=1), A, S))
calls("linalg.tensorinv", (lambda a: L.tensorinv(a.reshape(3, 3), ind=1), S))
calls("linalg.tensorsolve", (lambda a, b: L.tensorsolve(a, b), S, normal(3)))
calls("linalg.trace", (L.trace, S), (lambda a: L.trace(a, offset=1), S))
calls("linalg.vecdot", (L.vecdot, A, B))
calls("linalg.vector_norm", (L.vector_norm, A), (lambda a: L.vector_norm(a, ord=3, axis=1), A))

for _name in ("fft", "ifft", "rfft", "hfft", "ihfft", "irfft"):
    _f = getattr(np.fft, _name)
    calls(
        f"fft.{_name}",
        (_f, V),
        (lambda a, f=_f: f(a, n=5, axis=0, norm="ortho"), A),
    )
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _f = getattr(np.fft, _name)
    calls(f"fft.{_name}", (_f, A), (lambda a, f=_f: f(a, s=(2, 4), axes=(0, 1)), A))
for _name in ("fftshift", "ifftshift"):
    _f = getattr(np.fft, _name)
    calls(f"fft.{_name}", (_f, V), (lambda a, f=_f: f(a, 1), A))
