"""Formulas of the doors of mapped functions, where a value may be the same for all samples."""

from __future__ import annotations

from typing import Any

from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["out_of_level", "sum_over_level"]


def _varies(x: Any, level: int) -> bool:
    return isinstance(x, Tensor) and level in levels_of(x)


def out_of_level(xp: Any, x: Any, axis: int, level: int, size: int) -> Any:
    """A level as an axis; a value that does not vary is repeated along it."""
    if _varies(x, level):
        return xp._remove_level(x, axis, level)
    repeated = xp.expand(xp.expand_dims(x, 0), (size, *x.shape))
    return xp.moveaxis(repeated, 0, axis) if axis else repeated


def sum_over_level(xp: Any, x: Any, level: int, size: int) -> Any:
    """The sum over the samples of a level; of a value that does not vary, so many times it."""
    return xp._sum_level(x, level, size) if _varies(x, level) else x * size
