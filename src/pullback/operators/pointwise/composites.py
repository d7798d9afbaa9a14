"""Element-wise operators made of others."""

from __future__ import annotations

import numpy as np

from pullback._generated.functions_pointwise import _astype as astype
from pullback._generated.functions_pointwise import (
    floor_divide,
    power,
    remainder,
)
from pullback.tensor.tensor import Tensor

__all__ = ["divmod", "float_power"]


def divmod(self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The quotient, rounded down, and what is left."""
    return floor_divide(self, other), remainder(self, other)


def float_power(self: Tensor, other: Tensor) -> Tensor:
    """A power of numbers that are first made float64, or complex128."""
    dtype = np.result_type(np.float64, self.dtype, other.dtype)
    return power(astype(self, dtype), astype(other, dtype))
