"""Formulas of operators that add and remove batch dimensions; values may be unbatched."""

from __future__ import annotations

from typing import Any

from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["out_of_level", "sum_over_level"]


def _varies(x: Any, level: int) -> bool:
    return isinstance(x, Tensor) and level in levels_of(x)


def out_of_level(xp: Any, x: Any, axis: int, level: int, size: int) -> Any:
    """Makes the batch dimension of a level an axis; an unbatched value is repeated along it."""
    if _varies(x, level):
        return xp._remove_level(x, axis, level)
    repeated = xp.expand(xp.expand_dims(x, 0), (size, *x.shape))
    return xp.moveaxis(repeated, 0, axis) if axis else repeated


def sum_over_level(xp: Any, x: Any, level: int, size: int) -> Any:
    """Sums over the batch dimension of a level; an unbatched value is multiplied by its size."""
    return xp._sum_level(x, level, size) if _varies(x, level) else x * size
