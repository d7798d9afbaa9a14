"""Incomplete gamma and beta functions, differentiable by their parameters, to second order.

The derivative by a parameter is an integral of the density times its score, by tanh-sinh quadrature
over the shorter tail: it keeps its relative accuracy far out. The universal functions of
``scipy.special`` have derivatives by the last argument only; they are used where no parameter
carries a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import _ufuncs as sc

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import holds_gradient, refusal
from pullback.kernels.errstate import errstate
from pullback.scipy.primitive import Known, Primitive
from pullback.scipy.rules.linalg_tools import Array, reduce_to
from pullback.tensor.tensor import Tensor

__all__ = ["betainc", "betaincc", "gammainc", "gammaincc", "stdtr"]

# Tanh-sinh quadrature on (0, 1): points and weights, dense at both ends.
_STEPS = np.arange(-6.0, 3.4, 0.04)
_POINTS = 1 / (1 + np.exp(-np.pi * np.sinh(_STEPS)))
_WEIGHTS = 0.04 * np.pi * np.cosh(_STEPS) * _POINTS / (1 + np.exp(np.pi * np.sinh(_STEPS)))
_quiet = errstate(all="ignore")


def _third(name: str) -> Exception:
    return refusal(
        f"scipy.special.{name}",
        "its third derivative by a parameter is missing",
        "Derivatives of second order exist.",
    )


@_quiet
def _gamma_derivative(a: Array, x: Array, order: int) -> Any:
    """The derivative of order 1 or 2 by `a` of gammainc(a, x)."""
    a, x = np.broadcast_arrays(a, x)
    a, x = a[..., None], x[..., None]
    is_lower = x <= a + 1
    log_u = np.log(_POINTS)
    log_t = np.log(x) + np.where(is_lower, log_u / a, -log_u)
    log_weight = np.where(is_lower, -sc.gammaln(a + 1), -sc.gammaln(a) - (a + 1) * log_u)
    weight = np.exp(a * np.log(x) + log_weight - np.exp(log_t)) * _WEIGHTS
    score = log_t - sc.psi(a)
    if order == 2:
        score = score**2 - sc._zeta(2.0, a)
    total = np.sum(np.where(weight > 0, weight * score, 0), -1)
    inside = (x[..., 0] > 0) & np.isfinite(x[..., 0])
    return np.asarray(np.where(inside, np.where(is_lower[..., 0], total, -total), 0.0))


def _gamma_forward(a: Array, x: Array, order: int, complement: bool) -> Any:
    if order:
        found = _gamma_derivative(a, x, order)
        return -found if complement else found
    return np.asarray((sc.gammaincc if complement else sc.gammainc)(a, x))


def _gamma_slopes(known: Known) -> tuple[Any, Any]:
    """The derivatives by `a` and by `x`."""
    (a, x), order = known.inputs, known.options["order"]
    if order == 2:
        by_a = None
    else:
        by_a = _GAMMA(a, x, order=order + 1, complement=known.options["complement"])
    score = xp.log(x) - sc.psi(a)
    density = xp.exp(sc.xlogy(a - 1, x) - x - sc.gammaln(a))
    factor = (1, score, score**2 - sc._zeta(2.0, a))[order]
    by_x = density * factor
    return by_a, -by_x if known.options["complement"] else by_x


def _slopes_to_jvp(name: str, slopes: Any) -> tuple[Any, Any]:
    """JVP and VJP rules of a function of each element, from its slopes."""

    def jvp(known: Known, *tangents: Tensor | None) -> Any:
        total: Any = 0
        for tangent, slope in zip(tangents, slopes(known), strict=True):
            if tangent is not None:
                if slope is None:
                    raise _third(name)
                total = total + tangent * slope
        return total

    def vjp(known: Known, g: Tensor) -> list[Any]:
        found = []
        for value, slope, is_needed in zip(known.inputs, slopes(known), known.needs, strict=True):
            if slope is None and is_needed:
                raise _third(name)
            found.append(None if slope is None else reduce_to(g * slope, value.shape))
        return found

    return jvp, vjp


_GAMMA = Primitive("gammainc", _gamma_forward, *_slopes_to_jvp("gammainc", _gamma_slopes))


def gammainc(a: Any, x: Any) -> Any:
    """The regularized lower incomplete gamma function."""
    return _GAMMA(a, x, order=0, complement=False) if holds_gradient(a) else sc.gammainc(a, x)


def gammaincc(a: Any, x: Any) -> Any:
    """The regularized upper incomplete gamma function."""
    return _GAMMA(a, x, order=0, complement=True) if holds_gradient(a) else sc.gammaincc(a, x)


@_quiet
def _beta_derivative(a: Array, b: Array, x: Array, order: tuple[int, int]) -> Any:
    """The derivative by `a` and `b` of betainc(a, b, x)."""
    a, b, x = np.broadcast_arrays(a, b, x)
    swap = x > (a + 1) / (a + b + 2)
    first, second = np.where(swap, b, a)[..., None], np.where(swap, a, b)[..., None]
    place = np.where(swap, 1 - x, x)[..., None]
    log_t = np.log(place) + np.log(_POINTS) / first
    rest = np.log1p(-np.exp(log_t))
    weight = _WEIGHTS * np.exp(
        first * np.log(place) - np.log(first) - sc.betaln(first, second) + (second - 1) * rest
    )
    flipped = swap[..., None]
    both = sc.psi(first + second)
    by_first, by_second = log_t - sc.psi(first) + both, rest - sc.psi(second) + both
    to_a, to_b = np.where(flipped, by_second, by_first), np.where(flipped, by_first, by_second)
    bend = sc._zeta(2.0, first + second)
    score = {
        (1, 0): lambda: to_a,
        (0, 1): lambda: to_b,
        (1, 1): lambda: to_a * to_b + bend,
        (2, 0): lambda: to_a**2 - sc._zeta(2.0, a)[..., None] + bend,
        (0, 2): lambda: to_b**2 - sc._zeta(2.0, b)[..., None] + bend,
    }[order]()
    total = np.sum(np.where(weight > 0, weight * score, 0), -1)
    inside = (x > 0) & (x < 1)
    return np.asarray(np.where(inside, np.where(swap, -total, total), 0.0))


def _beta_forward(a: Array, b: Array, x: Array, order: tuple[int, int], complement: bool) -> Any:
    if order == (0, 0):
        return np.asarray((sc.betaincc if complement else sc.betainc)(a, b, x))
    found = _beta_derivative(a, b, x, order)
    return -found if complement else found


def _beta_slopes(known: Known) -> tuple[Any, Any, Any]:
    (a, b, x), (i, j) = known.inputs, known.options["order"]
    complement = known.options["complement"]
    by_a = by_b = None
    if i + j < 2:
        by_a = _BETA(a, b, x, order=(i + 1, j), complement=complement)
        by_b = _BETA(a, b, x, order=(i, j + 1), complement=complement)
    density = xp.exp(sc.xlogy(a - 1, x) + sc.xlog1py(b - 1, -x) - sc.betaln(a, b))
    both = sc.psi(a + b)
    to_a, to_b = xp.log(x) - sc.psi(a) + both, xp.log1p(-x) - sc.psi(b) + both
    bend = sc._zeta(2.0, a + b) if i + j == 2 else 0
    factor: Any = 1 if i + j == 0 else to_a if (i, j) == (1, 0) else to_b
    if i + j == 2:
        factor = {
            (1, 1): lambda: to_a * to_b + bend,
            (2, 0): lambda: to_a**2 - sc._zeta(2.0, a) + bend,
            (0, 2): lambda: to_b**2 - sc._zeta(2.0, b) + bend,
        }[i, j]()
    by_x = density * factor
    return by_a, by_b, -by_x if complement else by_x


_BETA = Primitive("betainc", _beta_forward, *_slopes_to_jvp("betainc", _beta_slopes))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function."""
    if holds_gradient([a, b]):
        return _BETA(a, b, x, order=(0, 0), complement=False)
    return sc.betainc(a, b, x)


def betaincc(a: Any, b: Any, x: Any) -> Any:
    """The complement of the regularized incomplete beta function."""
    if holds_gradient([a, b]):
        return _BETA(a, b, x, order=(0, 0), complement=True)
    return sc.betaincc(a, b, x)


def stdtr(df: Any, y: Any) -> Any:
    """The distribution function of Student's t."""
    if not holds_gradient(df):
        return sc.stdtr(df, y)
    is_near = xp.abs(y) < 1
    near = xp.where(is_near, y, 0.0)
    # This form has its slope at zero too; the other one keeps its accuracy far out.
    middle = betainc(df / 2, df / 2, (1 + near / xp.sqrt(near**2 + df)) / 2)
    far = xp.where(is_near, 1.0, y)
    tail = betainc(df / 2, xp.zeros_like(df) + 0.5, df / (df + far**2)) / 2
    return xp.where(is_near, middle, xp.where(far < 0, tail, 1 - tail))
