"""The data types that tensors have. Used by kernels whose caller chooses the type."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pullback.errors import UnsupportedDtypeError

__all__ = ["of_numbers"]


def of_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """An array, unless it holds objects, text or dates, in which gradients would be lost."""
    if array.dtype.kind not in "biufc":
        raise UnsupportedDtypeError(
            f"tensors hold booleans, integers, floating-point and complex numbers, not "
            f"{array.dtype}; use x.detach().numpy().astype(...) if an array is wanted"
        )
    return array
