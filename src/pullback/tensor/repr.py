"""Printed form of tensors: ``tensor([1., 2.], requires_grad=True)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["render"]

_UNSAID = frozenset(map(np.dtype, ("float64", "int64", "bool", "complex128")))
_PREFIX = "tensor("


def render(array: NDArray[Any], suffixes: Sequence[str]) -> str:
    """The elements, the dtype where it is not the usual one, and suffixes that describe the graph.

    >>> render(np.array([1.0, 2.0], np.float32), ["requires_grad=True"])
    'tensor([1., 2.], dtype=float32, requires_grad=True)'
    """
    parts = [np.array2string(array, separator=", ", prefix=_PREFIX)]
    if not array.size and array.ndim != 1:
        parts.append(f"shape={array.shape}")
    if array.dtype not in _UNSAID or (not array.size and array.dtype != np.float64):
        parts.append(f"dtype={array.dtype.name}")
    parts += suffixes
    line = _PREFIX + ", ".join(parts) + ")"
    last = line.rpartition("\n")[2]
    if "\n" in line and len(last) > np.get_printoptions()["linewidth"]:
        indent = ",\n" + " " * len(_PREFIX)
        return _PREFIX + parts[0] + indent + ", ".join(parts[1:]) + ")"
    return line
