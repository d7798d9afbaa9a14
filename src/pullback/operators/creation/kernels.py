"""Kernels that make new arrays: constants, ranges, identity and triangular matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.kernels.dtypes import of_numbers
from pullback.kernels.layout import empty_in_order

__all__ = ["arange", "empty", "eye", "full", "ones", "ones_like", "tri", "zeros", "zeros_like"]


def zeros(shape: int | Sequence[int], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Zeros, float64 by default."""
    return of_numbers(np.zeros(shape, dtype))


def ones(shape: int | Sequence[int], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Ones, float64 by default."""
    return of_numbers(np.ones(shape, dtype))


def empty(shape: int | Sequence[int], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Uninitialised memory."""
    return of_numbers(np.empty(shape, dtype))


def full(
    shape: int | Sequence[int], fill_value: Any, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """One number everywhere."""
    return of_numbers(np.full(shape, fill_value, dtype))


def eye(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """Ones on the k-th diagonal."""
    return of_numbers(np.eye(n_rows, n_cols, k, np.float64 if dtype is None else dtype))


def tri(
    n_rows: int, n_cols: int | None = None, k: int = 0, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """Ones on and below the k-th diagonal."""
    return of_numbers(np.tri(n_rows, n_cols, k, np.float64 if dtype is None else dtype))


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """Evenly spaced numbers in a half-open interval."""
    if stop is None:
        start, stop = 0, start
    return of_numbers(np.arange(start, stop, step, dtype=dtype))


def zeros_like(x: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Zeros of the same shape, in the same memory order."""
    return of_numbers(np.zeros_like(x if 0 not in x.strides else empty_in_order(x), dtype))


def ones_like(x: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Ones of the same shape, in the same memory order."""
    return of_numbers(np.ones_like(x if 0 not in x.strides else empty_in_order(x), dtype))
