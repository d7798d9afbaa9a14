"""Functions of SciPy in compiled functions: one trace serves all values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from scipy import (
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    spatial,
    special,
    stats,
)
from scipy.spatial.transform import Rotation

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install 'pullback[compile]' runs these tests")
pb.grad(special.expit)(0.5)  # loads the operators of scipy.special

SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))
_RNG = np.random.default_rng(0)
_MATRIX = _RNG.normal(size=(4, 4))
_DEFINITE = _MATRIX @ _MATRIX.T + np.eye(4)
_VECTOR = _RNG.normal(size=4)
_SIGNAL = _RNG.normal(size=20)
_NODES = np.linspace(0.0, 1.0, 4)

_PROGRAMS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "solve_triangular": (lambda a: linalg.solve_triangular(a, _VECTOR, lower=True), _DEFINITE),
    "cho_solve": (lambda a: linalg.cho_solve(linalg.cho_factor(a), _VECTOR), _DEFINITE),
    "expm": (lambda a: linalg.expm(a), _MATRIX),
    "lfilter": (lambda x: signal.lfilter([0.5], [1.0, -0.5], x), _SIGNAL),
    "gaussian_filter": (lambda a: ndimage.gaussian_filter(a, 1.0), _MATRIX),
    "logsumexp": (lambda x: special.logsumexp(x), _VECTOR),
    "norm": (lambda x: stats.norm.logpdf(x, 0.1, 2.0), _VECTOR),
    "beta": (lambda x: stats.beta.logpdf(special.expit(x), 2.0, 3.0), _VECTOR),
    "normal": (lambda a: stats.multivariate_normal.logpdf(_VECTOR, np.zeros(4), a), _DEFINITE),
    "spline": (lambda y: interpolate.CubicSpline(_NODES, y)(np.array([0.1, 0.5])), _VECTOR),
    "interp1d": (lambda y: interpolate.interp1d(_NODES, y)(np.array([0.1, 0.5])), _VECTOR),
    "b-spline": (lambda y: interpolate.make_interp_spline(_NODES, y)(_NODES / 2), _VECTOR),
    "rotation": (lambda v: Rotation.from_rotvec(v[:3]).as_matrix(), _VECTOR),
}


def _loss(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: np.sum(np.asarray(f(x)) ** 2)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_one_trace_serves_values_and_gradients(name: str, backend: str) -> None:
    if name == "rotation" and SCIPY < (1, 17):
        pytest.skip("Rotation is written in Python since SciPy 1.17")
    f, x = _PROGRAMS[name]
    value = pb.compile(f, backend=backend)
    gradient = pb.compile(pb.grad(_loss(f)), backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1.0, 1.01, 0.99):
            found, expected = value(x * scale), f(x * scale)
            assert type(found) is type(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
            wanted = pb.grad(_loss(f))(x * scale)
            np.testing.assert_allclose(gradient(x * scale), wanted, rtol=1e-8, atol=1e-10)
    assert value.stats["traces"] == gradient.stats["traces"] == 1
    assert not value.stats["eager"]


def test_second_derivatives_and_maps() -> None:
    def f(x: Any) -> Any:
        return linalg.solve(_DEFINITE + np.outer(x, x), x) @ x

    for transform in (pb.hessian, lambda g: pb.func.vmap(pb.func.grad(g))):
        x = pb.asarray(_MATRIX) if transform is not pb.hessian else _VECTOR
        compiled = pb.compile(transform(f))
        for scale in (1.0, 0.9):
            expected = np.asarray(transform(f)(x * scale))
            np.testing.assert_allclose(np.asarray(compiled(x * scale)), expected, rtol=1e-9)
        assert compiled.stats["traces"] == 1


def test_errors_of_scipy_are_raised() -> None:
    f = pb.compile(lambda a: linalg.cholesky(a, lower=True).sum())
    f(_DEFINITE)
    with pytest.raises(np.linalg.LinAlgError):
        f(-_DEFINITE)
    g = pb.compile(pb.grad(lambda y: interpolate.CubicSpline(_NODES, y)(0.3)))
    g(_VECTOR)
    with pytest.raises(ValueError, match="finite"):
        g(np.array([1.0, np.nan, 0.0, 1.0]))


def test_values_are_those_of_scipy_where_a_rule_is_less_exact() -> None:
    flat = _MATRIX - _MATRIX.mean(axis=0)  # of less than full rank
    f = pb.compile(lambda a: spatial.procrustes(_DEFINITE, a)[2])
    for a in (flat, 2 * flat + 1):
        np.testing.assert_allclose(f(a), spatial.procrustes(_DEFINITE, a)[2], rtol=1e-10)
        assert isinstance(f(a), float)


def test_captured_arrays_and_numbers_are_inputs() -> None:
    b, width = np.array([1.0, 2.0]), 1.5
    f = pb.compile(lambda a, sigma: linalg.solve(a, b) * ndimage.gaussian_filter1d(b, sigma))
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    for scale in (1.0, 2.0):
        b[:] = [scale, 3.0]
        for sigma in (width, 2.0 * width):
            expected = linalg.solve(a, b) * ndimage.gaussian_filter1d(b, sigma)
            np.testing.assert_allclose(f(a, sigma), expected)
    assert f.stats["eager"] == 0


def test_points_inside_and_outside_of_a_support() -> None:
    gradient = pb.compile(pb.grad(lambda x: stats.expon.pdf(x).sum()))
    for x in ([0.5, 1.0], [0.7, 2.0], [-1.0, 1.0], [-2.0, 1.0], [0.5, 1.0], [0.0, 1.0]):
        wanted = pb.grad(lambda v: stats.expon.pdf(v).sum())(np.array(x))
        np.testing.assert_allclose(gradient(np.array(x)), wanted)
    assert gradient.stats["traces"] <= 3


def test_types_of_counts_are_scipys() -> None:
    found = pb.compile(lambda x: tuple(stats.describe(x)))(_VECTOR)
    expected = tuple(stats.describe(_VECTOR))
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(
    "f",
    [
        lambda p: integrate.solve_ivp(lambda t, y: -p[0] * y, (0, 1), [1.0]).y[0, -1],
        lambda p: optimize.brentq(lambda z: z**3 + z - p[0], -5, 5),
    ],
)
def test_solvers_that_call_back_are_refused_with_their_names(f: Callable[[Any], Any]) -> None:
    compiled = pb.compile(pb.grad(f))
    with pytest.warns(UserWarning, match="at points that it chooses by values"):
        found = compiled(np.ones(1))
    np.testing.assert_allclose(found, pb.grad(f)(np.ones(1)))


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_warnings_that_the_function_switches_off(backend: str) -> None:
    @pb.compile(backend=backend)
    def f(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.sort(x / (x - 1.0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            np.testing.assert_array_equal(f(np.array([1.0, 2.0])), [2.0, np.inf])
