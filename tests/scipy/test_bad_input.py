"""Bad input of SciPy's functions: its own exceptions and values, and nothing half recorded."""

from __future__ import annotations

import numpy as np
import pytest

scipy = pytest.importorskip("scipy", reason="pip install scipy runs these tests")

import scipy.linalg as sl  # noqa: E402
import scipy.stats as st  # noqa: E402

import pullback as pb  # noqa: E402
from pullback.errors import DerivativeMissingError  # noqa: E402
from pullback.interop.scipy_special import load_functions  # noqa: E402

NAN = np.array([[1.0, np.nan], [0.0, 1.0]])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
NEGATIVE = np.array([[1.0, 0.0], [0.0, -1.0]])
B = np.array([1.0, 2.0])
WRONG = np.ones((2, 3))


@pytest.fixture(scope="module", autouse=True)
def _table():
    """Registers the operators of special functions once, so that no test leaves them behind."""
    load_functions()


CALLS = {
    "solve NaN": (lambda a: sl.solve(a, B), NAN),
    "solve singular": (lambda a: sl.solve(a, B), SINGULAR),
    "solve not positive": (lambda a: sl.solve(a, B, assume_a="pos"), NEGATIVE),
    "solve not square": (lambda a: sl.solve(a, B), WRONG),
    "solve wrong right side": (lambda a: sl.solve(a, np.ones(3)), np.eye(2)),
    "solve unknown structure": (lambda a: sl.solve(a, B, assume_a="magic"), np.eye(2)),
    "solve_triangular NaN": (lambda a: sl.solve_triangular(a, B), NAN),
    "solve_triangular singular": (lambda a: sl.solve_triangular(a, B), np.diag([1.0, 0.0])),
    "solve_triangular shape": (lambda a: sl.solve_triangular(a, np.ones(3)), np.eye(2)),
    "solve_banded shape": (lambda ab: sl.solve_banded((1, 1), ab, np.ones(4)), np.ones((2, 4))),
    "solve_banded NaN": (lambda ab: sl.solve_banded((0, 0), ab, np.ones(2)), NAN[:1]),
    "solveh_banded not positive": (lambda ab: sl.solveh_banded(ab, np.ones(2)), -np.ones((2, 2))),
    "solve_toeplitz singular": (lambda c: sl.solve_toeplitz(c, B), np.ones(2)),
    "solve_circulant singular": (lambda c: sl.solve_circulant(c, B), np.ones(2)),
    "cholesky not positive": (sl.cholesky, NEGATIVE),
    "cholesky NaN": (sl.cholesky, NAN),
    "cho_factor not square": (sl.cho_factor, WRONG),
    "cho_solve shape": (lambda b: sl.cho_solve((np.eye(2), False), b), np.ones(3)),
    "cho_solve NaN": (lambda b: sl.cho_solve((np.eye(2), False), b), np.array([1.0, np.nan])),
    "lu NaN": (sl.lu, NAN),
    "lu_factor NaN": (sl.lu_factor, NAN),
    "lu_solve shape": (lambda b: sl.lu_solve(sl.lu_factor(np.eye(2)), b), np.ones(3)),
    "qr NaN": (sl.qr, NAN),
    "qr unknown mode": (lambda a: sl.qr(a, mode="some"), np.eye(2)),
    "svd NaN": (sl.svd, NAN),
    "eigh NaN": (sl.eigh, NAN),
    "eigh not square": (sl.eigh, WRONG),
    "eigh second matrix not positive": (lambda a: sl.eigh(a, NEGATIVE), np.eye(2)),
    "eig NaN": (sl.eig, NAN),
    "eig not square": (sl.eig, WRONG),
    "schur NaN": (sl.schur, NAN),
    "inv singular": (sl.inv, SINGULAR),
    "inv NaN": (sl.inv, NAN),
    "inv not square": (sl.inv, WRONG),
    "pinv NaN": (sl.pinv, NAN),
    "det NaN": (sl.det, NAN),
    "det not square": (sl.det, WRONG),
    "expm not square": (sl.expm, WRONG),
    "logm not square": (sl.logm, WRONG),
    "sqrtm not square": (sl.sqrtm, WRONG),
    "norm NaN": (sl.norm, NAN),
    "lstsq NaN": (lambda a: sl.lstsq(a, B), NAN),
    "lstsq shape": (lambda a: sl.lstsq(a, np.ones(3)), np.eye(2)),
    "solve_sylvester shape": (lambda a: sl.solve_sylvester(a, np.eye(2), np.eye(2)), np.eye(3)),
    "companion leading zero": (sl.companion, np.array([0.0, 1.0])),
    "orthogonal_procrustes shape": (lambda a: sl.orthogonal_procrustes(a, np.eye(3)), np.eye(2)),
    "multivariate_normal not positive": (
        lambda c: st.multivariate_normal.logpdf(B, np.zeros(2), c),
        NEGATIVE,
    ),
    "multivariate_normal shape": (
        lambda c: st.multivariate_normal.logpdf(B, np.zeros(3), c),
        np.eye(2),
    ),
    "dirichlet not on the simplex": (lambda x: st.dirichlet.logpdf(x, [1.0, 2.0]), B),
    "dirichlet alpha": (lambda a: st.dirichlet.logpdf([0.5, 0.5], a), np.array([1.0, -2.0])),
    "gaussian_kde one element": (lambda d: st.gaussian_kde(d), np.ones(1)),
    "gaussian_kde weights": (lambda d: st.gaussian_kde(d, weights=np.ones(3)), B),
    "describe empty": (st.describe, np.zeros(0)),
    "pearsonr length": (lambda x: st.pearsonr(x, np.ones(3)), B),
    "linregress equal points": (lambda x: st.linregress(x, np.arange(3.0)), np.ones(3)),
    "chisquare sums differ": (lambda f: st.chisquare(f, [1.0, 1.0]), np.array([3.0, 4.0])),
    "entropy base": (lambda p: st.entropy(p, base=-1), B),
}
if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 18):
    del CALLS["linregress equal points"]  # it warns there, and returns NaN


@pytest.mark.parametrize("name", CALLS)
def test_the_exception_is_scipys(name):
    call, value = CALLS[name]
    with pytest.raises((ValueError, sl.LinAlgError, TypeError)) as theirs:
        call(value)
    x = pb.tensor(value, requires_grad=True)
    with pytest.raises(theirs.type) as ours:
        call(x)
    assert not isinstance(ours.value, pb.errors.AutogradError), ours.value
    assert x.grad is None
    assert x.grad_fn is None
    (x * 2.0).sum().backward()  # the tensor is as good as before
    np.testing.assert_array_equal(x.grad.numpy(), np.full(value.shape, 2.0))


def test_empty_matrices_give_empty_results():
    for call in (sl.inv, sl.cholesky, sl.expm, sl.svdvals):
        x = pb.tensor(np.zeros((0, 0)), requires_grad=True)
        assert call(x).shape == call(np.zeros((0, 0))).shape, call


@pytest.mark.parametrize(
    "name", ["gamma", "lognorm", "beta", "expon", "weibull_min", "chi2", "uniform", "pareto"]
)
def test_gradients_outside_of_the_support_are_zero(name):
    distribution = getattr(st, name)
    shapes = [1.5] * distribution.numargs
    x = pb.tensor([-3.0, -1.0], requires_grad=True)
    scale = pb.tensor(1.2, requires_grad=True)
    value = distribution.logpdf(x, *shapes, scale=scale)
    assert value.tolist() == [-np.inf, -np.inf]
    gradients = pb.autograd.grad(value.sum(), (x, scale))
    # The scale of a density moves it as a whole: -1 / scale each is lost in minus infinity.
    assert gradients[0].tolist() == [0.0, 0.0]
    assert np.isfinite(gradients[1].numpy())
    density = distribution.pdf(x, *shapes, scale=scale)
    gradients = pb.autograd.grad(density.sum(), (x, scale))
    assert [g.tolist() for g in gradients] == [[0.0, 0.0], 0.0]


def test_parameters_that_are_not_allowed_give_nan_and_no_nan_elsewhere():
    scale = pb.tensor([-1.0, 2.0], requires_grad=True)
    value = st.gamma.logpdf(1.0, 2.0, scale=scale)
    assert np.isnan(value.detach().numpy()).tolist() == [True, False]
    (gradient,) = pb.autograd.grad(value[1], scale)
    np.testing.assert_allclose(gradient.numpy(), [0.0, -0.75])


def test_a_distribution_without_rule_raises_with_its_name_and_method():
    x = pb.tensor(1.0, requires_grad=True)
    with pytest.raises(DerivativeMissingError, match=r"scipy\.stats\.gumbel_r\.logpdf"):
        st.gumbel_r.logpdf(x)
    with pytest.raises(DerivativeMissingError, match=r"scipy\.stats\.vonmises\.var"):
        st.vonmises.var(x)


def test_functions_without_derivative_say_why():
    x = pb.tensor(np.eye(3), requires_grad=True)
    with pytest.raises(DerivativeMissingError, match="not determined by its argument"):
        sl.null_space(x)
    with pytest.raises(DerivativeMissingError, match="ranks are piecewise constant"):
        st.spearmanr(x[0], np.arange(3.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: sl.qr(a, mode="raw"), "mode='raw'"),
        (lambda a: sl.schur(a, sort="lhp"), "sort='lhp'"),
        (lambda a: sl.lstsq(a @ SINGULAR, B)[0].sum().backward(), "rank 1"),
        (lambda a: st.skew(a * np.nan, nan_policy="omit"), "nan_policy='omit'"),
        (lambda a: st.boxcox(a[0] + 1), "lmbda=None"),
    ],
)
def test_an_option_without_rule_raises_by_name(call, words):
    with pytest.raises(DerivativeMissingError, match=words):
        call(pb.tensor(np.eye(2), requires_grad=True))


def test_the_third_derivative_by_a_shape_parameter():
    def cdf(a):
        return st.gamma.cdf(1.3, a)

    derivative = cdf
    for _ in range(3):
        derivative = pb.func.grad(derivative)
    expected = 0.0831185996611  # mpmath.diff(lambda a: mpmath.gammainc(a, 0, 1.3, True), 2, 3)
    np.testing.assert_allclose(derivative(pb.tensor(2.0)).item(), expected, rtol=1e-6)


def test_a_traceback_through_a_function_with_captured_names_can_be_read():
    frames = []
    try:
        st.chisquare(pb.tensor([3.0, 4.0], requires_grad=True), [1.0, 1.0])
    except ValueError as error:
        entry = error.__traceback__
        while entry is not None:
            frames.append(dict(entry.tb_frame.f_locals))  # ended the process once
            entry = entry.tb_next
    assert len(frames) > 2
