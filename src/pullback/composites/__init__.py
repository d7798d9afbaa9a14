"""Operators that are made of other operators, and so differentiate by themselves.

Functions on tensors, written with the public functions of the layers below; a table names one as
the kernel for CompositeImplicitAutograd.
"""

from __future__ import annotations

from pullback.composites import (
    creation,
    einsum,
    fft,
    indexing,
    linalg,
    nn,
    nn_activation,
    nn_conv,
    nn_distance,
    nn_loss,
    nn_norm,
    nn_pool,
    pointwise,
    products,
    reduction,
    shape,
    sorting,
    special,
)

__all__ = [
    "creation",
    "einsum",
    "fft",
    "indexing",
    "linalg",
    "nn",
    "nn_activation",
    "nn_conv",
    "nn_distance",
    "nn_loss",
    "nn_norm",
    "nn_pool",
    "pointwise",
    "products",
    "reduction",
    "shape",
    "sorting",
    "special",
]
