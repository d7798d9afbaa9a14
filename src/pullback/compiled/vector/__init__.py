"""Vector mathematics: element-wise functions as LLVM instructions on vectors of any width."""

from __future__ import annotations

from pullback.compiled.vector.elements import Complex, cast, elementwise, is_supported, scalar_type
from pullback.compiled.vector.lanes import Lanes, vector_type

__all__ = ["Complex", "Lanes", "cast", "elementwise", "is_supported", "scalar_type", "vector_type"]
