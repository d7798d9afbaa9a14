"""Broadcasting of large arrays, and its inverse: sums over the axes that were broadcast.

A product that is summed afterwards is not materialized: ``einsum`` and BLAS read both factors once
and write only the sum. Callers are formulas on arrays, kernels of two arrays, and, through
``ThreadedArray``, formulas on arrays of at least ``MIN_THREADED_SIZE`` elements.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import NDArray

from pullback.kernels.errstate import get_settings, make_settings, set_settings
from pullback.kernels.threads import get_num_threads, share, spread

__all__ = [
    "MAX_DIRECT_SIZE",
    "MIN_FUSED_SIZE",
    "MIN_THREADED_SIZE",
    "ThreadedArray",
    "axes_to",
    "broadcast_ufunc",
    "max_rows",
    "product_to",
    "reduced_axes",
    "squeeze_singleton",
    "sum_all",
    "sum_first",
    "sum_huge",
    "sum_last",
    "sum_rows",
    "sum_to_one",
    "twice_product",
]

_Array = NDArray[Any]
_Shape = tuple[int, ...]

MIN_FUSED_SIZE = 2048  # elements of a product from which ``product_to`` fuses it with its sum
_SMALL_SUM_SIZE = 8  # elements below which NumPy, too, adds sequentially
_FLOAT64 = np.dtype(np.float64)
_empty = np.empty
_BLAS_REAL = "fd"  # dtypes (as characters) of the real BLAS routines
_BLOCK_SIZE = 4096  # elements added sequentially; the sums of blocks are added pairwise
_MIN_BLAS_ROW = 64  # elements of a row from which one BLAS call per row pays
MAX_DIRECT_SIZE = 4096  # elements up to which equal-sized operands go to the ufunc directly
_MIN_LOOP_ROW = 256  # elements of a row from which one ufunc inner loop per row pays
_MIN_ROWS, _MAX_SHORT_ROW = 64, 32  # rows and their length for which one loop per row is slow
_MIN_BUFFERED_SIZE = 1 << 15  # elements of a result from which setting NumPy's buffer size pays
MIN_THREADED_SIZE = 1 << 19  # elements from which two threads add and multiply faster than one
_ones = {char: np.ones(_BLOCK_SIZE, char) for char in _BLAS_REAL}


@lru_cache(maxsize=4096)
def axes_to(given: _Shape, shape: _Shape) -> tuple[int, ...] | None:
    """Returns the axes along which `shape` was broadcast to `given`; None if it was not.

    >>> axes_to((5, 2, 3), (2, 1)), axes_to((2, 3), (4,))
    ((0, 2), None)
    """
    lead = len(given) - len(shape)
    if lead < 0 or any(want not in (1, got) for got, want in zip(given[lead:], shape, strict=True)):
        return None
    return *range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 and given[lead + i] != 1]


def reduced_axes(shape: tuple[int, ...], axis: Any) -> set[int]:
    """Returns the axes that a reduction sums over, as non-negative numbers."""
    if not shape:
        return set()
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple | list) else [axis]
    return {a % len(shape) for a in axes}


def broadcast_ufunc(ufunc: np.ufunc, a: _Array, b: _Array) -> Any:
    """Computes ``ufunc(a, b)`` for arrays of different or large sizes.

    For operands of different shapes NumPy sets up a buffered iterator, which costs more than a few
    elements, unless one operand is 0-d. The iterator fills its buffer with copies of the broadcast
    operand, as many rows as fit. A buffer too small for two rows disables the copies and halves
    the time. Arrays of at least ``MIN_THREADED_SIZE`` elements are divided among threads.

    >>> broadcast_ufunc(np.add, np.array([[1.0], [2.0]]), np.array([3.0, 4.0]))
    array([[4., 5.],
           [5., 6.]])
    """
    size, other = a.size, b.size
    if size == other and a.flags.c_contiguous:
        return spread(ufunc, a, b) if size >= MIN_THREADED_SIZE else ufunc(a, b)
    if other == 1:
        return ufunc(a, squeeze_singleton(b, a.ndim))
    if size == 1:
        return ufunc(squeeze_singleton(a, b.ndim), b)
    row = max(a.shape[-1:] + b.shape[-1:], default=0)
    if (
        row < _MIN_LOOP_ROW
        or a.dtype is not b.dtype
        or (both := np.broadcast(a, b)).size < _MIN_BUFFERED_SIZE
    ):
        return ufunc(a, b)
    before = get_settings()
    try:
        set_settings(make_settings(bufsize=_MIN_LOOP_ROW))
        return (
            ufunc(a, b) if both.size < MIN_THREADED_SIZE else _divide_rows(ufunc, a, b, both.shape)
        )
    finally:
        set_settings(before)


def squeeze_singleton(x: Any, ndim: int) -> Any:
    """Makes an array of one element 0-d if it has at most `ndim` axes; returns others unchanged.

    A 0-d operand spares NumPy the broadcasting iterator and does not change the result's shape.

    >>> squeeze_singleton(np.ones((1, 1)), 2).ndim, squeeze_singleton(np.ones((1, 1)), 1).ndim
    (0, 2)
    """
    return x.squeeze() if x.size == 1 and x.ndim <= ndim else x


def _divide_rows(ufunc: np.ufunc, a: _Array, b: _Array, shape: _Shape) -> Any:
    """Computes ``ufunc(a, b)`` in threads, each on a slice of the first axis."""
    workers = min(get_num_threads(), prod(shape) // (MIN_THREADED_SIZE // 2), shape[0])
    if workers < 2 or a.dtype.kind not in "fc" or ufunc.nout != 1:
        return ufunc(a, b)
    result = np.empty(shape, ufunc.resolve_dtypes((a.dtype, b.dtype, None))[-1])
    # An operand that is broadcast along the first axis is passed whole to every thread.
    is_sliced = [x.ndim == len(shape) and len(x) == len(result) for x in (a, b)]

    def run(low: int, high: int) -> None:
        x, y = (x[low:high] if cut else x for x, cut in zip((a, b), is_sliced, strict=True))
        ufunc(x, y, result[low:high])

    share(run, len(result), workers)
    return result


class ThreadedArray(np.ndarray):
    """View of an array whose ufuncs are computed by several threads.

    A formula written with Python's operators runs in threads unchanged on such views.

    >>> x = np.ones((2, 3)).view(ThreadedArray)
    >>> (2 * x + np.array([1.0, 2.0, 3.0])).view(np.ndarray)
    array([[3., 4., 5.],
           [3., 4., 5.]])
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Computes a ufunc in threads and returns the result as a ``ThreadedArray``."""
        arrays = [x.view(np.ndarray) if type(x) is ThreadedArray else x for x in inputs]
        if method != "__call__" or kwargs:
            return getattr(ufunc, method)(*arrays, **kwargs)
        if ufunc is np.conjugate and self.dtype.kind != "c":
            return self  # NumPy would copy
        are_arrays = all(type(x) is np.ndarray for x in arrays)
        if are_arrays and len(arrays) == 2:
            found = broadcast_ufunc(ufunc, *arrays)
        else:
            found = spread(ufunc, *arrays) if are_arrays else ufunc(*arrays)
        return found.view(ThreadedArray) if type(found) is np.ndarray else found


def sum_all(x: Any) -> Any:
    """Sums all elements; fewer than ``_SMALL_SUM_SIZE`` in a quarter of NumPy's time.

    >>> sum_all(np.array([1.0, 2.0]))
    np.float64(3.0)
    """
    if x.ndim == 1 and x.size < _SMALL_SUM_SIZE and x.dtype is _FLOAT64:
        return _FLOAT64.type(sum(x.tolist()))
    return np.add.reduce(x, None)


def sum_to_one(x: _Array) -> _Array:
    """Sums the elements of a vector into a vector of one element.

    >>> sum_to_one(np.array([1.0, 2.0]))
    array([3.])
    """
    total = _empty(1, x.dtype)
    total[0] = (
        sum(x.tolist()) if x.size < _SMALL_SUM_SIZE and x.dtype is _FLOAT64 else np.add.reduce(x)
    )
    return total


def sum_first(x: _Array) -> Any:
    """Sums over the first axis, as a BLAS product with ones, which reads memory in order.

    >>> sum_first(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    length = len(x)
    if x.ndim != 2 or x.dtype.char not in _BLAS_REAL or not x.flags.c_contiguous or not length:
        return np.add.reduce(x, 0)
    ones = _ones[x.dtype.char]
    if length <= _BLOCK_SIZE:
        return ones[:length].dot(
            x
        )  # faster than np.matmul, as in ``operators/products/kernels.py``
    whole = length - length % _BLOCK_SIZE
    blocks = np.matmul(ones, x[:whole].reshape(whole // _BLOCK_SIZE, _BLOCK_SIZE, x.shape[1]))
    return sum_first(blocks) + np.matmul(ones[: length - whole], x[whole:])


def sum_last(x: _Array) -> Any:
    """Sums over the last axis and keeps it, as a BLAS product: at most 2/3 of NumPy's time.

    >>> sum_last(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3.],
           [7.]])
    """
    length, char = x.shape[-1], x.dtype.char
    if not 0 < length <= _BLOCK_SIZE or char not in _BLAS_REAL or not x.flags.c_contiguous:
        return np.add.reduce(x, -1, keepdims=True)
    total = np.empty((*x.shape[:-1], 1), x.dtype)
    x.dot(_ones[char][:length], total.reshape(x.shape[:-1]))
    return total


def sum_huge(x: _Array, axis: Any, keepdims: bool) -> Any:
    """Sums over some axes, in threads on slices of the first axis if that one is kept.

    >>> sum_huge(np.ones((2, 3)), 1, False)
    array([3., 3.])
    """
    reduce: Any = np.add.reduce  # NumPy's stubs accept no keepdims of type bool
    axes = normalize_axis_tuple(axis, x.ndim)
    workers = min(get_num_threads(), x.size // (MIN_THREADED_SIZE // 2), len(x))
    if workers < 2 or 0 in axes or x.dtype.kind not in "fc" or not x.flags.c_contiguous:
        return reduce(x, axis, keepdims=keepdims)
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
    total = np.empty(shape, x.dtype)

    def run(low: int, high: int) -> None:
        reduce(x[low:high], axes, out=total[low:high], keepdims=keepdims)

    share(run, len(x), workers)
    return total


def sum_rows(x: _Array, axis: int) -> Any:
    """Sums over an axis and keeps it; many short rows as a product with ones.

    NumPy starts one loop per row, which costs more than the sum of a short row.

    >>> sum_rows(np.ones((64, 3)), 1).shape
    (64, 1)
    """
    if _has_short_rows(x, axis) and x.dtype.char in _BLAS_REAL:
        return x.dot(_ones[x.dtype.char][: x.shape[1]]).reshape(-1, 1)
    return np.add.reduce(x, axis, keepdims=True)


def max_rows(x: _Array, axis: int) -> Any:
    """Returns the maxima along an axis and keeps it; many short rows are transposed first.

    >>> max_rows(np.array([[1.0, 2.0], [4.0, 3.0]]), 1)
    array([[2.],
           [4.]])
    """
    if _has_short_rows(x, axis):
        return np.maximum.reduce(x.T.copy(), 0).reshape(-1, 1)
    return np.maximum.reduce(x, axis, keepdims=True)


def _has_short_rows(x: _Array, axis: int) -> bool:
    if x.ndim != 2 or axis not in (1, -1) or not x.flags.c_contiguous:
        return False
    return len(x) >= _MIN_ROWS and 0 < x.shape[1] <= _MAX_SHORT_ROW


def product_to(grad: _Array, factor: Any, shape: _Shape) -> Any:
    """Computes ``grad * factor`` summed to `shape` where product and sum can be fused.

    Otherwise it returns the whole product, which the caller sums. `shape` broadcasts to that of
    `grad`.

    >>> grad, factor = np.ones((2, 3)), np.array([1.0, 2.0, 3.0])
    >>> product_to(grad, factor, (2, 1))
    array([[6.],
           [6.]])
    """
    axes = axes_to(grad.shape, shape)
    if not axes:
        return _product(grad, factor)
    # A Python number has no dtype, and ``np.dtype(None)`` is float64.
    if type(factor) is not np.ndarray or factor.dtype is not grad.dtype:
        return grad * factor
    if grad.dtype.char not in _BLAS_REAL:
        return grad * factor
    if _is_constant(factor.shape, grad.ndim, axes):
        is_last = axes == (grad.ndim - 1,)
        total = sum_last(grad) if is_last else np.add.reduce(grad, axes, keepdims=True)
        return (total * factor).reshape(shape)
    if len(axes) == grad.ndim:
        factor = np.broadcast_to(factor, grad.shape)
        return _dot_rows(grad.reshape(-1), factor.reshape(-1)).reshape(shape)
    inner = _blockwise_axes(grad.shape, axes)
    spans = factor.ndim and factor.shape[-1] == grad.shape[-1] >= _MIN_BLAS_ROW
    if spans and axes[-1] == grad.ndim - 1 and len(inner) < 2:
        return np.add.reduce(_dot_rows(grad, factor), axes[:-1]).reshape(shape)
    if not inner:
        return grad * factor
    every = [*range(grad.ndim)]
    kept = [axis for axis in every if axis not in inner]
    total = np.einsum(grad, every, factor, every[grad.ndim - factor.ndim :], kept)
    outer = tuple(place for place, axis in enumerate(kept) if axis in axes)
    return (np.add.reduce(total, outer) if outer else total).reshape(shape)


def _is_constant(shape: _Shape, ndim: int, axes: tuple[int, ...]) -> bool:
    """Returns whether an operand of `shape` is broadcast along all `axes` of an array of `ndim`.

    >>> _is_constant((3,), 2, (0,)), _is_constant((3,), 2, (1,))
    (True, False)
    """
    lead = ndim - len(shape)
    return lead >= 0 and all(axis < lead or shape[axis - lead] == 1 for axis in axes)


def twice_product(grad: _Array, factor: _Array) -> Any:
    """Computes ``2 * grad * factor``; if `grad` is a broadcast view, doubles it before expansion.

    >>> twice_product(np.broadcast_to(3.0, (2, 2)), np.ones((2, 2)))
    array([[6., 6.],
           [6., 6.]])
    """
    if 0 not in grad.strides:
        product = _product(grad, factor)
        product += product
        return product
    single = grad[tuple([slice(None if stride else 1) for stride in grad.strides])]
    return broadcast_ufunc(np.multiply, single + single, factor)


def _product(grad: _Array, factor: Any) -> Any:
    """Computes ``grad * factor``, where the factor may be a Python number."""
    return (
        broadcast_ufunc(np.multiply, grad, factor) if type(factor) is np.ndarray else grad * factor
    )


@lru_cache(maxsize=4096)
def _blockwise_axes(given: _Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the trailing summed axes that ``einsum`` may add sequentially (at most a block).

    The remaining axes are left to ``np.add.reduce``, whose pairwise sums round less.
    """
    if axes[-1] != len(given) - 1:
        return axes
    first, size = len(axes), 1
    while first and size * given[axes[first - 1]] <= _BLOCK_SIZE:
        first -= 1
        size *= given[axes[first]]
    return axes[first:]


def _dot_rows(a: _Array, b: _Array) -> Any:
    """Sums products along the last axis, in blocks, so that rounding errors stay small."""
    length = a.shape[-1]
    whole = length - length % _BLOCK_SIZE
    rest = np.vecdot(a[..., whole:], b[..., whole:])
    if not whole:
        return rest
    count = whole // _BLOCK_SIZE
    a, b = (x[..., :whole].reshape(*x.shape[:-1], count, _BLOCK_SIZE) for x in (a, b))
    return np.add.reduce(np.vecdot(a, b), -1) + rest
