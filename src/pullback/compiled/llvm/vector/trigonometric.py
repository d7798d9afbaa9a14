"""Trigonometric functions and their inverses.

Arguments are reduced by a multiple of pi / 2 in three parts with fused multiply-add; beyond
`_REDUCTION_LIMIT` libm is called for the lane.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pullback.compiled.llvm.vector.lanes import Lanes, Pair

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

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
    first = e.fma(n, e.constant(-_HALF_PI[0]), x)  # exact: a multiple of 2**-52 below 1
    second = e.two_product(n, e.constant(-_HALF_PI[1]))
    r, tail = e.two_sum(first, second.high)
    tail = e.add(tail, e.fma(n, e.constant(-_HALF_PI[2]), second.low))
    z = e.mul(r, r)
    # sin(r + t) = r + (r**3 P(z) + t (1 - z / 2))
    half = e.mul(z, e.constant(0.5))
    turned = e.fma(e.neg(half), tail, tail)
    sine = e.fast_two_sum(r, e.fma(e.mul(r, z), e.polynomial(z, _SIN), turned))
    # cos(r + t) = 1 - z / 2 + (z**2 Q(z) - r t)
    lead = e.fast_two_sum(e.constant(1.0), e.neg(half))
    rest = e.fma(e.mul(z, z), e.polynomial(z, _COS), e.fma(e.neg(r), tail, lead.low))
    # what rounding the square loses
    rest = e.fma(e.constant(-0.5), e.fma(r, r, e.neg(z)), rest)
    return _Reduced(k, sine, e.fast_two_sum(lead.high, rest))


def _is_far(e: Lanes, x: Any) -> Any:
    return e.b.fcmp_unordered(">=", e.abs(x), e.constant(_REDUCTION_LIMIT))


def _is_odd(e: Lanes, k: Any) -> Any:
    return e.b.icmp_signed("!=", e.b.and_(k, e.integer(1)), e.integer(0))


def _quarter_turn(e: Lanes, k: Any, parts: _Reduced) -> Any:
    """sin(r + k pi / 2)."""
    y = e.where(_is_odd(e, k), parts.cosine.high, parts.sine.high)
    sign = e.b.shl(e.b.and_(k, e.integer(2)), e.integer(62))
    return e.from_bits(e.b.xor(e.bits(y), sign))


def sin(e: Lanes, x: Any) -> Any:
    """The sine."""
    parts = _reduce(e, x)
    y = e.where(e.equal(x, e.constant(0.0)), x, _quarter_turn(e, parts.k, parts))
    return e.library_where(_is_far(e, x), "sin", [x], y)


def cos(e: Lanes, x: Any) -> Any:
    """The cosine."""
    parts = _reduce(e, x)
    y = _quarter_turn(e, e.b.add(parts.k, e.integer(1)), parts)
    return e.library_where(_is_far(e, x), "cos", [x], y)


def tan(e: Lanes, x: Any) -> Any:
    """sin / cos, or -cos / sin in odd quadrants."""
    k, sine, cosine = _reduce(e, x)
    is_odd = _is_odd(e, k)
    above = Pair(*(e.where(is_odd, c, s) for s, c in zip(sine, cosine, strict=True)))
    below = Pair(*(e.where(is_odd, e.neg(s), c) for s, c in zip(sine, cosine, strict=True)))
    y = e.where(e.less(e.abs(x), e.constant(2.0**-28)), x, e.quotient(above, below))
    return e.library_where(_is_far(e, x), "tan", [x], y)


def _angle(e: Lanes, above: Any, below: Any) -> tuple[Any, Any]:
    """(q, t) with atan(above / below) = q pi / 4 + t, for finite values >= 0; q is 0, 1 or 2.

    The tangent is turned to at most tan(pi / 8).
    """
    is_low = e.b.fcmp_ordered("<=", above, e.mul(below, e.constant(_TAN_PI_8)))
    is_high = e.b.fcmp_ordered("<=", below, e.mul(above, e.constant(_TAN_PI_8)))
    difference, total = e.two_sum(above, e.neg(below)), e.two_sum(above, below)
    zero = e.constant(0.0)

    def chosen(low: Any, middle: Any, high: Any) -> Any:
        return e.where(is_low, low, e.where(is_high, high, middle))

    numerator = Pair(
        chosen(above, difference.high, e.neg(below)), chosen(zero, difference.low, zero)
    )
    divisor = Pair(chosen(below, total.high, above), chosen(zero, total.low, zero))
    first = e.div(numerator.high, divisor.high)
    rest = e.add(
        e.fma(e.neg(first), divisor.high, numerator.high),
        e.fma(e.neg(first), divisor.low, numerator.low),
    )
    tail = e.div(rest, divisor.high)
    z = e.mul(first, first)
    tail = e.fma(e.mul(first, z), e.polynomial(z, _ATAN), tail)
    quarters = chosen(zero, e.constant(1.0), e.constant(2.0))
    return quarters, Pair(first, tail)


def _turned(e: Lanes, quarters: Any, angle: Pair) -> Any:
    """quarters pi / 4 + angle."""
    high, low = e.two_sum(e.mul(quarters, e.constant(_QUARTER_PI.high)), angle.high)
    low = e.add(low, e.fma(quarters, e.constant(_QUARTER_PI.low), angle.low))
    return e.add(high, low)


def atan(e: Lanes, x: Any) -> Any:
    """The inverse tangent."""
    size = e.abs(x)
    quarters, angle = _angle(e, e.at_most(size, 2.0**60), e.constant(1.0))
    y = e.where(e.less(size, e.constant(2.0**-28)), size, _turned(e, quarters, angle))
    return e.copysign(y, x)


def atan2(e: Lanes, y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    b, zero, inf = e.b, e.constant(0.0), e.constant(math.inf)
    above, below = e.abs(y), e.abs(x)
    is_infinite = b.and_(e.equal(above, inf), e.equal(below, inf))
    above, below = (e.where(is_infinite, e.constant(1.0), v) for v in (above, below))
    one_infinite = b.or_(e.equal(above, inf), e.equal(below, inf))
    above, below = (
        e.where(one_infinite, e.where(e.equal(v, inf), e.constant(1.0), zero), v)
        for v in (above, below)
    )
    largest = e.where(e.greater(above, below), above, below)
    is_large, is_small = (
        e.greater(largest, e.constant(2.0**900)),
        e.less(largest, e.constant(2.0**-900)),
    )
    factor = e.where(is_large, e.constant(2.0**-150), e.constant(1.0))
    factor = e.where(is_small, e.constant(2.0**150), factor)
    above, below = e.mul(above, factor), e.mul(below, factor)
    is_origin = e.equal(largest, zero)
    quarters, angle = _angle(e, above, e.where(is_origin, e.constant(1.0), below))
    is_left = b.icmp_signed("<", e.bits(x), e.integer(0))
    quarters = e.where(is_left, e.sub(e.constant(4.0), quarters), quarters)
    angle = Pair(*(e.where(is_left, e.neg(part), part) for part in angle))
    near = _turned(e, quarters, angle)
    ratio = e.div(above, below)  # exact where the angle is its tangent; may be subnormal
    is_tiny = b.and_(b.not_(is_left), e.less(ratio, e.constant(2.0**-28)))
    result = e.copysign(e.where(is_tiny, ratio, near), y)
    result = e.where(b.and_(is_origin, b.not_(is_left)), y, result)
    return e.where(b.fcmp_unordered("uno", x, y), e.add(x, y), result)


def _arcsine(e: Lanes, x: Any) -> tuple[Any, Pair]:
    """(is_far, t): asin(|x|) is t where |x| <= 1/2, and pi / 2 - 2 t where it is far."""
    size = e.abs(x)
    is_far = e.greater(size, e.constant(0.5))
    half = e.mul(e.sub(e.constant(1.0), size), e.constant(0.5))
    square = e.where(is_far, half, e.mul(size, size))
    root = e.sqrt(half)
    is_one = e.equal(half, e.constant(0.0))
    lost = e.div(e.fma(e.neg(root), root, half), e.add(root, root))
    lost = e.where(is_one, e.constant(0.0), lost)
    first = e.where(is_far, root, size)
    tail = e.where(is_far, lost, e.constant(0.0))
    tail = e.fma(e.mul(first, square), e.polynomial(square, _ASIN), tail)
    return is_far, Pair(first, tail)


def asin(e: Lanes, x: Any) -> Any:
    """The inverse sine; NaN outside of [-1, 1]."""
    is_far, t = _arcsine(e, x)
    near = e.total(t)
    far = _turned(e, e.constant(2.0), e.pair_scale(t, e.constant(-2.0)))
    return e.copysign(e.where(is_far, far, near), x)


def acos(e: Lanes, x: Any) -> Any:
    """The inverse cosine; NaN outside of [-1, 1]."""
    is_far, t = _arcsine(e, x)
    is_negative = e.less(x, e.constant(0.0))
    two, one = e.constant(2.0), e.constant(1.0)
    # far: 2 t, or pi - 2 t; near: pi / 2 - t, or pi / 2 + t
    factor = e.where(is_far, two, e.neg(one))
    factor = e.where(is_negative, e.neg(factor), factor)
    turns = e.where(is_negative, e.constant(4.0), e.constant(0.0))
    quarters = e.where(is_far, turns, two)
    return _turned(e, quarters, e.pair_scale(t, factor))
