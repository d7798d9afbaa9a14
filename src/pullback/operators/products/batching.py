"""Rules of products: matrices, vectors, Einstein sums; and of what works along one or two axes.

An unbatched factor is multiplied with the whole batch by one matrix product.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pullback.kernels.batch_axes import (
    Array,
    Rule,
    batch_of,
    flat,
    is_constant,
    padded,
    shifted,
)
from pullback.kernels.threads import get_num_threads, share
from pullback.operators.products import kernels as plain

__all__ = ["RULES", "matmul"]

_THIN = 16  # columns; a product with a matrix of so few rows takes as long as writing it
_ALONE = 1 << 18  # multiplications; more of them OpenBLAS has its own threads share
_SHARE = 1 << 18  # elements of a thin product that are worth a thread


def _one(k: int, x: Array) -> Array:
    """An unbatched array without its batch dimensions."""
    return x.reshape(x.shape[k:])


def _with_one_matrix(a: Array, b: Array) -> Array:
    """The products of many matrices or rows with one matrix or column."""
    lead = a.shape[:-1]
    # One large product takes a third of the time of many small ones, and the method half of what
    # np.matmul takes where it is small.
    rows = a.reshape(prod(lead), a.shape[-1])
    found = _of_thin(rows, b) if len(b) <= _THIN and b.ndim == 2 else rows.dot(b)
    return found.reshape(lead + b.shape[1:])


def _of_thin(a: Array, b: Array) -> Array:
    """The product with a matrix of few rows, which threads share.

    Those of OpenBLAS wait for each other in a busy loop, which costs many times the product itself
    where other work has the second processor; ours take stretches that it leaves to one thread.
    """
    size = len(a) * b.shape[1]
    workers = min(get_num_threads(), size // _SHARE)
    if workers < 2 or not b.size or a.dtype is not b.dtype:
        return a.dot(b)
    result = np.empty((len(a), b.shape[1]), a.dtype)
    step = max(1, _ALONE // b.size)

    def run(start: int, end: int) -> None:
        for low in range(start, end, step):
            high = min(low + step, end)
            np.matmul(a[low:high], b, result[low:high])

    share(run, len(a), workers)
    return result


def matmul(k: int, a: Array, b: Array) -> Array:
    """The product of matrices; vectors stand for one row or column."""
    rows, columns = a.ndim - k, b.ndim - k
    if rows > 1 and columns == 2 and a.shape[-1] == b.shape[-2]:
        if b.shape[:k] == (1,) * k:
            return _with_one_matrix(a, b[(0,) * k])
        if rows == 2:
            return np.matmul(a, b)
    if not rows or not columns or a.shape[-1] != b.shape[k if columns == 1 else -2]:
        return plain.matmul(np.empty(a.shape[k:]), np.empty(b.shape[k:]))  # says what is wrong
    if columns <= 2 and is_constant(b, k):
        return _with_one_matrix(a, _one(k, b))
    if rows == 2 and columns == 1 and is_constant(a, k):
        vectors = b.reshape(prod(b.shape[:k]), b.shape[-1])
        return np.matmul(vectors, _one(k, a).T).reshape(*b.shape[:k], a.shape[-2])
    left = a[..., np.newaxis, :] if rows == 1 else a
    right = b[..., np.newaxis] if columns == 1 else b
    left, right = padded(k, left, right)
    found = np.matmul(left, right)
    if rows == 1:
        found = found[..., 0, :]
        return found[..., 0] if columns == 1 else found
    return found[..., 0] if columns == 1 else found


def _dot(k: int, a: Array, b: Array) -> Array:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return np.multiply(a, b)
    rows, columns = a.ndim - k, b.ndim - k
    if rows == columns == 2 and a.shape[-1] == b.shape[-2] and not is_constant(b, k):
        return np.matmul(a, b)
    if not rows or not columns:
        a, b = padded(k, a, b)
        return np.multiply(a, b)
    if rows <= 2 and columns <= 2:
        return matmul(k, a, b)
    return _tensordot(k, a, b, [rows - 1], [max(0, columns - 2)])


def _vecdot(k: int, a: Array, b: Array, *, axis: int) -> Array:
    a, b = (np.moveaxis(x, shifted(k, x.ndim - k, axis), -1) for x in (a, b))
    a, b = padded(k, a, b)
    return np.vecdot(a, b)


def _cross(k: int, a: Array, b: Array, *, axis: int) -> Array:
    a, b = (np.moveaxis(x, shifted(k, x.ndim - k, axis), -1) for x in (a, b))
    a, b = padded(k, a, b)
    found = plain.cross(a, b, axis=-1)
    return np.moveaxis(found, -1, shifted(k, found.ndim - k, axis))


def _outer(k: int, a: Array, b: Array) -> Array:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        a, b = (x if isinstance(x, np.ndarray) else np.full((1,) * k, x) for x in (a, b))
    return flat(k, a)[..., :, np.newaxis] * flat(k, b)[..., np.newaxis, :]


def _tensordot(k: int, a: Array, b: Array, axes_a: Sequence[int], axes_b: Sequence[int]) -> Array:
    axes_a = normalize_axis_tuple(axes_a, a.ndim - k)
    axes_b = normalize_axis_tuple(axes_b, b.ndim - k)
    if is_constant(b, k):
        return plain.tensordot(a, _one(k, b), [k + i for i in axes_a], axes_b)
    if is_constant(a, k):
        found = plain.tensordot(_one(k, a), b, axes_a, [k + i for i in axes_b])
        kept = a.ndim - k - len(axes_a)
        return np.moveaxis(found, range(kept, kept + k), range(k))
    free_a = [i for i in range(a.ndim - k) if i not in axes_a]
    free_b = [i for i in range(b.ndim - k) if i not in axes_b]
    shape_a, shape_b = ([x.shape[k + i] for i in free] for x, free in ((a, free_a), (b, free_b)))
    summed = prod(a.shape[k + i] for i in axes_a)
    if [a.shape[k + i] for i in axes_a] != [b.shape[k + i] for i in axes_b]:
        plain.tensordot(np.empty(a.shape[k:]), np.empty(b.shape[k:]), axes_a, axes_b)
    left = a.transpose(*range(k), *(k + i for i in (*free_a, *axes_a)))
    right = b.transpose(*range(k), *(k + i for i in (*axes_b, *free_b)))
    found = np.matmul(
        left.reshape(*a.shape[:k], prod(shape_a), summed),
        right.reshape(*b.shape[:k], summed, prod(shape_b)),
    )
    return found.reshape(*found.shape[:k], *shape_a, *shape_b)


def _einsum(k: int, subscripts: str, operands: Sequence[Array], *, optimize: bool = False) -> Array:
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    free = [letter for letter in string.ascii_letters if letter not in subscripts][:k]
    batch = batch_of(k, *operands)
    terms, arrays = [], []
    for term, x in zip(inputs.split(","), operands, strict=True):
        varies = [x.shape[axis] == batch[axis] for axis in range(k)]
        arrays.append(x.reshape([n for axis, n in enumerate(x.shape) if axis >= k or varies[axis]]))
        prefix = "".join(letter for letter, own in zip(free, varies, strict=True) if own)
        terms.append(prefix + term)
    return plain.einsum(f"{','.join(terms)}->{''.join(free)}{output}", arrays, optimize=optimize)


def _trace(k: int, x: Array, offset: int, axis1: int, axis2: int, dtype: Any = None) -> Array:
    ndim = x.ndim - k
    return plain.trace(x, offset, shifted(k, ndim, axis1), shifted(k, ndim, axis2), dtype)


RULES: dict[str, Rule] = {
    "matmul": matmul,
    "dot": _dot,
    "vecdot": _vecdot,
    "linalg_cross": _cross,
    "outer": _outer,
    "_tensordot": _tensordot,
    "_einsum": _einsum,
    "trace": _trace,
}
