"""Vector mathematics: element-wise functions as LLVM instructions on vectors of any width."""

from __future__ import annotations

from pullback.compiled.llvm.vector.elements import (
    CALLED,
    Complex,
    cast,
    elementwise,
    is_supported,
    scalar_type,
)
from pullback.compiled.llvm.vector.lanes import Lanes, vector_type

__all__ = [
    "CALLED",
    "Complex",
    "Lanes",
    "cast",
    "elementwise",
    "is_supported",
    "scalar_type",
    "vector_type",
]
