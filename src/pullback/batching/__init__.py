"""Kernels of operators on batched tensors, which hold a ``BatchedArray``.

The fallback that links them is registered at import; the kernels are loaded with the first
``vmap``.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.batching import fallback as _fallback  # noqa: F401 - registers it
from pullback.batching.rules import declare, is_random, set_rule

if _typing.TYPE_CHECKING:
    from pullback.batching.kernels import batched_kernel
    from pullback.batching.random import random_kernel
    from pullback.batching.tensor_rules import VmapInfo, apply_rule
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.batching.kernels": ["batched_kernel"],
            "pullback.batching.random": ["random_kernel"],
            "pullback.batching.tensor_rules": ["VmapInfo", "apply_rule"],
        },
    )

__all__ = [
    "VmapInfo",
    "apply_rule",
    "batched_kernel",
    "declare",
    "is_random",
    "random_kernel",
    "set_rule",
]
