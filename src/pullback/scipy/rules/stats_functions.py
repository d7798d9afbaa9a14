"""Descriptive statistics, means, correlation and tests of ``scipy.stats``."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.stats as st
from scipy.special import _ufuncs as sc
from scipy.special._ufuncs import stdtr
from scipy.stats import _stats_py

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor, plain
from pullback.scipy.registry import option_without_rule, rule
from pullback.tensor.batched import levels_of

__all__ = ["TestResult", "bind_axis", "reduce_axis"]


class TestResult(NamedTuple):
    """Statistic and p-value of a test."""

    statistic: Any
    pvalue: Any


def bind_axis(name: str, a: Any, axis: Any, nan_policy: str = "propagate") -> tuple[Any, int]:
    """An argument and its axis; flat, if none is given."""
    a = as_tensor(a)
    if a.dtype.kind not in "fc":
        a = xp.astype(a, np.float64)
    if nan_policy not in ("propagate", "raise", "omit"):
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    if nan_policy != "propagate" and not levels_of(a) and np.isnan(plain(a)).any():
        if nan_policy == "raise":
            raise ValueError("The input contains nan values")
        raise option_without_rule(name, "nan_policy", nan_policy)
    if axis is None:
        return xp.reshape(a, [-1]), 0
    return a, axis


def _mean(a: Any, axis: int) -> Any:
    return xp.mean(a, axis, True)


def _var(a: Any, axis: int, ddof: float) -> Any:
    """The variance; the axis stays."""
    return xp.sum((a - _mean(a, axis)) ** 2, axis, True) / (a.shape[axis] - ddof)


def reduce_axis(value: Any, a: Any, axis: Any, keepdims: bool, original: Any) -> Any:
    """A result without the axis, or with axes of length one."""
    if keepdims:
        return xp.reshape(value, [1] * original.ndim) if original.ndim != a.ndim else value
    return xp.squeeze(value, axis)


def _central(a: Any, axis: int, order: int, center: Any = None) -> Any:
    apart = a - (_mean(a, axis) if center is None else center)
    return xp.mean(apart**order, axis, True)


def _skew(a: Any, axis: int, bias: bool) -> Any:
    n, m2 = a.shape[axis], _central(a, axis, 2)
    value = _central(a, axis, 3) / m2**1.5
    return value if bias or n <= 2 else value * (sqrt(n * (n - 1.0)) / (n - 2.0))


def _kurtosis(a: Any, axis: int, fisher: bool, bias: bool) -> Any:
    n = a.shape[axis]
    ratio = _central(a, axis, 4) / _central(a, axis, 2) ** 2
    if not bias and n > 3:
        scaled = (n**2 - 1.0) * ratio - 3 * (n - 1) ** 2.0
        ratio = scaled / ((n - 2) * (n - 3)) + 3.0
    return ratio - 3.0 if fisher else ratio


@rule("scipy.stats.skew", tensors="a")
def _skew_rule(
    a: Any,
    axis: Any = 0,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.skew", a, axis, nan_policy)
    return reduce_axis(_skew(x, along, bias), x, along, keepdims, as_tensor(a))


@rule("scipy.stats.kurtosis", tensors="a")
def _kurtosis_rule(
    a: Any,
    axis: Any = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.kurtosis", a, axis, nan_policy)
    return reduce_axis(_kurtosis(x, along, fisher, bias), x, along, keepdims, as_tensor(a))


@rule("scipy.stats.moment", tensors="a center")
def _moment(
    a: Any,
    order: Any = 1,
    axis: Any = 0,
    nan_policy: str = "propagate",
    *,
    center: Any = None,
    keepdims: bool = False,
) -> Any:
    if np.ndim(order):
        raise option_without_rule("scipy.stats.moment", "order", order)
    x, along = bind_axis("scipy.stats.moment", a, axis, nan_policy)
    return reduce_axis(_central(x, along, int(order), center), x, along, keepdims, as_tensor(a))


@rule("scipy.stats.variation", tensors="a")
def _variation(
    a: Any,
    axis: Any = 0,
    nan_policy: str = "propagate",
    ddof: float = 0,
    *,
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.variation", a, axis, nan_policy)
    value = xp.sqrt(_var(x, along, ddof)) / _mean(x, along)
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.sem", tensors="a")
def _sem(
    a: Any,
    axis: Any = 0,
    ddof: float = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.sem", a, axis, nan_policy)
    value = xp.sqrt(_var(x, along, ddof) / x.shape[along])
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.describe", tensors="a")
def _describe(
    a: Any, axis: Any = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate"
) -> Any:
    x, along = bind_axis("scipy.stats.describe", a, axis, nan_policy)
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
def _zmap(
    scores: Any, compare: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate"
) -> Any:
    compare, along = bind_axis("scipy.stats.zmap", compare, axis, nan_policy)
    spread = xp.sqrt(_var(compare, along, ddof))
    result = as_tensor(scores) - _mean(compare, along)
    return result / spread


@rule("scipy.stats.zscore", tensors="a")
def _zscore(a: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate") -> Any:
    return _zmap(a, a, axis, ddof, nan_policy)


@rule("scipy.stats.gzscore", tensors="a")
def _gzscore(a: Any, *, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate") -> Any:
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


@rule("scipy.stats.gmean", tensors="a weights")
def _gmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.gmean", _as_type(a, dtype), axis, nan_policy)
    value = xp.exp(_weighted(xp.log(x), weights, along))
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.hmean", tensors="a weights")
def _hmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    *,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.hmean", _as_type(a, dtype), axis, nan_policy)
    value = 1 / _weighted(1 / x, weights, along)
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.pmean", tensors="a weights")
def _pmean(
    a: Any,
    p: float,
    *,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    if p == 0:
        return _gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    x, along = bind_axis("scipy.stats.pmean", _as_type(a, dtype), axis, nan_policy)
    value = _weighted(x ** float(p), weights, along) ** (1 / p)
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


def _as_type(a: Any, dtype: Any) -> Any:
    return as_tensor(a) if dtype is None else xp.astype(as_tensor(a), dtype)


def _within(x: Any, limits: Any, inclusive: Any) -> Any:
    """1 where an element is within the limits, 0 elsewhere."""
    values, inside = x.detach(), xp.ones_like(x.detach()) > 0
    low, high = limits if limits is not None else (None, None)
    if low is not None:
        inside = inside & (values >= low if inclusive[0] else values > low)
    if high is not None:
        inside = inside & (values <= high if inclusive[1] else values < high)
    return xp.astype(inside, x.dtype)


@rule("scipy.stats.tmean", tensors="a")
def _tmean(
    a: Any,
    limits: Any = None,
    inclusive: Any = (True, True),
    axis: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.tmean", a, axis, nan_policy)
    inside = _within(x, limits, inclusive)
    value = xp.sum(x * inside, along, True) / xp.sum(inside, along, True)
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.tvar", tensors="a")
def _tvar(
    a: Any,
    limits: Any = None,
    inclusive: Any = (True, True),
    axis: Any = 0,
    ddof: int = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.tvar", a, axis, nan_policy)
    inside = _within(x, limits, inclusive)
    count = xp.sum(inside, along, True)
    apart = (x - xp.sum(x * inside, along, True) / count) * inside
    value = xp.sum(apart**2, along, True) / (count - ddof)
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.tstd", tensors="a")
def _tstd(a: Any, *args: Any, **named: Any) -> Any:
    return xp.sqrt(_tvar(a, *args, **named))


@rule("scipy.stats.trim_mean", tensors="a")
def _trim_mean(
    a: Any,
    proportiontocut: float,
    axis: Any = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.trim_mean", a, axis, nan_policy)
    n = x.shape[along]
    cut = int(proportiontocut * n)
    if cut >= n - cut:
        raise ValueError("Proportion too big.")
    ordered = xp.moveaxis(xp.sort(x, along), [along], [0])[cut : n - cut]
    value = xp.expand_dims(xp.mean(ordered, 0), along)
    return reduce_axis(value, x, along, keepdims, as_tensor(a))


@rule("scipy.stats.entropy", tensors="pk qk")
def _entropy(
    pk: Any,
    qk: Any = None,
    base: float | None = None,
    axis: Any = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    p, along = bind_axis("scipy.stats.entropy", pk, axis, nan_policy)
    p = p / xp.sum(p, along, True)
    if qk is None:
        terms = sc.entr(p)
    else:
        q, _ = bind_axis("scipy.stats.entropy", qk, axis, nan_policy)
        terms = sc.rel_entr(p, q / xp.sum(q, along, True))
    value = xp.sum(terms, along, True)
    value = value if base is None else value / log(base)
    return reduce_axis(value, p, along, keepdims, as_tensor(pk))


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
def _pearsonr(
    x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: Any = 0
) -> Any:
    if method is not None:
        raise option_without_rule("scipy.stats.pearsonr", "method", method)
    (x, along), (y, _) = (bind_axis("scipy.stats.pearsonr", value, axis) for value in (x, y))
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
def _linregress(
    x: Any,
    y: Any,
    alternative: str = "two-sided",
    *,
    axis: Any = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    (x, _), (y, _) = (bind_axis("scipy.stats.linregress", v, 0, nan_policy) for v in (x, y))
    if x.ndim != 1 or axis != 0 or keepdims:
        raise option_without_rule("scipy.stats.linregress", "axis", axis)
    n = x.shape[0]
    if n < 3 or y.shape != x.shape or (not levels_of(x) and np.ptp(plain(x)) == 0):
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


@rule("scipy.stats.ttest_1samp", tensors="a popmean")
def _ttest_1samp(
    a: Any,
    popmean: Any,
    axis: Any = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.ttest_1samp", a, axis, nan_policy)
    n = x.shape[along]
    t = (_mean(x, along) - popmean) / xp.sqrt(_var(x, along, 1) / n)
    t = reduce_axis(t, x, along, keepdims, as_tensor(a))
    return TestResult(t, _p_value(t, n - 1, alternative))


@rule("scipy.stats.ttest_rel", tensors="a b")
def _ttest_rel(a: Any, b: Any, axis: Any = 0, *args: Any, **named: Any) -> Any:
    return _ttest_1samp(as_tensor(a) - as_tensor(b), 0.0, axis, *args, **named)


@rule("scipy.stats.ttest_ind", tensors="a b")
def _ttest_ind(
    a: Any,
    b: Any,
    *,
    axis: Any = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    permutations: Any = None,
    alternative: str = "two-sided",
    trim: float = 0,
    method: Any = None,
    keepdims: bool = False,
) -> Any:
    for option, value in (("permutations", permutations), ("trim", trim), ("method", method)):
        if value:
            raise option_without_rule("scipy.stats.ttest_ind", option, value)
    (x, along), (y, _) = (bind_axis("scipy.stats.ttest_ind", v, axis, nan_policy) for v in (a, b))
    n, m = x.shape[along], y.shape[along]
    vx, vy = _var(x, along, 1), _var(y, along, 1)
    df: Any
    if equal_var:
        df = n + m - 2.0
        error = xp.sqrt(((n - 1) * vx + (m - 1) * vy) / df * (1 / n + 1 / m))
    else:
        error = xp.sqrt(vx / n + vy / m)
        df = error**4 / ((vx / n) ** 2 / (n - 1) + (vy / m) ** 2 / (m - 1))
        df = reduce_axis(df, x, along, keepdims, as_tensor(a))
    t = reduce_axis((_mean(x, along) - _mean(y, along)) / error, x, along, keepdims, as_tensor(a))
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
    parts = [bind_axis("scipy.stats.f_oneway", s, axis, nan_policy)[0] for s in samples]
    count = sum(part.shape[axis] for part in parts)
    center = sum(xp.sum(part, axis, True) for part in parts) / count
    between = sum(p.shape[axis] * (_mean(p, axis) - center) ** 2 for p in parts)
    within = sum(xp.sum((p - _mean(p, axis)) ** 2, axis, True) for p in parts)
    first, second = len(parts) - 1, count - len(parts)
    f = reduce_axis((between / first) / (within / second), parts[0], axis, keepdims, parts[0])
    return TestResult(f, sc.fdtrc(float(first), float(second), f))


@rule("scipy.stats.chisquare", tensors="f_obs f_exp")
def _chisquare(f_obs: Any, f_exp: Any = None, ddof: int = 0, axis: Any = 0, **options: Any) -> Any:
    options.pop("sum_check", None)
    return _power_divergence(f_obs, f_exp, ddof, axis, "pearson", **options)


@rule("scipy.stats.power_divergence", tensors="f_obs f_exp")
def _power_divergence(
    f_obs: Any,
    f_exp: Any = None,
    ddof: int = 0,
    axis: Any = 0,
    lambda_: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    observed, along = bind_axis("scipy.stats.power_divergence", f_obs, axis, nan_policy)
    expected = _mean(observed, along) if f_exp is None else as_tensor(f_exp)
    if not levels_of(observed) and not levels_of(as_tensor(expected)):  # SciPy's checks
        given = None if f_exp is None else plain(expected)
        st.power_divergence(plain(observed), given, ddof=ddof, axis=along, lambda_=lambda_)
    if lambda_ in (None, "pearson", 1):
        terms = (observed - expected) ** 2 / expected
    elif lambda_ in ("log-likelihood", 0):
        terms = 2 * sc.xlogy(observed, observed / expected)
    else:
        raise option_without_rule("scipy.stats.power_divergence", "lambda_", lambda_)
    total = reduce_axis(xp.sum(terms, along, True), observed, along, keepdims, as_tensor(f_obs))
    return TestResult(total, sc.chdtrc(float(observed.shape[along] - 1 - ddof), total))


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
def _wasserstein(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    gaps, step = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return xp.sum(gaps * xp.abs(step))


@rule("scipy.stats.energy_distance", tensors="u_values v_values")
def _energy(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    gaps, step = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return xp.sqrt(2 * xp.sum(gaps * step**2))


@rule("scipy.stats.boxcox", tensors="x lmbda")
def _boxcox(x: Any, lmbda: Any = None, alpha: Any = None, optimizer: Any = None) -> Any:
    if lmbda is None:
        raise option_without_rule("scipy.stats.boxcox", "lmbda", lmbda)
    del alpha, optimizer
    x = as_tensor(x)
    if x.ndim != 1:
        raise ValueError("Data must be 1-dimensional.")
    if not levels_of(x) and (plain(x) <= 0).any():
        raise ValueError("Data must be positive.")
    return sc.boxcox(x, lmbda)


@rule("scipy.stats.boxcox_llf", tensors="lmb data")
def _boxcox_llf(
    lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False, nan_policy: str = "propagate"
) -> Any:
    x, along = bind_axis("scipy.stats.boxcox_llf", data, axis, nan_policy)
    logs = xp.log(x)
    spread = xp.log(_var(sc.boxcox(x, lmb), along, 0))
    value = (lmb - 1) * xp.sum(logs, along, True) - x.shape[along] / 2 * spread
    return reduce_axis(value, x, along, keepdims, as_tensor(data))


def _yeojohnson(x: Any, lmbda: Any) -> Any:
    is_positive = x >= 0
    up, down = xp.where(is_positive, x, 0.0), xp.where(is_positive, 0.0, -x)
    return xp.where(is_positive, sc.boxcox1p(up, lmbda), -sc.boxcox1p(down, 2 - lmbda))


@rule("scipy.stats.yeojohnson", tensors="x lmbda")
def _yeojohnson_rule(x: Any, lmbda: Any = None) -> Any:
    if lmbda is None:
        raise option_without_rule("scipy.stats.yeojohnson", "lmbda", lmbda)
    return _yeojohnson(as_tensor(x), lmbda)


@rule("scipy.stats.yeojohnson_llf", tensors="lmb data")
def _yeojohnson_llf(
    lmb: Any, data: Any, *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    x, along = bind_axis("scipy.stats.yeojohnson_llf", data, axis, nan_policy)
    spread = xp.log(_var(_yeojohnson(x, lmb), along, 0))
    jacobian = xp.sum(xp.sign(x) * xp.log1p(xp.abs(x)), along, True)
    value = (lmb - 1) * jacobian - x.shape[along] / 2 * spread
    return reduce_axis(value, x, along, keepdims, as_tensor(data))


@rule("scipy.stats.differential_entropy", tensors="values")
def _differential_entropy(
    values: Any,
    *,
    window_length: int | None = None,
    base: float | None = None,
    axis: Any = 0,
    method: str = "auto",
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    x, along = bind_axis("scipy.stats.differential_entropy", values, axis, nan_policy)
    n = x.shape[along]
    if method != "vasicek" or x.ndim != 1:
        raise option_without_rule("scipy.stats.differential_entropy", "method", method)
    window = int(np.floor(np.sqrt(n) + 0.5)) if window_length is None else int(window_length)
    if not 2 <= 2 * window < n:
        raise ValueError(
            f"Window length ({window}) must be positive and less than half the sample size ({n})."
        )
    ordered = xp.sort(x, 0)
    high = np.minimum(np.arange(n) + window, n - 1)
    low = np.maximum(np.arange(n) - window, 0)
    value = xp.mean(xp.log((ordered[high] - ordered[low]) * (n / (2 * window))), 0, True)
    value = value if base is None else value / log(base)
    return reduce_axis(value, x, along, keepdims, as_tensor(values))
