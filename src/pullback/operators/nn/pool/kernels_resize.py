"""Interpolation along one axis, and the sum that is its transpose."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pullback.kernels.masked_select import add_at

__all__ = ["Array", "resize", "resize_backward"]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any


_CUBIC = -0.75  # PyTorch's constant of the cubic convolution


class _Tap(NamedTuple):
    """For each new element one old element that it depends on, and the weight of that."""

    places: Array
    weights: Array | None  # None stands for ones


def _cubic_taps(source: Array, length: int) -> tuple[_Tap, ...]:
    """Four neighbours each, by the cubic convolution; the ends are repeated."""
    low = np.floor(source).astype(np.intp)
    t, a = source - low, _CUBIC

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return tuple(_Tap(np.clip(low + i - 1, 0, length - 1), w) for i, w in enumerate(weights))


@lru_cache(maxsize=128)
def _taps(
    length: int, size: int, mode: str, align_corners: bool, scale: float | None
) -> tuple[_Tap, ...]:
    """The old elements that each new one is the weighted sum of."""
    places = np.arange(size)
    ratio = length / size if scale is None else 1 / scale
    if mode.startswith("nearest"):
        half = 0.5 if mode == "nearest-exact" else 0.0
        if scale is None and not half:
            chosen = places * length // size  # exact, where a product of fractions is not
        else:
            chosen = np.floor((places + half) * ratio).astype(np.intp)
        return (_Tap(np.minimum(chosen, length - 1), None),)
    if align_corners:
        source = places * ((length - 1) / (size - 1)) if size > 1 else np.zeros(size)
    else:
        source = (places + 0.5) * ratio - 0.5
    if mode == "cubic":
        return _cubic_taps(source, length)
    source = np.maximum(source, 0)
    low = np.minimum(source.astype(np.intp), length - 1)
    second = source - low
    return _Tap(low, 1 - second), _Tap(np.minimum(low + 1, length - 1), second)


def _along(weights: Array, dtype: Any, ndim: int, axis: int) -> Array:
    """Weights, shaped to broadcast along an axis."""
    shape = (-1, *[1] * (ndim - 1 - axis % ndim))
    return weights.astype(np.empty(0, dtype).real.dtype).reshape(shape)


def resize(
    x: Array, axis: int, size: int, mode: str, align_corners: bool, scale: float | None
) -> Array:
    """Interpolates along one axis, by the nearest element, a line or a cubic."""
    result: Any = 0
    for places, weights in _taps(x.shape[axis], size, mode, align_corners, scale):
        part = np.take(x, places, axis=axis)
        if weights is None:
            return part
        result = result + part * _along(weights, x.dtype, x.ndim, axis)
    return result


def resize_backward(
    grad: Array, axis: int, length: int, mode: str, align_corners: bool, scale: float | None
) -> Array:
    """Gives each old element what the new ones took of it."""
    shape = list(grad.shape)
    shape[axis] = length
    result = np.zeros(shape, grad.dtype)
    in_order = np.arange(grad.shape[axis])  # the places of a tap never decrease
    for places, weights in _taps(length, grad.shape[axis], mode, align_corners, scale):
        part = grad if weights is None else grad * _along(weights, grad.dtype, grad.ndim, axis)
        add_at(result, places, part, in_order, axis)
    return result
