"""Fourier transforms of arrays along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Norm", "fft", "fftshift", "ifft", "ifftshift", "irfft", "rfft"]

Array = NDArray[Any]
Norm = Any  # "backward", "ortho", "forward" or None; NumPy checks it


def fft(x: Array, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The transform; cut or filled with zeros to length `n` first."""
    return np.fft.fft(x, n, axis, norm)


def ifft(x: Array, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The inverse transform."""
    return np.fft.ifft(x, n, axis, norm)


def rfft(x: Array, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The first half of the transform of real numbers; the other half mirrors it."""
    if np.iscomplexobj(x):
        raise TypeError(f"fft.rfft: dtype {x.dtype} given; real numbers are needed, or use fft")
    return np.fft.rfft(x, n, axis, norm)


def irfft(x: Array, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The inverse of `rfft`: real numbers, `n` of them."""
    return np.fft.irfft(x, n, axis, norm)


def fftshift(x: Array, axes: Any = None) -> Array:
    """The zero frequency moved to the middle."""
    return np.fft.fftshift(x, axes)


def ifftshift(x: Array, axes: Any = None) -> Array:
    """The zero frequency moved back to the front."""
    return np.fft.ifftshift(x, axes)
