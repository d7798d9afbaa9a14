"""HIPS autograd's SciPy functions: SciPy's values, and derivatives against HIPS's."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import pullback as pb
import pullback.compat.autograd as ours
from pullback.compat.autograd.scipy import linalg, signal, special, stats
from pullback.compat.autograd.test_util import check_grads
from pullback.errors import DerivativeMissingError

scipy_special = pytest.importorskip("scipy.special")
scipy_linalg = pytest.importorskip("scipy.linalg")
scipy_stats = pytest.importorskip("scipy.stats")

scipy_special.erf(pb.tensor(0.5))  # loads the table of these functions, which then stays
X = np.array([0.3, 0.6, 0.9])
P = np.array([1.5, 2.5, 0.8])
COV = np.array([[2.0, 0.4], [0.4, 1.0]])

# function → arguments, and which of them have derivatives
SPECIAL = {
    "erf": ((X,), (0,)),
    "erfc": ((X,), (0,)),
    "erfinv": ((X,), (0,)),
    "gamma": ((P,), (0,)),
    "gammaln": ((P,), (0,)),
    "digamma": ((P,), (0,)),
    "psi": ((P,), (0,)),
    "expit": ((X,), (0,)),
    "logit": ((X,), (0,)),
    "i0": ((X,), (0,)),
    "ndtr": ((X,), (0,)),
    "log_ndtr": ((np.array([-5.0, -1.0, 2.0]),), (0,)),
    "beta": ((P, P + 1), (0, 1)),
    "betaln": ((P, P + 1), (0, 1)),
    "polygamma": ((1, P), (1,)),
    "multigammaln": ((P + 2, 3), (0,)),
    "logsumexp": ((X,), (0,)),
    "gammainc": ((P, X), (1,)),
    "gammaincc": ((1.5, X), (1,)),
    "betainc": ((P, 2.0, X), (2,)),
}
STATS = {
    "norm.pdf": ((X, 0.2, P), (0, 1, 2)),
    "norm.cdf": ((X, 0.2, P), (0, 1, 2)),
    "norm.sf": ((X, 0.2, P), (0, 1, 2)),
    "norm.logpdf": ((X, 0.2, P), (0, 1, 2)),
    "norm.logcdf": ((X, 0.2, P), (0, 1, 2)),
    "norm.logsf": ((X, 0.2, P), (0, 1, 2)),
    "gamma.pdf": ((X, P), (0, 1)),
    "gamma.logpdf": ((X, P), (0, 1)),
    "gamma.cdf": ((X, P), (0,)),
    "beta.pdf": ((X, P, P + 1), (0, 1, 2)),
    "beta.logpdf": ((X, P, P + 1), (0, 1, 2)),
    "beta.cdf": ((X, P, P + 1), (0,)),
    "chi2.pdf": ((X, 3.0), (0,)),
    "chi2.logpdf": ((X, 3.0), (0,)),
    "chi2.cdf": ((X, 3.0), (0,)),
    "t.pdf": ((X, 4.0, 0.1, 1.2), (0, 1, 2, 3)),
    "t.logpdf": ((X, 4.0, 0.1, 1.2), (0, 1, 2, 3)),
    "t.cdf": ((X - 0.6, 4.0), (0,)),
    "t.logcdf": ((X - 0.6, 4.0, 0.1, 1.2), (0, 2, 3)),
    "poisson.pmf": ((np.array([0, 2, 3]), P), (1,)),
    "poisson.logpmf": ((np.array([0, 2, 3]), P), (1,)),
    "poisson.cdf": ((np.array([0, 2, 3]), P), (1,)),
    "dirichlet.pdf": ((np.array([0.2, 0.3, 0.5]), P), (1,)),
    "dirichlet.logpdf": ((np.array([0.2, 0.3, 0.5]), P), (1,)),
    "multivariate_normal.logpdf": ((np.ones((3, 2)) * X[:, None], X[:2], COV), (0, 1)),
    "multivariate_normal.pdf": ((X[:2], X[1:], COV), (0, 1)),
    "multivariate_normal.entropy": ((X[:2], COV), (1,)),
}


@pytest.fixture(autouse=True)
def same_directions():
    """Finite differences are tried along the same random directions in every run."""
    np.random.seed(0)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name):
    args, argnums = SPECIAL[name]
    f = getattr(special, name)
    expected = getattr(scipy_special, name)(*args)
    np.testing.assert_allclose(f(*args), expected, rtol=1e-12)
    value = ours.make_vjp(f, argnums)(*args)[1]
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    check_grads(f, argnums)(*args)


@pytest.mark.parametrize("name", STATS)
def test_distributions(name):
    args, argnums = STATS[name]
    module, short = name.split(".")
    f = getattr(getattr(stats, module), short)
    expected = getattr(getattr(scipy_stats, module), short)(*args)
    np.testing.assert_allclose(f(*args), expected, rtol=1e-10)
    check_grads(f, argnums, order=1)(*args)


@pytest.mark.parametrize("name", [n for n in STATS if "entropy" not in n])
def test_distributions_agree_with_hips_autograd(name):
    pytest.importorskip("autograd")
    theirs = importlib.import_module("autograd")
    args, argnums = STATS[name]
    module, short = name.split(".")
    their_f = getattr(importlib.import_module(f"autograd.scipy.stats.{module}"), short)
    our_f = getattr(getattr(stats, module), short)
    if name in ("t.cdf", "t.logcdf"):
        argnums = (0,)
    total = theirs.numpy.sum
    for argnum in argnums:
        if np.ndim(args[argnum]) == 0 and name.startswith("t."):
            continue
        expected = theirs.grad(lambda *a: total(their_f(*a)), argnum)(*args)
        found = ours.grad(lambda *a: ours.numpy.sum(our_f(*a)), argnum)(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_normal_distribution_has_its_slope_far_out():
    far = np.exp(-450 - scipy_special.log_ndtr(-30.0)) / np.sqrt(2 * np.pi)
    assert ours.grad(stats.norm.logcdf)(-30.0) == pytest.approx(far, rel=1e-12)
    assert ours.grad(stats.norm.logsf)(30.0) == pytest.approx(-far, rel=1e-12)


def test_the_covariance_has_the_gradient_of_its_formula():
    check_grads(lambda c: stats.multivariate_normal.logpdf(X[:2], X[1:], c), order=1)(COV)


def test_logsumexp_with_weights_and_axes():
    a, b = np.array([[1.0, 2.0], [300.0, 3.0]]), np.array([[1.0, 0.5], [2.0, 0.0]])
    for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
        for weights in (None, b):
            f = lambda x: special.logsumexp(x, b=weights, **options)  # noqa: B023, E731
            value = ours.make_vjp(f)(a)[1]
            np.testing.assert_allclose(value, scipy_special.logsumexp(a, b=weights, **options))
            check_grads(f, order=1)(a)


def test_functions_without_a_derivative_refuse():
    assert special.comb(4, 2) == 6
    with pytest.raises(DerivativeMissingError):
        ours.grad(lambda x: special.comb(x, 2))(3.5)
    with pytest.raises(DerivativeMissingError, match=r"scipy\.linalg\.null_space"):
        ours.grad(lambda m: linalg.null_space(m)[0, 0])(COV)
    check_grads(linalg.expm)(COV)


def test_triangular_systems_square_roots_and_sylvester_equations():
    for options in ({}, {"lower": True}, {"trans": 1}, {"trans": "C", "lower": True}):
        f = lambda a, b: linalg.solve_triangular(a, b, **options)  # noqa: B023, E731
        np.testing.assert_allclose(
            f(COV, X[:2]), scipy_linalg.solve_triangular(COV, X[:2], **options)
        )
        check_grads(f, (0, 1))(COV, X[:2])
    unit = linalg.solve_triangular(COV, X[:2], unit_diagonal=True)
    expected = scipy_linalg.solve_triangular(COV, X[:2], unit_diagonal=True)
    np.testing.assert_allclose(unit, expected)
    np.testing.assert_allclose(linalg.sqrtm(COV), scipy_linalg.sqrtm(COV))
    check_grads(linalg.sqrtm)(COV)
    other = np.array([[1.0, 0.2], [0.0, 3.0]])
    check_grads(linalg.solve_sylvester, (0, 1, 2))(COV, other, COV + other)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions(mode):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 6)), rng.standard_normal((3, 2))
    expected = pytest.importorskip("scipy.signal").convolve(a, b, mode)
    if mode != "same":  # HIPS autograd centers it differently for even lengths
        np.testing.assert_allclose(signal.convolve(a, b, mode=mode), expected)
    check_grads(lambda a, b: signal.convolve(a, b, mode=mode), (0, 1), order=1)(a, b)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_along_some_axes_agree_with_hips_autograd(mode):
    theirs = pytest.importorskip("autograd.scipy.signal")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 3, 6, 5)), rng.standard_normal((3, 2, 2, 3))
    options = {"axes": ([2, 3], [2, 3]), "dot_axes": ([1], [0]), "mode": mode}
    np.testing.assert_allclose(signal.convolve(a, b, **options), theirs.convolve(a, b, **options))
