"""Special matrices of ``scipy.linalg``: elements of the arguments in chosen places."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as sl

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import rule
from pullback.scipy.rules.linalg_bands import toeplitz_values
from pullback.scipy.rules.linalg_tools import from_diagonal, pad_zeros
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__: list[str] = []


@rule("scipy.linalg.block_diag", tensors="arrs")
def _block_diag(*arrs: Any) -> Any:
    """A block diagonal matrix."""
    blocks = [as_tensor(a) for a in arrs] or [as_tensor([])]
    blocks = [xp.reshape(a, [1, -1]) if a.ndim < 2 else a for a in blocks]
    if any(a.ndim > 2 for a in blocks):
        lead = np.broadcast_shapes(*[a.shape[:-2] for a in blocks])
        blocks = [xp.broadcast_to(a, [*lead, *a.shape[-2:]]) for a in blocks]
    width, before, rows = sum(a.shape[-1] for a in blocks), 0, []
    for a in blocks:
        rows.append(pad_zeros(a, before, width - before - a.shape[-1], -1))
        before += a.shape[-1]
    return xp.concatenate(rows, -2)


def _flat(x: Any) -> Any:
    x = as_tensor(x)
    return xp.reshape(x, [-1]) if x.ndim == 0 else x


@rule("scipy.linalg.toeplitz", tensors="c r")
def _toeplitz(c: Any, r: Any) -> Any:
    """A matrix with constant diagonals."""
    c = _flat(c)
    r = xp.conj(c) if r is None else _flat(r)
    rows, columns = c.shape[-1], r.shape[-1]
    place = np.arange(rows)[:, None] - np.arange(columns) + columns - 1
    if c.ndim == 1 and r.ndim == 1:
        return toeplitz_values(c, r)[place]
    values = xp.concatenate([xp.flip(r[..., 1:], -1), c], -1)
    return values[..., place]


@rule("scipy.linalg.circulant", tensors="c")
def _circulant(c: Any) -> Any:
    """A circulant matrix, by its first column."""
    c, n = _flat(c), _flat(c).shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@rule("scipy.linalg.hankel", tensors="c r")
def _hankel(c: Any, r: Any) -> Any:
    """A matrix with constant antidiagonals."""
    c = xp.reshape(as_tensor(c), [-1])
    r = xp.zeros_like(c) if r is None else xp.reshape(as_tensor(r), [-1])
    values = xp.concatenate([c, r[1:]], 0)
    return values[np.arange(c.shape[0])[:, None] + np.arange(r.shape[0])]


@rule("scipy.linalg.kron", tensors="a b")
def _kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    return xp.kron(as_tensor(a), as_tensor(b))


@rule("scipy.linalg.khatri_rao", tensors="a b")
def _khatri_rao(a: Any, b: Any) -> Any:
    """The Kronecker products of columns."""
    a, b = as_tensor(a), as_tensor(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        sl.khatri_rao(np.zeros(a.shape), np.zeros(b.shape))  # raises
    product = xp.expand_dims(a, 1) * xp.expand_dims(b, 0)
    return xp.reshape(product, [-1, a.shape[1]])


@rule("scipy.linalg.companion", tensors="a")
def _companion(a: Any) -> Any:
    """The companion matrix of a polynomial."""
    a = as_tensor(a)
    if a.ndim != 1 or a.shape[0] < 2 or not _first_is_nonzero(a):
        sl.companion(np.zeros(a.shape))  # raises
    n = a.shape[0] - 1
    return xp.concatenate([(-a[1:] / a[0])[None], as_tensor(np.eye(n - 1, n, dtype=a.dtype))], 0)


def _first_is_nonzero(a: Tensor) -> bool:
    array = a._array
    return isinstance(array, Payload) or bool(array[0] != 0)


@rule("scipy.linalg.fiedler", tensors="a")
def _fiedler(a: Any) -> Any:
    """The matrix of absolute differences."""
    a = as_tensor(a)
    return xp.abs(xp.expand_dims(a, -1) - xp.expand_dims(a, -2))


def _placed(values: Tensor, rows: Any, columns: Any, n: int) -> Any:
    """A matrix with the elements of a vector in chosen places."""
    places = np.zeros((values.shape[0], n, n))
    places[np.arange(values.shape[0]), rows, columns] = 1
    return xp.tensordot(values, as_tensor(places.astype(values.dtype)), 1)


@rule("scipy.linalg.fiedler_companion", tensors="a")
def _fiedler_companion(a: Any) -> Any:
    """The pentadiagonal companion matrix of a polynomial."""
    a = as_tensor(a)
    if a.ndim != 1 or a.shape[0] <= 2:
        return as_tensor(sl.fiedler_companion(a.detach().numpy()))
    ratio, n = a / a[0], a.shape[0] - 1
    ones = sl.fiedler_companion(np.concatenate([[1.0], np.zeros(n)]))
    # The places of the coefficients, from a polynomial whose coefficients are all different.
    marked = sl.fiedler_companion(np.concatenate([[1.0], np.arange(2.0, n + 2)]))
    rows, columns = zip(*[np.argwhere(marked == -(i + 1))[0] for i in range(1, n + 1)], strict=True)
    return _placed(-ratio[1:], rows, columns, n) + as_tensor(ones.astype(a.dtype))


@rule("scipy.linalg.leslie", tensors="f s")
def _leslie(f: Any, s: Any) -> Any:
    """A Leslie matrix: fecundities in the first row, survival below the diagonal."""
    f, s = as_tensor(f), as_tensor(s)
    if f.shape[-1] != s.shape[-1] + 1 or s.shape[-1] == 0:
        sl.leslie(np.zeros(f.shape), np.zeros(s.shape))  # raises
    below = pad_zeros(from_diagonal(s), 0, 1, -1)
    return xp.concatenate([xp.expand_dims(f, -2), below], -2)


@rule("scipy.linalg.convolution_matrix", tensors="a")
def _convolution_matrix(a: Any, n: int, mode: str) -> Any:
    """The Toeplitz matrix whose product with a vector is a convolution."""
    a = as_tensor(a)
    m = a.shape[-1]
    if n <= 0 or a.ndim != 1 or m == 0 or mode not in ("full", "valid", "same"):
        sl.convolution_matrix(np.zeros(a.shape), n, mode)  # raises
    place = np.arange(m + n - 1)[:, None] - np.arange(n)
    whole = a[np.clip(place, 0, m - 1)] * ((place >= 0) & (place < m))
    if mode == "full":
        return whole
    short = min(m, n)
    trim = short - 1 if mode == "valid" else (short - 1) // 2
    rows = max(m, n) - short + 1 if mode == "valid" else max(m, n)
    return whole[trim : trim + rows]
