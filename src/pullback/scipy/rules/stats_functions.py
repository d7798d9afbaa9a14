"""Descriptive statistics, means, correlation and tests of ``scipy.stats``."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.stats as st
from scipy.special import _ufuncs as sc
from scipy.special._ufuncs import stdtr
from scipy.stats import _stats_py

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor, plain
from pullback.scipy.conversions import as_floating
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.traced import decided
from pullback.tensor.batched import levels_of

__all__ = ["TestResult", "statistic"]

_Declared = TypeVar("_Declared", bound=Callable[..., Any])


class TestResult(NamedTuple):
    """Statistic and p-value of a test."""

    statistic: Any
    pvalue: Any


def _bind_axis(name: str, a: Any, axis: Any, nan_policy: str = "propagate") -> tuple[Any, int]:
    """An argument and its axis; flat, if none is given."""
    a = as_floating(a)
    if nan_policy not in ("propagate", "raise", "omit"):
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    if nan_policy != "propagate" and not levels_of(a) and decided(lambda v: np.isnan(v).any(), a):
        if nan_policy == "raise":
            raise ValueError("The input contains nan values")
        raise option_without_rule(name, "nan_policy", nan_policy)
    if axis is None:
        return xp.reshape(a, [-1]), 0
    return a, axis


def _reduce_axis(value: Any, a: Any, axis: Any, keepdims: bool, original: Any) -> Any:
    """A result without the axis, or with axes of length one."""
    if keepdims:
        return xp.reshape(value, [1] * original.ndim) if original.ndim != a.ndim else value
    return xp.squeeze(value, axis)


def statistic(name: str, data: str = "a", *, more: str = "") -> Callable[[_Declared], _Declared]:
    """Declares the decorated function as the rule of a statistic of `data` along an axis.

    It gets the arguments in `data` as tensors (or None), the number of their axis, and SciPy's
    other arguments but `nan_policy` and `keepdims`. Its result, or the two of a `TestResult`, has
    the axis with length one. `more` lists further arguments that may carry a gradient.
    """
    full = f"scipy.stats.{name}"

    def declare(function: _Declared) -> _Declared:
        @rule(full, tensors=f"{data} {more}")
        def apply(
            axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False, **options: Any
        ) -> Any:
            given = [options.pop(key) for key in data.split()]
            bound = [
                (None, 0) if value is None else _bind_axis(full, value, axis, nan_policy)
                for value in given
            ]
            x, along = bound[0]

            def reduce(value: Any) -> Any:
                return _reduce_axis(value, x, along, keepdims, as_tensor(given[0]))

            found = function(*(value for value, _ in bound), along, **options)
            is_test = isinstance(found, TestResult)
            return TestResult(*map(reduce, found)) if is_test else reduce(found)

        return function

    return declare


def _mean(a: Any, axis: int) -> Any:
    return xp.mean(a, axis, True)


def _var(a: Any, axis: int, ddof: float) -> Any:
    """The variance; the axis stays."""
    return xp.sum((a - _mean(a, axis)) ** 2, axis, True) / (a.shape[axis] - ddof)


def _central(a: Any, axis: int, order: int, center: Any = None) -> Any:
    apart = a - (_mean(a, axis) if center is None else center)
    return xp.mean(apart**order, axis, True)


@statistic("skew")
def _skew(a: Any, axis: int, bias: bool) -> Any:
    n, m2 = a.shape[axis], _central(a, axis, 2)
    value = _central(a, axis, 3) / m2**1.5
    return value if bias or n <= 2 else value * (sqrt(n * (n - 1.0)) / (n - 2.0))


@statistic("kurtosis")
def _kurtosis(a: Any, axis: int, fisher: bool, bias: bool) -> Any:
    n = a.shape[axis]
    ratio = _central(a, axis, 4) / _central(a, axis, 2) ** 2
    if not bias and n > 3:
        scaled = (n**2 - 1.0) * ratio - 3 * (n - 1) ** 2.0
        ratio = scaled / ((n - 2) * (n - 3)) + 3.0
    return ratio - 3.0 if fisher else ratio


@statistic("moment", more="center")
def _moment(a: Any, axis: int, order: Any, center: Any) -> Any:
    if np.ndim(order):
        raise option_without_rule("scipy.stats.moment", "order", order)
    return _central(a, axis, int(order), center)


@statistic("variation")
def _variation(a: Any, axis: int, ddof: float) -> Any:
    return xp.sqrt(_var(a, axis, ddof)) / _mean(a, axis)


@statistic("sem")
def _sem(a: Any, axis: int, ddof: float) -> Any:
    return xp.sqrt(_var(a, axis, ddof) / a.shape[axis])


@rule("scipy.stats.describe", tensors="a")
def _describe(a: Any, axis: Any, ddof: int, bias: bool, nan_policy: str) -> Any:
    x, along = _bind_axis("scipy.stats.describe", a, axis, nan_policy)
    if not x.size:
        raise ValueError("The input must not be empty.")
    moments = _mean(x, along), _var(x, along, ddof)
    parts = (*moments, _skew(x, along, bias), _kurtosis(x, along, True, bias))
    ends = xp.min(x, along), xp.max(x, along)
    return _stats_py.DescribeResult(
        x.shape[along], ends, *(xp.squeeze(part, along) for part in parts)
    )


# --- scores ---


@rule("scipy.stats.zmap", tensors="scores compare")
def _zmap(scores: Any, compare: Any, axis: Any, ddof: float, nan_policy: str) -> Any:
    compare, along = _bind_axis("scipy.stats.zmap", compare, axis, nan_policy)
    spread = xp.sqrt(_var(compare, along, ddof))
    result = as_tensor(scores) - _mean(compare, along)
    return result / spread


@rule("scipy.stats.zscore", tensors="a")
def _zscore(a: Any, axis: Any, ddof: float, nan_policy: str) -> Any:
    return _zmap(a, a, axis, ddof, nan_policy)


@rule("scipy.stats.gzscore", tensors="a")
def _gzscore(a: Any, axis: Any, ddof: float, nan_policy: str) -> Any:
    return _zscore(xp.log(as_tensor(a)), axis, ddof, nan_policy)


# --- means ---


def _weighted(a: Any, weights: Any, axis: int) -> Any:
    if weights is None:
        return _mean(a, axis)
    weights = as_tensor(weights)
    if weights.shape != a.shape:
        shape = [1] * a.ndim
        shape[axis] = -1
        weights = xp.reshape(weights, shape)
    weights = weights + xp.zeros_like(a)
    return xp.sum(a * weights, axis, True) / xp.sum(weights, axis, True)


def _as_type(a: Any, dtype: Any) -> Any:
    return a if dtype is None else xp.astype(a, dtype)


@statistic("gmean", more="weights")
def _gmean(a: Any, axis: int, dtype: Any, weights: Any) -> Any:
    return xp.exp(_weighted(xp.log(_as_type(a, dtype)), weights, axis))


@statistic("hmean", more="weights")
def _hmean(a: Any, axis: int, dtype: Any, weights: Any) -> Any:
    return 1 / _weighted(1 / _as_type(a, dtype), weights, axis)


@statistic("pmean", more="weights")
def _pmean(a: Any, axis: int, p: float, dtype: Any, weights: Any) -> Any:
    if p == 0:
        return _gmean(a, axis, dtype, weights)
    return _weighted(_as_type(a, dtype) ** float(p), weights, axis) ** (1 / p)


def _within(x: Any, limits: Any, inclusive: Any) -> Any:
    """1 where an element is within the limits, 0 elsewhere."""
    values, inside = x.detach(), xp.ones_like(x.detach()) > 0
    low, high = limits if limits is not None else (None, None)
    if low is not None:
        inside = inside & (values >= low if inclusive[0] else values > low)
    if high is not None:
        inside = inside & (values <= high if inclusive[1] else values < high)
    return xp.astype(inside, x.dtype)


@statistic("tmean")
def _tmean(a: Any, axis: int, limits: Any, inclusive: Any) -> Any:
    inside = _within(a, limits, inclusive)
    return xp.sum(a * inside, axis, True) / xp.sum(inside, axis, True)


@statistic("tvar")
def _tvar(a: Any, axis: int, limits: Any, inclusive: Any, ddof: int) -> Any:
    inside = _within(a, limits, inclusive)
    count = xp.sum(inside, axis, True)
    apart = (a - xp.sum(a * inside, axis, True) / count) * inside
    return xp.sum(apart**2, axis, True) / (count - ddof)


@statistic("tstd")
def _tstd(a: Any, axis: int, **options: Any) -> Any:
    return xp.sqrt(_tvar(a, axis, **options))


@statistic("trim_mean")
def _trim_mean(a: Any, axis: int, proportiontocut: float) -> Any:
    n = a.shape[axis]
    cut = int(proportiontocut * n)
    if cut >= n - cut:
        raise ValueError("Proportion too big.")
    ordered = xp.moveaxis(xp.sort(a, axis), [axis], [0])[cut : n - cut]
    return xp.expand_dims(xp.mean(ordered, 0), axis)


@statistic("entropy", "pk qk")
def _entropy(p: Any, q: Any, axis: int, base: float | None) -> Any:
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    p = p / xp.sum(p, axis, True)
    terms = sc.entr(p) if q is None else sc.rel_entr(p, q / xp.sum(q, axis, True))
    value = xp.sum(terms, axis, True)
    return value if base is None else value / log(base)


# --- correlation and tests ---


def _p_value(t: Any, df: Any, alternative: str) -> Any:
    if alternative == "less":
        return stdtr(df, t)
    if alternative == "greater":
        return stdtr(df, -t)
    if alternative != "two-sided":
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    return 2 * stdtr(df, -xp.abs(t))


@rule("scipy.stats.pearsonr", tensors="x y")
def _pearsonr(x: Any, y: Any, alternative: str, method: Any, axis: Any) -> Any:
    if method is not None:
        raise option_without_rule("scipy.stats.pearsonr", "method", method)
    (x, along), (y, _) = (_bind_axis("scipy.stats.pearsonr", value, axis) for value in (x, y))
    n = x.shape[along]
    if y.shape[along] != n:
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    if n < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    dx, dy = x - _mean(x, along), y - _mean(y, along)
    product = xp.sum(dx * dy, along)
    r = product / xp.sqrt(xp.sum(dx**2, along) * xp.sum(dy**2, along))
    half = n / 2 - 1
    tails = {
        "two-sided": lambda: 2 * sc.betainc(half, half, (1 - xp.abs(r)) / 2),
        "less": lambda: sc.betainc(half, half, (1 + r) / 2),
        "greater": lambda: sc.betainc(half, half, (1 - r) / 2),
    }
    if alternative not in tails:
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    return _stats_py.PearsonRResult(
        statistic=r,
        pvalue=tails[alternative](),
        n=n,
        alternative=alternative,
        x=x,
        y=y,
        axis=along,
    )


@rule("scipy.stats.linregress", tensors="x y")
def _linregress(x: Any, y: Any, alternative: str, nan_policy: str = "propagate") -> Any:
    (x, _), (y, _) = (_bind_axis("scipy.stats.linregress", v, 0, nan_policy) for v in (x, y))
    if x.ndim != 1:
        raise option_without_rule("scipy.stats.linregress", "x.ndim", x.ndim)
    n = x.shape[0]
    if n < 3 or y.shape != x.shape or (not levels_of(x) and decided(lambda v: np.ptp(v) == 0, x)):
        st.linregress(plain(x), plain(y))  # raises
        raise option_without_rule("scipy.stats.linregress", "number of points", n)
    dx, dy = x - xp.mean(x), y - xp.mean(y)
    xx, xy, yy = xp.mean(dx * dx), xp.mean(dx * dy), xp.mean(dy * dy)
    r, slope, df = xy / xp.sqrt(xx * yy), xy / xx, n - 2
    t = r * xp.sqrt(df / ((1 - r + 1e-20) * (1 + r + 1e-20)))
    error = xp.sqrt((1 - r**2) * yy / xx / df)
    return _stats_py.LinregressResult(
        slope=slope,
        intercept=xp.mean(y) - slope * xp.mean(x),
        rvalue=r,
        pvalue=_p_value(t, df, alternative),
        stderr=error,
        intercept_stderr=error * xp.sqrt(xx + xp.mean(x) ** 2),
    )


@statistic("ttest_1samp", more="popmean")
def _ttest_1samp(a: Any, axis: int, popmean: Any, alternative: str) -> TestResult:
    n = a.shape[axis]
    t = (_mean(a, axis) - popmean) / xp.sqrt(_var(a, axis, 1) / n)
    return TestResult(t, _p_value(t, n - 1, alternative))


@statistic("ttest_rel", "a b")
def _ttest_rel(a: Any, b: Any, axis: int, alternative: str) -> TestResult:
    return _ttest_1samp(a - b, axis, 0.0, alternative)


@statistic("ttest_ind", "a b")
def _ttest_ind(
    a: Any, b: Any, axis: int, equal_var: bool, alternative: str, **options: Any
) -> TestResult:
    for option in ("permutations", "trim", "method"):
        if options.get(option):
            raise option_without_rule("scipy.stats.ttest_ind", option, options[option])
    n, m = a.shape[axis], b.shape[axis]
    by_a, by_b = _var(a, axis, 1) / n, _var(b, axis, 1) / m
    df: Any = n + m - 2.0
    if equal_var:
        error = xp.sqrt((n * (n - 1) * by_a + m * (m - 1) * by_b) / df * (1 / n + 1 / m))
    else:
        error = xp.sqrt(by_a + by_b)
        df = error**4 / (by_a**2 / (n - 1) + by_b**2 / (m - 1))
    t = (_mean(a, axis) - _mean(b, axis)) / error
    return TestResult(t, _p_value(t, df, alternative))


@rule("scipy.stats.f_oneway", tensors="samples")
def _f_oneway(
    *samples: Any,
    axis: int = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    if not equal_var:
        raise option_without_rule("scipy.stats.f_oneway", "equal_var", equal_var)
    if len(samples) < 2:
        raise TypeError(f"at least two inputs are required; got {len(samples)}.")
    parts = [_bind_axis("scipy.stats.f_oneway", s, axis, nan_policy)[0] for s in samples]
    count = sum(part.shape[axis] for part in parts)
    center = sum(xp.sum(part, axis, True) for part in parts) / count
    between = sum(p.shape[axis] * (_mean(p, axis) - center) ** 2 for p in parts)
    within = sum(xp.sum((p - _mean(p, axis)) ** 2, axis, True) for p in parts)
    first, second = len(parts) - 1, count - len(parts)
    f = _reduce_axis((between / first) / (within / second), parts[0], axis, keepdims, parts[0])
    return TestResult(f, sc.fdtrc(float(first), float(second), f))


@statistic("power_divergence", "f_obs", more="f_exp")
def _power_divergence(
    f_obs: Any, axis: int, f_exp: Any, ddof: int, lambda_: Any, **_: Any
) -> TestResult:
    expected = _mean(f_obs, axis) if f_exp is None else as_tensor(f_exp)
    if not levels_of(f_obs) and not levels_of(expected):  # SciPy's checks
        given = None if f_exp is None else plain(expected)
        st.power_divergence(plain(f_obs), given, ddof=ddof, axis=axis, lambda_=lambda_)
    if lambda_ in (None, "pearson", 1):
        terms = (f_obs - expected) ** 2 / expected
    elif lambda_ in ("log-likelihood", 0):
        terms = 2 * sc.xlogy(f_obs, f_obs / expected)
    else:
        raise option_without_rule("scipy.stats.power_divergence", "lambda_", lambda_)
    total = xp.sum(terms, axis, True)
    return TestResult(total, sc.chdtrc(float(f_obs.shape[axis] - 1 - ddof), total))


@statistic("chisquare", "f_obs", more="f_exp")
def _chisquare(f_obs: Any, axis: int, **options: Any) -> TestResult:
    return _power_divergence(f_obs, axis, lambda_="pearson", **options)


# --- distances between samples, transformations ---


def _cdf_distance(u: Any, v: Any, u_weights: Any, v_weights: Any) -> tuple[Any, Any]:
    """Gaps between all sorted values, and the difference of the distribution functions there."""
    u, v = as_tensor(u), as_tensor(v)
    both = xp.concatenate([u, v], 0)
    count = [u.shape[0], v.shape[0]]
    given = [u_weights, v_weights]
    weights = [
        np.ones(n) if w is None else plain(as_tensor(w)) for n, w in zip(count, given, strict=True)
    ]
    if any(not (w >= 0).all() or not 0 < w.sum() < np.inf for w in weights):
        raise ValueError("Weights must be non-negative, with a positive, finite sum.")
    signed = np.concatenate([weights[0] / weights[0].sum(), -weights[1] / weights[1].sum()])
    order = xp.argsort(both.detach(), 0)
    ordered = xp.take_along_axis(both, order, 0)
    step = xp.cumsum(xp.take_along_axis(as_tensor(signed), order, 0), 0)[:-1]
    return ordered[1:] - ordered[:-1], step


@rule("scipy.stats.wasserstein_distance", tensors="u_values v_values")
def _wasserstein(u_values: Any, v_values: Any, u_weights: Any, v_weights: Any) -> Any:
    gaps, step = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return xp.sum(gaps * xp.abs(step))


@rule("scipy.stats.energy_distance", tensors="u_values v_values")
def _energy(u_values: Any, v_values: Any, u_weights: Any, v_weights: Any) -> Any:
    gaps, step = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return xp.sqrt(2 * xp.sum(gaps * step**2))


@rule("scipy.stats.boxcox", tensors="x lmbda")
def _boxcox(x: Any, lmbda: Any, alpha: Any, optimizer: Any) -> Any:
    if lmbda is None:
        raise option_without_rule("scipy.stats.boxcox", "lmbda", lmbda)
    del alpha, optimizer
    x = as_tensor(x)
    if x.ndim != 1:
        raise ValueError("Data must be 1-dimensional.")
    if not levels_of(x) and decided(lambda v: (v <= 0).any(), x):
        raise ValueError("Data must be positive.")
    return sc.boxcox(x, lmbda)


@statistic("boxcox_llf", "data", more="lmb")
def _boxcox_llf(data: Any, axis: int, lmb: Any) -> Any:
    spread = xp.log(_var(sc.boxcox(data, lmb), axis, 0))
    return (lmb - 1) * xp.sum(xp.log(data), axis, True) - data.shape[axis] / 2 * spread


def _yeojohnson(x: Any, lmbda: Any) -> Any:
    is_positive = x >= 0
    up, down = xp.where(is_positive, x, 0.0), xp.where(is_positive, 0.0, -x)
    return xp.where(is_positive, sc.boxcox1p(up, lmbda), -sc.boxcox1p(down, 2 - lmbda))


@rule("scipy.stats.yeojohnson", tensors="x lmbda")
def _yeojohnson_rule(x: Any, lmbda: Any) -> Any:
    if lmbda is None:
        raise option_without_rule("scipy.stats.yeojohnson", "lmbda", lmbda)
    return _yeojohnson(as_tensor(x), lmbda)


@statistic("yeojohnson_llf", "data", more="lmb")
def _yeojohnson_llf(data: Any, axis: int, lmb: Any) -> Any:
    spread = xp.log(_var(_yeojohnson(data, lmb), axis, 0))
    jacobian = xp.sum(xp.sign(data) * xp.log1p(xp.abs(data)), axis, True)
    return (lmb - 1) * jacobian - data.shape[axis] / 2 * spread


@statistic("differential_entropy", "values")
def _differential_entropy(
    values: Any, axis: int, window_length: int | None, base: float | None, method: str
) -> Any:
    n = values.shape[axis]
    if method != "vasicek" or values.ndim != 1:
        raise option_without_rule("scipy.stats.differential_entropy", "method", method)
    window = int(np.floor(np.sqrt(n) + 0.5)) if window_length is None else int(window_length)
    if not 2 <= 2 * window < n:
        raise ValueError(
            f"Window length ({window}) must be positive and less than half the sample size ({n})."
        )
    ordered = xp.sort(values, 0)
    high = np.minimum(np.arange(n) + window, n - 1)
    low = np.maximum(np.arange(n) - window, 0)
    value = xp.mean(xp.log((ordered[high] - ordered[low]) * (n / (2 * window))), 0, True)
    return value if base is None else value / log(base)
