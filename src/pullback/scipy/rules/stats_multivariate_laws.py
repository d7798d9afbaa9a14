"""Distributions of matrices, directions and counts: Wishart, matrix normal, multivariate t and kin.

A distribution is a table of methods, each a function of tensors (`_LAWS`). From it come the rules
of its methods, of distributions frozen with arrays, and a class for those frozen with tensors.
SciPy's method runs on the values first, so that arguments are refused as without tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from math import log, pi
from typing import Any

import numpy as np
import scipy.stats as st
from scipy.special import _ufuncs as sc
from scipy.stats import _multivariate

from pullback.autograd.namespaces import tensors as xp
from pullback.errors import DerivativeMissingError
from pullback.func.primitive import all_values
from pullback.interop.arguments import as_tensor, plain, tensors_in
from pullback.scipy.conversions import as_double
from pullback.scipy.registry import refused, rule
from pullback.scipy.rules.linalg_tools import diagonal, from_diagonal
from pullback.scipy.traced import check_call
from pullback.tensor.batched import levels_of

__all__: list[str] = []

_Method = Callable[..., Any]


def _square(value: Any, size: int) -> Any:
    """A matrix from a number, a diagonal or a matrix."""
    made = as_double(value)
    if made.ndim == 0:
        return made * np.eye(size)
    return from_diagonal(made) if made.ndim == 1 else made


def _log_det(a: Any) -> Any:
    return xp.linalg_slogdet(a)[1]


def _inner(x: Any, a: Any, y: Any) -> Any:
    """The trace of x^T a^{-1} y."""
    return xp.sum(xp.sum(x * xp.linalg_solve(a, y), -1), -1)


def _sum_over(count: int, function: Callable[[Any], Any], x: Any) -> Any:
    """The sum of f(x), f(x - 1/2), ..., f(x - (count - 1) / 2)."""
    return xp.sum(function(xp.expand_dims(x, -1) - np.arange(count) / 2), -1)


def _multigammaln(x: Any, count: int) -> Any:
    return _sum_over(count, sc.gammaln, x) + count * (count - 1) / 4 * log(pi)


# --- Wishart distributions ------------------------------------------------------------------------


def _scale(df: Any, scale: Any) -> tuple[Any, Any, int]:
    matrix = as_double(1.0 if scale is None else scale)
    matrix = xp.reshape(matrix, [1, 1]) if matrix.ndim == 0 else _square(matrix, 0)
    return as_double(df), matrix, matrix.shape[-1]


def _matrices(x: Any, size: int) -> Any:
    """Points as matrices along the last two axes; SciPy has them along the first two."""
    made = as_double(x)
    if made.ndim < 2:
        return xp.reshape(made, [*made.shape, 1, 1]) if size == 1 else _square(made, size)
    return xp.moveaxis(made, -1, 0) if made.ndim == 3 else made


def _wishart_logpdf(x: Any, df: Any, scale: Any) -> Any:
    df, scale, p = _scale(df, scale)
    x = _matrices(x, p)
    trace = xp.sum(diagonal(xp.linalg_solve(scale, x)), -1)
    density = (df - p - 1) / 2 * _log_det(x) - trace / 2 - df / 2 * _log_det(scale)
    return density - df * p / 2 * log(2) - _multigammaln(df / 2, p)


def _wishart_entropy(df: Any, scale: Any) -> Any:
    df, scale, p = _scale(df, scale)
    rest = df * p - (df - p - 1) * _sum_over(p, sc.psi, df / 2)
    rest = (p + 1) * _log_det(scale) + p * (p + 1) * log(2) + rest
    return rest / 2 + _multigammaln(df / 2, p)


def _squares(scale: Any) -> tuple[Any, Any]:
    spread = diagonal(scale)
    return scale**2, xp.expand_dims(spread, -1) * spread


def _wishart_var(df: Any, scale: Any) -> Any:
    df, scale, p = _scale(df, scale)
    squares, products = _squares(scale)
    return _plain_matrix(df * (squares + products), p)


def _plain_matrix(found: Any, size: int) -> Any:
    return found[0, 0] if size == 1 else found


def _wishart_times(factor: Callable[[Any, int], Any]) -> _Method:
    def method(df: Any, scale: Any) -> Any:
        df, scale, p = _scale(df, scale)
        return _plain_matrix(factor(df, p) * scale, p)

    return method


def _invwishart_logpdf(x: Any, df: Any, scale: Any) -> Any:
    df, scale, p = _scale(df, scale)
    x = _matrices(x, p)
    trace = xp.sum(diagonal(xp.linalg_solve(x, scale + xp.zeros_like(x))), -1)
    density = df / 2 * _log_det(scale) - (df + p + 1) / 2 * _log_det(x) - trace / 2
    return density - df * p / 2 * log(2) - _multigammaln(df / 2, p)


def _invwishart_entropy(df: Any, scale: Any) -> Any:
    df, scale, p = _scale(df, scale)
    rest = p * df + (p + 1) * (_log_det(scale) - log(2))
    rest = rest - (df + p + 1) * _sum_over(p, sc.psi, df / 2)
    return rest / 2 + _multigammaln(df / 2, p)


def _invwishart_var(df: Any, scale: Any) -> Any:
    df, scale, p = _scale(df, scale)
    squares, products = _squares(scale)
    above = (df - p + 1) * squares + (df - p - 1) * products
    return _plain_matrix(above / ((df - p) * (df - p - 1) ** 2 * (df - p - 3)), p)


# --- normal and t distributions -------------------------------------------------------------------


def _matrix_parameters(mean: Any, row: Any, col: Any) -> tuple[Any, Any, Any]:
    shape = [(as_tensor(a).shape or (1,))[-1] for a in (row, col)]
    centre = as_tensor(np.zeros(shape)) if mean is None else as_double(mean)
    return centre, _square(row, centre.shape[-2]), _square(col, centre.shape[-1])


def _matrix_normal_logpdf(X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
    mean, row, col = _matrix_parameters(mean, rowcov, colcov)
    apart = as_double(X) - mean
    n, m = mean.shape[-2:]
    white = xp.matrix_transpose(xp.linalg_solve(col, xp.matrix_transpose(apart)))
    square = _inner(apart, row, white)
    return -(n * m * log(2 * pi) + m * _log_det(row) + n * _log_det(col) + square) / 2


def _matrix_normal_entropy(rowcov: Any = 1, colcov: Any = 1) -> Any:
    _, row, col = _matrix_parameters(None, rowcov, colcov)
    n, m = row.shape[-1], col.shape[-1]
    return (n * m * (1 + log(2 * pi)) + m * _log_det(row) + n * _log_det(col)) / 2


def _matrix_t_logpdf(
    X: Any,
    mean: Any = None,
    row_spread: Any = 1,
    col_spread: Any = 1,
    df: Any = 1,
) -> Any:
    mean, row, col = _matrix_parameters(mean, row_spread, col_spread)
    apart, df = as_double(X) - mean, as_double(df)
    n, m = mean.shape[-2:]
    white = xp.linalg_solve(col, xp.matrix_transpose(apart))
    whole = _log_det(row + apart @ white) - _log_det(row)
    power = (df + n + m - 1) / 2
    constant = _multigammaln(power, n) - _multigammaln((df + n - 1) / 2, n)
    spread = n * m * log(pi) + m * _log_det(row) + n * _log_det(col)
    return constant - spread / 2 - power * whole


def _t_parameters(loc: Any, shape: Any, df: Any) -> tuple[Any, Any, Any, int]:
    p = max((as_tensor(a).shape or (1,))[-1] for a in (1.0 if loc is None else loc, shape))
    centre = as_tensor(np.zeros(p)) if loc is None else xp.reshape(as_double(loc), [-1])
    if not np.all(np.isfinite(all_values(as_tensor(df)))):
        raise DerivativeMissingError(
            "scipy.stats.multivariate_t: df is infinite; use multivariate_normal"
        )
    return centre, _square(shape, p), as_double(df), p


def _t_logpdf(x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
    centre, spread, df, p = _t_parameters(loc, shape, df)
    points = as_double(x)
    points = xp.expand_dims(points, -1) if points.ndim <= 1 and p == 1 else points
    apart = points - centre
    flat = xp.reshape(apart, [-1, p])
    white = xp.matrix_transpose(xp.linalg_solve(spread, xp.matrix_transpose(flat)))
    square = xp.reshape(xp.sum(flat * white, -1), list(apart.shape[:-1]))
    constant = sc.gammaln((df + p) / 2) - sc.gammaln(df / 2) - p / 2 * xp.log(df * pi)
    return constant - _log_det(spread) / 2 - (df + p) / 2 * xp.log1p(square / df)


def _t_entropy(loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
    _, spread, df, p = _t_parameters(loc, shape, df)
    half, whole = df / 2, (df + p) / 2
    rest = sc.gammaln(half) - sc.gammaln(whole) + whole * (sc.psi(whole) - sc.psi(half))
    return rest + p / 2 * xp.log(df * pi) + _log_det(spread) / 2


# --- directions, counts, normal-inverse-gamma -----------------------------------------------------


def _fisher_constant(kappa: Any, size: int) -> Any:
    order = size / 2 - 1
    return size / 2 * log(2 * pi) + xp.log(sc.ive(order, kappa)) + kappa - order * xp.log(kappa)


def _fisher_logpdf(x: Any, mu: Any = None, kappa: Any = 1) -> Any:
    mu, kappa = as_double(mu), as_double(kappa)
    return kappa * xp.sum(as_double(x) * mu, -1) - _fisher_constant(kappa, mu.shape[-1])


def _fisher_entropy(mu: Any = None, kappa: Any = 1) -> Any:
    kappa, size = as_double(kappa), as_tensor(mu).shape[-1]
    ratio = sc.ive(size / 2, kappa) / sc.ive(size / 2 - 1, kappa)
    return _fisher_constant(kappa, size) - kappa * ratio


def _probabilities(p: Any) -> Any:
    made = as_double(p)
    if np.any(np.abs(np.sum(all_values(made), -1) - 1) > 1e-6):
        raise DerivativeMissingError(
            "scipy.stats.multinomial: p does not sum to one, and SciPy adjusts its last element; "
            "divide p by its sum"
        )
    return made


def _multinomial_logpmf(x: Any, n: Any, p: Any) -> Any:
    count = np.asarray(plain(x), float)
    total = np.asarray(plain(n), float)
    constant = sc.gammaln(total + 1) - np.sum(sc.gammaln(count + 1), -1)
    return xp.sum(sc.xlogy(count, _probabilities(p)), -1) + constant


def _multinomial_cov(n: Any, p: Any) -> Any:
    p, total = _probabilities(p), np.asarray(plain(n), float)[..., None, None]
    return total * (from_diagonal(p) - xp.expand_dims(p, -1) * xp.expand_dims(p, -2))


def _counts_logpmf(x: Any, alpha: Any, n: Any) -> Any:
    alpha, count = as_double(alpha), np.asarray(plain(x), float)
    number, total = np.asarray(plain(n), float), xp.sum(alpha, -1)
    parts = xp.sum(sc.gammaln(count + alpha) - sc.gammaln(alpha), -1)
    constant = sc.gammaln(number + 1) - np.sum(sc.gammaln(count + 1), -1)
    return constant + parts + sc.gammaln(total) - sc.gammaln(number + total)


def _counts_mean(alpha: Any, n: Any) -> Any:
    alpha = as_double(alpha)
    return np.asarray(plain(n), float)[..., None] * alpha / xp.sum(alpha, -1, keepdims=True)


def _counts_cov(alpha: Any, n: Any) -> Any:
    alpha, number = as_double(alpha), np.asarray(plain(n), float)[..., None, None]
    total = xp.expand_dims(xp.sum(alpha, -1, keepdims=True), -1)
    p = alpha / total[..., 0]
    outer = from_diagonal(p) - xp.expand_dims(p, -1) * xp.expand_dims(p, -2)
    return number * outer * (number + total) / (1 + total)


def _inverse_gamma_logpdf(
    x: Any, s2: Any, mu: Any = 0, lmbda: Any = 1, a: Any = 1, b: Any = 1
) -> Any:
    x, s2, mu, lmbda, a, b = map(as_double, (x, s2, mu, lmbda, a, b))
    normal = (xp.log(lmbda) - log(2 * pi) - xp.log(s2)) / 2
    gamma = a * xp.log(b) - sc.gammaln(a) - (a + 1) * xp.log(s2)
    return normal + gamma - (2 * b + lmbda * (x - mu) ** 2) / (2 * s2)


# --- declarations ---------------------------------------------------------------------------------


_LAWS: dict[str, tuple[str, dict[str, _Method]]] = {
    "wishart": (
        "df scale",
        {
            "logpdf": _wishart_logpdf,
            "entropy": _wishart_entropy,
            "mean": _wishart_times(lambda df, p: df),  # noqa: ARG005
            "mode": _wishart_times(lambda df, p: df - p - 1),
            "var": _wishart_var,
        },
    ),
    "invwishart": (
        "df scale",
        {
            "logpdf": _invwishart_logpdf,
            "entropy": _invwishart_entropy,
            "mean": _wishart_times(lambda df, p: 1 / (df - p - 1)),
            "mode": _wishart_times(lambda df, p: 1 / (df + p + 1)),
            "var": _invwishart_var,
        },
    ),
    "matrix_normal": (
        "mean rowcov colcov",
        {"logpdf": _matrix_normal_logpdf, "entropy": _matrix_normal_entropy},
    ),
    "matrix_t": ("mean row_spread col_spread df", {"logpdf": _matrix_t_logpdf}),
    "multivariate_t": ("loc shape df", {"logpdf": _t_logpdf, "entropy": _t_entropy}),
    "vonmises_fisher": ("mu kappa", {"logpdf": _fisher_logpdf, "entropy": _fisher_entropy}),
    "multinomial": (
        "n p",
        {
            "logpmf": _multinomial_logpmf,
            "mean": lambda n, p: np.asarray(plain(n), float)[..., None] * _probabilities(p),
            "cov": _multinomial_cov,
        },
    ),
    "dirichlet_multinomial": (
        "alpha n",
        {
            "logpmf": _counts_logpmf,
            "mean": _counts_mean,
            "cov": _counts_cov,
            "var": lambda alpha, n: diagonal(_counts_cov(alpha, n)),
        },
    ),
    "normal_inverse_gamma": ("mu lmbda a b", {"logpdf": _inverse_gamma_logpdf}),
}
_EXPONENTIALS = {"logpdf": "pdf", "logpmf": "pmf"}


def _checked(name: str, method: str, function: _Method, *args: Any, **kwargs: Any) -> Any:
    """A method after SciPy's own has taken the values, if these are known."""
    if not any(map(levels_of, tensors_in([args, kwargs]))):
        check_call(getattr(getattr(st, name), method), args, kwargs)
    return function(*args, **kwargs)


def _methods(table: dict[str, _Method]) -> dict[str, _Method]:
    """The methods of a table, with densities and probabilities."""

    def exponential(function: _Method) -> _Method:
        return lambda *args, **kwargs: xp.exp(function(*args, **kwargs))

    found = dict(table)
    for logarithm, method in _EXPONENTIALS.items():
        if logarithm in table:
            found[method] = exponential(table[logarithm])
    return found


def _parameters(function: _Method, names: list[str], values: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a method takes: the entropy of a matrix normal has no mean."""
    if "kwargs" in signature(function).parameters:
        return values
    taken = signature(function).parameters
    return {name: values[name] for name in names if name in taken and name in values}


def _declare(name: str, parameters: list[str], table: dict[str, _Method]) -> None:
    kind = type(getattr(st, name))
    frozen: Any = getattr(_multivariate, f"{name}_frozen")
    body: dict[str, Any] = {}
    for method, function in _methods(table).items():
        checked = partial(_checked, name, method, function)
        rule(f"scipy.stats.{kind.__name__}.{method}", tensors=f"x X s2 {' '.join(parameters)}")(
            lambda self, *args, call=checked, **kwargs: call(*args, **kwargs)  # noqa: ARG005
        )

        def of_frozen(
            self: Any, *points: Any, call: _Method = checked, function: _Method = function
        ) -> Any:
            known = {key: vars(self)[key] for key in parameters if key in vars(self)}
            return call(*points, **_parameters(function, parameters, known))

        body[method] = of_frozen
        if name != "normal_inverse_gamma":  # whose frozen parameters have no names
            rule(f"scipy.stats.{frozen.__name__}.{method}", tensors="x X")(of_frozen)
    made = type(f"{name}_tensor", (frozen,), {**body, "__init__": _keep(parameters)})

    @rule(f"scipy.stats.{kind.__name__}.__call__", tensors=" ".join(parameters))
    def freeze(self: Any, *args: Any, seed: Any = None, **kwargs: Any) -> Any:
        del self, seed
        return made(*args, **kwargs)

    for method in ("rvs", "cdf", "logcdf"):
        if hasattr(kind, method):
            refused(f"scipy.stats.{kind.__name__}.{method}", "it draws or simulates")


def _keep(parameters: list[str]) -> _Method:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        unknown = given.keys() - set(parameters)
        if unknown:
            raise TypeError(f"{type(self).__name__}: unknown parameters {sorted(unknown)}")
        self.__dict__.update(given)

    return __init__


for _name, (_text, _table) in _LAWS.items():
    if hasattr(st, _name):  # newer SciPy has more
        _declare(_name, _text.split(), _table)
