"""Distributions of matrices, directions and counts: bad input, frozen ones, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

from scipy import stats as st

import pullback as pb
from pullback.errors import DerivativeMissingError
from pullback.interop.scipy_special import load_functions

SCALE = np.array([[1.5, 0.3], [0.3, 0.9]])
POINT = np.array([[0.8, 0.2], [0.2, 1.1]])


@pytest.fixture(scope="module", autouse=True)
def _table():
    """Registers the operators of special functions once, so that no test leaves them behind."""
    load_functions()


def traced(value):
    return pb.tensor(value, requires_grad=True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: st.wishart.logpdf(x, 0.5, SCALE), ValueError),
        (lambda x: st.wishart.logpdf(x, 5, np.ones((2, 3))), ValueError),
        (lambda x: st.invwishart.logpdf(x[0], 5, np.eye(3)), ValueError),
        (lambda x: st.matrix_normal.logpdf(x, np.zeros((3, 3))), ValueError),
        (lambda x: st.multivariate_t.logpdf(x, df=-1), ValueError),
        (lambda x: st.vonmises_fisher.logpdf(x[0], [1.0, 0.0], -1), ValueError),
        (lambda x: st.vonmises_fisher.logpdf(x[0], [1.0, 0.0], 1.0), ValueError),
        (lambda x: st.dirichlet_multinomial.logpmf([1, 2], x[0] - 5, 3), ValueError),
    ],
)
def test_bad_input_raises_as_without_tensors(call, error):
    with pytest.raises(error):
        call(POINT)
    with pytest.raises(error):
        call(traced(POINT))


def test_frozen_distributions_are_of_scipys_classes():
    frozen = st.wishart(5, traced(SCALE))
    assert isinstance(frozen, type(st.wishart(5, SCALE)))
    values = {"logpdf": (POINT,), "pdf": (POINT,), "mean": (), "var": (), "entropy": ()}
    for method, points in values.items():
        ours, theirs = (getattr(d, method)(*points) for d in (frozen, st.wishart(5, SCALE)))
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-12)
    with pytest.raises(TypeError, match="unknown parameters"):
        st.wishart(5, scale=traced(SCALE), shape=3)


@pytest.mark.filterwarnings("ignore:Some rows of `p` do not sum")
def test_what_is_refused_by_name():
    points, shares = traced(POINT), traced(np.array([0.2, 0.9]))
    calls = {
        "multinomial: p does not sum to one": lambda: st.multinomial.logpmf([1, 2], 3, shares),
        "multivariate_t.*cdf": lambda: st.multivariate_t.cdf(points, [0, 0], SCALE, 3),
        "wishart.*rvs": lambda: st.wishart.rvs(5, traced(SCALE)),
        "multinomial.*entropy": lambda: st.multinomial.entropy(3, shares),
        "multivariate_hypergeom": lambda: st.multivariate_hypergeom.logpmf(points, [2, 3], 2),
    }
    if hasattr(st, "matrix_t"):  # SciPy 1.14 fails with any arrays
        calls["df is infinite"] = lambda: st.multivariate_t.logpdf(points, [0, 0], SCALE, np.inf)
    for words, call in calls.items():
        with pytest.raises(DerivativeMissingError, match=words):
            call()


def test_frozen_distributions_have_scipys_defaults():
    frozen = [st.matrix_normal(traced(POINT)), st.multivariate_t(traced(POINT[0]))]
    plain = [st.matrix_normal(POINT), st.multivariate_t(POINT[0])]
    for ours, theirs, x in zip(frozen, plain, (SCALE, SCALE[0]), strict=True):
        np.testing.assert_allclose(ours.logpdf(x).detach().numpy(), theirs.logpdf(x), rtol=1e-12)
    if hasattr(st, "normal_inverse_gamma"):
        ours, theirs = (st.normal_inverse_gamma(a=a) for a in (traced(2.0), 2.0))
        np.testing.assert_allclose(ours.pdf(0.3, 1.2).item(), theirs.pdf(0.3, 1.2), rtol=1e-12)


def test_constants_are_unwrapped():
    assert isinstance(st.wishart.logpdf(pb.tensor(POINT), 5, SCALE), float | np.ndarray)
