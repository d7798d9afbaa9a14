"""Formulas of Fourier transforms. All are linear, and the adjoint of one is another."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["adjoint_norm", "irfft_grad", "resized", "rfft_grad"]


def adjoint_norm(xp: Any, norm: str | None) -> str:  # noqa: ARG001 - a formula's helper
    """The normalization of the adjoint of a transform: that of the inverse."""
    return {"ortho": "ortho", "forward": "backward"}.get(norm or "backward", "forward")


def resized(xp: Any, x: Any, axis: int, length: int) -> Any:
    """Cut at the end, or filled with zeros, to a length along an axis; the adjoint of the same."""
    given = x.shape[axis]
    if given == length:
        return x
    index = (*(slice(None),) * (axis % x.ndim), slice(0, min(given, length)))
    if given > length:
        return xp.getitem(x, index)
    shape = list(x.shape)
    shape[axis] = length
    return xp.getitem_backward(x, shape, index)


def _mirrored(x: Any, axis: int, length: int, weight: float) -> Any:
    """Weights for half of a transform: one for what is its own mirror image, else `weight`."""
    count = length // 2 + 1
    weights = np.full(count, weight, np.dtype(x.dtype.char.lower()))
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    return weights.reshape([-1] + [1] * (-(axis - x.ndim if axis >= 0 else axis) - 1))


def rfft_grad(
    xp: Any, grad: Any, shape: tuple[int, ...], n: int | None, axis: int, norm: str | None
) -> Any:
    """The gradient of the transform of real numbers: half of it stands for all."""
    length = shape[axis] if n is None else n
    half = grad * _mirrored(grad, axis, length, 0.5)
    full = xp.fft_irfft(half, length, axis, adjoint_norm(xp, norm))
    return resized(xp, full, axis, shape[axis])


def irfft_grad(xp: Any, grad: Any, shape: tuple[int, ...], axis: int, norm: str | None) -> Any:
    """The gradient of the inverse: what has a mirror image counts twice."""
    half = xp.fft_rfft(grad, None, axis, adjoint_norm(xp, norm))
    half = half * _mirrored(half, axis, grad.shape[axis], 2.0)
    return resized(xp, half, axis, shape[axis])
