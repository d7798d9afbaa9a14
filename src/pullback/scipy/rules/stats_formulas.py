"""Formulas of the distributions that have derivatives, in standard form (loc 0, scale 1).

`logpdf`, `cdf` and the other functions take the standardized variable and the shape parameters, as
tensors. What is None follows from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, pi
from typing import Any

import numpy as np
import scipy.stats as st
from scipy.special import _ufuncs as sc
from scipy.special._ufuncs import betainc, betaincc, gammainc, gammaincc, stdtr

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import Known, Primitive
from pullback.interop.arguments import plain
from pullback.scipy.rules.linalg_tools import reduce_to
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["CONTINUOUS", "DISCRETE", "Continuous", "Discrete"]

_Formula = Callable[..., Any]
_EULER = 0.5772156649015329
_HALF_LOG_2PI = log(2 * pi) / 2


@dataclass(frozen=True)
class Continuous:
    """Formulas of a continuous distribution."""

    logpdf: _Formula
    cdf: _Formula
    sf: _Formula
    ppf: _Formula | None = None  # None: from the distribution function, implicitly
    isf: _Formula | None = None
    logcdf: _Formula | None = None
    logsf: _Formula | None = None
    mean: _Formula | None = None
    var: _Formula | None = None
    entropy: _Formula | None = None
    support: tuple[float, float] = (-inf, inf)


@dataclass(frozen=True)
class Discrete:
    """Formulas of a discrete distribution on the whole numbers from 0."""

    logpmf: _Formula
    cdf: _Formula
    sf: _Formula
    mean: _Formula
    var: _Formula
    last: _Formula  # the largest value


def _xlogy(p: Any, y: Any) -> Any:
    """``p * log(y)``, 0 where p is 0, with derivatives there too."""
    is_zero = p == 0
    return xp.where(is_zero, 0.0, p * xp.log(xp.where(is_zero & (y == 0), 1.0, y)))


def _xlog1py(p: Any, y: Any) -> Any:
    return _xlogy(p, 1 + y)


def _t_logpdf(y: Any, df: Any) -> Any:
    constant = sc.gammaln((df + 1) / 2) - sc.gammaln(df / 2) - xp.log(df * pi) / 2
    return constant - (df + 1) / 2 * xp.log1p(y**2 / df)


def _t_entropy(df: Any) -> Any:
    half, more = df / 2, (df + 1) / 2
    spread = xp.log(df) / 2 + sc.betaln(half, xp.zeros_like(half) + 0.5)
    return more * (sc.psi(more) - sc.psi(half)) + spread


def _f_logpdf(y: Any, n: Any, m: Any) -> Any:
    constant = m / 2 * xp.log(m) + n / 2 * xp.log(n) - sc.betaln(n / 2, m / 2)
    return constant + _xlogy(n / 2 - 1, y) - (n + m) / 2 * xp.log(m + n * y)


def _f_entropy(n: Any, m: Any) -> Any:
    a, b = n / 2, m / 2
    return (
        xp.log(m)
        - xp.log(n)
        + sc.betaln(a, b)
        + (1 - a) * sc.psi(a)
        - (1 + b) * sc.psi(b)
        + (a + b) * sc.psi(a + b)
    )


def _laplace_cdf(y: Any) -> Any:
    tail = xp.exp(-xp.abs(y)) / 2
    return xp.where(y > 0, 1 - tail, tail)


def _laplace_logcdf(y: Any) -> Any:
    return xp.where(y > 0, xp.log1p(-xp.exp(-xp.abs(y)) / 2), -xp.abs(y) - log(2))


def _laplace_ppf(q: Any) -> Any:
    low = xp.minimum(q, 1 - q)
    return xp.where(q > 0.5, -xp.log(2 * low), xp.log(2 * low))


def _beta_var(a: Any, b: Any) -> Any:
    return a * b / ((a + b) ** 2 * (a + b + 1))


def _beta_entropy(a: Any, b: Any) -> Any:
    rest = (a + b - 2) * sc.psi(a + b) - (a - 1) * sc.psi(a) - (b - 1) * sc.psi(b)
    return sc.betaln(a, b) + rest


def _vonmises_cdf(y: Any, kappa: Any) -> Any:
    return _VONMISES(y, kappa)


def _vonmises_logpdf(y: Any, kappa: Any) -> Any:
    return kappa * (xp.cos(y) - 1) - 2 * _HALF_LOG_2PI - xp.log(sc.i0e(kappa))


def _vonmises_forward(y: Any, kappa: Any) -> Any:
    return np.asarray(st.vonmises.cdf(y, kappa))


def _vonmises_slopes(known: Known) -> tuple[Any, Any]:
    """The density, and the Fourier series of the derivative by the concentration."""
    y, kappa = known.inputs
    largest = 100.0 if levels_of(kappa) else float(np.max(plain(kappa), initial=1.0))
    base, total = sc.i0e(kappa), xp.zeros_like(y * kappa)
    ratio = sc.i1e(kappa) / base
    for j in range(1, int(20 + 8 * np.sqrt(largest))):
        around = (sc.ive(j - 1.0, kappa) + sc.ive(j + 1.0, kappa)) / 2
        slope = (around - sc.ive(float(j), kappa) * ratio) / base
        total = total + slope * xp.sin(j * y) / (j * pi)
    return xp.exp(_vonmises_logpdf(y, kappa)), total


def _vonmises_jvp(known: Known, y_t: Tensor | None, kappa_t: Tensor | None) -> Any:
    by_y, by_kappa = _vonmises_slopes(known)
    total: Any = 0 if y_t is None else y_t * by_y
    return total if kappa_t is None else total + kappa_t * by_kappa


def _vonmises_vjp(known: Known, g: Tensor) -> tuple[Any, Any]:
    by_y, by_kappa = _vonmises_slopes(known)
    y, kappa = known.inputs
    return reduce_to(g * by_y, y.shape), reduce_to(g * by_kappa, kappa.shape)


_VONMISES = Primitive("vonmises_cdf", _vonmises_forward, _vonmises_jvp, _vonmises_vjp)


CONTINUOUS: dict[str, Continuous] = {
    "norm": Continuous(
        logpdf=lambda y: -(y**2) / 2 - _HALF_LOG_2PI,
        cdf=lambda y: sc.ndtr(y),
        sf=lambda y: sc.ndtr(-y),
        logcdf=lambda y: sc.log_ndtr(y),
        logsf=lambda y: sc.log_ndtr(-y),
        ppf=lambda q: sc.ndtri(q),
        isf=lambda q: -sc.ndtri(q),
        mean=lambda: 0.0,
        var=lambda: 1.0,
        entropy=lambda: _HALF_LOG_2PI + 0.5,
    ),
    "lognorm": Continuous(
        logpdf=lambda y, s: -((xp.log(y) / s) ** 2) / 2 - xp.log(s * y) - _HALF_LOG_2PI,
        cdf=lambda y, s: sc.ndtr(xp.log(y) / s),
        sf=lambda y, s: sc.ndtr(-xp.log(y) / s),
        logcdf=lambda y, s: sc.log_ndtr(xp.log(y) / s),
        logsf=lambda y, s: sc.log_ndtr(-xp.log(y) / s),
        ppf=lambda q, s: xp.exp(s * sc.ndtri(q)),
        isf=lambda q, s: xp.exp(-s * sc.ndtri(q)),
        mean=lambda s: xp.exp(s**2 / 2),
        var=lambda s: xp.expm1(s**2) * xp.exp(s**2),
        entropy=lambda s: 0.5 + _HALF_LOG_2PI + xp.log(s),
        support=(0, inf),
    ),
    "t": Continuous(
        logpdf=_t_logpdf,
        cdf=lambda y, df: stdtr(df, y),
        sf=lambda y, df: stdtr(df, -y),
        mean=lambda df: xp.where(df > 1, 0 * df, inf),
        var=lambda df: xp.where(df > 2, df / (df - 2), xp.where(df > 1, inf, np.nan)),
        entropy=_t_entropy,
    ),
    "gamma": Continuous(
        logpdf=lambda y, a: _xlogy(a - 1, y) - y - sc.gammaln(a),
        cdf=lambda y, a: gammainc(a, y),
        sf=lambda y, a: gammaincc(a, y),
        mean=lambda a: a,
        var=lambda a: a,
        entropy=lambda a: sc.psi(a) * (1 - a) + a + sc.gammaln(a),
        support=(0, inf),
    ),
    "invgamma": Continuous(
        logpdf=lambda y, a: -(a + 1) * xp.log(y) - sc.gammaln(a) - 1 / y,
        cdf=lambda y, a: gammaincc(a, 1 / y),
        sf=lambda y, a: gammainc(a, 1 / y),
        mean=lambda a: xp.where(a > 1, 1 / (a - 1), inf),
        var=lambda a: xp.where(a > 2, 1 / (a - 1) ** 2 / (a - 2), inf),
        entropy=lambda a: a - (a + 1) * sc.psi(a) + sc.gammaln(a),
        support=(0, inf),
    ),
    "beta": Continuous(
        logpdf=lambda y, a, b: _xlogy(a - 1, y) + _xlog1py(b - 1, -y) - sc.betaln(a, b),
        cdf=lambda y, a, b: betainc(a, b, y),
        sf=lambda y, a, b: betaincc(a, b, y),
        mean=lambda a, b: a / (a + b),
        var=_beta_var,
        entropy=_beta_entropy,
        support=(0, 1),
    ),
    "expon": Continuous(
        logpdf=lambda y: -y,
        cdf=lambda y: -xp.expm1(-y),
        sf=lambda y: xp.exp(-y),
        logsf=lambda y: -y,
        ppf=lambda q: -xp.log1p(-q),
        isf=lambda q: -xp.log(q),
        mean=lambda: 1.0,
        var=lambda: 1.0,
        entropy=lambda: 1.0,
        support=(0, inf),
    ),
    "weibull_min": Continuous(
        logpdf=lambda y, c: xp.log(c) + _xlogy(c - 1, y) - y**c,
        cdf=lambda y, c: -xp.expm1(-(y**c)),
        sf=lambda y, c: xp.exp(-(y**c)),
        logsf=lambda y, c: -(y**c),
        ppf=lambda q, c: (-xp.log1p(-q)) ** (1 / c),
        isf=lambda q, c: (-xp.log(q)) ** (1 / c),
        mean=lambda c: xp.exp(sc.gammaln(1 + 1 / c)),
        var=lambda c: xp.exp(sc.gammaln(1 + 2 / c)) - xp.exp(2 * sc.gammaln(1 + 1 / c)),
        entropy=lambda c: -_EULER / c - xp.log(c) + _EULER + 1,
        support=(0, inf),
    ),
    "laplace": Continuous(
        logpdf=lambda y: -xp.abs(y) - log(2),
        cdf=_laplace_cdf,
        sf=lambda y: _laplace_cdf(-y),
        logcdf=_laplace_logcdf,
        logsf=lambda y: _laplace_logcdf(-y),
        ppf=_laplace_ppf,
        isf=lambda q: -_laplace_ppf(q),
        mean=lambda: 0.0,
        var=lambda: 2.0,
        entropy=lambda: log(2) + 1,
    ),
    "cauchy": Continuous(
        logpdf=lambda y: -log(pi) - xp.log1p(y**2),
        cdf=lambda y: xp.atan2(xp.ones_like(y), -y) / pi,
        sf=lambda y: xp.atan2(xp.ones_like(y), y) / pi,
        ppf=lambda q: xp.tan(pi * q - pi / 2),
        isf=lambda q: xp.tan(pi / 2 - pi * q),
        entropy=lambda: log(4 * pi),
    ),
    "logistic": Continuous(
        logpdf=lambda y: -xp.abs(y) - 2 * xp.log1p(xp.exp(-xp.abs(y))),
        cdf=lambda y: sc.expit(y),
        sf=lambda y: sc.expit(-y),
        logcdf=lambda y: sc.log_expit(y),
        logsf=lambda y: sc.log_expit(-y),
        ppf=lambda q: sc.logit(q),
        isf=lambda q: -sc.logit(q),
        mean=lambda: 0.0,
        var=lambda: pi**2 / 3,
        entropy=lambda: 2.0,
    ),
    "chi2": Continuous(
        logpdf=lambda y, df: _xlogy(df / 2 - 1, y) - y / 2 - sc.gammaln(df / 2) - df / 2 * log(2),
        cdf=lambda y, df: gammainc(df / 2, y / 2),
        sf=lambda y, df: gammaincc(df / 2, y / 2),
        mean=lambda df: df,
        var=lambda df: 2 * df,
        entropy=lambda df: df / 2 + log(2) + sc.gammaln(df / 2) + (1 - df / 2) * sc.psi(df / 2),
        support=(0, inf),
    ),
    "f": Continuous(
        logpdf=_f_logpdf,
        cdf=lambda y, n, m: betainc(n / 2, m / 2, n * y / (n * y + m)),
        sf=lambda y, n, m: betainc(m / 2, n / 2, m / (n * y + m)),
        mean=lambda n, m: xp.where(m > 2, m / (m - 2), inf) + 0 * n,
        var=lambda n, m: xp.where(
            m > 4, 2 * m**2 * (n + m - 2) / (n * (m - 2) ** 2 * (m - 4)), inf
        ),
        entropy=_f_entropy,
        support=(0, inf),
    ),
    "uniform": Continuous(
        logpdf=lambda y: 0 * y,
        cdf=lambda y: y,
        sf=lambda y: 1 - y,
        ppf=lambda q: q,
        isf=lambda q: 1 - q,
        mean=lambda: 0.5,
        var=lambda: 1 / 12,
        entropy=lambda: 0.0,
        support=(0, 1),
    ),
    "pareto": Continuous(
        logpdf=lambda y, b: xp.log(b) - (b + 1) * xp.log(y),
        cdf=lambda y, b: -xp.expm1(-b * xp.log(y)),
        sf=lambda y, b: y**-b,
        logsf=lambda y, b: -b * xp.log(y),
        ppf=lambda q, b: xp.exp(-xp.log1p(-q) / b),
        isf=lambda q, b: q ** (-1 / b),
        mean=lambda b: xp.where(b > 1, b / (b - 1), inf),
        var=lambda b: xp.where(b > 2, b / (b - 2) / (b - 1) ** 2, inf),
        entropy=lambda b: 1 + 1 / b - xp.log(b),
        support=(1, inf),
    ),
    "vonmises": Continuous(
        logpdf=_vonmises_logpdf,
        cdf=_vonmises_cdf,
        sf=lambda y, kappa: 1 - _vonmises_cdf(y, kappa),
        mean=lambda kappa: 0 * kappa,
        entropy=lambda kappa: (
            -kappa * sc.i1e(kappa) / sc.i0e(kappa)
            + 2 * _HALF_LOG_2PI
            + xp.log(sc.i0e(kappa))
            + kappa
        ),
    ),
}


def _binom_logpmf(k: Any, n: Any, p: Any) -> Any:
    ways = sc.gammaln(n + 1) - sc.gammaln(k + 1) - sc.gammaln(n - k + 1)
    return ways + _xlogy(k, p) + _xlog1py(n - k, -p)


def _nbinom_logpmf(k: Any, n: Any, p: Any) -> Any:
    ways = sc.gammaln(n + k) - sc.gammaln(k + 1) - sc.gammaln(n)
    return ways + n * xp.log(p) + _xlog1py(k, -p)


DISCRETE: dict[str, Discrete] = {
    "poisson": Discrete(
        logpmf=lambda k, mu: _xlogy(k, mu) - sc.gammaln(k + 1) - mu,
        cdf=lambda k, mu: gammaincc(k + 1, mu),
        sf=lambda k, mu: gammainc(k + 1, mu),
        mean=lambda mu: mu,
        var=lambda mu: mu,
        last=lambda mu: inf + 0 * mu.detach(),
    ),
    "binom": Discrete(
        logpmf=_binom_logpmf,
        cdf=lambda k, n, p: betaincc(k + 1, n - k, p),
        sf=lambda k, n, p: betainc(k + 1, n - k, p),
        mean=lambda n, p: n * p,
        var=lambda n, p: n * p * (1 - p),
        last=lambda n, p: n.detach() + 0 * p.detach(),
    ),
    "nbinom": Discrete(
        logpmf=_nbinom_logpmf,
        cdf=lambda k, n, p: betainc(n, k + 1, p),
        sf=lambda k, n, p: betaincc(n, k + 1, p),
        mean=lambda n, p: n * (1 - p) / p,
        var=lambda n, p: n * (1 - p) / p**2,
        last=lambda n, p: inf + 0 * n.detach() + 0 * p.detach(),
    ),
}
