"""Lengths of vectors and distances between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.kernels.masked_select import refuse_complex

__all__ = ["Array", "euclidean", "length"]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any

_EXACT = 32  # up to so many coordinates, differences cost no more than products


def length(x: Array, ord: float, axis: int) -> Array:
    """The norm of order `ord` along an axis, which is kept."""
    refuse_complex("norms along an axis, as in normalize and pairwise_distance", x)
    if ord == 2:
        return np.sqrt(np.add.reduce(x * x, axis=axis, keepdims=True))
    size = np.abs(x)
    if ord == 1:
        return np.asarray(np.add.reduce(size, axis=axis, keepdims=True))
    if ord == np.inf:
        return np.asarray(size.max(axis=axis, keepdims=True))
    if ord == -np.inf:
        return np.asarray(size.min(axis=axis, keepdims=True))
    if ord == 0:
        return np.asarray((size != 0).sum(axis=axis, keepdims=True)).astype(size.dtype)
    return np.asarray(np.add.reduce(size**ord, axis=axis, keepdims=True) ** (1 / ord))


def euclidean(x: Array, y: Array) -> Array:
    """The distance of each row of (..., P, M) to each row of (..., R, M), as (..., P, R)."""
    refuse_complex("cdist", x, y)
    if x.shape[-1] <= _EXACT:
        return np.sqrt(_by_differences(x, y))
    return np.sqrt(_by_products(x, y))


def _by_differences(x: Array, y: Array) -> Array:
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    total = np.zeros((*lead, x.shape[-2], y.shape[-2]), np.result_type(x, y))
    for m in range(x.shape[-1]):
        gap = x[..., :, np.newaxis, m] - y[..., np.newaxis, :, m]
        total += gap * gap
    return total


def _by_products(x: Array, y: Array) -> Array:
    """Squares of sums, multiplied out; near points are done again, because they cancel."""
    x_square = np.einsum("...i,...i->...", x, x)[..., :, np.newaxis]
    y_square = np.einsum("...i,...i->...", y, y)[..., np.newaxis, :]
    scale = x_square + y_square
    total = np.asarray(scale - 2 * np.matmul(x, y.swapaxes(-1, -2)))
    near = np.nonzero(total < 1e-3 * scale)
    if near[0].size:
        gap = _rows(x, near[:-2], near[-2]) - _rows(y, near[:-2], near[-1])
        total[near] = np.einsum("ij,ij->i", gap, gap)
    return total


def _rows(x: Array, lead: tuple[Array, ...], row: Array) -> Array:
    """Rows of a stack of matrices that may have been broadcast."""
    own = lead[len(lead) - (x.ndim - 2) :]
    numbers = tuple(i if n > 1 else 0 for i, n in zip(own, x.shape[:-2], strict=True))
    return x[(*numbers, row)]
