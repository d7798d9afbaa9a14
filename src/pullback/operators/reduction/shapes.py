"""Shapes of reductions that need more than the common rule, and of running ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback.kernels.shape_spec import Axes, Shaped, Spec, axis_of, in_row, promoted, reduced
from pullback.operators.reduction.kernels import degrees_lost

__all__ = ["cumsum", "std", "var"]


def var(
    x: Shaped,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    correction: float | None = None,
) -> Spec:
    """Shape rule of ``var``; does not call NumPy on few elements, because NumPy warns there."""
    degrees_lost(ddof, correction)
    dtype = np.var(np.ones(1, promoted(x))).dtype
    return Spec(reduced(np.shape(x), axis, keepdims), dtype)


std = var


def cumsum(x: Any, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Spec:  # noqa: ARG001
    """The same shape; without an axis, all elements in a row."""
    if axis is None:
        return Spec(in_row(x))
    axis_of(x, axis)
    return Spec(x.shape)
