"""Sparse derivatives: patterns, colorings, and Jacobians and Hessians made with them."""

from __future__ import annotations

from pullback.sparse.coloring import Coloring, color_hessian, color_jacobian
from pullback.sparse.derivatives import (
    hessian_pattern,
    jacobian_pattern,
    sparse_hessian,
    sparse_jacobian,
)

__all__ = [
    "Coloring",
    "color_hessian",
    "color_jacobian",
    "hessian_pattern",
    "jacobian_pattern",
    "sparse_hessian",
    "sparse_jacobian",
]
