"""``pullback.linalg``: linear algebra, under the names of NumPy and the array API standard."""

from __future__ import annotations

from pullback.operators.linalg import functions as _functions
from pullback.operators.linalg.functions import *

__all__: list[str] = []
__all__ += _functions.__all__
