"""``autograd.numpy``: NumPy's functions, for arrays and tensors.

>>> import pullback.compat.autograd.numpy as np
>>> from pullback.compat.autograd import grad
>>> grad(lambda x: np.sum(np.array([x, x**2, np.pi])))(3.0)
7.0
"""

from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from pullback.compat.autograd.namespace import Joiner as _Joiner
from pullback.compat.autograd.namespace import member as _member
from pullback.compat.autograd.numpy import fft, linalg, random

__all__ = ["c_", "fft", "linalg", "r_", "random"]
__all__ += [name for name in _np.__all__ if name not in __all__]

r_ = _Joiner(_np.r_)
c_ = _Joiner(_np.c_)


def __getattr__(name: str) -> _Any:
    return _member(_np, name)


def __dir__() -> list[str]:
    return __all__
