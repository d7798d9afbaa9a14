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
from pullback.compat.autograd.numpy.functions import append, make_diagonal, row_stack, where
from pullback.compat.autograd.numpy.functions import integer_type as _integer_type
from pullback.compat.autograd.numpy.functions import maximum_of as amax
from pullback.compat.autograd.numpy.functions import maximum_of as max
from pullback.compat.autograd.numpy.functions import minimum_of as amin
from pullback.compat.autograd.numpy.functions import minimum_of as min

__all__ = ["amax", "amin", "append", "c_", "fft", "int8", "int16", "int32", "int64", "linalg"]
__all__ += ["make_diagonal", "max", "min", "r_", "random", "row_stack", "where"]
__all__ += [name for name in _np.__all__ if name not in __all__]

r_ = _Joiner(_np.r_)
c_ = _Joiner(_np.c_)
int8 = _integer_type(_np.int8)
int16 = _integer_type(_np.int16)
int32 = _integer_type(_np.int32)
int64 = _integer_type(_np.int64)


def __getattr__(name: str) -> _Any:
    return _member(_np, name)


def __dir__() -> list[str]:
    return __all__
