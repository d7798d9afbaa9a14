"""Derivatives by finite differences, with an estimate of how far they can be trusted.

Two central differences of different width are extrapolated; their disagreement is the estimate. At
a kink, or at the edge of a domain, it is large or not a number, and nothing is concluded there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Slope", "elementwise_slope", "inner", "slope"]

_Array = NDArray[Any]
_Arrays = list[_Array]


class Slope(NamedTuple):
    """A directional derivative of several outputs, and where it can be trusted."""

    values: _Arrays
    trusted: list[NDArray[np.bool_]]


def inner(first: _Arrays, second: _Arrays) -> float:
    """The real inner product of lists of arrays; complex numbers are pairs of reals."""
    return float(sum(np.sum((np.conj(a) * b).real) for a, b in zip(first, second, strict=True)))


def slope(fn: Callable[[_Array], _Arrays], at: _Array, direction: _Array) -> Slope:
    """How `fn` changes when its argument moves in a direction."""
    wide = _step(at)
    with np.errstate(all="ignore"):
        coarse = _central(fn, at, direction, wide)
        fine = _central(fn, at, direction, wide / 2)
        best = [(4 * f - c) / 3 for f, c in zip(fine, coarse, strict=True)]
        scale = max(
            (float(np.max(np.abs(b))) for b in best if b.size and np.isfinite(b).any()), default=0.0
        )
        trusted = [
            np.isfinite(b)
            & (np.abs(f - c) <= 1e-3 * np.abs(f) + 1e-5 * max(scale, 1.0) * _loose(at))
            for b, f, c in zip(best, fine, coarse, strict=True)
        ]
    return Slope(best, trusted)


def _step(at: _Array) -> float:
    size = float(np.max(np.abs(at))) if at.size else 1.0
    size = min(max(size, 1.0), 1e3) if np.isfinite(size) else 1.0
    return size * (2e-3 if at.dtype.itemsize // (1 + (at.dtype.kind == "c")) >= 8 else 3e-2)


def _loose(at: _Array) -> float:
    return 1.0 if at.dtype.itemsize // (1 + (at.dtype.kind == "c")) >= 8 else 300.0


def _central(
    fn: Callable[[_Array], _Arrays], at: _Array, direction: _Array, width: float
) -> _Arrays:
    moved = (direction * width).astype(at.dtype)
    ahead, behind = fn(at + moved), fn(at - moved)
    return [(a - b) / (2 * width) for a, b in zip(ahead, behind, strict=True)]


def elementwise_slope(
    fn: Callable[[_Array], _Arrays], at: _Array, weights: _Arrays
) -> tuple[_Array, NDArray[np.bool_]]:
    """The gradient of the inner product of `weights` and the outputs, one element at a time."""
    gradient = np.zeros(at.shape, at.dtype)
    trusted = np.ones(at.shape, bool)
    steps = [1.0, 1j] if at.dtype.kind == "c" else [1.0]
    for index in np.ndindex(at.shape):
        for unit in steps:
            direction = np.zeros(at.shape, at.dtype)
            direction[index] = unit
            found = slope(fn, at, direction)
            gradient[index] += unit * inner(weights, found.values)
            trusted[index] &= all(bool(np.all(t)) for t in found.trusted)
    return gradient, trusted
