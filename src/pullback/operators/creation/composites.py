"""Operators made of other operators: creation."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback._generated import functions_creation as creation
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shape
from pullback.tensor.tensor import Tensor

__all__ = ["vander"]


def vander(self: Tensor, n: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element, as the columns of a matrix."""
    if self.ndim != 1:
        raise ValueError(f"vander: a tensor with one axis is needed, the shape is {self.shape}")
    if self.dtype.kind in "biu":  # powers of small integers overflow
        self = pointwise._astype(self, np.promote_types(self.dtype, int))
    count = self.size if n is None else n
    columns: list[Any] = [creation._ones_like(self)]
    while len(columns) < count:
        columns.append(columns[-1] * self)
    if not count:
        return creation._zeros((self.size, 0), self.dtype)
    return shape.stack(columns[:count] if increasing else columns[:count][::-1], 1)
