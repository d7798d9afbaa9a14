"""The arrays that SciPy's functions are measured on, and how a table of calls is written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "IMAGE",
    "LABELS",
    "MANY",
    "MASK",
    "MATRIX",
    "MIDDLE",
    "POSITIVE",
    "REAL",
    "SIGNAL",
    "SORTED",
    "each",
    "namespace",
]

Call = tuple[Callable[..., Any], tuple[Any, ...]]

_random = np.random.default_rng(5)
REAL = np.array([-1.3, 0.4, 2.1, -0.7, 0.9, 1.6])
POSITIVE = np.array([0.7, 1.3, 2.6, 0.4, 1.9, 3.1])
MIDDLE = np.array([0.2, 0.55, 0.8, 0.35, 0.6, 0.9])
SORTED = np.array([0.0, 0.7, 1.5, 2.1, 3.2, 4.0, 4.6, 5.5])
SIGNAL = _random.standard_normal(40)
MANY = _random.standard_normal(60) * 1.3 + 0.2
MATRIX = _random.standard_normal((12, 3))
IMAGE = _random.standard_normal((7, 8))
MASK = IMAGE > 0.2
LABELS = np.repeat(np.arange(1, 5), 14).reshape(7, 8)


def each(names: str, call: Callable[..., Any], *inputs: Any) -> dict[str, Call]:
    """The same call for several functions; the function itself is its first argument."""
    return dict.fromkeys(names.split(), (call, inputs))


def namespace(x: Any) -> Any:
    """The module of an array's functions: NumPy, or Pullback."""
    return np if isinstance(x, np.ndarray | np.generic) else sys.modules["pullback"]
