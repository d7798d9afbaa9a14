"""The error function and its complement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compiled.llvm.vector.exponential import exp_pair
from pullback.compiled.llvm.vector.lanes import Lanes

__all__ = ["FUNCTIONS"]

_SLOPE_MINUS_ONE = float.fromhex("0x1.06eba8214db69p-3")  # 2 / sqrt(pi) - 1

# From scripts/vector_coefficients.py: (erf(x) / x - 2 / sqrt(pi)) / z of z = x**2 up to 1, and
# exp(x**2) erfc(x) (1 + 2 x) of t = (x - 2) / (x + 2) from 0.4 to 54
_ERF = (
    -0.3761263890318375,
    0.11283791670954937,
    -0.026866170645085643,
    0.005223977624892171,
    -0.0008548326984633903,
    0.00012055331237976546,
    -1.4925598075896367e-05,
    1.6461042632553602e-06,
    -1.6350734027174852e-07,
    1.4662463984796915e-08,
    -1.138275744598352e-09,
    5.973219588136436e-11,
)
_ERFC = (
    1.2769783815525286,
    -0.09276382658574606,
    -0.16603039761528907,
    0.16405128003345204,
    -0.05422000099206504,
    -0.008034015082967156,
    0.008722653876761329,
    0.00127133897946329,
    -0.0014568139687299029,
    -0.0004543410155544941,
    0.000206367490368387,
    0.00015104068397835073,
    -1.5121993717983913e-06,
    -3.643101845770896e-05,
    -1.3479565273908081e-05,
    3.7350637629330916e-06,
    5.1733648565010275e-06,
    1.4590180292412994e-06,
    -5.695998246861671e-07,
    -8.003333321890389e-07,
    -4.597540140109119e-07,
    1.6586059224547963e-07,
    3.3726111836088974e-07,
    -4.953243433655232e-08,
    -9.929968353160702e-08,
    3.0473314707096016e-08,
)
_FIRST_TAIL = 0.4


def _near(e: Lanes, x: Any) -> Any:
    """erf(x) for |x| <= 1."""
    z = x * x
    slope = e.fma(z, e.polynomial(z, _ERF), _SLOPE_MINUS_ONE)
    return e.fma(x, slope, x)


def _tail(e: Lanes, x: Any) -> Any:
    """erfc(x) for 0.4 <= x <= 28."""
    t = (x - 2.0) / (x + 2.0)
    rest = t * e.polynomial(t, _ERFC[1:])
    scaled = e.fast_two_sum(_ERFC[0], rest)
    square = e.two_product(x, x)
    k, y = exp_pair(e, -square.high, -square.low)
    divisor = e.two_sum(1.0, x + x)
    return e.scale(e.quotient(e.pair_product(y, scaled), divisor), k)


def _erf(e: Lanes, x: Any) -> Any:
    """The error function."""
    size = abs(x)
    far = 1.0 - _tail(e, e.at_most(e.at_least(size, 1.0), 28.0))
    return e.where(size < 1.0, _near(e, x), e.copysign(far, x))


def _erfc(e: Lanes, x: Any) -> Any:
    """1 - erf(x) without cancellation."""
    size = abs(x)
    tail = _tail(e, e.at_most(e.at_least(size, _FIRST_TAIL), 28.0))
    near = 1.0 - _near(e, x)
    far = e.where(x < 0.0, 2.0 - tail, tail)
    is_near = (x < _FIRST_TAIL) & (x > -1.0)
    return e.where(is_near, near, far)


FUNCTIONS: dict[str, Callable[..., Any]] = {"erf": _erf, "erfc": _erfc}
"""Functions by SciPy's names."""
