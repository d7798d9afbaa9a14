"""Rounding, remainders, signs, extrema and classes of numbers, as NumPy defines them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from pullback.compiled.llvm.vector.lanes import Lanes

__all__ = ["FUNCTIONS", "REMAINDERS", "is_finite", "is_infinite"]

_EXACT_QUOTIENT = 2.0**52


def _fmod(e: Lanes, x: Any, y: Any) -> Any:
    """The remainder with the sign of x; libm for quotients beyond 2**52."""
    size, divisor = abs(x), abs(y)
    quotient = e.intrinsic("trunc", size / divisor)
    rest = e.fma(-quotient, divisor, size)  # exact; the quotient may be off by one
    rest = e.where(rest < 0.0, rest + divisor, rest)
    rest = e.where(rest >= divisor, rest - divisor, rest)
    result = e.copysign(rest, x)
    is_far = e.unordered(">=", quotient, _EXACT_QUOTIENT)
    is_small = e.unordered("<", divisor, 2.0**-960)
    is_hard = is_far | (is_small | (divisor == math.inf))
    return e.library_where(is_hard, "fmod", [x, y], result)


def _divide(e: Lanes, x: Any, y: Any) -> tuple[Any, Any]:
    """The remainder with the sign of x, and whether y has another sign."""
    rest = _fmod(e, x, y)
    differs = (y < 0.0) ^ (rest < 0.0)
    return rest, (rest != 0.0) & differs


def _remainder(e: Lanes, x: Any, y: Any) -> Any:
    """x - y floor(x / y), with the sign of y; Python's %."""
    rest, moves = _divide(e, x, y)
    rest = e.where(moves, rest + y, rest)
    is_nothing = rest == 0.0
    return e.where(is_nothing, e.copysign(0.0, y), rest)


def _floor_divide(e: Lanes, x: Any, y: Any) -> Any:
    """floor(x / y); x / y where y is 0."""
    rest, moves = _divide(e, x, y)
    quotient = (x - rest) / y
    quotient = e.where(moves, quotient - 1.0, quotient)
    low = e.intrinsic("floor", quotient)
    low = e.where(quotient - low > 0.5, low + 1.0, low)
    simple = x / y
    result = e.where(quotient == 0.0, e.copysign(0.0, simple), low)
    return e.where(y == 0.0, simple, result)


def _sign(e: Lanes, x: Any) -> Any:
    """-1, 0 or 1; NaN stays."""
    y = e.where(x < 0.0, -1.0, x)
    y = e.where(x > 0.0, 1.0, y)
    return e.where(x == 0.0, 0.0, y)


def _heaviside(e: Lanes, x: Any, middle: Any) -> Any:
    """0 below 0, 1 above, `middle` at 0."""
    y = e.where(x < 0.0, 0.0, x)
    y = e.where(x > 0.0, 1.0, y)
    return e.where(x == 0.0, middle, y)


def _extremum(comparison: Callable[..., Any], prefers_nan: bool) -> Callable[..., Any]:
    def function(e: Lanes, x: Any, y: Any) -> Any:
        checked = x if prefers_nan else y
        return e.where(comparison(x, y) | e.is_nan(checked), x, y)

    return function


def _intrinsic(name: str) -> Callable[..., Any]:
    return lambda e, x: e.intrinsic(name, x)


def is_infinite(_: Lanes, x: Any) -> Any:
    """Whether x is infinite."""
    return abs(x) == math.inf


def is_finite(_: Lanes, x: Any) -> Any:
    """Whether x is neither infinite nor NaN."""
    return abs(x) < math.inf


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absolute": Lanes.abs,
    "add": lambda _, x, y: x + y,
    "ceil": _intrinsic("ceil"),
    "copysign": Lanes.copysign,
    "divide": lambda _, x, y: x / y,
    "floor": _intrinsic("floor"),
    "fmax": _extremum(operator.ge, False),
    "fmin": _extremum(operator.le, False),
    "heaviside": _heaviside,
    "isfinite": is_finite,
    "isinf": is_infinite,
    "isnan": Lanes.is_nan,
    "maximum": _extremum(operator.gt, True),
    "minimum": _extremum(operator.lt, True),
    "multiply": lambda _, x, y: x * y,
    "negative": lambda _, x: -x,
    "reciprocal": lambda _, x: 1.0 / x,
    "rint": _intrinsic("rint"),
    "sign": _sign,
    "signbit": lambda e, x: e.bits(x) < 0,
    "sqrt": Lanes.sqrt,
    "square": lambda _, x: x * x,
    "subtract": lambda _, x, y: x - y,
    "trunc": _intrinsic("trunc"),
}
"""Functions by NumPy's names that are a few instructions, on Lanes."""
REMAINDERS: dict[str, Callable[..., Any]] = {
    "floor_divide": _floor_divide,
    "fmod": _fmod,
    "remainder": _remainder,
}
"""Those that are many instructions."""
