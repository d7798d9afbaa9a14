"""Sparse derivatives, and sparse arrays whose values are differentiated.

Patterns, colorings, and the Jacobians and Hessians made with them; SciPy's sparse arrays with
tensors as values; Jacobians as linear operators. The last two import SciPy, and are loaded on
demand.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.sparse.coloring import Coloring, color_hessian, color_jacobian
from pullback.sparse.derivatives import (
    hessian_pattern,
    jacobian_pattern,
    sparse_hessian,
    sparse_jacobian,
)

if _typing.TYPE_CHECKING:
    from pullback.sparse.arrays import bsr_array, coo_array, csc_array, csr_array, dia_array
    from pullback.sparse.linear_operator import LinearOperator
else:
    __getattr__, __dir__ = _lazy_names(
        "pullback.sparse",
        {
            "pullback.sparse.arrays": [
                "bsr_array",
                "coo_array",
                "csc_array",
                "csr_array",
                "dia_array",
            ],
            "pullback.sparse.linear_operator": ["LinearOperator"],
        },
    )

__all__ = [
    "Coloring",
    "LinearOperator",
    "bsr_array",
    "color_hessian",
    "color_jacobian",
    "coo_array",
    "csc_array",
    "csr_array",
    "dia_array",
    "hessian_pattern",
    "jacobian_pattern",
    "sparse_hessian",
    "sparse_jacobian",
]
