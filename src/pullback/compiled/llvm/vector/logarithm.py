"""Logarithms, inverse hyperbolic functions, and powers, which are made of a logarithm.

x = 2**k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and log(1 + f) is an odd function of
s = f / (2 + f).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.compiled.llvm.vector.exponential import LN2, LN2_HIGH, LN2_LOW, exp_pair
from pullback.compiled.llvm.vector.lanes import Lanes, Pair

__all__ = ["FUNCTIONS"]

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
    is_subnormal = x < _SMALLEST_NORMAL
    x = e.where(is_subnormal, x * 2.0**54, x)
    bits = e.bits(x)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    reduced = e.from_bits(bits - (exponent << 52))
    exponent = exponent - e.where(is_subnormal, 54, 0)
    return _Split(e.to_real(exponent), exponent, reduced - 1.0)


def _fast_log(e: Lanes, x: Any, correction: Any = None) -> Any:
    """log(x) + correction for finite x > 0, within one unit in the last place."""
    k, _, f = _split(e, x)
    s = f / (2.0 + f)
    z = s * s
    rest = z * e.polynomial(z, _LOG)
    half_square = 0.5 * f * f
    low = e.fma(s, half_square + rest, k * LN2_LOW)
    if correction is not None:
        low = low + correction
    return k * LN2_HIGH - (half_square - low - f)


def _log_parts(e: Lanes, x: Pair) -> tuple[Any, Pair]:
    """(k, y) with log(x) = k log(2) + y, for finite x > 0; y has some 65 bits."""
    k, exponent, f = _split(e, x.high)
    shift = -exponent
    shift = e.where(shift > -1000, shift, -1000)
    shift = e.where(shift < 1000, shift, 1000)
    f = e.two_sum(f, x.low * e.power_of_two(shift))
    s = e.pair_quotient(f, e.plus_pair(2.0, f))
    square = e.pair_product(s, s)
    cube = e.pair_product(s, square)
    cubic = e.pair_product(_TWO_THIRDS, cube)
    rest = cube.high * square.high * e.polynomial(square.high, _LOG_REST)
    y = e.fast_two_sum(cubic.high, rest)
    y = Pair(y.high, y.low + cubic.low)
    double = Pair(s.high + s.high, s.low + s.low)
    high, low = e.fast_two_sum(double.high, y.high)
    return k, Pair(high, low + (y.low + double.low))


def _log_pair(e: Lanes, x: Pair, shift: Any = None) -> Pair:
    """log(x) + shift log(2), for finite x > 0."""
    k, y = _log_parts(e, x)
    if shift is not None:
        k = k + shift
    high, low = e.two_sum(k * LN2_HIGH, y.high)
    product = e.two_product(k, LN2_LOW)
    second = e.two_sum(high, product.high)
    low = low + second.low + (product.low + y.low)
    return e.fast_two_sum(second.high, low)


def _log1p_pair(e: Lanes, x: Pair) -> Pair:
    """log(1 + x), for finite x > -1."""
    return _log_pair(e, e.plus_pair(1.0, x))


def _with_limits(e: Lanes, x: Any, y: Any, pole: float = 0.0) -> Any:
    """The values of a logarithm with its pole at a point: -inf there, NaN below, inf at inf."""
    y = e.where(x == math.inf, x, y)
    y = e.where(x == pole, -math.inf, y)
    is_outside = e.unordered("<", x, pole)
    return e.where(is_outside, math.nan, y)


def _log(e: Lanes, x: Any) -> Any:
    """The natural logarithm."""
    return _with_limits(e, x, _fast_log(e, x))


def _log1p(e: Lanes, x: Any) -> Any:
    """log(1 + x): the rounding error of the sum is a correction of its logarithm."""
    total = 1.0 + x
    is_large = total > 2.0
    lost = e.where(is_large, 1.0 - (total - x), x - (total - 1.0))
    y = _fast_log(e, total, lost / total)
    y = e.where(abs(x) < 2.0**-54, x, y)
    return _with_limits(e, x, y, -1.0)


def _in_base(e: Lanes, x: Any, inverse: Pair, unit: Pair) -> Any:
    """A logarithm whose base has the given 1 / log(base) and log(2) / log(base)."""
    k, y = _log_parts(e, Pair(x, 0.0))
    y = e.pair_product(y, inverse)
    high, low = e.two_sum(k * unit.high, y.high)
    low = low + e.fma(k, unit.low, y.low)
    return _with_limits(e, x, high + low)


def _log2(e: Lanes, x: Any) -> Any:
    """The logarithm to the base 2; exact for powers of two."""
    return _in_base(e, x, _INVERSE_LN2, Pair(1.0, 0.0))


def _log10(e: Lanes, x: Any) -> Any:
    """The logarithm to the base 10."""
    return _in_base(e, x, _INVERSE_LN10, Pair(_LOG10_2_HIGH, _LOG10_2_LOW))


def _asinh(e: Lanes, x: Any) -> Any:
    """log(1 + a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|."""
    size = abs(x)
    is_large = size > _LARGE
    small = e.where(is_large, 1.0, size)
    square = e.two_product(small, small)
    root = e.pair_sqrt(e.pair_sum(Pair(1.0, 0.0), square))
    step = e.pair_quotient(square, e.pair_sum(Pair(1.0, 0.0), root))
    y = _large_log(e, is_large, size, e.pair_sum(Pair(small, 0.0), step))
    y = e.where(size < _TINY, size, y)
    y = e.where(size < math.inf, y, size)
    return e.copysign(y, x)


def _large_log(e: Lanes, is_large: Any, size: Any, above_one: Pair) -> Any:
    """log(2 size) where it is large, and log(1 + above_one) elsewhere."""
    x = e.plus_pair(1.0, above_one)
    x = Pair(e.where(is_large, size, x.high), e.where(is_large, 0.0, x.low))
    y = _log_pair(e, x, e.where(is_large, 1.0, 0.0))
    return e.total(y)


def _acosh(e: Lanes, x: Any) -> Any:
    """log(1 + t + sqrt(t (x + 1))) with t = x - 1."""
    is_large = x > _LARGE
    small = e.where(is_large, 2.0, x)
    t = e.two_sum(small, -1.0)
    root = e.pair_sqrt(e.pair_product(t, e.two_sum(small, 1.0)))
    y = _large_log(e, is_large, x, e.pair_sum(t, root))
    y = e.where(x == 1.0, 0.0, y)
    y = e.where(x == math.inf, x, y)
    return e.where(e.unordered("<", x, 1.0), math.nan, y)


def _atanh(e: Lanes, x: Any) -> Any:
    """log(1 + 2a / (1 - a)) / 2 with a = |x|."""
    size = abs(x)
    quotient = e.pair_quotient(Pair(size + size, 0.0), e.two_sum(1.0, -size))
    y = _log1p_pair(e, quotient)
    half = e.total(y) * 0.5
    half = e.where(size < _TINY, size, half)
    half = e.where(size == 1.0, math.inf, half)
    half = e.where(e.unordered(">", size, 1.0), math.nan, half)
    return e.copysign(half, x)


def _logaddexp(e: Lanes, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) = x + log(1 + exp(y - x)) for x >= y."""
    high, low = _order(e, x, y)
    distance = _distance(e, high, low, 746.0)
    k, grown = exp_pair(e, -distance.high, -distance.low)
    return _join(e, high, low, k, grown, Pair(1.0, 0.0))


def _logaddexp2(e: Lanes, x: Any, y: Any) -> Any:
    """log2(2**x + 2**y)."""
    high, low = _order(e, x, y)
    distance = _distance(e, high, low, 1080.0)
    n, exponent = e.round(-distance.high)
    fraction = -distance.high - n
    product = e.pair_product(Pair(fraction, -distance.low), LN2)
    k, grown = exp_pair(e, product.high, product.low)
    result = _join(e, high, low, k + exponent, grown, _INVERSE_LN2)
    return e.where(x == y, x + 1.0, result)  # exact, also where it is 0


def _order(e: Lanes, x: Any, y: Any) -> tuple[Any, Any]:
    """The larger and the smaller of two; the first is NaN if one is."""
    is_first = (x > y) | e.is_nan(x)
    return e.where(is_first, x, y), e.where(is_first, y, x)


def _distance(e: Lanes, high: Any, low: Any, bound: float) -> Pair:
    """high - low, or the bound where it is larger or no number."""
    exact = e.two_sum(high, -low)
    is_far = e.unordered(">", exact.high, bound)
    first = e.where(is_far, bound, exact.high)
    return Pair(first, e.where(is_far, 0.0, exact.low))


def _join(e: Lanes, high: Any, low: Any, k: Any, grown: Pair, unit: Pair) -> Any:
    """high + log(1 + t) * unit with t = grown 2**k <= 1; `high` where an argument is infinite."""
    is_near = k > -1000
    factor = e.power_of_two(e.where(is_near, k, -1000))
    step = _log1p_pair(e, e.pair_scale(grown, factor))
    step = e.pair_product(step, unit)
    near = e.pair_sum(Pair(high, 0.0), step)
    far = high + e.scale(grown.high * unit.high, k)
    result = e.where(is_near, e.total(near), far)
    is_limit = (abs(high) == math.inf) | (low == -math.inf)
    return e.where(is_limit, high + 0.0, result)


def _power(e: Lanes, x: Any, y: Any) -> Any:
    """x**y by a logarithm and an exponential with tails; special values by the rules of C."""
    size = abs(x)
    logarithm = _log_pair(e, Pair(size, 0.0))
    high, low = e.two_product(y, logarithm.high)
    low = e.fma(y, logarithm.low, low)
    overflows, vanishes = high > 709.79, high < -745.14
    is_outside = overflows | vanishes | e.is_nan(high)
    k, grown = exp_pair(e, e.where(is_outside, 0.0, high), e.where(is_outside, 0.0, low))
    result = e.scale(e.total(grown), k)
    result = e.where(vanishes, 0.0, result)
    result = e.where(overflows, math.inf, result)
    result = e.where(e.is_nan(high), high, result)
    return _power_limits(e, x, y, result)


def _power_limits(e: Lanes, x: Any, y: Any, result: Any) -> Any:
    """|x|**y with its sign, and the values for 0, 1, infinite and NaN arguments."""
    size, exponent = abs(x), abs(y)
    is_integer = e.intrinsic("floor", exponent) == exponent
    half = exponent * 0.5
    has_half = e.intrinsic("floor", half) != half
    is_odd = is_integer & has_half & (exponent < 2.0**53)
    is_falling = y < 0.0
    is_root = (x < 0.0) & ~is_integer
    result = e.where(is_root, math.nan, result)
    result = e.where(size == 0.0, e.where(is_falling, math.inf, 0.0), result)
    result = e.where(size == math.inf, e.where(is_falling, 0.0, math.inf), result)
    is_negative = e.bits(x) < 0
    result = e.where(is_odd & is_negative, -result, result)
    grows = (size > 1.0) ^ is_falling
    limit = e.where(size == 1.0, 1.0, e.where(grows, math.inf, 0.0))
    result = e.where(exponent == math.inf, limit, result)
    result = e.where(e.is_nan(x, y), x + y, result)
    return e.where((x == 1.0) | (y == 0.0), 1.0, result)


def _cbrt(e: Lanes, x: Any) -> Any:
    """The cube root: a third of the exponent, two steps of Halley's and one of Newton's method."""
    size = abs(x)
    is_small, is_large = size < 2.0**-900, size > 2.0**900
    factor = e.where(is_small, 2.0**180, e.where(is_large, 2.0**-180, 1.0))
    a = size * factor
    third = e.bits(a) // 3
    y = e.from_bits(third + _CBRT_BIAS)
    for _ in range(2):
        cube = y * y * y
        step = (cube - a) / (cube + cube + a)
        y = e.fma(-y, step, y)
    square = e.two_product(y, y)
    cube_high, cube_low = e.two_product(square.high, y)
    cube_low = e.fma(square.low, y, cube_low)
    rest = cube_high - a + cube_low
    y = y - rest / (3.0 * square.high)
    back = e.where(is_small, 2.0**-60, e.where(is_large, 2.0**60, 1.0))
    y = y * back
    is_itself = e.unordered("==", size, math.inf) | (size == 0.0)
    return e.where(is_itself, x, e.copysign(y, x))


def _hypot(e: Lanes, x: Any, y: Any) -> Any:
    """sqrt(x**2 + y**2), scaled by a power of two and with exact squares."""
    first, second = abs(x), abs(y)
    is_first = first > second
    high, low = e.where(is_first, first, second), e.where(is_first, second, first)
    is_large, is_small = high > 2.0**500, high < 2.0**-500
    down = e.where(is_large, 2.0**-600, e.where(is_small, 2.0**600, 1.0))
    up = e.where(is_large, 2.0**600, e.where(is_small, 2.0**-600, 1.0))
    high, low = high * down, low * down
    root = e.pair_sqrt(e.pair_sum(e.two_product(high, high), e.two_product(low, low)))
    result = e.total(root) * up
    result = e.where(high == 0.0, first + second, result)
    result = e.where(e.is_nan(x, y), math.nan, result)
    return e.where((first == math.inf) | (second == math.inf), math.inf, result)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arccosh": _acosh,
    "arcsinh": _asinh,
    "arctanh": _atanh,
    "cbrt": _cbrt,
    "hypot": _hypot,
    "log": _log,
    "log10": _log10,
    "log1p": _log1p,
    "log2": _log2,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "power": _power,
}
"""Functions by NumPy's names."""
