"""Formulas of operators that pick elements."""

from __future__ import annotations

from typing import Any

__all__ = ["take_slices"]


def take_slices(xp: Any, grad: Any, axis: int, index: Any) -> Any:
    """The slices of an axis at an array of integers."""
    return xp.index(grad, [*[None] * (axis % grad.ndim), index])
