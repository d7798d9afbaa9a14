"""Multivariate normal and Dirichlet distributions, and kernel density estimates."""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np
import scipy.stats as st
from scipy.special import _ufuncs as sc
from scipy.stats import _multivariate

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor, holds_gradient, plain
from pullback.scipy.conversions import as_double
from pullback.scipy.registry import class_rule, option_without_rule, rule
from pullback.scipy.rules.linalg_factor import cholesky
from pullback.scipy.rules.linalg_solve import triangular_solve
from pullback.scipy.rules.linalg_tools import diagonal, from_diagonal
from pullback.scipy.traced import decided
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["FrozenDirichlet", "FrozenNormal", "KernelDensity"]

_NORMAL = "scipy.stats.multivariate_normal_gen"
_DIRICHLET = "scipy.stats.dirichlet_gen"


# --- normal distribution ---


def _normal_parameters(self: Any, mean: Any, cov: Any, name: str) -> tuple[Any, Any]:
    """Mean and covariance matrix, after SciPy's check of their shapes."""
    if isinstance(cov, st.Covariance):
        raise option_without_rule(f"scipy.stats.multivariate_normal.{name}", "cov", cov)
    cov = as_double(cov)
    mean = None if mean is None else as_double(mean)
    if not any(levels_of(value) for value in (mean, cov) if value is not None):
        given = [cov] if mean is None else [cov, mean]

        def check(cov: Any, mean: Any = None) -> int:
            self._process_parameters_psd(None, mean, cov)  # raises
            return 0

        decided(check, *given)
    size = mean.size if mean is not None else cov.shape[-1] if cov.ndim else 1
    if cov.ndim == 0:
        cov = cov * np.eye(size)
    elif cov.ndim == 1:
        cov = from_diagonal(cov)
    return np.zeros(cov.shape[0]) if mean is None else xp.reshape(mean, [-1]), cov


def _points(x: Any, size: int) -> Any:
    x = as_double(x)
    if x.ndim == 0:
        return xp.reshape(x, [1])
    return xp.expand_dims(x, -1) if x.ndim == 1 and size == 1 else x


@rule(f"{_NORMAL}.logpdf", tensors="x mean cov")
def _normal_logpdf(self: Any, x: Any, mean: Any, cov: Any, allow_singular: bool) -> Any:
    """The logarithm of the density; the lower triangle of the covariance matrix is read."""
    mean, cov = _normal_parameters(self, mean, cov, "logpdf")
    size = cov.shape[0]
    apart = _points(x, size) - mean
    if allow_singular and not holds_gradient(cov):
        parts = _multivariate._PSD(plain(cov), allow_singular=True)
        square = xp.sum((apart @ parts.U) ** 2, -1)
        return -(parts.rank * log(2 * pi) + parts.log_pdet + square) / 2
    factor = cholesky(cov, lower=True)
    flat = xp.reshape(apart, [-1, size])
    white = triangular_solve(factor, xp.matrix_transpose(flat), True)
    square = xp.reshape(xp.sum(white**2, 0), list(apart.shape[:-1]))
    half_log_det = xp.sum(xp.log(diagonal(factor)))
    return -square / 2 - half_log_det - size * log(2 * pi) / 2


@rule(f"{_NORMAL}.pdf", tensors="x mean cov")
def _normal_pdf(self: Any, x: Any, mean: Any, cov: Any, allow_singular: bool = False) -> Any:
    """The density."""
    return xp.exp(_normal_logpdf(self, x, mean, cov, allow_singular))


@rule(f"{_NORMAL}.entropy", tensors="mean cov")
def _normal_entropy(self: Any, mean: Any, cov: Any) -> Any:
    """The differential entropy."""
    _, cov = _normal_parameters(self, mean, cov, "entropy")
    half_log_det = xp.sum(xp.log(diagonal(cholesky(cov, lower=True))))
    return cov.shape[0] * (1 + log(2 * pi)) / 2 + half_log_det


class FrozenNormal(_multivariate.multivariate_normal_frozen):  # type: ignore[misc]  # untyped
    """A multivariate normal distribution with tensors as parameters."""

    def __init__(self, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> None:
        self._dist = st.multivariate_normal
        self.mean, self._cov = _normal_parameters(self._dist, mean, cov, "__call__")
        self.allow_singular = allow_singular

    @property
    def cov(self) -> Any:
        """The covariance matrix."""
        return self._cov

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        return _normal_logpdf(self._dist, x, self.mean, self._cov, self.allow_singular)

    def pdf(self, x: Any) -> Any:
        """The density."""
        return xp.exp(self.logpdf(x))

    def entropy(self) -> Any:
        """The differential entropy."""
        return _normal_entropy(self._dist, self.mean, self._cov)


@rule(f"{_NORMAL}.__call__", tensors="mean cov")
def _freeze_normal(self: Any, mean: Any, cov: Any, allow_singular: bool, seed: Any) -> FrozenNormal:
    """A distribution with fixed parameters."""
    del self, seed
    return FrozenNormal(mean, cov, allow_singular)


@rule("scipy.stats.multivariate_normal_frozen.logpdf", tensors="x")
def _frozen_logpdf(self: Any, x: Any) -> Any:
    """The logarithm of the density of a distribution with arrays as parameters."""
    return _normal_logpdf(st.multivariate_normal, x, self.mean, self.cov, self.allow_singular)


@rule("scipy.stats.multivariate_normal_frozen.pdf", tensors="x")
def _frozen_pdf(self: Any, x: Any) -> Any:
    """The density of a distribution with arrays as parameters."""
    return xp.exp(_frozen_logpdf(self, x))


# --- Dirichlet distribution ---


def _dirichlet_arguments(x: Any, alpha: Any) -> tuple[Any, Any]:
    alpha, x = as_double(alpha), as_double(x)
    if not levels_of(x) and not levels_of(alpha):

        def check(alpha: Any, x: Any) -> int:
            checked = _multivariate._dirichlet_check_parameters(alpha)
            _multivariate._dirichlet_check_input(checked, x)  # raises
            return 0

        decided(check, alpha, x)
    if x.shape[0] == alpha.shape[0] - 1:
        x = xp.concatenate([x, xp.expand_dims(1 - xp.sum(x, 0), 0)], 0)
    return x, alpha


def _log_beta(alpha: Any) -> Any:
    return xp.sum(sc.gammaln(alpha)) - sc.gammaln(xp.sum(alpha))


@rule(f"{_DIRICHLET}.logpdf", tensors="x alpha")
def _dirichlet_logpdf(self: Any, x: Any, alpha: Any) -> Any:
    """The logarithm of the density."""
    del self
    x, alpha = _dirichlet_arguments(x, alpha)
    powers = xp.reshape(alpha - 1, [-1] + [1] * (x.ndim - 1))
    return xp.sum(sc.xlogy(powers, x), 0) - _log_beta(alpha)


@rule(f"{_DIRICHLET}.pdf", tensors="x alpha")
def _dirichlet_pdf(self: Any, x: Any, alpha: Any) -> Any:
    """The density."""
    return xp.exp(_dirichlet_logpdf(self, x, alpha))


def _checked(alpha: Any) -> Any:
    alpha = as_double(alpha)
    if not levels_of(alpha):
        decided(lambda a: _multivariate._dirichlet_check_parameters(a).size, alpha)
    return alpha


@rule(f"{_DIRICHLET}.mean", tensors="alpha")
def _dirichlet_mean(self: Any, alpha: Any) -> Any:
    """The mean."""
    del self
    alpha = _checked(alpha)
    return alpha / xp.sum(alpha)


@rule(f"{_DIRICHLET}.var", tensors="alpha")
def _dirichlet_var(self: Any, alpha: Any) -> Any:
    """The variances."""
    del self
    alpha = _checked(alpha)
    total = xp.sum(alpha)
    return alpha * (total - alpha) / (total * total * (total + 1))


@rule(f"{_DIRICHLET}.cov", tensors="alpha")
def _dirichlet_cov(self: Any, alpha: Any) -> Any:
    """The covariance matrix."""
    mean = _dirichlet_mean(self, alpha)
    total = xp.sum(as_double(alpha))
    return (from_diagonal(mean) - xp.expand_dims(mean, -1) * mean) / (total + 1)


@rule(f"{_DIRICHLET}.entropy", tensors="alpha")
def _dirichlet_entropy(self: Any, alpha: Any) -> Any:
    """The differential entropy."""
    del self
    alpha = _checked(alpha)
    total, count = xp.sum(alpha), alpha.shape[0]
    rest = (total - count) * sc.psi(total) - xp.sum((alpha - 1) * sc.psi(alpha))
    return _log_beta(alpha) + rest


class FrozenDirichlet(_multivariate.dirichlet_frozen):  # type: ignore[misc]  # untyped
    """A Dirichlet distribution with a tensor as parameter."""

    def __init__(self, alpha: Any) -> None:
        self.alpha = _checked(alpha)
        self._dist = st.dirichlet

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        return _dirichlet_logpdf(self, x, self.alpha)

    def pdf(self, x: Any) -> Any:
        """The density."""
        return _dirichlet_pdf(self, x, self.alpha)

    def mean(self) -> Any:
        """The mean."""
        return _dirichlet_mean(self, self.alpha)

    def var(self) -> Any:
        """The variances."""
        return _dirichlet_var(self, self.alpha)

    def cov(self) -> Any:
        """The covariance matrix."""
        return _dirichlet_cov(self, self.alpha)

    def entropy(self) -> Any:
        """The differential entropy."""
        return _dirichlet_entropy(self, self.alpha)


@rule(f"{_DIRICHLET}.__call__", tensors="alpha")
def _freeze_dirichlet(self: Any, alpha: Any, seed: Any) -> FrozenDirichlet:
    """A distribution with a fixed parameter."""
    del self, seed
    return FrozenDirichlet(alpha)


@rule("scipy.stats.dirichlet_frozen.logpdf", tensors="x")
def _frozen_dirichlet_logpdf(self: Any, x: Any) -> Any:
    """The logarithm of the density of a distribution with an array as parameter."""
    return _dirichlet_logpdf(self, x, self.alpha)


@rule("scipy.stats.dirichlet_frozen.pdf", tensors="x")
def _frozen_dirichlet_pdf(self: Any, x: Any) -> Any:
    """The density of a distribution with an array as parameter."""
    return _dirichlet_pdf(self, x, self.alpha)


# --- kernel density estimates ---


def _at(kde: Any, points: Any) -> Any:
    """Points as columns, after the check of their dimension."""
    points = as_double(points)
    points = xp.reshape(points, [1, -1]) if points.ndim < 2 else points
    if points.shape[0] == kde.d:
        return points
    if points.shape[0] == 1 and points.shape[1] == kde.d:
        return xp.reshape(points, [kde.d, 1])
    raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {kde.d}")


def _kde_logpdf(kde: Any, points: Any) -> Any:
    points, factor = _at(kde, points), as_tensor(kde.cho_cov)
    data = triangular_solve(factor, as_tensor(kde.dataset), True)
    white = triangular_solve(factor, points, True)
    apart = xp.expand_dims(white, -1) - xp.expand_dims(data, -2)
    energy = xp.sum(apart**2, 0) / 2
    exponent = xp.log(as_tensor(kde.weights)) - energy
    return xp.logsumexp(exponent, -1) - xp.sum(xp.log(diagonal(factor))) - kde.d * log(2 * pi) / 2


def _box_1d(kde: Any, low: Any, high: Any) -> Any:
    if kde.d != 1:
        raise ValueError("integrate_box_1d() only handles 1D pdfs")
    spread = as_tensor(kde.cho_cov)[0, 0]
    data = as_tensor(kde.dataset)[0]
    ends = [sc.ndtr((as_tensor(end) - data) / spread) for end in (low, high)]
    return xp.sum(as_tensor(kde.weights) * (ends[1] - ends[0]))


def _integrate_gaussian(kde: Any, mean: Any, cov: Any) -> Any:
    mean = xp.reshape(as_double(mean), [-1])
    cov = as_double(cov)
    cov = xp.reshape(cov, [1, 1]) if cov.ndim < 2 else cov
    if mean.shape[0] != kde.d:
        raise ValueError(f"mean does not have dimension {kde.d}")
    if cov.shape != (kde.d, kde.d):
        raise ValueError(f"covariance does not have dimension {kde.d}")
    both = as_tensor(kde.covariance) + cov
    density = _normal_pdf(st.multivariate_normal, xp.matrix_transpose(kde.dataset), mean, both)
    return xp.sum(density * as_tensor(kde.weights))


@class_rule("scipy.stats.gaussian_kde", tensors="dataset weights")
class KernelDensity(st.gaussian_kde):  # type: ignore[misc]  # untyped
    """A kernel density estimate from tensors."""

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        data = as_double(dataset)
        self.dataset = xp.reshape(data, [1, -1]) if data.ndim < 2 else data
        self.d, self.n = self.dataset.shape
        if self.dataset.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        if weights is not None:
            given = as_double(weights)
            if given.ndim != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if given.shape[0] != self.n:
                raise ValueError("`weights` input should be of length n")
        else:
            given = as_tensor(np.ones(self.n))
        self._weights = given / xp.sum(given)
        self._neff = 1 / xp.sum(self._weights**2)
        mean = xp.expand_dims(self.dataset @ self._weights, -1)
        apart = self.dataset - mean
        spread = (apart * self._weights) @ xp.matrix_transpose(apart)
        self._data_covariance = spread / (1 - 1 / self._neff)
        self._data_cho_cov = cholesky(self._data_covariance, lower=True)
        self.set_bandwidth(bw_method)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Chooses the width of the kernels."""
        if bw_method in (None, "scott"):
            factor = self._neff ** (-1 / (self.d + 4))
        elif bw_method == "silverman":
            factor = (self._neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        elif callable(bw_method):
            factor = bw_method(self)
        elif isinstance(bw_method, Tensor) or np.isscalar(bw_method):
            factor = bw_method
        else:
            raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable.")
        self.factor = factor
        self.covariance = self._data_covariance * factor**2
        self.cho_cov = self._data_cho_cov * factor

    def evaluate(self, points: Any) -> Any:
        """The density at points."""
        return xp.exp(_kde_logpdf(self, points))

    __call__ = evaluate
    pdf = evaluate

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at points."""
        return _kde_logpdf(self, x)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of an interval."""
        return _box_1d(self, low, high)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the product with a normal density."""
        return _integrate_gaussian(self, mean, cov)


@rule("scipy.stats.gaussian_kde.pdf", tensors="x")
@rule("scipy.stats.gaussian_kde.__call__", tensors="points")
@rule("scipy.stats.gaussian_kde.evaluate", tensors="points")
def _kde_evaluate(self: Any, *points: Any, **named: Any) -> Any:
    """The density at points, of data without gradient."""
    return xp.exp(_kde_logpdf(self, *points, *named.values()))


@rule("scipy.stats.gaussian_kde.logpdf", tensors="x")
def _kde_logpdf_rule(self: Any, x: Any) -> Any:
    """The logarithm of the density at points, of data without gradient."""
    return _kde_logpdf(self, x)


@rule("scipy.stats.gaussian_kde.integrate_box_1d", tensors="low high")
def _kde_box_1d(self: Any, low: Any, high: Any) -> Any:
    """The probability of an interval, of data without gradient."""
    return _box_1d(self, low, high)


@rule("scipy.stats.gaussian_kde.integrate_gaussian", tensors="mean cov")
def _kde_gaussian(self: Any, mean: Any, cov: Any) -> Any:
    """The integral of the product with a normal density, of data without gradient."""
    return _integrate_gaussian(self, mean, cov)
