"""Shape functions: what an operator's result looks like, without computing it.

Named by tables as the kernel for Meta where no common rule says it; see ``pullback.meta``.
"""

from __future__ import annotations

from pullback.kernels.meta import (
    creation,
    fft,
    images,
    indexing,
    linalg,
    nn,
    pointwise,
    products,
    reduction,
    shape,
    sorting,
    spec,
)

__all__ = [
    "creation",
    "fft",
    "images",
    "indexing",
    "linalg",
    "nn",
    "pointwise",
    "products",
    "reduction",
    "shape",
    "sorting",
    "spec",
]
