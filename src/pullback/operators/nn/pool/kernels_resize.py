"""Interpolation along one axis, and the sum that is its transpose."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pullback.kernels.masked_select import add_at

__all__ = ["Array", "resize", "resize_backward"]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any


@lru_cache(maxsize=128)
def _taps(
    length: int, size: int, mode: str, align_corners: bool, scale: float | None
) -> tuple[Array, Array, Array]:
    """For each new element the two old ones that it lies between, and the weight of the second."""
    places = np.arange(size)
    ratio = length / size if scale is None else 1 / scale
    if mode != "linear":
        half = 0.5 if mode == "nearest-exact" else 0.0
        if scale is None and not half:
            chosen = places * length // size  # exact, where a product of fractions is not
        else:
            chosen = np.floor((places + half) * ratio).astype(np.intp)
        chosen = np.minimum(chosen, length - 1)
        return chosen, chosen, np.zeros(size)
    if align_corners:
        source = places * ((length - 1) / (size - 1)) if size > 1 else np.zeros(size)
    else:
        source = np.maximum((places + 0.5) * ratio - 0.5, 0)
    low = np.minimum(source.astype(np.intp), length - 1)
    return low, np.minimum(low + 1, length - 1), source - low


def _weights(second: Array, dtype: Any, ndim: int, axis: int) -> tuple[Array, Array]:
    """The weights of both neighbours, shaped to broadcast along an axis."""
    second = second.astype(np.empty(0, dtype).real.dtype)
    shape = (-1, *[1] * (ndim - 1 - axis % ndim))
    return (1 - second).reshape(shape), second.reshape(shape)


def resize(
    x: Array, axis: int, size: int, mode: str, align_corners: bool, scale: float | None
) -> Array:
    """Interpolates along one axis, by the nearest element or on a line between two."""
    low, high, second = _taps(x.shape[axis], size, mode, align_corners, scale)
    if mode != "linear":
        return np.take(x, low, axis=axis)
    first, second = _weights(second, x.dtype, x.ndim, axis)
    return np.take(x, low, axis=axis) * first + np.take(x, high, axis=axis) * second


def resize_backward(
    grad: Array, axis: int, length: int, mode: str, align_corners: bool, scale: float | None
) -> Array:
    """Gives each old element what the new ones took of it."""
    low, high, second = _taps(length, grad.shape[axis], mode, align_corners, scale)
    shape = list(grad.shape)
    shape[axis] = length
    result = np.zeros(shape, grad.dtype)
    if mode != "linear":
        add_at(result, low, grad, np.arange(low.size), axis)
        return result
    first, second = _weights(second, grad.dtype, grad.ndim, axis)
    in_order = np.arange(low.size)  # the taps never decrease
    add_at(result, low, grad * first, in_order, axis)
    add_at(result, high, grad * second, in_order, axis)
    return result
