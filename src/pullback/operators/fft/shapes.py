"""Shapes of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.kernels.shape_spec import Shaped, Spec, axis_of, with_length
from pullback.operators.fft import kernels as arrays

__all__ = ["fft", "ifft", "irfft", "rfft"]


def _transformed(name: str, x: Shaped, n: int | None, length: int, axis: int, norm: Any) -> Spec:
    """The shape with another length, in the dtype of the transform of two numbers."""
    if (n is not None and n < 1) or length < 1:
        raise ValueError(f"fft.{name}: invalid number of data points ({length}) specified")
    dtype = getattr(arrays, name)(np.ones(2, x.dtype), norm=norm).dtype
    return Spec(with_length(x, axis, length), dtype)


def _length(x: Shaped, n: int | None, axis: int) -> int:
    return x.shape[axis_of(x, axis)] if n is None else n


def fft(x: Shaped, n: int | None = None, axis: int = -1, norm: Any = None) -> Spec:
    """A complex result of length `n`, by default that of the input."""
    return _transformed("fft", x, n, _length(x, n, axis), axis, norm)


def ifft(x: Shaped, n: int | None = None, axis: int = -1, norm: Any = None) -> Spec:
    """A complex result of length `n`, by default that of the input."""
    return _transformed("ifft", x, n, _length(x, n, axis), axis, norm)


def rfft(x: Shaped, n: int | None = None, axis: int = -1, norm: Any = None) -> Spec:
    """A complex result of length ``n // 2 + 1``."""
    length = _length(x, n, axis)
    return _transformed("rfft", x, n, length // 2 + 1 if length else 0, axis, norm)


def irfft(x: Shaped, n: int | None = None, axis: int = -1, norm: Any = None) -> Spec:
    """A real result of length `n`, by default ``2 * (m - 1)`` for an input of length m."""
    length = 2 * (_length(x, None, axis) - 1) if n is None else n
    return _transformed("irfft", x, n, length, axis, norm)
