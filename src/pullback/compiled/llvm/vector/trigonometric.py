"""Trigonometric functions and their inverses.

Arguments are reduced by a multiple of pi / 2 in three parts with fused multiply-add; beyond
`_REDUCTION_LIMIT` libm is called for the lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.compiled.llvm.vector.lanes import Lanes, Pair

__all__ = ["FUNCTIONS"]

_REDUCTION_LIMIT = 2.0**30
_HALF_PI = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)
_QUARTER_PI = Pair(_HALF_PI[0] / 2, _HALF_PI[1] / 2)
_TAN_PI_8 = math.sqrt(2) - 1

# From scripts/vector_coefficients.py: (sin(r) - r) / r**3, (cos(r) - 1 + z / 2) / z**2,
# (atan(t) - t) / t**3 and (asin(t) - t) / t**3 of the square z of their argument
_SIN = (
    -0.16666666666666632,
    0.008333333333322562,
    -0.0001984126982990706,
    2.7557313721826466e-06,
    -2.5050762302930697e-08,
    1.5897017173964536e-10,
)
_COS = (
    0.041666666666666616,
    -0.0013888888888876024,
    2.4801587290518475e-05,
    -2.7557314619896153e-07,
    2.08757563300702e-09,
    -1.1361223291507334e-11,
)
_ATAN = (
    -0.3333333333333333,
    0.1999999999999814,
    -0.14285714285435427,
    0.11111111090667483,
    -0.09090908222506719,
    0.07692284322487244,
    -0.06666247573760123,
    0.05877207885825941,
    -0.052195091450137274,
    0.04507727208885436,
    -0.03356554842861714,
    0.015282313069300543,
)
_ASIN = (
    0.1666666666666674,
    0.07499999999975072,
    0.0446428571713124,
    0.030381942841698192,
    0.02237221170316526,
    0.01735166442284802,
    0.013980253930704173,
    0.011403143114698986,
    0.010758403478400817,
    0.003783053979078843,
    0.021533101304198703,
    -0.020767081849834466,
    0.03249155099856197,
)


class _Reduced(NamedTuple):
    """x = k pi / 2 + r, and the sine and cosine of r."""

    k: Any
    sine: Pair
    cosine: Pair


def _reduce(e: Lanes, x: Any) -> _Reduced:
    """The parts of x for |x| <= _REDUCTION_LIMIT."""
    n, k = e.round(x, 2 / math.pi)
    first = e.fma(n, -_HALF_PI[0], x)  # exact: a multiple of 2**-52 below 1
    second = e.two_product(n, -_HALF_PI[1])
    r, tail = e.two_sum(first, second.high)
    tail = tail + e.fma(n, -_HALF_PI[2], second.low)
    z = r * r
    # sin(r + t) = r + (r**3 P(z) + t (1 - z / 2))
    half = z * 0.5
    turned = e.fma(-half, tail, tail)
    sine = e.fast_two_sum(r, e.fma(r * z, e.polynomial(z, _SIN), turned))
    # cos(r + t) = 1 - z / 2 + (z**2 Q(z) - r t)
    lead = e.fast_two_sum(1.0, -half)
    rest = e.fma(z * z, e.polynomial(z, _COS), e.fma(-r, tail, lead.low))
    # what rounding the square loses
    rest = e.fma(-0.5, e.fma(r, r, -z), rest)
    return _Reduced(k, sine, e.fast_two_sum(lead.high, rest))


def _is_far(e: Lanes, x: Any) -> Any:
    return e.unordered(">=", abs(x), _REDUCTION_LIMIT)


def _is_odd(k: Any) -> Any:
    return (k & 1) != 0


def _quarter_turn(e: Lanes, k: Any, parts: _Reduced) -> Any:
    """sin(r + k pi / 2)."""
    y = e.where(_is_odd(k), parts.cosine.high, parts.sine.high)
    sign = (k & 2) << 62
    return e.from_bits(e.bits(y) ^ sign)


def _sin(e: Lanes, x: Any) -> Any:
    """The sine."""
    parts = _reduce(e, x)
    y = e.where(x == 0.0, x, _quarter_turn(e, parts.k, parts))
    return e.library_where(_is_far(e, x), "sin", [x], y)


def _cos(e: Lanes, x: Any) -> Any:
    """The cosine."""
    parts = _reduce(e, x)
    y = _quarter_turn(e, parts.k + 1, parts)
    return e.library_where(_is_far(e, x), "cos", [x], y)


def _tan(e: Lanes, x: Any) -> Any:
    """sin / cos, or -cos / sin in odd quadrants."""
    k, sine, cosine = _reduce(e, x)
    is_odd = _is_odd(k)
    above = Pair(*(e.where(is_odd, c, s) for s, c in zip(sine, cosine, strict=True)))
    below = Pair(*(e.where(is_odd, -s, c) for s, c in zip(sine, cosine, strict=True)))
    y = e.where(abs(x) < 2.0**-28, x, e.quotient(above, below))
    return e.library_where(_is_far(e, x), "tan", [x], y)


def _angle(e: Lanes, above: Any, below: Any) -> tuple[Any, Any]:
    """(q, t) with atan(above / below) = q pi / 4 + t, for finite values >= 0; q is 0, 1 or 2.

    The tangent is turned to at most tan(pi / 8).
    """
    is_low = above <= below * _TAN_PI_8
    is_high = below <= above * _TAN_PI_8
    difference, total = e.two_sum(above, -below), e.two_sum(above, below)

    def chosen(low: Any, middle: Any, high: Any) -> Any:
        return e.where(is_low, low, e.where(is_high, high, middle))

    numerator = Pair(chosen(above, difference.high, -below), chosen(0.0, difference.low, 0.0))
    divisor = Pair(chosen(below, total.high, above), chosen(0.0, total.low, 0.0))
    first = numerator.high / divisor.high
    rest = e.fma(-first, divisor.high, numerator.high) + e.fma(-first, divisor.low, numerator.low)
    tail = rest / divisor.high
    z = first * first
    tail = e.fma(first * z, e.polynomial(z, _ATAN), tail)
    quarters = chosen(0.0, 1.0, 2.0)
    return quarters, Pair(first, tail)


def _turn(e: Lanes, quarters: Any, angle: Pair) -> Any:
    """quarters pi / 4 + angle."""
    high, low = e.two_sum(quarters * _QUARTER_PI.high, angle.high)
    low = low + e.fma(quarters, _QUARTER_PI.low, angle.low)
    return high + low


def _atan(e: Lanes, x: Any) -> Any:
    """The inverse tangent."""
    size = abs(x)
    quarters, angle = _angle(e, e.at_most(size, 2.0**60), 1.0)
    y = e.where(size < 2.0**-28, size, _turn(e, quarters, angle))
    return e.copysign(y, x)


def _atan2(e: Lanes, y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    above, below = abs(y), abs(x)
    is_infinite = (above == math.inf) & (below == math.inf)
    above, below = (e.where(is_infinite, 1.0, v) for v in (above, below))
    one_infinite = (above == math.inf) | (below == math.inf)
    above, below = (
        e.where(one_infinite, e.where(v == math.inf, 1.0, 0.0), v) for v in (above, below)
    )
    largest = e.where(above > below, above, below)
    is_large, is_small = (
        largest > 2.0**900,
        largest < 2.0**-900,
    )
    factor = e.where(is_large, 2.0**-150, 1.0)
    factor = e.where(is_small, 2.0**150, factor)
    above, below = above * factor, below * factor
    is_origin = largest == 0.0
    quarters, angle = _angle(e, above, e.where(is_origin, 1.0, below))
    is_left = e.bits(x) < 0
    quarters = e.where(is_left, 4.0 - quarters, quarters)
    angle = Pair(*(e.where(is_left, -part, part) for part in angle))
    near = _turn(e, quarters, angle)
    ratio = above / below  # exact where the angle is its tangent; may be subnormal
    is_tiny = ~is_left & (ratio < 2.0**-28)
    result = e.copysign(e.where(is_tiny, ratio, near), y)
    result = e.where(is_origin & ~is_left, y, result)
    return e.where(e.is_nan(x, y), x + y, result)


def _arcsine(e: Lanes, x: Any) -> tuple[Any, Pair]:
    """(is_far, t): asin(|x|) is t where |x| <= 1/2, and pi / 2 - 2 t where it is far."""
    size = abs(x)
    is_far = size > 0.5
    half = (1.0 - size) * 0.5
    square = e.where(is_far, half, size * size)
    root = e.sqrt(half)
    is_one = half == 0.0
    lost = e.fma(-root, root, half) / (root + root)
    lost = e.where(is_one, 0.0, lost)
    first = e.where(is_far, root, size)
    tail = e.where(is_far, lost, 0.0)
    tail = e.fma(first * square, e.polynomial(square, _ASIN), tail)
    return is_far, Pair(first, tail)


def _asin(e: Lanes, x: Any) -> Any:
    """The inverse sine; NaN outside of [-1, 1]."""
    is_far, t = _arcsine(e, x)
    near = e.total(t)
    far = _turn(e, 2.0, e.pair_scale(t, -2.0))
    return e.copysign(e.where(is_far, far, near), x)


def _acos(e: Lanes, x: Any) -> Any:
    """The inverse cosine; NaN outside of [-1, 1]."""
    is_far, t = _arcsine(e, x)
    is_negative = x < 0.0
    # far: 2 t, or pi - 2 t; near: pi / 2 - t, or pi / 2 + t
    factor = e.where(is_far, 2.0, -1.0)
    factor = e.where(is_negative, -factor, factor)
    turns = e.where(is_negative, 4.0, 0.0)
    quarters = e.where(is_far, turns, 2.0)
    return _turn(e, quarters, e.pair_scale(t, factor))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arccos": _acos,
    "arcsin": _asin,
    "arctan": _atan,
    "arctan2": _atan2,
    "cos": _cos,
    "sin": _sin,
    "tan": _tan,
}
"""Functions by NumPy's names."""
