"""Exponential and hyperbolic functions.

exp(x) = 2**k exp(r) with k = round(x / log(2)) and |r| <= log(2) / 2, where a polynomial of degree
11 has an error below 2**-57. The reduced argument keeps what its rounding loses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.compiled.llvm.vector.lanes import Lanes, Pair

__all__ = ["FUNCTIONS", "LN2", "LN2_HIGH", "LN2_LOW", "exp_pair"]

LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # its last 20 bits are 0: products with k are exact
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
LN2 = Pair(float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"))

# From scripts/vector_coefficients.py: (exp(r) - 1 - r) / r**2 and (sinh(x) - x) / x**3 of x**2
_EXP = (
    0.5000000000000012,
    0.166666666666667,
    0.04166666666652183,
    0.008333333333307921,
    0.001388888894557061,
    0.000198412699160909,
    2.4801491270708445e-05,
    2.755721729052829e-06,
    2.763085059350154e-07,
    2.511758721855606e-08,
)
_SINH = (
    0.16666666666666666,
    0.008333333333333333,
    0.00019841269841269592,
    2.755731922411934e-06,
    2.5052108345822422e-08,
    1.6059050685556824e-10,
    7.646477557934275e-13,
    2.8483694603681707e-15,
)
_LARGEST = 710.0  # beyond, exp overflows
_SMALLEST = -746.0  # beyond, exp vanishes
_TINY = 2.0**-54  # where f(x) = x for the functions that are odd, or nearly


class _Reduced(NamedTuple):
    """x = k log(2) + r + c, and exp(r + c) = 1 + r + rest."""

    k: Any
    r: Any
    rest: Any


def _reduce(e: Lanes, x: Any, tail: Any = None) -> _Reduced:
    """The parts of exp(x + tail) for |x| <= 746; the tail may be as large as the last bits of x."""
    n, k = e.round(x, 1 / math.log(2))
    high = e.fma(n, -LN2_HIGH, x)
    low = n * LN2_LOW
    r = high - low
    c = high - r - low
    p = e.polynomial(r, _EXP)
    square = r * r
    if tail is not None:  # exp(r + t) = exp(r) + exp(r) t
        c = (c + tail) * (e.fma(square, p, r) + 1.0)
    return _Reduced(k, r, e.fma(square, p, c))


def exp_pair(e: Lanes, x: Any, tail: Any = None) -> tuple[Any, Pair]:
    """(k, y) with exp(x + tail) = 2**k y, for |x| <= 746."""
    k, r, rest = _reduce(e, x, tail)
    minus_one = e.fast_two_sum(r, rest)
    high, low = e.fast_two_sum(1.0, minus_one.high)
    return k, Pair(high, low + minus_one.low)


class _Series(NamedTuple):
    """exp(r) - 1 - r = square (start + square rest), in parts that are ready at about one time."""

    square: Any
    start: Any
    rest: Any


def _series(e: Lanes, r: Any) -> _Series:
    return _Series(r * r, e.fma(r, _EXP[1], _EXP[0]), e.polynomial(r, _EXP[2:]))


def _exp(e: Lanes, x: Any) -> Any:
    """e**x, written for a short chain of dependencies.

    The argument is reduced in one step: r is exact, and exp(r + c) = exp(r) + exp(r) c. All but the
    last terms of the series are summed while the polynomial is computed.
    """
    x = e.at_most(e.at_least(x, _SMALLEST), _LARGEST)
    n, k = e.round(x, 1 / math.log(2))
    r = e.fma(n, -LN2.high, x)
    near, lost = e.fast_two_sum(1.0, r)
    square, start, rest = _series(e, r)
    c = n * -LN2.low
    first = e.fma(c, e.fma(square, start, r), e.fma(square, start, lost + c))
    return e.scale(near + e.fma(square * square, rest, first), k)


def _exp2(e: Lanes, x: Any) -> Any:
    """2**x."""
    n, k = e.round(e.at_most(e.at_least(x, -1080.0), 1030.0))
    fraction = e.at_most(e.at_least(x, -1080.0), 1030.0) - n
    high, low = e.two_product(fraction, LN2.high)
    shift, y = exp_pair(e, high, e.fma(fraction, LN2.low, low))
    return e.scale(e.total(y), k + shift)


def _half_expm1(e: Lanes, x: Any) -> Pair:
    """(exp(x) - 1) / 2, for -700 <= x <= 709.9."""
    k, r, rest = _reduce(e, x)
    m = e.fast_two_sum(r, rest)  # exp(r) - 1
    return _scaled_half(e, k, m)


def _scaled_half(e: Lanes, k: Any, m: Pair, sign: int = -1) -> Pair:
    """(2**k (1 + m) + sign) / 2."""
    scale = e.power_of_two(k - 1)
    shift = scale + 0.5 * sign
    lost = 0.5 * sign - (shift - scale)  # from a scale of 2**52 on
    high = e.fma(scale, m.high, shift)
    low = e.fma(scale, m.low, lost)
    return Pair(high, low + e.fma(scale, m.high, shift - high))


def _half_exponentials_of_twice(e: Lanes, x: Any) -> tuple[Pair, Pair]:
    """(exp(2 x) - 1) / 2 and (exp(2 x) + 1) / 2, for 0 <= x <= 20.

    Written for a short chain of dependencies, which programs on few elements wait for: the argument
    is reduced in one step, whose rounding the result bears (0.2 units in the last place).
    """
    n, k = e.round(x, 2 / math.log(2))
    r = e.fma(n, -LN2.high, x + x)
    square, start, rest = _series(e, r)
    high = e.fma(square * square, rest, e.fma(square, start, r))  # exp(r) - 1
    low = e.fma(square, e.fma(square, rest, start), r - high)
    low = e.fma(n, -LN2.low, low)
    m = Pair(high, low)
    return _scaled_half(e, k, m), _scaled_half(e, k, m, 1)


def _expm1(e: Lanes, x: Any) -> Any:
    """e**x - 1."""
    half = _half_expm1(e, e.at_most(e.at_least(x, -100.0), 709.9))
    y = e.total(half)
    return e.where(abs(x) < _TINY, x, y + y)


def _tanh(e: Lanes, x: Any) -> Any:
    """(exp(2|x|) - 1) / (exp(2|x|) + 1)."""
    size = e.at_most(abs(x), 20.0)
    y = e.quotient(*_half_exponentials_of_twice(e, size))
    y = e.where(size < _TINY, size, y)
    return e.copysign(y, x)


def _half_exponentials(e: Lanes, size: Any) -> tuple[Pair, Pair]:
    """exp(a) / 8 and exp(-a) / 8 for 0 <= a <= 711; the second is 2**-60 or less beyond 42."""
    k, y = exp_pair(e, size)
    inverse = e.pair_quotient(Pair(1.0, 0.0), y)
    up = e.power_of_two(k - 3)
    small = e.where(k < 60, k, 60)
    down = e.power_of_two(-3 - small)
    growing = e.pair_scale(y, up)
    return growing, e.pair_scale(inverse, down)


def _sinh(e: Lanes, x: Any) -> Any:
    """A polynomial up to 1, then (exp(x) - exp(-x)) / 2."""
    size = abs(x)
    square = x * x
    near = e.fma(x * square, e.polynomial(square, _SINH), x)
    up, down = _half_exponentials(e, e.at_most(size, 711.0))
    y = e.pair_sum(up, Pair(-down.high, -down.low))
    far = e.copysign(e.total(y) * 4.0, x)
    return e.where(size < 1.0, near, far)


def _cosh(e: Lanes, x: Any) -> Any:
    """(exp(x) + exp(-x)) / 2."""
    up, down = _half_exponentials(e, e.at_most(abs(x), 711.0))
    y = e.pair_sum(up, down)
    return e.total(y) * 4.0


def _sigmoid(e: Lanes, x: Any) -> Any:
    """1 / (1 + exp(-x)), by exp(-|x|), which does not overflow."""
    k, y = exp_pair(e, -e.at_most(abs(x), -_SMALLEST))
    is_negative = x < 0.0
    near = e.where(k > -1000, k, -1000)
    scale = e.power_of_two(near)
    below = e.two_sum(1.0, y.high * scale)
    divisor = Pair(below.high, e.fma(y.low, scale, below.low))
    above = Pair(
        e.where(is_negative, y.high, 1.0),
        e.where(is_negative, y.low, 0.0),
    )
    shift = e.where(is_negative, k, 0)
    return e.scale(e.quotient(above, divisor), shift)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cosh": _cosh,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "sigmoid": _sigmoid,
    "sinh": _sinh,
    "tanh": _tanh,
}
"""Functions by NumPy's names."""
