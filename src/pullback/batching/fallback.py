"""Fallback at the key ``Python``: links every operator on batched tensors.

Registered with the import of the package, because a fallback changes all tables; the kernels that
it links are loaded at the first call of an operator inside ``vmap``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.dispatch import registry
from pullback.dispatch.keys import DispatchKey
from pullback.dispatch.table import Kernel

if TYPE_CHECKING:
    from pullback.batching import kernels
else:
    kernels = lazy_module("pullback.batching.kernels")

__all__ = ["link_batched"]


def link_batched(operator: Any, flags: int) -> Callable[..., Any]:
    """Links the kernel of one operator for batched tensors."""
    return kernels.batched_kernel(operator, flags)


registry.register_fallback(Kernel(link_batched, DispatchKey.Python, linker=link_batched))
