"""``autograd.numpy.random``: the functions of ``numpy.random``, which have no derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd.namespace import constant

__all__: list[str] = []
__all__ += np.random.__all__


def __getattr__(name: str) -> Any:
    found = getattr(np.random, name)
    if isinstance(found, type) or not callable(found):
        return found
    return constant(f"numpy.random.{name}", found)


def __dir__() -> list[str]:
    return __all__
