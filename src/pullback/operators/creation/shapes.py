"""Shapes of arrays made out of nothing."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback.kernels.dtypes import of_numbers
from pullback.kernels.shape_spec import Shape, Spec

__all__ = ["arange", "empty", "eye", "full", "ones", "tri", "zeros"]


def _lengths(shape: Any) -> Shape:
    lengths = tuple(int(n) for n in np.atleast_1d(shape))
    if any(n < 0 for n in lengths):
        raise ValueError(f"negative dimensions are not allowed: {lengths}")
    return lengths


def empty(shape: Any, dtype: DTypeLike | None = None) -> Spec:
    """A shape, float64 by default."""
    return Spec(_lengths(shape), of_numbers(np.empty(0, dtype)).dtype)


zeros = ones = empty


def full(shape: Any, fill_value: Any, dtype: DTypeLike | None = None) -> Spec:
    """A shape, by default in the dtype of the number."""
    return Spec(_lengths(shape), of_numbers(np.full((), fill_value, dtype)).dtype)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,  # noqa: ARG001 - where the ones are
    dtype: DTypeLike | None = None,
) -> Spec:
    """The shape of a matrix."""
    return empty((n_rows, n_rows if n_cols is None else n_cols), dtype)


tri = eye


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None) -> Spec:
    """As many numbers as fit into a half-open interval."""
    if stop is None:
        start, stop = 0, start
    kind = of_numbers(np.arange(start * 0, stop * 0, step, dtype=dtype)).dtype
    return Spec((max(0, ceil((stop - start) / step)),), kind)
