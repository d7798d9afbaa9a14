"""Broadcasting of large arrays, and broadcasting undone: sums over the axes that were repeated.

A product that is summed afterwards need not be made: ``einsum`` and the BLAS library read both
factors once, and write only what is left. Called by the array world of the formulas, by kernels of
functions of two arrays, and, through ``Wide``, by formulas of huge arrays.
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
    "HUGE",
    "PRODUCT",
    "WIDE",
    "Wide",
    "axes_to",
    "combine",
    "max_rows",
    "number_in",
    "product_to",
    "reduced_axes",
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

PRODUCT = 2048  # elements, from which a product that is summed is better not made
_FEW = 8  # elements, below which NumPy adds one after another, too
_FLOAT64 = np.dtype(np.float64)
_empty = np.empty
_REAL = "fd"  # what the BLAS library knows
_BLOCK = 4096  # elements that are added one after another; the sums of blocks are added in pairs
_LONG = 64  # elements of a row, from which a call of the BLAS library for each row pays
WIDE = 4096  # elements of an array, from which it may be worth looking at shapes
_ROW = 256  # elements of a row, from which a loop for each row pays
_MANY, _SHORT = 64, 32  # rows, and elements of each, from which on and up to which loops are lost
_LARGE = 1 << 15  # elements of a result, from which it is worth setting NumPy's buffers
HUGE = 1 << 19  # elements, from which two threads add and multiply faster than one
_ones = {char: np.ones(_BLOCK, char) for char in _REAL}


@lru_cache(maxsize=4096)
def axes_to(given: _Shape, shape: _Shape) -> tuple[int, ...] | None:
    """The axes along which a shape was repeated to become the given one; None if it was not.

    >>> axes_to((5, 2, 3), (2, 1)), axes_to((2, 3), (4,))
    ((0, 2), None)
    """
    lead = len(given) - len(shape)
    if lead < 0 or any(want not in (1, got) for got, want in zip(given[lead:], shape, strict=True)):
        return None
    return *range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 and given[lead + i] != 1]


def reduced_axes(shape: tuple[int, ...], axis: Any) -> set[int]:
    """The axes of a shape that a reduction goes over, counted from the front."""
    if not shape:
        return set()
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple | list) else [axis]
    return {a % len(shape) for a in axes}


def combine(ufunc: np.ufunc, a: _Array, b: _Array) -> Any:
    """``ufunc(a, b)`` of arrays whose sizes differ, or are large; threads share what is huge.

    Where their shapes differ, NumPy sets up an iterator, which takes longer than a few elements do,
    unless one of them has no axes. It fills its buffers with copies of what is repeated, as many
    rows as there is room for, and runs over those. If there is no room for two rows it takes them
    as they lie, in half the time.

    >>> combine(np.add, np.array([[1.0], [2.0]]), np.array([3.0, 4.0]))
    array([[4., 5.],
           [5., 6.]])
    """
    size, other = a.size, b.size
    if size == other and a.flags.c_contiguous:
        return spread(ufunc, a, b) if size >= HUGE else ufunc(a, b)
    if other == 1:
        return ufunc(a, number_in(b, a.ndim))
    if size == 1:
        return ufunc(number_in(a, b.ndim), b)
    row = max(a.shape[-1:] + b.shape[-1:], default=0)
    if row < _ROW or a.dtype is not b.dtype or (both := np.broadcast(a, b)).size < _LARGE:
        return ufunc(a, b)
    before = get_settings()
    try:
        set_settings(make_settings(bufsize=_ROW))
        return ufunc(a, b) if both.size < HUGE else _shared(ufunc, a, b, both.shape)
    finally:
        set_settings(before)


def number_in(x: Any, ndim: int) -> Any:
    """What is to be combined with an array of so many axes; a single element without its own.

    >>> number_in(np.ones((1, 1)), 2).ndim, number_in(np.ones((1, 1)), 1).ndim
    (0, 2)
    """
    return x.squeeze() if x.size == 1 and x.ndim <= ndim else x


def _shared(ufunc: np.ufunc, a: _Array, b: _Array, shape: _Shape) -> Any:
    """``ufunc(a, b)``, each thread computing a stretch of the first axis if there is enough."""
    workers = min(get_num_threads(), prod(shape) // (HUGE // 2), shape[0])
    if workers < 2 or a.dtype.kind not in "fc" or ufunc.nout != 1:
        return ufunc(a, b)
    result = np.empty(shape, ufunc.resolve_dtypes((a.dtype, b.dtype, None))[-1])
    cut = [x.ndim == len(shape) and len(x) == len(result) for x in (a, b)]  # else it is repeated

    def run(low: int, high: int) -> None:
        x, y = (x[low:high] if is_cut else x for x, is_cut in zip((a, b), cut, strict=True))
        ufunc(x, y, result[low:high])

    share(run, len(result), workers)
    return result


class Wide(np.ndarray):
    """An array that is looked at as one on which several threads compute together.

    So a formula written with Python's operators need not know how large its arrays are.

    >>> x = np.ones((2, 3)).view(Wide)
    >>> (2 * x + np.array([1.0, 2.0, 3.0])).view(np.ndarray)
    array([[3., 4., 5.],
           [3., 4., 5.]])
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Computes a function of NumPy's; what it returns is looked at in the same way."""
        arrays = [x.view(np.ndarray) if type(x) is Wide else x for x in inputs]
        if method != "__call__" or kwargs:
            return getattr(ufunc, method)(*arrays, **kwargs)
        if ufunc is np.conjugate and self.dtype.kind != "c":
            return self  # not a copy
        are_arrays = all(type(x) is np.ndarray for x in arrays)
        if are_arrays and len(arrays) == 2:
            found = combine(ufunc, *arrays)
        else:
            found = spread(ufunc, *arrays) if are_arrays else ufunc(*arrays)
        return found.view(Wide) if type(found) is np.ndarray else found


def sum_all(x: Any) -> Any:
    """The sum of all elements; of a few numbers, in a quarter of the time that NumPy takes.

    >>> sum_all(np.array([1.0, 2.0]))
    np.float64(3.0)
    """
    if x.ndim == 1 and x.size < _FEW and x.dtype is _FLOAT64:
        return _FLOAT64.type(sum(x.tolist()))
    return np.add.reduce(x, None)


def sum_to_one(x: _Array) -> _Array:
    """The sum of the elements of a vector, as a vector.

    >>> sum_to_one(np.array([1.0, 2.0]))
    array([3.])
    """
    total = _empty(1, x.dtype)
    total[0] = sum(x.tolist()) if x.size < _FEW and x.dtype is _FLOAT64 else np.add.reduce(x)
    return total


def sum_first(x: _Array) -> Any:
    """The sum over the first axis; as a product with ones, which takes the rows as they lie.

    >>> sum_first(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    length = len(x)
    if x.ndim != 2 or x.dtype.char not in _REAL or not x.flags.c_contiguous or not length:
        return np.add.reduce(x, 0)
    ones = _ones[x.dtype.char]
    if length <= _BLOCK:
        return ones[:length].dot(x)  # quicker than np.matmul, as in ``products.py``
    whole = length - length % _BLOCK
    blocks = np.matmul(ones, x[:whole].reshape(whole // _BLOCK, _BLOCK, x.shape[1]))
    return sum_first(blocks) + np.matmul(ones[: length - whole], x[whole:])


def sum_last(x: _Array) -> Any:
    """The sum over the last axis, which is kept; likewise, in two thirds of NumPy's time or less.

    >>> sum_last(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3.],
           [7.]])
    """
    length, char = x.shape[-1], x.dtype.char
    if not 0 < length <= _BLOCK or char not in _REAL or not x.flags.c_contiguous:
        return np.add.reduce(x, -1, keepdims=True)
    total = np.empty((*x.shape[:-1], 1), x.dtype)
    x.dot(_ones[char][:length], total.reshape(x.shape[:-1]))
    return total


def sum_huge(x: _Array, axis: Any, keepdims: bool) -> Any:
    """The sum over some axes, each thread taking a stretch of the first one if that is kept.

    >>> sum_huge(np.ones((2, 3)), 1, False)
    array([3., 3.])
    """
    reduce: Any = np.add.reduce  # NumPy's types do not know a keepdims that may be either
    axes = normalize_axis_tuple(axis, x.ndim)
    workers = min(get_num_threads(), x.size // (HUGE // 2), len(x))
    if workers < 2 or 0 in axes or x.dtype.kind not in "fc" or not x.flags.c_contiguous:
        return reduce(x, axis, keepdims=keepdims)
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
    total = np.empty(shape, x.dtype)

    def run(low: int, high: int) -> None:
        reduce(x[low:high], axes, out=total[low:high], keepdims=keepdims)

    share(run, len(x), workers)
    return total


def sum_rows(x: _Array, axis: int) -> Any:
    """The sum over an axis, which is kept; of many short rows as a product with ones.

    NumPy starts a loop for each row, which for a few numbers takes longer than adding them.

    >>> sum_rows(np.ones((64, 3)), 1).shape
    (64, 1)
    """
    if _has_short_rows(x, axis) and x.dtype.char in _REAL:
        return x.dot(_ones[x.dtype.char][: x.shape[1]]).reshape(-1, 1)
    return np.add.reduce(x, axis, keepdims=True)


def max_rows(x: _Array, axis: int) -> Any:
    """The largest elements along an axis, which is kept; many short rows are turned first.

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
    return len(x) >= _MANY and 0 < x.shape[1] <= _SHORT


def product_to(grad: _Array, factor: Any, shape: _Shape) -> Any:
    """``grad * factor``, summed to a shape that broadcasts to it where that is done in one go.

    >>> grad, factor = np.ones((2, 3)), np.array([1.0, 2.0, 3.0])
    >>> product_to(grad, factor, (2, 1))
    array([[6.],
           [6.]])
    """
    axes = axes_to(grad.shape, shape)
    if not axes:
        return _product(grad, factor)
    # A Python number has no dtype, and NumPy takes None for that of float64.
    if type(factor) is not np.ndarray or factor.dtype is not grad.dtype:
        return grad * factor
    if grad.dtype.char not in _REAL:
        return grad * factor
    if _is_constant(factor.shape, grad.ndim, axes):
        is_last = axes == (grad.ndim - 1,)
        total = sum_last(grad) if is_last else np.add.reduce(grad, axes, keepdims=True)
        return (total * factor).reshape(shape)
    if len(axes) == grad.ndim:
        factor = np.broadcast_to(factor, grad.shape)
        return _along_rows(grad.reshape(-1), factor.reshape(-1)).reshape(shape)
    inner = _inner(grad.shape, axes)
    spans = factor.ndim and factor.shape[-1] == grad.shape[-1] >= _LONG
    if spans and axes[-1] == grad.ndim - 1 and len(inner) < 2:
        return np.add.reduce(_along_rows(grad, factor), axes[:-1]).reshape(shape)
    if not inner:
        return grad * factor
    every = [*range(grad.ndim)]
    kept = [axis for axis in every if axis not in inner]
    total = np.einsum(grad, every, factor, every[grad.ndim - factor.ndim :], kept)
    outer = tuple(place for place, axis in enumerate(kept) if axis in axes)
    return (np.add.reduce(total, outer) if outer else total).reshape(shape)


def _is_constant(shape: _Shape, ndim: int, axes: tuple[int, ...]) -> bool:
    """Whether what has a shape is the same everywhere along some of the axes of something larger.

    >>> _is_constant((3,), 2, (0,)), _is_constant((3,), 2, (1,))
    (True, False)
    """
    lead = ndim - len(shape)
    return lead >= 0 and all(axis < lead or shape[axis - lead] == 1 for axis in axes)


def twice_product(grad: _Array, factor: _Array) -> Any:
    """``2 * grad * factor``, with the smaller of the two doubled where one of them is repeated.

    >>> twice_product(np.broadcast_to(3.0, (2, 2)), np.ones((2, 2)))
    array([[6., 6.],
           [6., 6.]])
    """
    if 0 not in grad.strides:
        product = _product(grad, factor)
        product += product
        return product
    single = grad[tuple([slice(None if stride else 1) for stride in grad.strides])]
    return combine(np.multiply, single + single, factor)


def _product(grad: _Array, factor: Any) -> Any:
    """``grad * factor``; a factor that is a Python number has no size."""
    return combine(np.multiply, grad, factor) if type(factor) is np.ndarray else grad * factor


@lru_cache(maxsize=4096)
def _inner(given: _Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes, or as many as give a block where neighbors are added, which a sum does in pairs."""
    if axes[-1] != len(given) - 1:
        return axes
    first, size = len(axes), 1
    while first and size * given[axes[first - 1]] <= _BLOCK:
        first -= 1
        size *= given[axes[first]]
    return axes[first:]


def _along_rows(a: _Array, b: _Array) -> Any:
    """Sums of products along the last axis, in blocks so that rounding errors stay small."""
    length = a.shape[-1]
    whole = length - length % _BLOCK
    rest = np.vecdot(a[..., whole:], b[..., whole:])
    if not whole:
        return rest
    count = whole // _BLOCK
    a, b = (x[..., :whole].reshape(*x.shape[:-1], count, _BLOCK) for x in (a, b))
    return np.add.reduce(np.vecdot(a, b), -1) + rest
