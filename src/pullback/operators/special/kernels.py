"""The error function and its relatives, logistic functions, entropies and Bessel functions.

Functions without a NumPy counterpart are computed in float64, accurate to a few units in the last
place, and given the dtype of their argument. The gamma function is in ``special_gamma``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import UnsupportedDtypeError
from pullback.kernels.errstate import QUIET, errstate, get_settings, set_settings, without_warnings
from pullback.kernels.masked_select import refuse_complex
from pullback.operators.pointwise.kernels import strong

__all__ = [
    "Array",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "horner",
    "i0",
    "i1",
    "in_double",
    "logit",
    "sigmoid",
    "softplus",
    "split",
    "xlog1py",
    "xlogy",
]

Array = NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)
_ONE = np.ones((), _FLOAT64)
# Local names: attribute lookups on the NumPy module are slow, and networks call these on short
# vectors.
_ndarray = np.ndarray
_add, _exp, _negative, _reciprocal = np.add, np.exp, np.negative, np.reciprocal
_BLOCK = 8192  # elements whose intermediate results stay in the processor's cache

# Rational approximations in the least-squares sense of relative error, by increasing powers:
# erf(x)/x in x*x for |x| < 1, and exp(x*x) erfc(x) in x for 0.5 <= x <= 28. Errors are below 4e-18.
_ERF_ABOVE = (
    1.12837916709551257,
    0.142149267369666357,
    0.0453039268300839541,
    0.00182729586560793666,
    0.000194956714073068143,
)
_ERF_BELOW = (
    1.0,
    0.459309841509714426,
    0.0932528402888109732,
    0.0105822185515798754,
    0.000681217022561960837,
    0.0000202975120783541916,
)
_ERFC_ABOVE = (
    0.99999999996587521,
    2.2731192220454501,
    2.5495909184494205,
    1.8181986261902558,
    0.90109285887697211,
    0.32098607094373699,
    0.082310035558702315,
    0.014736350078254943,
    0.0016909967768529662,
    9.7122054763426156e-5,
)
_ERFC_BELOW = (
    1.0,
    3.4014983886062787,
    5.3877708410029942,
    5.2484013714510471,
    3.4942954584850898,
    1.6685922478858515,
    0.58190667662379341,
    0.14738934633341113,
    0.026205572625288344,
    0.0029972137489906916,
    0.0001721443599733612,
)
_ERFC_ZERO = 28.0  # exp(-28 * 28) is 0


def in_double(name: str, function: Callable[[Array], Array], x: Any) -> Any:
    """Applies a function of float64 vectors to an array of any shape and real dtype."""
    array = np.asarray(x)
    kind = array.dtype.kind
    if kind not in "fiub":
        raise UnsupportedDtypeError(
            f"{name}: not implemented for {array.dtype}; real numbers are expected"
        )
    flat = array.ravel()
    result = np.empty(flat.shape, array.dtype if kind == "f" else np.float64)
    with errstate(all="ignore"):
        for start in range(0, flat.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = function(flat[block].astype(np.float64))
    return result.reshape(array.shape)


def split(
    condition: NDArray[np.bool_],
    x: Array,
    where_true: Callable[[Array], Array],
    where_false: Callable[[Array], Array],
) -> Array:
    """Applies one function where a condition holds and another elsewhere."""
    if condition.all():
        return where_true(x)
    if not condition.any():
        return where_false(x)
    result = np.empty_like(x)
    result[condition] = where_true(x[condition])
    result[~condition] = where_false(x[~condition])
    return result


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """A polynomial with coefficients by increasing powers."""
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total *= x
        total += coefficient
    return total


def erf(x: Any) -> Any:
    """The error function."""
    return in_double("erf", _erf, x)


def erfc(x: Any) -> Any:
    """1 minus the error function, with small relative error also where it nearly vanishes."""
    return in_double("erfc", _erfc, x)


def erfinv(x: Any) -> Any:
    """The inverse of the error function: infinite at -1 and 1, NaN beyond."""
    return in_double("erfinv", _erfinv, x)


def _erf(x: Array) -> Array:
    return split(np.abs(x) < 1, x, _erf_near, lambda far: np.sign(far) * (1 - _erfc_far(abs(far))))


def _erf_near(x: Array) -> Array:
    square = x * x
    result: Array = x * horner(_ERF_ABOVE, square) / horner(_ERF_BELOW, square)
    return result


def _erfc(x: Array) -> Array:
    return split(x < 0.5, x, lambda near: 1 - _erf(near), _erfc_far)


def _erfc_far(x: Array) -> Array:
    x = np.minimum(x, _ERFC_ZERO)
    # The square of x would be rounded, and the error multiplied by x*x; that of `head` is exact.
    head = np.floor(x * 16) / 16
    result: Array = np.exp(-head * head) * np.exp((head - x) * (head + x))
    result *= horner(_ERFC_ABOVE, x)
    result /= horner(_ERFC_BELOW, x)
    return result


def _erfinv(p: Array) -> Array:
    size = np.minimum(np.abs(p), np.nextafter(1.0, 0.0))
    # A guess with two correct digits (S. Winitzki), then two steps that triple the digits each.
    a = 0.147
    log = np.log1p(-size * size)
    half = 2 / (math.pi * a) + log / 2
    y = np.sqrt(np.sqrt(half * half - log / a) - half)
    for _ in range(2):
        error = np.where(size < 0.5, _erf(y) - size, (1 - size) - _erfc(y))
        step = error * (math.sqrt(math.pi) / 2) * np.exp(y * y)
        y = y - step / (1 + y * step)
    inside = np.where(np.abs(p) < 1, y, np.inf)
    return np.where(np.abs(p) > 1, np.nan, np.copysign(inside, p)) + 0 * p


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), real or complex."""
    power = _negative(x)
    dtype = power.dtype
    if type(power) is not _ndarray or (dtype is not _FLOAT64 and dtype.kind not in "fc"):
        if dtype.kind in "iu":  # converted first: an unsigned integer cannot be negated
            power = _negative(x, dtype=_exp.resolve_dtypes((dtype, None))[0])
        return _reciprocal(without_warnings(_exp, power) + 1.0)
    before = get_settings()
    try:
        set_settings(QUIET)
        _exp(power, power)  # where it overflows, the result is 0 and right
    finally:
        set_settings(before)
    _add(power, _ONE if dtype is _FLOAT64 else 1.0, power)  # an array is read faster
    return _reciprocal(power, power)


def logit(x: Any, eps: float | None = None) -> Any:
    """The inverse of the logistic function, of elements first moved into [eps, 1 - eps]."""
    refuse_complex("logit", x)
    if eps is not None:
        x = np.minimum(np.maximum(x, eps), 1 - eps)
    with errstate(all="ignore"):
        middle = 2 * np.arctanh(2 * x - 1)  # exact near 1/2, where the result is 0
        return np.where(np.abs(x - 0.5) < 0.2, middle, np.log(x / (1 - x)))


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    refuse_complex("softplus", x)
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0, unless y is NaN."""
    refuse_complex("xlogy", x, y)
    x, y = strong(x, y)
    with errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), and 0 where x is 0, unless y is NaN."""
    refuse_complex("xlog1py", x, y)
    x, y = strong(x, y)
    with errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y))


def entr(x: Any) -> Any:
    """-x log(x); 0 at 0 and -inf for negative elements."""
    refuse_complex("entr", x)
    with errstate(all="ignore"):
        return np.where(x == 0, 0, np.where(x < 0, -np.inf, -x * np.log(x)))


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    return in_double("i0", np.i0, x)


def i1(x: Any) -> Any:
    """The modified Bessel function of order 1."""
    return in_double("i1", _i1, x)


def _i1(x: Array) -> Array:
    return split(np.abs(x) < 30, x, _i1_series, _i1_asymptotic)


# 1 / (k! (k + 1)!): the power series in (x/2)^2; all terms are positive, so nothing cancels.
_I1_SERIES = [1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(65)]


def _i1_series(x: Array) -> Array:
    half = x / 2
    result: Array = half * horner(_I1_SERIES, half * half)
    return result


def _i1_asymptotic(x: Array) -> Array:
    size = np.abs(x)
    total = term = np.ones_like(size)
    for k in range(1, 20):
        term = term * ((2 * k - 1) ** 2 - 4) / (8 * k * size)
        total = total + term
    root = np.exp(size / 2)  # twice, because exp(x) overflows before the result does
    result = total / np.sqrt(2 * math.pi * size) * root * root
    return np.where(np.isinf(x), x, np.copysign(result, x))
