"""Rounding, remainders, signs, extrema and classes of numbers, as NumPy defines them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.compiled.llvm.vector.lanes import Lanes

__all__ = ["FUNCTIONS", "floor_divide", "fmod", "remainder"]

_EXACT_QUOTIENT = 2.0**52


def fmod(e: Lanes, x: Any, y: Any) -> Any:
    """The remainder with the sign of x; libm for quotients beyond 2**52."""
    size, divisor = e.abs(x), e.abs(y)
    quotient = e.intrinsic("trunc", e.div(size, divisor))
    rest = e.fma(e.neg(quotient), divisor, size)  # exact; the quotient may be off by one
    rest = e.where(e.less(rest, e.constant(0.0)), e.add(rest, divisor), rest)
    rest = e.where(e.b.fcmp_ordered(">=", rest, divisor), e.sub(rest, divisor), rest)
    result = e.copysign(rest, x)
    is_far = e.b.fcmp_unordered(">=", quotient, e.constant(_EXACT_QUOTIENT))
    is_small = e.b.fcmp_unordered("<", divisor, e.constant(2.0**-960))
    is_hard = e.b.or_(is_far, e.b.or_(is_small, e.equal(divisor, e.constant(math.inf))))
    return e.library_where(is_hard, "fmod", [x, y], result)


def _fmod(e: Lanes, x: Any, y: Any) -> tuple[Any, Any]:
    """The remainder with the sign of x, and whether y has another sign."""
    zero = e.constant(0.0)
    rest = fmod(e, x, y)
    differs = e.b.xor(e.less(y, zero), e.less(rest, zero))
    return rest, e.b.and_(e.b.fcmp_unordered("!=", rest, zero), differs)


def remainder(e: Lanes, x: Any, y: Any) -> Any:
    """x - y floor(x / y), with the sign of y; Python's %."""
    rest, moves = _fmod(e, x, y)
    rest = e.where(moves, e.add(rest, y), rest)
    is_nothing = e.equal(rest, e.constant(0.0))
    return e.where(is_nothing, e.copysign(e.constant(0.0), y), rest)


def floor_divide(e: Lanes, x: Any, y: Any) -> Any:
    """floor(x / y); x / y where y is 0."""
    zero, one = e.constant(0.0), e.constant(1.0)
    rest, moves = _fmod(e, x, y)
    quotient = e.div(e.sub(x, rest), y)
    quotient = e.where(moves, e.sub(quotient, one), quotient)
    low = e.intrinsic("floor", quotient)
    low = e.where(e.greater(e.sub(quotient, low), e.constant(0.5)), e.add(low, one), low)
    simple = e.div(x, y)
    result = e.where(e.equal(quotient, zero), e.copysign(zero, simple), low)
    return e.where(e.equal(y, zero), simple, result)


def _sign(e: Lanes, x: Any) -> Any:
    """-1, 0 or 1; NaN stays."""
    zero, one = e.constant(0.0), e.constant(1.0)
    y = e.where(e.less(x, zero), e.neg(one), x)
    y = e.where(e.greater(x, zero), one, y)
    return e.where(e.equal(x, zero), zero, y)


def _heaviside(e: Lanes, x: Any, middle: Any) -> Any:
    """0 below 0, 1 above, `middle` at 0."""
    y = e.where(e.less(x, e.constant(0.0)), e.constant(0.0), x)
    y = e.where(e.greater(x, e.constant(0.0)), e.constant(1.0), y)
    return e.where(e.equal(x, e.constant(0.0)), middle, y)


def _extremum(comparison: str, prefers_nan: bool) -> Callable[..., Any]:
    def function(e: Lanes, x: Any, y: Any) -> Any:
        checked = x if prefers_nan else y
        return e.where(e.b.or_(e.b.fcmp_ordered(comparison, x, y), e.is_nan(checked)), x, y)

    return function


def _rounded(name: str) -> Callable[..., Any]:
    return lambda e, x: e.intrinsic(name, x)


def _is_infinite(e: Lanes, x: Any) -> Any:
    return e.equal(e.abs(x), e.constant(math.inf))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absolute": Lanes.abs,
    "add": Lanes.add,
    "ceil": _rounded("ceil"),
    "copysign": Lanes.copysign,
    "divide": Lanes.div,
    "floor": _rounded("floor"),
    "fmax": _extremum(">=", False),
    "fmin": _extremum("<=", False),
    "heaviside": _heaviside,
    "isfinite": lambda e, x: e.less(e.abs(x), e.constant(math.inf)),
    "isinf": _is_infinite,
    "isnan": Lanes.is_nan,
    "maximum": _extremum(">", True),
    "minimum": _extremum("<", True),
    "multiply": Lanes.mul,
    "negative": Lanes.neg,
    "reciprocal": lambda e, x: e.div(e.constant(1.0), x),
    "rint": _rounded("rint"),
    "sign": _sign,
    "signbit": lambda e, x: e.b.icmp_signed("<", e.bits(x), e.integer(0)),
    "sqrt": Lanes.sqrt,
    "square": lambda e, x: e.mul(x, x),
    "subtract": Lanes.sub,
    "trunc": _rounded("trunc"),
}
"""Functions by NumPy's names that are a few instructions, on Lanes."""
