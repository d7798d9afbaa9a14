"""The gamma function, its logarithm, and the derivatives of that.

Everything rests on two series. With S(z) = log(gamma(2 + z)), which is a power series with zeta
values for |z| <= 1/2, small arguments are moved there by gamma(x + 1) = x gamma(x); large ones go
into Stirling's series. Negative ones are reflected: gamma(x) gamma(1 - x) = pi / sin(pi x).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.operators.special.kernels import horner, in_double, split

__all__ = ["Array", "digamma", "gamma", "hurwitz_zeta", "lgamma", "polygamma"]

Array = NDArray[np.float64]

# The Bernoulli numbers B2, B4, ..., B20.
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
_ONE_MINUS_EULER = 0.42278433509846714
_STIRLING_FROM = 10.0


def hurwitz_zeta(s: int, q: Any) -> Any:
    """The sum of (q + k)^-s over k = 0, 1, 2, ..., for q > 0, by the Euler-Maclaurin formula."""
    shift = 10 + s
    total = 0.0
    for k in range(shift):
        total = total + (q + k) ** float(-s)
    a = q + shift
    power = a ** float(-s)
    total = total + a ** float(1 - s) / (s - 1) + power / 2
    factor = s * power / a
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * j) * factor
        factor = factor * ((s + 2 * j - 1) * (s + 2 * j)) / (a * a)
    return total


# S(z) / z by powers of z; its coefficients are (-1)^k (zeta(k) - 1) / k, and zeta(k) - 1 is a
# Hurwitz zeta value.
_SERIES = [
    _ONE_MINUS_EULER,
    *((-1) ** k * hurwitz_zeta(k, 2.0) / k for k in range(2, 30)),
]
_STIRLING = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
_DIGAMMA = [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]


def gamma(x: Any) -> Any:
    """The gamma function; NaN at negative integers."""
    return in_double("gamma", _gamma, x)


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function; inf at its poles."""
    return in_double("lgamma", _lgamma, x)


def digamma(x: Any) -> Any:
    """The derivative of the logarithm of the gamma function; NaN at negative integers."""
    return in_double("digamma", _digamma, x)


def polygamma(n: int, x: Any) -> Any:
    """The derivative of order `n` of the digamma function."""
    if n < 0:
        raise ValueError(f"polygamma: the order n must not be negative, but it is {n}")
    return in_double("polygamma", lambda v: _polygamma(n, v), x) if n else digamma(x)


def _reduce(x: Array) -> tuple[Array, Array, Array]:
    """z, m and d with gamma(x) = gamma(2 + z) m / d and |z| <= 1/2, for 0 < x < _STIRLING_FROM."""
    times = np.ones_like(x)
    for _ in range(int(_STIRLING_FROM) - 2):
        is_high = x >= 2.5
        x = np.where(is_high, x - 1, x)
        times = np.where(is_high, times * x, times)
    divisor = np.where(x >= 1.5, 1.0, np.where(x >= 0.5, x, x * (x + 1)))
    return x - np.where(x >= 1.5, 2, np.where(x >= 0.5, 1, 0)), times, divisor


def _from_nearest(x: Array) -> Array:
    """The distance from the nearest integer, with sign."""
    return x - np.rint(x)


def _is_pole(x: Array) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (x < 0) & (x == np.floor(x))
    return result


def _lgamma(x: Array) -> Array:
    return split(x < 0, x, _lgamma_negative, _lgamma_positive)


def _lgamma_negative(x: Array) -> Array:
    sine = np.abs(np.sin(math.pi * _from_nearest(x)))
    return np.where(np.isinf(x), np.inf, np.log(math.pi / sine) - _lgamma_positive(1 - x))


def _lgamma_positive(x: Array) -> Array:
    return split(x < _STIRLING_FROM, x, _lgamma_low, _lgamma_high)


def _lgamma_low(x: Array) -> Array:
    z, times, divisor = _reduce(x)
    result: Array = z * horner(_SERIES, z) + np.log(times) - np.log(divisor)
    return result


def _lgamma_high(x: Array) -> Array:
    constant = (math.log(2 * math.pi) - 1) / 2
    result: Array = (x - 0.5) * (np.log(x) - 1) + constant + _stirling(x)
    return result


def _stirling(x: Array) -> Array:
    result: Array = horner(_STIRLING, 1 / (x * x)) / x
    return result


def _gamma(x: Array) -> Array:
    return split(x < 0, x, _gamma_negative, _gamma_positive)


def _gamma_negative(x: Array) -> Array:
    sine = np.sin(math.pi * _from_nearest(x)) * np.where(np.rint(x) % 2 == 0, 1, -1)
    return np.where(_is_pole(x), np.nan, -math.pi / (x * sine * _gamma_positive(-x)))


def _gamma_positive(x: Array) -> Array:
    return split(x < _STIRLING_FROM, x, _gamma_low, _gamma_high)


def _gamma_low(x: Array) -> Array:
    z, times, divisor = _reduce(x)
    result: Array = np.exp(z * horner(_SERIES, z)) * times / divisor
    return result


def _gamma_high(x: Array) -> Array:
    x = np.minimum(x, 200.0)  # from 172 on the result is infinite
    root = x ** (x / 2 - 0.25)  # twice, because the whole power overflows before the result does
    result: Array = math.sqrt(2 * math.pi) * np.exp(_stirling(x)) * (root * np.exp(-x)) * root
    return result


def _digamma(x: Array) -> Array:
    return split(x < 0, x, _digamma_negative, _digamma_positive)


def _digamma_negative(x: Array) -> Array:
    tangent = np.tan(math.pi * _from_nearest(x))
    return np.where(_is_pole(x), np.nan, _digamma_positive(1 - x) - math.pi / tangent)


def _digamma_positive(x: Array) -> Array:
    high = x + _STIRLING_FROM
    square = 1 / (high * high)
    result: Array = np.log(high) - 0.5 / high - square * horner(_DIGAMMA, square)
    for k in reversed(range(1, int(_STIRLING_FROM))):
        result -= 1 / (x + k)
    result -= 1 / x
    return result


def _polygamma(n: int, x: Array) -> Array:
    return split(x < 0, x, lambda v: _polygamma_negative(n, v), lambda v: _polygamma_positive(n, v))


def _polygamma_positive(n: int, x: Array) -> Array:
    result: Array = (-1.0) ** (n + 1) * math.factorial(n) * hurwitz_zeta(n + 1, x)
    return result


def _polygamma_negative(n: int, x: Array) -> Array:
    # The derivatives of cot are polynomials in cot, because cot' = -(1 + cot^2).
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    cotangent = 1 / np.tan(math.pi * _from_nearest(x))
    result = (-1) ** n * _polygamma_positive(n, 1 - x) - math.pi ** (n + 1) * polynomial(cotangent)
    return np.where(_is_pole(x), np.inf if n % 2 else np.nan, result)
