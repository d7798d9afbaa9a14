"""Shape functions: what an operator's result looks like, without computing it.

Named by tables as the kernel for Meta where no common rule says it; see ``pullback.meta``.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
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

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _lazy_names(__name__, {__name__: __all__})
