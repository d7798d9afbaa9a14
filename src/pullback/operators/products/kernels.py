"""Products of arrays: matrices, vectors, Einstein sums, convolutions.

Where NumPy's own error does not say so, errors name the operator and the shapes. Called through the
table ``operators/products/table.yaml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.kernels.threads import get_num_threads, share

__all__ = [
    "Array",
    "check_vectors",
    "convolve",
    "correlate",
    "cross",
    "dot",
    "einsum",
    "matmul",
    "mismatch",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]

Array = NDArray[Any]

_FLOAT64 = np.dtype(np.float64)
_BLAS = "fdFD"  # dtypes (as characters) of the BLAS routines
_FEW = 64  # elements of a stack, from which one product and two reshapes beat a loop of NumPy's
_LARGE = 2048  # elements, from which it is worth looking at the shapes of a stack
_SHARED_ALREADY = 1 << 18  # multiplications in a product, from which OpenBLAS has threads share it
_CALL = 1000  # multiplications in the time that a call of the BLAS library takes
_SHARE = 3 << 19  # multiplications, some 170 microseconds, in which a thread has woken up


def matmul(a: Array, b: Array) -> Any:
    """The product of matrices; vectors stand for one row or column, other axes broadcast."""
    try:
        ndim, last = a.ndim, b.ndim
        if 0 < last < 3 and ndim and (dtype := a.dtype) is b.dtype and dtype.char in _BLAS:
            # The method takes half of what np.matmul takes where matrices are small.
            if ndim < 3:
                return a.dot(b)
            if (
                last == 2
                and _FEW < a.size <= _LARGE
                and a.flags.c_contiguous
                and a.shape[-1] == b.shape[0]
            ):
                return a.reshape(-1, b.shape[0]).dot(b).reshape(*a.shape[:-1], b.shape[1])
        if ndim > 2 and a.size > _LARGE:
            return _matmul_of_stacks(a, b)
        return np.matmul(a, b)
    except (ValueError, AttributeError):  # of a Python number, which has no axes
        raise ValueError(f"matmul: {mismatch(a, b)}") from None


def _matmul_of_stacks(a: Array, b: Array) -> Any:
    """The products of many matrices: as one large product, or by threads that share the stack.

    The BLAS library takes one matrix after another, and shares those that are large by themselves.
    """
    if b.ndim == 2 and a.flags.c_contiguous:
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    if a.ndim != b.ndim or len(a) != len(b) or a.dtype is not b.dtype:
        return np.matmul(a, b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    single = a.shape[-2] * a.shape[-1] * b.shape[-1]
    work = prod(lead) * (single + _CALL)
    workers = min(get_num_threads(), work // _SHARE, len(a))
    if single > _SHARED_ALREADY or workers < 2:
        return np.matmul(a, b)
    result = np.empty((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    share(lambda low, high: np.matmul(a[low:high], b[low:high], result[low:high]), len(a), workers)
    return result


def mismatch(a: Any, b: Any) -> str:
    """The error message for two shapes without a matrix product."""
    x, y = np.shape(a), np.shape(b)
    text = f"shapes {x} and {y} do not match"
    if not x or not y:
        return f"{text}: both need at least one axis; use multiply for numbers"
    rows = y[0] if len(y) == 1 else y[-2]
    if x[-1] != rows:
        return f"{text}: the last axis of the first has length {x[-1]}, but {rows} is needed"
    return f"{text}: the axes before the last two do not broadcast, {x[:-2]} and {y[:-2]}"


def dot(a: Any, b: Any) -> Any:
    """The sum over the last axis of the first and the last but one of the second."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    try:
        return np.dot(a, b)
    except ValueError:
        raise ValueError(f"dot: {mismatch(a, b)}") from None


def vecdot(a: Array, b: Array, *, axis: int = -1) -> Any:
    """The sum over one axis of products with the first conjugated; the other axes broadcast."""
    return np.vecdot(a, b, axis=axis)  # type: ignore[call-overload]


def outer(a: Any, b: Any) -> Array:
    """Products of every element of one with every element of the other, both flattened."""
    return np.outer(a, b)


def tensordot(a: Array, b: Array, axes_a: Sequence[int], axes_b: Sequence[int]) -> Any:
    """The sum over pairs of axes."""
    try:
        return np.tensordot(a, b, (list(axes_a), list(axes_b)))
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"tensordot: shapes {np.shape(a)} and {np.shape(b)} do not match over the axes "
            f"{tuple(axes_a)} and {tuple(axes_b)}: {error}"
        ) from None


def einsum(subscripts: str, operands: Sequence[Array], *, optimize: bool = False) -> Array:
    """The sum that explicit subscripts without ellipsis say; never a view of an operand."""
    try:
        result = np.einsum(subscripts, *operands, optimize=optimize)
    except ValueError as error:
        shapes = " and ".join(str(np.shape(x)) for x in operands)
        raise ValueError(f"einsum: {subscripts!r} does not fit shapes {shapes}: {error}") from None
    if len(operands) == 1 and np.may_share_memory(result, operands[0]):
        return np.array(result)
    return np.asarray(result)


def cross(a: Array, b: Array, *, axis: int = -1) -> Array:
    """The cross product of vectors with three components."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray:
        a, b = np.asarray(a), np.asarray(b)  # a Python number, which is no vector either
    if a.shape == b.shape == (3,) and (axis == 0 or axis == -1):
        # Numbers are multiplied several times as fast as arrays of one element, Python's fastest.
        is_double = a.dtype is b.dtype is _FLOAT64
        (x, y, z), (u, v, w) = (a.tolist(), b.tolist()) if is_double else (a, b)
        numbers = (y * w - z * v, z * u - x * w, x * v - y * u)
        return np.array(numbers, None if is_double else np.result_type(a, b))
    if not (_has_three(a, axis) and _has_three(b, axis)):
        raise ValueError(f"shapes {a.shape} and {b.shape} need length 3 along axis {axis}")
    if axis != -1:
        return np.cross(a, b, axis=axis)
    # NumPy's own takes five times as long for a single vector, because it moves axes first.
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    first, second, third = y * w - z * v, z * u - x * w, x * v - y * u
    result = np.empty((*first.shape, 3), first.dtype)
    result[..., 0], result[..., 1], result[..., 2] = first, second, third
    return result


def _has_three(x: Array, axis: int) -> bool:
    return -x.ndim <= axis < x.ndim and x.shape[axis] == 3


def trace(
    x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Any:
    """The sum of a diagonal."""
    return np.trace(x, offset, axis1, axis2, dtype)


def convolve(a: Array, v: Array, mode: str = "full") -> Array:
    """The convolution of two vectors."""
    check_vectors("convolve", a, v)
    return np.convolve(a, v, mode)  # type: ignore[call-overload,no-any-return]


def correlate(a: Array, v: Array, mode: str = "valid") -> Array:
    """The correlation of two vectors, the second conjugated."""
    check_vectors("correlate", a, v)
    return np.correlate(a, v, mode)  # type: ignore[call-overload,no-any-return]


def check_vectors(name: str, a: Any, v: Any) -> None:
    """Refuses what is no vector with elements."""
    if np.ndim(a) != 1 or np.ndim(v) != 1 or not np.size(a) or not np.size(v):
        raise ValueError(
            f"{name}: shapes {np.shape(a)} and {np.shape(v)} given; both must be vectors with at "
            "least one element"
        )
