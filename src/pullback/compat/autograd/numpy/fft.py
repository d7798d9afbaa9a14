"""``autograd.numpy.fft``: the functions of ``numpy.fft``, for arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd.namespace import member

__all__: list[str] = []
__all__ += np.fft.__all__


def __getattr__(name: str) -> Any:
    return member(np.fft, name)


def __dir__() -> list[str]:
    return __all__
