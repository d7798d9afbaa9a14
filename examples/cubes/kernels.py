"""The array functions of the example's operators: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

__all__ = ["cube", "weighted_cubes"]


def cube(x: NDArray[Any]) -> NDArray[Any]:
    """The third power of each element."""
    return x * x * x


def weighted_cubes(x: NDArray[Any], weight: NDArray[Any], power: float) -> NDArray[Any]:
    """The elements to a power, times a weight."""
    return weight * x**power
