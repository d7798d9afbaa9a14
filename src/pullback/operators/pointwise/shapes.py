"""Shapes of the two element-wise functions whose result may be a view or not."""

from __future__ import annotations

import numpy as np

from pullback.kernels.shape_spec import Shaped, Spec, promoted, view_memory
from pullback.operators.pointwise.kernels import view_as_complex as of_arrays

__all__ = ["imag", "view_as_complex"]


def imag(x: Shaped) -> Spec:
    """A view of complex numbers; zeros, and so a copy, of real ones."""
    if promoted(x).kind != "c":
        return Spec(np.shape(x), promoted(x))
    view = view_memory(x).imag
    return Spec(view.shape, view.dtype, view.strides)


def view_as_complex(x: Shaped) -> Spec:
    """A view of pairs that lie together in memory, else a copy."""
    if x.dtype.kind != "f" or x.shape[-1:] != (2,):
        of_arrays(np.zeros((1,) * (x.ndim - 1) + x.shape[-1:], x.dtype))  # which says what is wrong
    if x.strides[-1] != x.dtype.itemsize:
        return Spec(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    view = of_arrays(view_memory(x))
    return Spec(view.shape, view.dtype, view.strides)
