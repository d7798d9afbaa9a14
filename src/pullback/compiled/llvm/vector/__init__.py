"""Vector mathematics: element-wise functions as LLVM instructions on vectors of any width."""

from __future__ import annotations

from pullback.compiled.llvm.vector.elements import (
    CALLED,
    Complex,
    cast,
    elementwise,
    is_supported,
    part_dtype,
    scalar_type,
)
from pullback.compiled.llvm.vector.lanes import Lanes

__all__ = [
    "CALLED",
    "Complex",
    "Lanes",
    "cast",
    "elementwise",
    "is_supported",
    "part_dtype",
    "scalar_type",
]
