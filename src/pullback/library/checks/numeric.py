"""Derivatives by finite differences, with an estimate of their error for every element.

Central differences of two widths are extrapolated (Richardson); the error is what extrapolation
changes, plus the rounding of the function values. Where the point is a kink the differences to both
sides disagree however small the step is, and the error is as large as the kink; at the edge of a
domain it is not a number. Nothing is concluded beyond the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.kernels.errstate import errstate

__all__ = ["Slope", "inner", "ladder_slope", "precision", "rounding_unit", "slope"]

_Array = NDArray[Any]
_Arrays = list[_Array]
# No width is a multiple of another: steps of whole periods would agree, and all be wrong.
_LADDER = (1e-1, 1.07e-2, 1.13e-3, 0.93e-4, 1.03e-5, 0.89e-6, 1.09e-7)
_NOISE = 8  # roundings of a function value, in units of its last place


class Slope(NamedTuple):
    """A directional derivative of several outputs, and the error to expect of each element.

    `floors` is the part of the error that comes from rounding.
    """

    values: _Arrays
    errors: _Arrays
    floors: _Arrays


def inner(first: _Arrays, second: _Arrays) -> float:
    """The real inner product of lists of arrays; complex numbers are pairs of reals.

    What is multiplied by zero does not count, not even NaN.
    """
    with errstate(all="ignore"):
        pairs = zip(first, second, strict=True)
        total = float(sum(np.sum((np.conj(a) * b).real) for a, b in pairs))
        if np.isfinite(total):
            return total
        pairs = zip(first, second, strict=True)
        masked = [np.where((a == 0) | (b == 0), 0, np.conj(a) * b) for a, b in pairs]
        return float(sum(np.sum(product.real) for product in masked))


@cache
def rounding_unit(dtype: np.dtype[Any]) -> float:
    """The rounding unit of a floating-point dtype; ``np.finfo`` takes longer than a short slope."""
    return float(np.finfo(dtype).eps)


def precision(arrays: _Arrays) -> float:
    """The largest rounding unit among floating-point arrays."""
    return max((rounding_unit(a.dtype) for a in arrays if a.dtype.kind in "fc"), default=0.0)


def slope(
    fn: Callable[[_Array], _Arrays],
    at: _Array,
    direction: _Array,
    width: float,
    here: _Arrays,
    grain: _Arrays | None = None,
) -> Slope:
    """The rate of change of `fn` along a direction: four calls, at steps of `width` and half of it.

    `here` is ``fn(at)``; `grain` is the size of the numbers that it comes from, which are rounded.
    """
    with errstate(all="ignore"):
        ahead, behind = fn(_move(at, direction, width)), fn(_move(at, direction, -width))
        near, nearer = fn(_move(at, direction, width / 2)), fn(_move(at, direction, -width / 2))
        values, errors, floors = [], [], []
        blur = _blur(at, direction, width)
        sizes = [np.abs(f) for f in here]
        if grain is not None:
            sizes = [np.maximum(size, g) for size, g in zip(sizes, grain, strict=True)]
        for f, size, a, b, c, d in zip(here, sizes, ahead, behind, near, nearer, strict=True):
            if not (f.shape == a.shape == b.shape == c.shape == d.shape):
                values.append(np.full(f.shape, np.nan))
                errors.append(np.full(f.shape, np.inf))
                floors.append(np.zeros(f.shape))
                continue
            coarse, fine = (a - b) / (2 * width), (c - d) / width
            best = (4 * fine - coarse) / 3
            # Differences to both sides: equal in the limit unless the point is a kink.
            bend = (2 * (c + d - 2 * f) - (a + b - 2 * f) / 2) / (width / 2)
            rounding = _NOISE * rounding_unit(f.dtype) * size / width
            floor = rounding + blur * np.abs(best)
            error = np.abs(best - fine) + floor
            error = error + np.where(np.abs(bend) > 40 * floor, np.abs(bend), 0)
            floors.append(floor)
            errors.append(np.where(np.isfinite(best) & np.isfinite(error), error, np.inf))
            values.append(best)
    return Slope(values, errors, floors)


def _move(at: _Array, direction: _Array, width: float) -> _Array:
    return (at + direction * width).astype(at.dtype)


def _blur(at: _Array, direction: _Array, width: float) -> float:
    """The relative error of a step, because the argument is rounded too."""
    moved = direction != 0
    if not moved.any():
        return 0.0
    eps = rounding_unit(at.dtype)
    steps = np.abs(direction[moved]) * width
    return float(np.max(eps * np.abs(at[moved]) / steps))


def ladder_slope(
    fn: Callable[[_Array], _Arrays],
    at: _Array,
    direction: _Array,
    scales: set[float],
    grain: _Arrays | None = None,
) -> Slope:
    """The best of many widths for every element of the outputs, by the error estimate.

    An estimate counts if it has converged, and agrees with that of a neighbouring width: for a
    step that is far too wide, a small error would be an accident.
    """
    here = fn(at)
    found = []
    for width in sorted({scale * step for scale in scales for step in _LADDER}, reverse=True):
        with errstate(all="ignore"):
            moved = _move(at, direction, width / 2)[direction != 0]
            if not (np.all(np.isfinite(moved)) and np.all(moved != at[direction != 0])):
                continue
        try:
            found.append(slope(fn, at, direction, width, here, grain))
        except Exception:  # a step may leave the domain in a way that the kernel refuses
            continue
    with errstate(all="ignore"):
        chosen = [_choose(found, n, f) for n, f in enumerate(here)]
    values, errors = [v for v, _ in chosen], [e for _, e in chosen]
    return Slope(values, errors, [np.zeros(f.shape) for f in here])


def _choose(found: list[Slope], number: int, like: _Array) -> tuple[_Array, _Array]:
    """For one output: the value with the smallest error among those that count, and the error."""
    best, least = np.zeros(like.shape, like.dtype), np.full(like.shape, np.inf)
    for place, one in enumerate(found):
        value, error = one.values[number], one.errors[number]
        confirmed = np.zeros(like.shape, bool)
        for neighbour in (place - 1, place + 1):
            if not 0 <= neighbour < len(found):
                continue
            other, its_error = found[neighbour].values[number], found[neighbour].errors[number]
            bound = 5 * (error + its_error) + 1e-3 * np.maximum(np.abs(value), np.abs(other))
            near = np.abs(value - other) <= bound
            confirmed |= near & _converged(found[neighbour], number)
        better = confirmed & _converged(one, number) & (error < least)
        best, least = np.where(better, value, best), np.where(better, error, least)
    return best, least


def _converged(one: Slope, number: int) -> NDArray[np.bool_]:
    error = one.errors[number]
    small = error <= 1e-3 * np.abs(one.values[number])
    return np.isfinite(error) & (small | (error <= 20 * one.floors[number]))
