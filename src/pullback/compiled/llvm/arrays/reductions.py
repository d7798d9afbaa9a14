"""Reductions in machine code: how elements, lanes and partial results are combined.

Long sums of floating-point numbers keep the rounding errors of their steps (an ``Accumulator`` that
is exact), so that they are at least as exact as a pairwise summation. All others combine elements
by the function of ``COMBINERS``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compiled.llvm.arrays.code import Code
from pullback.compiled.llvm.vector.elements import elementwise
from pullback.compiled.llvm.vector.lanes import Lanes
from pullback.compiled.llvm.vector.values import extend, full, map_parts, take_lanes
from pullback.compiled.lowering.elementwise import COMBINERS

__all__ = ["Accumulator", "combine", "combine_lanes", "neutral"]


def combine(code: Code, combiner: str, x: Any, y: Any, dtype: np.dtype[Any], width: int) -> Any:
    """One step of a reduction."""
    if dtype.kind == "b" and combiner in ("all", "any"):
        return (code.b.and_ if combiner == "all" else code.b.or_)(x, y)
    return elementwise(code.b, COMBINERS[combiner], [x, y], dtype, width)


def neutral(combiner: str, dtype: np.dtype[Any]) -> Any:
    """The value that a reduction begins with."""
    if combiner == "sum":  # -0.0 + x is x, also for x = -0.0
        return {"f": -0.0, "c": complex(-0.0, -0.0)}.get(dtype.kind, 0)
    if combiner == "any":
        return 0
    if combiner in ("prod", "all"):
        return 1
    if dtype.kind == "b":
        return combiner == "min"
    if dtype.kind == "f":
        return -np.inf if combiner == "max" else np.inf
    info = np.iinfo(dtype)
    return info.min if combiner == "max" else info.max


def combine_lanes(
    code: Code, combiner: str, total: Any, error: Any, dtype: np.dtype[Any], width: int
) -> Any:
    """The lanes of a vector combined to a scalar, halves first; `width` is a power of two.

    `error` has what each lane of a sum has lost; None if that is not known.
    """
    while width > 1:
        width //= 2
        halves = (range(width), range(width, 2 * width))
        low, high = (take_lanes(code.b, total, half) for half in halves)
        if error is None:
            total = combine(code, combiner, low, high, dtype, width)
        else:
            errors = [take_lanes(code.b, error, half) for half in halves]
            total, lost = _exact_sum(code, low, high, dtype, width)
            error = code.b.fadd(code.b.fadd(*errors), lost)
    return total if error is None else _with_error(code, total, error, dtype, 1)


def _exact_sum(code: Code, x: Any, y: Any, dtype: np.dtype[Any], width: int) -> tuple[Any, Any]:
    """x + y and its rounding error (Knuth's two-sum)."""
    lanes = Lanes(code.b, width, 8 * dtype.itemsize)
    total, error = lanes.two_sum(lanes.number(x), lanes.number(y))
    return total.value, error.value


def _with_error(code: Code, total: Any, error: Any, dtype: np.dtype[Any], width: int) -> Any:
    """A sum and the sum of its errors, which are NaN for an infinite sum."""
    is_finite = elementwise(code.b, "isfinite", [total], dtype, width)
    return code.b.select(is_finite, code.b.fadd(total, error), total)


class _Slot:
    """A vector, or both parts of a complex one, on the stack; LLVM makes registers of it."""

    def __init__(self, code: Code, start: Any):
        self._b = code.b
        self._places = map_parts(lambda part: code.variable(part.type), start)
        self.store(start)

    def load(self) -> Any:
        """The value."""
        return map_parts(self._b.load, self._places)

    def store(self, value: Any) -> None:
        """Replaces the value."""
        map_parts(self._b.store, value, self._places)


class Accumulator:
    """The result of a reduction so far, in each lane; of an exact one also the sum of its errors.

    Long sums of floating-point numbers keep the rounding errors of their steps.
    """

    def __init__(
        self, code: Code, combiner: str, dtype: np.dtype[Any], width: int, *, is_exact: bool
    ):
        self.code, self.combiner, self.dtype, self.width = code, combiner, dtype, width
        self.total = _Slot(code, full(neutral(combiner, dtype), dtype, width))
        self.error = _Slot(code, full(0, dtype, width)) if is_exact else None

    def add(self, value: Any, width: int) -> None:
        """Accumulates one vector of elements, which may have fewer lanes."""
        code, before = self.code, self.total.load()
        start = neutral(self.combiner, self.dtype)
        value = extend(code.b, value, width, start, self.dtype, self.width)
        if self.error is None:
            total = combine(code, self.combiner, before, value, self.dtype, self.width)
        else:
            total, lost = _exact_sum(code, before, value, self.dtype, self.width)
            self.error.store(code.b.fadd(self.error.load(), lost))
        self.total.store(total)

    def finish(self) -> Any:
        """The result in each lane."""
        total = self.total.load()
        if self.error is None:
            return total
        return _with_error(self.code, total, self.error.load(), self.dtype, self.width)

    def finish_lanes(self) -> Any:
        """The result of all lanes; their number is a power of two."""
        error = None if self.error is None else self.error.load()
        total = self.total.load()
        return combine_lanes(self.code, self.combiner, total, error, self.dtype, self.width)
