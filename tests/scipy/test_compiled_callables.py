"""Compiled functions as callables of SciPy: results and gradients are the function's."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import pullback as pb

integrate = pytest.importorskip("scipy.integrate", reason="pip install scipy runs these tests")
optimize = pytest.importorskip("scipy.optimize", reason="pip install scipy runs these tests")

BACKENDS = ["eager", "llvm"] if importlib.util.find_spec("llvmlite") else ["eager"]
RATES = np.array([1.1, 0.4, 0.4, 0.1])


def slope(t, y, k):
    return pb.stack([k[0] * y[0] - k[1] * y[0] * y[1], k[3] * y[0] * y[1] - k[2] * y[1]]) + 0 * t


def end(function, k):
    found = integrate.solve_ivp(function, (0.0, 1.0), np.array([2.0, 1.0]), args=(k,), rtol=1e-8)
    return (found.y[:, -1] ** 2).sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_right_hand_side_of_solve_ivp(backend):
    compiled = pb.compile(slope, backend=backend)
    value, gradient = pb.value_and_grad(lambda k: end(compiled, k))(RATES)
    expected, theirs = pb.value_and_grad(lambda k: end(slope, k))(RATES)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, theirs, rtol=1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_integrand_of_quad(backend):
    def integrand(x, a):
        return pb.exp(-a * x) * pb.sin(x)

    compiled = pb.compile(integrand, backend=backend)

    def area(function, a):
        return integrate.quad(function, 0.0, 2.0, args=(a,))[0]

    ours = pb.value_and_grad(lambda a: area(compiled, a))(0.7)
    theirs = pb.value_and_grad(lambda a: area(integrand, a))(0.7)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_objective_and_gradient_of_minimize(backend):
    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    compiled = pb.compile(pb.value_and_grad(rosenbrock), backend=backend)
    found = optimize.minimize(compiled, np.zeros(4), jac=True, method="BFGS")
    np.testing.assert_allclose(found.x, np.ones(4), atol=1e-4)
    assert compiled.stats["traces"] == 1
