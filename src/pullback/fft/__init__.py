"""``pullback.fft``: Fourier transforms, under the names of NumPy and the array API standard."""

from __future__ import annotations

from pullback.operators.fft import functions as _functions
from pullback.operators.fft.functions import *

__all__: list[str] = []
__all__ += _functions.__all__
