"""What operators compute: functions from arrays to arrays, where NumPy has none that fits."""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.kernels import platform as _platform  # noqa: F401 - has memory kept from the start

if _typing.TYPE_CHECKING:
    from pullback.kernels import (
        broadcasting,
        creation,
        error_context,
        fft,
        indexing,
        linalg,
        logarithms,
        masked_select,
        meta,
        nn,
        nn_activation,
        nn_conv,
        nn_distance,
        nn_loss,
        nn_norm,
        nn_normal,
        nn_pool,
        nn_resize,
        platform,
        pointwise,
        products,
        random,
        reduction,
        shape,
        sorting,
        special,
        special_gamma,
    )

__all__ = [
    "broadcasting",
    "creation",
    "error_context",
    "fft",
    "indexing",
    "linalg",
    "logarithms",
    "masked_select",
    "meta",
    "nn",
    "nn_activation",
    "nn_conv",
    "nn_distance",
    "nn_loss",
    "nn_norm",
    "nn_normal",
    "nn_pool",
    "nn_resize",
    "platform",
    "pointwise",
    "products",
    "random",
    "reduction",
    "shape",
    "sorting",
    "special",
    "special_gamma",
]

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _lazy_names(__name__, {__name__: __all__})
