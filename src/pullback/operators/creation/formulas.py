"""Zeros for formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.tensor.tensor import Tensor, zeros_beside

__all__ = ["zeros_for"]


def zeros_for(xp: Any, grad: Any, shape: Any) -> Any:  # noqa: ARG001 - the form of a helper
    """Zeros of another shape that a gradient can be put into, in its dtype."""
    if isinstance(grad, Tensor):
        return zeros_beside(grad, tuple(shape), grad.dtype)
    return np.zeros(shape, grad.dtype)
