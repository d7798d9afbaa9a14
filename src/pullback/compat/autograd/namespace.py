"""A NumPy module's functions, for arrays and for tensors wherever they stand among the arguments.

NumPy dispatches a call only on tensors that are arguments themselves. The functions here also look
inside lists, so that ``np.array([x, y])`` of tensors stacks them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from pullback.interop import table
from pullback.interop.arguments import holds_gradient, refusal, tensors_in
from pullback.interop.protocols import handler
from pullback.interop.vectorize import joined

__all__ = ["Joiner", "constant", "member"]


@functools.cache
def member(module: ModuleType, name: str) -> Any:
    """Looks a name up in a module of NumPy and adapts functions to tensors.

    >>> member(np, "sin") is np.sin
    True
    """
    original = getattr(module, name)
    if isinstance(original, np.ufunc | type) or not callable(original):
        return original
    ours = table.IN_MODE.get(name) if module is np else None

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if next(tensors_in([args, kwargs]), None) is None:
            return original(*args, **kwargs)
        return (ours or handler(original))(*args, **kwargs)

    return call


def constant(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function without derivative, as of ``numpy.random``, raise if a gradient is lost."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if holds_gradient([args, kwargs]):
            raise refusal(
                name,
                "it has no derivative here",
                "Draw numbers that do not depend on x, and scale and shift them.",
            )
        return original(*args, **kwargs)

    return call


class Joiner:
    """``np.r_`` or ``np.c_``."""

    def __init__(self, original: Any):
        self._original = original

    def __getitem__(self, key: Any) -> Any:
        parts = [(k.start, k.stop) if isinstance(k, slice) else k for k in _listed(key)]
        if next(tensors_in(parts), None) is None:
            return self._original[key]
        return joined(type(self._original).__getitem__, self._original, key)


def _listed(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]
