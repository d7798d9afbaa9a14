"""``torch.fft``: Fourier transforms under PyTorch's names."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.torch.creation import made
from pullback.compat.torch.dtypes import get_default_dtype
from pullback.compat.torch.spelling import spell

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

_own = pb.fft
fft, ifft, rfft, irfft = map(spell, (_own.fft, _own.ifft, _own.rfft, _own.irfft))
hfft, ihfft = spell(_own.hfft), spell(_own.ihfft)
fft2 = spell(_own.fft2, dim="axes")
ifft2 = spell(_own.ifft2, dim="axes")
rfft2 = spell(_own.rfft2, dim="axes")
irfft2 = spell(_own.irfft2, dim="axes")
fftn = spell(_own.fftn, dim="axes")
ifftn = spell(_own.ifftn, dim="axes")
rfftn = spell(_own.rfftn, dim="axes")
irfftn = spell(_own.irfftn, dim="axes")
fftshift = spell(_own.fftshift, dim="axes")
ifftshift = spell(_own.ifftshift, dim="axes")


@made
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Any:
    """The frequencies of `fft`.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return pb.astype(_own.fftfreq(n, d=d), get_default_dtype() if dtype is None else dtype)


@made
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Any:
    """The frequencies of `rfft`."""
    return pb.astype(_own.rfftfreq(n, d=d), get_default_dtype() if dtype is None else dtype)
