"""Operators that are made of other operators, and so differentiate by themselves.

Functions on tensors, written with the public functions of the layers below; a table names one as
the kernel for CompositeImplicitAutograd.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
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

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _lazy_names(__name__, {__name__: __all__})
