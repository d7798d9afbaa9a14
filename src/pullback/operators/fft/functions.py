"""``pullback.fft``: Fourier transforms, under the names of NumPy and the array API standard.

>>> import pullback as pb
>>> pb.fft.fft([1.0, 0.0, 0.0]).tolist()
[(1+0j), (1+0j), (1+0j)]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback._generated.functions_fft import fft_fft as fft
from pullback._generated.functions_fft import fft_fft2 as fft2
from pullback._generated.functions_fft import fft_fftn as fftn
from pullback._generated.functions_fft import fft_fftshift as fftshift
from pullback._generated.functions_fft import fft_hfft as hfft
from pullback._generated.functions_fft import fft_ifft as ifft
from pullback._generated.functions_fft import fft_ifft2 as ifft2
from pullback._generated.functions_fft import fft_ifftn as ifftn
from pullback._generated.functions_fft import fft_ifftshift as ifftshift
from pullback._generated.functions_fft import fft_ihfft as ihfft
from pullback._generated.functions_fft import fft_irfft as irfft
from pullback._generated.functions_fft import fft_irfft2 as irfft2
from pullback._generated.functions_fft import fft_irfftn as irfftn
from pullback._generated.functions_fft import fft_rfft as rfft
from pullback._generated.functions_fft import fft_rfft2 as rfft2
from pullback._generated.functions_fft import fft_rfftn as rfftn
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def _on_cpu(array: NDArray[Any], dtype: DTypeLike | None, device: str | None) -> Tensor:
    if device not in (None, "cpu"):
        raise ValueError(f"device must be 'cpu' or None, not {device!r}")
    return wrap(array.astype(np.float64 if dtype is None else dtype))


def fftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of a transform of `n` samples that are `d` apart.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _on_cpu(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of a transform of `n` real samples that are `d` apart.

    >>> rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _on_cpu(np.fft.rfftfreq(n, d), dtype, device)
