"""Compares Jacobians entry by entry: by the reverse rule, by the forward rule, by differences.

Small inputs and outputs are looked at one element at a time, large ones in blocks with random
weights. Each element moves by its own magnitude, so that a small one beside a large one counts as
much. So an entry is found wrong by its own size, not by that of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.kernels.errstate import errstate
from pullback.library.checks.numeric import inner, ladder_slope, slope
from pullback.library.checks.problem import Problem

__all__ = [
    "Column",
    "Pulled",
    "Row",
    "Weights",
    "columns_of",
    "compare_with_differences",
    "entry_noise",
    "gradient_grain",
    "magnitudes",
    "pull_rows",
]

_Array = NDArray[Any]
_ONE_BY_ONE = 16  # elements; more are looked at in blocks
_BLOCKS = 8
_RTOL = 1e-7
_TINY = 1e-290  # numbers below it have few digits, or none


@dataclass(frozen=True)
class Column:
    """A direction in which one input moves: one element, or a block of them."""

    name: str
    direction: _Array
    index: tuple[int, ...] | None  # of the element, where it is one


@dataclass(frozen=True)
class Row:
    """A cotangent of one output: of one element, or of a block of them."""

    output: int
    cotangent: _Array
    index: tuple[int, ...] | None

    def weights(self, count: int) -> list[_Array | None]:
        """A cotangent for this output, and none for the others."""
        return [self.cotangent if n == self.output else None for n in range(count)]

    def dense(self, outputs: list[_Array]) -> list[_Array]:
        """A cotangent for this output, and zeros for the others."""
        return [
            self.cotangent if n == self.output else np.zeros_like(out)
            for n, out in enumerate(outputs)
        ]


def magnitudes(array: _Array) -> _Array:
    """The magnitude of every element; a typical one where it is zero or not finite."""
    sizes = np.abs(array).astype(float)
    usable = np.isfinite(sizes) & (sizes > 0)
    typical = float(np.median(sizes[usable])) if usable.any() else 1.0
    return np.where(usable, sizes, typical)


def gradient_grain(problem: Problem, name: str) -> _Array:
    """The size of the numbers that a gradient is the difference of, and so of their rounding.

    Estimated from the sizes of cotangents, outputs and inputs; once for an input.
    """
    if name in problem.grains:
        return problem.grains[name]
    top = max((float(np.max(np.abs(w), initial=0)) for w in problem.weights), default=0.0)
    sizes = [np.abs(out[np.isfinite(out)]) for out in problem.here]
    reach = max((float(np.max(size, initial=0)) for size in sizes), default=0.0)
    with errstate(all="ignore"):
        grain = np.nan_to_num(top * reach / magnitudes(problem.at[name]), posinf=0.0)
    problem.grains[name] = grain
    return grain


def entry_noise(problem: Problem, row: Row, column: Column) -> float:
    """The change of an entry by the reverse rule when its input changes in the last places."""
    name, at = column.name, problem.at[column.name]
    found = []
    for units in (-4, 4):
        moved = (at * (1 + units * np.finfo(at.dtype).eps)).astype(at.dtype)
        outputs, used = problem.call({name: moved}, leaves=True)
        gradient = problem.pull(outputs, used, row.weights(len(outputs)))[name]
        found.append(inner([gradient], [column.direction]))
    return abs(found[0] - found[1])


def _units(dtype: Any) -> list[Any]:
    return [1.0, 1j] if dtype.kind == "c" else [1.0]


def columns_of(
    problem: Problem, name: str, most: int = _ONE_BY_ONE, blocks: int = _BLOCKS
) -> list[Column]:
    """Directions that together reach every element of an input."""
    at = problem.at[name]
    sizes = magnitudes(at)
    made = []
    if at.size <= most:
        for index in np.ndindex(at.shape):
            if not np.isfinite(at[index]):
                continue
            for unit in _units(at.dtype):
                direction = np.zeros(at.shape, at.dtype)
                direction[index] = unit * sizes[index]
                made.append(Column(name, direction, index))
        return made
    for block in np.array_split(problem.random.permutation(at.size), blocks):
        direction = np.zeros(at.size, at.dtype)
        direction[block] = problem.noise(at).ravel()[block] * sizes.ravel()[block]
        direction[~np.isfinite(at.ravel())] = 0
        made.append(Column(name, direction.reshape(at.shape), None))
    return made


def _rows_of(problem: Problem) -> list[Row]:
    """Cotangents that together reach every element of every differentiable output."""
    made = []
    for number, (out, known) in enumerate(
        zip(problem.here, problem.is_differentiable, strict=True)
    ):
        if not known:
            continue
        if out.size <= _ONE_BY_ONE:
            for index in np.ndindex(out.shape):
                for unit in _units(out.dtype):
                    cotangent = np.zeros(out.shape, out.dtype)
                    cotangent[index] = unit
                    made.append(Row(number, cotangent, index))
            continue
        sizes = magnitudes(out).ravel()
        for block in np.array_split(problem.random.permutation(out.size), _BLOCKS):
            flat = np.zeros(out.size, out.dtype)
            flat[block] = problem.noise(out).ravel()[block] / sizes[block]
            made.append(Row(number, flat.reshape(out.shape), None))
    return made


@dataclass(frozen=True)
class Pulled:
    """The rows of a problem's Jacobian by the reverse rule."""

    rows: list[Row]
    gradients: list[dict[str, _Array]]  # for each row, by input
    weights: Weights  # the rows' cotangents


def pull_rows(problem: Problem) -> Pulled:
    """All rows, computed once for a problem."""
    if problem.pulled is None:
        outputs, used = problem.call({}, leaves=True)
        rows = _rows_of(problem)
        gradients = [problem.pull(outputs, used, row.weights(len(outputs))) for row in rows]
        weights = Weights([row.dense(problem.here) for row in rows])
        problem.pulled = Pulled(rows, gradients, weights)
    found: Pulled = problem.pulled
    return found


def _width(eps: float) -> float:
    return 2e-3 if eps < 1e-12 else 3e-2


class Weights:
    """Rows of weights for lists of arrays, as one matrix: inner products with all at once."""

    def __init__(self, rows: list[list[_Array]]):
        self.matrix = np.array([_flat(row) for row in rows])
        self.sizes = np.abs(self.matrix)

    def inner(self, arrays: list[_Array]) -> NDArray[np.float64]:
        """The real inner product of every row with the arrays; zero times NaN is zero."""
        flat = _flat(arrays)
        with errstate(all="ignore"):
            found = np.asarray((self.matrix.conj() @ flat).real, float)
            if np.isfinite(found).all():
                return found
            is_zero = (self.matrix == 0) | (flat == 0)
            products = np.where(is_zero, 0, self.matrix.conj() * flat)
            return np.asarray(products.sum(1).real, float)

    def bound(self, errors: list[_Array]) -> NDArray[np.float64]:
        """The error of every inner product, from those of the elements."""
        flat = np.abs(_flat(errors))
        with errstate(all="ignore"):
            found = np.asarray(self.sizes @ flat, float)
            if np.isfinite(found).all():
                return found
            return np.asarray(np.where(self.sizes == 0, 0, self.sizes * flat).sum(1), float)


def _flat(arrays: list[_Array]) -> _Array:
    return arrays[0].ravel() if len(arrays) == 1 else np.concatenate([a.ravel() for a in arrays])


def compare_with_differences(
    problem: Problem,
    fn: Callable[[_Array], list[_Array]],
    column: Column,
    weights: Weights,
    found: NDArray[np.float64],
    here: list[_Array],
    at: _Array | None = None,
    grain: list[_Array] | None = None,
) -> tuple[int, float] | None:
    """The first row whose entry finite differences contradict, and what they give.

    `weights` are rows for the outputs of `fn`, and `found` the entries to be compared. `here` is
    ``fn(at)``, at the input's value unless `at` is given, and `grain` as for `slope`.
    """
    at = problem.at[column.name] if at is None else at
    size = float(np.max(np.abs(column.direction), initial=0.0))
    if not size:
        return None
    rtol = problem.case.rtol or (_RTOL if problem.is_wide else 2e-2)
    atol = problem.case.atol or 0.0
    suspects = np.arange(len(found))
    with errstate(all="ignore"):
        try:
            quick = slope(fn, at, column.direction, _width(problem.eps), here, grain)
        except Exception:  # a step may leave the domain in a way that the kernel refuses
            quick = None
        if quick is not None:
            values = weights.inner(quick.values)
            gaps = np.abs(found - values)
            near = gaps <= rtol * np.maximum(np.abs(found), np.abs(values)) + atol
            if size >= 1e-2:
                noise = weights.bound([8 * problem.eps * np.abs(f) for f in here])
                certain = np.isfinite(weights.bound(quick.errors))
                near |= (gaps <= noise / _width(problem.eps)) & certain
            suspects = np.flatnonzero(~near)
    if not suspects.size:
        return None
    best = ladder_slope(fn, at, column.direction, {1.0, min(1.0 / size, 1e12)}, grain)
    values, errors = weights.inner(best.values), weights.bound(best.errors)
    is_smooth = all(bool(np.all(np.isfinite(e))) for e in best.errors)
    for number in suspects:
        value, error, entry = float(values[number]), float(errors[number]), float(found[number])
        if not np.isfinite([value, error]).all():
            continue
        if np.isfinite(entry) and max(abs(value), abs(entry)) / max(size, 1.0) < _TINY:
            continue
        # A cotangent of zero times an infinite derivative is NaN, in every library.
        if not np.isfinite(entry) and not is_smooth:
            continue
        gap = abs(entry - value)
        limit = 10 * error + 5 * rtol * max(abs(value), abs(entry)) + atol
        if not gap <= limit and _is_certain(gap, error, value):
            return int(number), value
    return None


def _is_certain(gap: float, error: float, value: float) -> bool:
    return not np.isfinite(gap) or error <= 0.05 * max(gap, abs(value))
