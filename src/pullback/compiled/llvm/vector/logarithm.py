"""Logarithms, inverse hyperbolic functions, and powers, which are made of a logarithm.

x = 2**k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and log(1 + f) is an odd function of
s = f / (2 + f).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pullback.compiled.llvm.vector.exponential import LN2, LN2_HIGH, LN2_LOW, exp_pair
from pullback.compiled.llvm.vector.lanes import Lanes, Pair

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cbrt",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "power",
]

_SMALLEST_NORMAL = 2.0**-1022
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_INVERSE_LN2 = Pair(float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56"))
_INVERSE_LN10 = Pair(float.fromhex("0x1.bcb7b1526e50ep-2"), float.fromhex("0x1.95355baaafad3p-57"))
_LOG10_2_HIGH = float.fromhex("0x1.34413508p-2")  # its last bits are 0: products with k are exact
_LOG10_2_LOW = float.fromhex("0x1.f79fef311f12bp-34")
_TWO_THIRDS = Pair(2 / 3, float.fromhex("0x1.5555555555555p-55"))
_CBRT_BIAS = 0x2A9F7625_3119D328  # two thirds of the exponent's bias, less a mean error
_TINY = 2.0**-28  # where odd functions are x up to its last bit
_LARGE = 2.0**28  # where 1 + x**2 is x**2 up to its last bit

# From scripts/vector_coefficients.py: (log((1 + s) / (1 - s)) - 2 s) / s**3 of s**2, and the same
# without its first term
_LOG = (
    0.66666666666667,
    0.3999999999961085,
    0.28571428703889423,
    0.22222202154968176,
    0.1818339255305612,
    0.1531815639800829,
    0.14757215439130564,
)
_LOG_REST = (
    0.4,
    0.28571428571428564,
    0.22222222222229732,
    0.18181818179298703,
    0.1538461580932241,
    0.1333329303087914,
    0.11766954067015016,
    0.10453378290754683,
    0.10787471325820681,
)


class _Split(NamedTuple):
    """x = 2**k (1 + f): k as float64 and int64, f."""

    k: Any
    exponent: Any
    f: Any


def _split(e: Lanes, x: Any) -> _Split:
    """The parts of x > 0, which may be subnormal."""
    is_subnormal = e.less(x, e.constant(_SMALLEST_NORMAL))
    x = e.where(is_subnormal, e.mul(x, e.constant(2.0**54)), x)
    bits = e.bits(x)
    exponent = e.b.ashr(e.b.sub(bits, e.integer(_SQRT_HALF_BITS)), e.integer(52))
    reduced = e.from_bits(e.b.sub(bits, e.b.shl(exponent, e.integer(52))))
    exponent = e.b.sub(exponent, e.b.select(is_subnormal, e.integer(54), e.integer(0)))
    return _Split(e.to_real(exponent), exponent, e.sub(reduced, e.constant(1.0)))


def _fast_log(e: Lanes, x: Any, correction: Any = None) -> Any:
    """log(x) + correction for finite x > 0, within one unit in the last place."""
    k, _, f = _split(e, x)
    s = e.div(f, e.add(e.constant(2.0), f))
    z = e.mul(s, s)
    rest = e.mul(z, e.polynomial(z, _LOG))
    half_square = e.mul(e.mul(e.constant(0.5), f), f)
    low = e.fma(s, e.add(half_square, rest), e.mul(k, e.constant(LN2_LOW)))
    if correction is not None:
        low = e.add(low, correction)
    return e.sub(e.mul(k, e.constant(LN2_HIGH)), e.sub(e.sub(half_square, low), f))


def _log_parts(e: Lanes, x: Pair) -> tuple[Any, Pair]:
    """(k, y) with log(x) = k log(2) + y, for finite x > 0; y has some 65 bits."""
    k, exponent, f = _split(e, x.high)
    shift = e.b.sub(e.integer(0), exponent)
    shift = e.b.select(e.b.icmp_signed(">", shift, e.integer(-1000)), shift, e.integer(-1000))
    shift = e.b.select(e.b.icmp_signed("<", shift, e.integer(1000)), shift, e.integer(1000))
    f = e.two_sum(f, e.mul(x.low, e.power_of_two(shift)))
    s = e.pair_quotient(f, e.plus_pair(e.constant(2.0), f))
    square = e.pair_product(s, s)
    cube = e.pair_product(s, square)
    cubic = e.pair_product(e.pair(_TWO_THIRDS), cube)
    rest = e.mul(e.mul(cube.high, square.high), e.polynomial(square.high, _LOG_REST))
    y = e.fast_two_sum(cubic.high, rest)
    y = Pair(y.high, e.add(y.low, cubic.low))
    double = Pair(e.add(s.high, s.high), e.add(s.low, s.low))
    high, low = e.fast_two_sum(double.high, y.high)
    return k, Pair(high, e.add(low, e.add(y.low, double.low)))


def _log_pair(e: Lanes, x: Pair, shift: Any = None) -> Pair:
    """log(x) + shift log(2), for finite x > 0."""
    k, y = _log_parts(e, x)
    if shift is not None:
        k = e.add(k, shift)
    high, low = e.two_sum(e.mul(k, e.constant(LN2_HIGH)), y.high)
    product = e.two_product(k, e.constant(LN2_LOW))
    second = e.two_sum(high, product.high)
    low = e.add(e.add(low, second.low), e.add(product.low, y.low))
    return e.fast_two_sum(second.high, low)


def _log1p_pair(e: Lanes, x: Pair) -> Pair:
    """log(1 + x), for finite x > -1."""
    return _log_pair(e, e.plus_pair(e.constant(1.0), x))


def _with_limits(e: Lanes, x: Any, y: Any, pole: float = 0.0) -> Any:
    """The values of a logarithm with its pole at a point: -inf there, NaN below, inf at inf."""
    y = e.where(e.equal(x, e.constant(math.inf)), x, y)
    y = e.where(e.equal(x, e.constant(pole)), e.constant(-math.inf), y)
    is_outside = e.b.fcmp_unordered("<", x, e.constant(pole))
    return e.where(is_outside, e.constant(math.nan), y)


def log(e: Lanes, x: Any) -> Any:
    """The natural logarithm."""
    return _with_limits(e, x, _fast_log(e, x))


def log1p(e: Lanes, x: Any) -> Any:
    """log(1 + x): the rounding error of the sum is a correction of its logarithm."""
    one = e.constant(1.0)
    total = e.add(one, x)
    is_large = e.greater(total, e.constant(2.0))
    lost = e.where(is_large, e.sub(one, e.sub(total, x)), e.sub(x, e.sub(total, one)))
    y = _fast_log(e, total, e.div(lost, total))
    y = e.where(e.less(e.abs(x), e.constant(2.0**-54)), x, y)
    return _with_limits(e, x, y, -1.0)


def _in_base(e: Lanes, x: Any, inverse: Pair, unit: Pair) -> Any:
    """A logarithm whose base has the given 1 / log(base) and log(2) / log(base)."""
    k, y = _log_parts(e, Pair(x, e.constant(0.0)))
    y = e.pair_product(y, e.pair(inverse))
    high, low = e.two_sum(e.mul(k, e.constant(unit.high)), y.high)
    low = e.add(low, e.fma(k, e.constant(unit.low), y.low))
    return _with_limits(e, x, e.add(high, low))


def log2(e: Lanes, x: Any) -> Any:
    """The logarithm to the base 2; exact for powers of two."""
    return _in_base(e, x, _INVERSE_LN2, Pair(1.0, 0.0))


def log10(e: Lanes, x: Any) -> Any:
    """The logarithm to the base 10."""
    return _in_base(e, x, _INVERSE_LN10, Pair(_LOG10_2_HIGH, _LOG10_2_LOW))


def asinh(e: Lanes, x: Any) -> Any:
    """log(1 + a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|."""
    size = e.abs(x)
    is_large = e.greater(size, e.constant(_LARGE))
    one, zero = e.constant(1.0), e.constant(0.0)
    small = e.where(is_large, one, size)
    square = e.two_product(small, small)
    root = e.pair_sqrt(e.pair_sum(Pair(one, zero), square))
    step = e.pair_quotient(square, e.pair_sum(Pair(one, zero), root))
    y = _large_log(e, is_large, size, e.pair_sum(Pair(small, zero), step))
    y = e.where(e.less(size, e.constant(_TINY)), size, y)
    y = e.where(e.b.fcmp_ordered("<", size, e.constant(math.inf)), y, size)
    return e.copysign(y, x)


def _large_log(e: Lanes, is_large: Any, size: Any, above_one: Pair) -> Any:
    """log(2 size) where it is large, and log(1 + above_one) elsewhere."""
    one, zero = e.constant(1.0), e.constant(0.0)
    x = e.plus_pair(one, above_one)
    x = Pair(e.where(is_large, size, x.high), e.where(is_large, zero, x.low))
    y = _log_pair(e, x, e.where(is_large, one, zero))
    return e.total(y)


def acosh(e: Lanes, x: Any) -> Any:
    """log(1 + t + sqrt(t (x + 1))) with t = x - 1."""
    is_large = e.greater(x, e.constant(_LARGE))
    one = e.constant(1.0)
    small = e.where(is_large, e.constant(2.0), x)
    t = e.two_sum(small, e.constant(-1.0))
    root = e.pair_sqrt(e.pair_product(t, e.two_sum(small, one)))
    y = _large_log(e, is_large, x, e.pair_sum(t, root))
    y = e.where(e.equal(x, one), e.constant(0.0), y)
    y = e.where(e.equal(x, e.constant(math.inf)), x, y)
    return e.where(e.b.fcmp_unordered("<", x, one), e.constant(math.nan), y)


def atanh(e: Lanes, x: Any) -> Any:
    """log(1 + 2a / (1 - a)) / 2 with a = |x|."""
    size = e.abs(x)
    one, zero = e.constant(1.0), e.constant(0.0)
    quotient = e.pair_quotient(Pair(e.add(size, size), zero), e.two_sum(one, e.neg(size)))
    y = _log1p_pair(e, quotient)
    half = e.mul(e.total(y), e.constant(0.5))
    half = e.where(e.less(size, e.constant(_TINY)), size, half)
    half = e.where(e.equal(size, one), e.constant(math.inf), half)
    half = e.where(e.b.fcmp_unordered(">", size, one), e.constant(math.nan), half)
    return e.copysign(half, x)


def logaddexp(e: Lanes, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) = x + log(1 + exp(y - x)) for x >= y."""
    high, low = _ordered(e, x, y)
    distance = _distance(e, high, low, 746.0)
    k, grown = exp_pair(e, e.neg(distance.high), e.neg(distance.low))
    return _joined(e, high, low, k, grown, Pair(1.0, 0.0))


def logaddexp2(e: Lanes, x: Any, y: Any) -> Any:
    """log2(2**x + 2**y)."""
    high, low = _ordered(e, x, y)
    distance = _distance(e, high, low, 1080.0)
    n, exponent = e.round(e.neg(distance.high))
    fraction = e.sub(e.neg(distance.high), n)
    ln2 = e.pair(LN2)
    product = e.pair_product(Pair(fraction, e.neg(distance.low)), ln2)
    k, grown = exp_pair(e, product.high, product.low)
    return _joined(e, high, low, e.b.add(k, exponent), grown, _INVERSE_LN2)


def _ordered(e: Lanes, x: Any, y: Any) -> tuple[Any, Any]:
    """The larger and the smaller of two; the first is NaN if one is."""
    is_first = e.b.or_(e.greater(x, y), e.is_nan(x))
    return e.where(is_first, x, y), e.where(is_first, y, x)


def _distance(e: Lanes, high: Any, low: Any, bound: float) -> Pair:
    """high - low, or the bound where it is larger or no number."""
    exact = e.two_sum(high, e.neg(low))
    is_far = e.b.fcmp_unordered(">", exact.high, e.constant(bound))
    first = e.where(is_far, e.constant(bound), exact.high)
    return Pair(first, e.where(is_far, e.constant(0.0), exact.low))


def _joined(e: Lanes, high: Any, low: Any, k: Any, grown: Pair, unit: Pair) -> Any:
    """high + log(1 + t) * unit with t = grown 2**k <= 1; `high` where an argument is infinite."""
    is_near = e.b.icmp_signed(">", k, e.integer(-1000))
    factor = e.power_of_two(e.b.select(is_near, k, e.integer(-1000)))
    step = _log1p_pair(e, e.pair_scale(grown, factor))
    step = e.pair_product(step, e.pair(unit))
    near = e.pair_sum(Pair(high, e.constant(0.0)), step)
    far = e.add(high, e.scale(e.mul(grown.high, e.constant(unit.high)), k))
    result = e.where(is_near, e.total(near), far)
    inf = e.constant(math.inf)
    is_limit = e.b.or_(e.equal(e.abs(high), inf), e.equal(low, e.neg(inf)))
    return e.where(is_limit, e.add(high, e.constant(0.0)), result)


def power(e: Lanes, x: Any, y: Any) -> Any:
    """x**y by a logarithm and an exponential with tails; special values by the rules of C."""
    size = e.abs(x)
    logarithm = _log_pair(e, Pair(size, e.constant(0.0)))
    high, low = e.two_product(y, logarithm.high)
    low = e.fma(y, logarithm.low, low)
    overflows, vanishes = e.greater(high, e.constant(709.79)), e.less(high, e.constant(-745.14))
    is_outside = e.b.or_(e.b.or_(overflows, vanishes), e.is_nan(high))
    zero = e.constant(0.0)
    k, grown = exp_pair(e, e.where(is_outside, zero, high), e.where(is_outside, zero, low))
    result = e.scale(e.total(grown), k)
    result = e.where(vanishes, zero, result)
    result = e.where(overflows, e.constant(math.inf), result)
    result = e.where(e.is_nan(high), high, result)
    return _power_limits(e, x, y, result)


def _power_limits(e: Lanes, x: Any, y: Any, result: Any) -> Any:
    """|x|**y with its sign, and the values for 0, 1, infinite and NaN arguments."""
    b, zero, one, inf = e.b, e.constant(0.0), e.constant(1.0), e.constant(math.inf)
    size, exponent = e.abs(x), e.abs(y)
    is_integer = e.equal(e.intrinsic("floor", exponent), exponent)
    half = e.mul(exponent, e.constant(0.5))
    has_half = b.fcmp_ordered("!=", e.intrinsic("floor", half), half)
    is_odd = b.and_(b.and_(is_integer, has_half), e.less(exponent, e.constant(2.0**53)))
    is_falling = e.less(y, zero)
    is_root = b.and_(e.less(x, zero), b.not_(is_integer))
    result = e.where(is_root, e.constant(math.nan), result)
    result = e.where(e.equal(size, zero), e.where(is_falling, inf, zero), result)
    result = e.where(e.equal(size, inf), e.where(is_falling, zero, inf), result)
    is_negative = b.icmp_signed("<", e.bits(x), e.integer(0))
    result = e.where(b.and_(is_odd, is_negative), e.neg(result), result)
    grows = b.xor(e.greater(size, one), is_falling)
    limit = e.where(e.equal(size, one), one, e.where(grows, inf, zero))
    result = e.where(e.equal(exponent, inf), limit, result)
    result = e.where(b.fcmp_unordered("uno", x, y), e.add(x, y), result)
    return e.where(b.or_(e.equal(x, one), e.equal(y, zero)), one, result)


def cbrt(e: Lanes, x: Any) -> Any:
    """The cube root: a third of the exponent, two steps of Halley's and one of Newton's method."""
    size = e.abs(x)
    one = e.constant(1.0)
    is_small, is_large = e.less(size, e.constant(2.0**-900)), e.greater(size, e.constant(2.0**900))
    factor = e.where(is_small, e.constant(2.0**180), e.where(is_large, e.constant(2.0**-180), one))
    a = e.mul(size, factor)
    third = e.b.udiv(e.bits(a), e.integer(3))
    y = e.from_bits(e.b.add(third, e.integer(_CBRT_BIAS)))
    for _ in range(2):
        cube = e.mul(e.mul(y, y), y)
        step = e.div(e.sub(cube, a), e.add(e.add(cube, cube), a))
        y = e.fma(e.neg(y), step, y)
    square = e.two_product(y, y)
    cube_high, cube_low = e.two_product(square.high, y)
    cube_low = e.fma(square.low, y, cube_low)
    rest = e.add(e.sub(cube_high, a), cube_low)
    y = e.sub(y, e.div(rest, e.mul(e.constant(3.0), square.high)))
    back = e.where(is_small, e.constant(2.0**-60), e.where(is_large, e.constant(2.0**60), one))
    y = e.mul(y, back)
    is_itself = e.b.or_(
        e.b.fcmp_unordered("==", size, e.constant(math.inf)), e.equal(size, e.constant(0.0))
    )
    return e.where(is_itself, x, e.copysign(y, x))


def hypot(e: Lanes, x: Any, y: Any) -> Any:
    """sqrt(x**2 + y**2), scaled by a power of two and with exact squares."""
    first, second = e.abs(x), e.abs(y)
    is_first = e.greater(first, second)
    high, low = e.where(is_first, first, second), e.where(is_first, second, first)
    is_large, is_small = e.greater(high, e.constant(2.0**500)), e.less(high, e.constant(2.0**-500))
    one = e.constant(1.0)
    down = e.where(is_large, e.constant(2.0**-600), e.where(is_small, e.constant(2.0**600), one))
    up = e.where(is_large, e.constant(2.0**600), e.where(is_small, e.constant(2.0**-600), one))
    high, low = e.mul(high, down), e.mul(low, down)
    root = e.pair_sqrt(e.pair_sum(e.two_product(high, high), e.two_product(low, low)))
    result = e.mul(e.total(root), up)
    result = e.where(e.equal(high, e.constant(0.0)), e.add(first, second), result)
    inf = e.constant(math.inf)
    result = e.where(e.b.fcmp_unordered("uno", x, y), e.constant(math.nan), result)
    return e.where(e.b.or_(e.equal(first, inf), e.equal(second, inf)), inf, result)
