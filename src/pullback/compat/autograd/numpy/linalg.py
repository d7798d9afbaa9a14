"""``autograd.numpy.linalg``: the functions of ``numpy.linalg``, for arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd.namespace import member

__all__: list[str] = []
__all__ += np.linalg.__all__


def __getattr__(name: str) -> Any:
    return member(np.linalg, name)


def __dir__() -> list[str]:
    return __all__
