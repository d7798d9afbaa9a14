"""pb.optimize: exact derivatives, structures, constraints, standard errors, progress."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

from scipy import optimize as theirs
from scipy import sparse


def rosenbrock(x, a=1.0):
    return ((a - x[:-1]) ** 2).sum() + 5 * ((x[1:] - x[:-1] ** 2) ** 2).sum()


METHODS = (
    "Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA", "SLSQP",
    "trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov",
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_minimum(method):
    def bowl(x, a):
        return ((x - a) ** 2).sum() + 0.1 * ((x - a) ** 4).sum()

    result = pb.optimize.minimize(bowl, [0.0, 3.0], (1.0,), method)
    np.testing.assert_allclose(result.x, [1.0, 1.0], atol=2e-2 if method == "COBYLA" else 2e-3)


def test_newton_methods_need_fewer_evaluations_than_differences():
    start = np.full(6, -0.5)
    exact = pb.optimize.minimize(rosenbrock, start)
    numeric = theirs.minimize(lambda x: rosenbrock(x), start)
    assert exact.success
    assert exact.nfev * 3 < numeric.nfev
    newton = pb.optimize.minimize(rosenbrock, start, method="trust-exact")
    np.testing.assert_allclose(newton.x, 1.0, atol=1e-5)


@pytest.mark.parametrize("start", [3, 3.0, [3], (3, 4), np.array([3, 4]), pb.tensor([3.0, 4.0])])
def test_numbers_lists_and_tensors_are_vectors(start):
    result = pb.optimize.minimize(lambda x: ((x - 1) ** 2).sum(), start)
    assert isinstance(result.x, np.ndarray)
    np.testing.assert_allclose(result.x, np.ones(np.size(np.asarray(result.x))), atol=1e-6)


def test_trees_keep_their_structure():
    def cost(p, scale):
        weights, bias = p["layers"]
        return ((weights - 2.0) ** 2).sum() + scale * (bias - weights.sum()) ** 2 + p["c"] ** 2

    start = {"layers": (np.zeros((2, 2)), 0), "c": 1}
    result = pb.optimize.minimize(cost, start, (0.5,), method="trust-exact")
    assert set(result.x) == {"layers", "c"}
    assert result.x["layers"][0].shape == (2, 2)
    np.testing.assert_allclose(result.x["layers"][0], 2.0, atol=1e-6)
    assert result.x["layers"][1] == pytest.approx(8.0, abs=1e-5)


def test_bounds_and_constraints_have_exact_derivatives():
    def limit(x):
        return x[0] * x[1] - 2.0

    for method in ("SLSQP", "trust-constr"):
        result = pb.optimize.minimize(
            lambda x: (x**2).sum(),
            [1.0, 3.0],
            method=method,
            bounds=[(0.5, None), (1.8, None)],
            constraints={"type": "ineq", "fun": limit},
        )
        np.testing.assert_allclose(result.x, [2 / 1.8, 1.8], atol=1e-3)
    nonlinear = theirs.NonlinearConstraint(limit, 0.0, 0.0)
    linear = theirs.LinearConstraint([[1.0, -1.0]], 0.0, np.inf)
    result = pb.optimize.minimize(
        lambda x: (x**2).sum(),
        [2.0, 1.0],
        method="trust-constr",
        constraints=[nonlinear, linear],
        options={"gtol": 1e-9},
    )
    np.testing.assert_allclose(result.x, np.sqrt(2.0), atol=1e-3)


def test_hessian_products_can_be_given_to_scipy_with_args():
    found = theirs.minimize(
        lambda x, a: pb.value_and_grad(rosenbrock)(x, a),
        np.full(4, -0.5),
        args=(1.0,),
        jac=True,
        method="trust-krylov",
        hessp=pb.hvp(rosenbrock, vector=1),
    )
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)
    x, v = np.arange(4.0), np.ones(4)
    np.testing.assert_array_equal(
        pb.hvp(rosenbrock, vector=1)(x, v, 2.0), pb.hvp(rosenbrock)(x, 2.0, v)
    )


def test_sparse_derivatives_where_they_pay():
    n = 150

    def chain(x):
        return ((x[1:] - x[:-1]) ** 2).sum() + ((x - 1.0) ** 4).sum()

    result = pb.optimize.minimize(
        chain, np.zeros(n), method="trust-constr", options={"gtol": 1e-10}
    )
    np.testing.assert_allclose(result.x, 1.0, atol=1e-2)
    fit = pb.optimize.least_squares(lambda x: x[1:] ** 2 + x[:-1] - 1.0, np.full(n, 0.5))
    assert sparse.issparse(fit.jac)
    dense = pb.optimize.least_squares(
        lambda x: x[1:] ** 2 + x[:-1] - 1.0, np.full(n, 0.5), sparse=False
    )
    assert isinstance(dense.jac, np.ndarray)
    np.testing.assert_allclose(fit.cost, dense.cost, atol=1e-9)


def test_standard_errors_of_a_likelihood_and_of_a_fit():
    noise = np.random.default_rng(1)
    data = noise.normal(2.0, 0.5, 400)

    def likelihood(p):
        rest = (data - p["mean"]) / np.exp(p["log"])
        return 0.5 * (rest**2).sum() + data.size * p["log"]

    result = pb.optimize.minimize(
        likelihood, {"mean": 0.0, "log": 0.0}, method="trust-exact", standard_errors=True
    )
    assert result.standard_errors["mean"] == pytest.approx(data.std() / 20, rel=1e-4)
    t = np.linspace(0, 1, 40)
    y = 2 * t + 1 + 0.1 * noise.standard_normal(40)
    fit = pb.optimize.least_squares(lambda p: p[0] * t + p[1] - y, [0, 0], standard_errors=True)
    popt, pcov = theirs.curve_fit(lambda t, p, q: p * t + q, t, y)
    np.testing.assert_allclose(fit.x, popt, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors, np.sqrt(np.diag(pcov)), rtol=1e-5)
    ours, covariance = pb.optimize.curve_fit(lambda t, p, q: p * t + q, t, y, [0, 0])
    np.testing.assert_allclose(ours, popt, rtol=1e-6)
    np.testing.assert_allclose(covariance, pcov, rtol=1e-5)


def test_results_are_differentiable_by_captured_tensors():
    a = pb.tensor(2.0, requires_grad=True)
    result = pb.optimize.minimize(lambda x: ((x - a) ** 2).sum(), [0.0, 1.0])
    result.x.sum().backward()
    assert a.grad.item() == pytest.approx(2.0)
    a.grad = None
    found = pb.optimize.root(lambda x: x**3 - a, [1.0])
    found.x.sum().backward()
    assert a.grad.item() == pytest.approx(2.0 ** (-2 / 3) / 3)


def test_progress_is_shown(capsys):
    pb.optimize.minimize(rosenbrock, np.full(4, -0.5), progress=True)
    assert "minimize" in capsys.readouterr().err


def test_bad_start_values_are_refused():
    with pytest.raises(TypeError, match="x0 must consist of real numbers"):
        pb.optimize.minimize(rosenbrock, ["a"])
    with pytest.raises(ValueError, match="x0 is empty"):
        pb.optimize.minimize(rosenbrock, [])
    with pytest.raises(np.linalg.LinAlgError):
        pb.optimize.minimize(lambda x: 0.0 * x.sum(), [1.0, 1.0], standard_errors=True)


# --- functions that write into arrays -------------------------------------------------------------


def chain(x):
    values = np.zeros(2)
    values[0] = x[0] - 1.0
    values[1] = x[1] * values[0] + x[1] - 2.0
    return values


def test_functions_that_fill_arrays_run_as_they_stand():
    found = pb.optimize.minimize(lambda x: (chain(x) ** 2).sum(), [0.1, 0.2], tol=1e-12)
    np.testing.assert_allclose(found.x, [1.0, 2.0], atol=1e-6)
    found = pb.optimize.minimize(
        lambda p: (chain(p["x"]) ** 2).sum(),
        {"x": [0.1, 0.2]},
        method="SLSQP",
        tol=1e-12,
        constraints={"type": "ineq", "fun": lambda p: np.array([p["x"][0] - 1.0])},
    )
    np.testing.assert_allclose(found.x["x"], [1.0, 2.0], atol=1e-6)
    for solver in (pb.optimize.least_squares, pb.optimize.root):
        np.testing.assert_allclose(solver(chain, [0.1, 0.2]).x, [1.0, 2.0], atol=1e-6)

    def line(t, a, b):
        values = np.zeros(len(t))
        for place, at in enumerate(t):
            values[place] = a * at + b
        return values

    t = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(pb.optimize.curve_fit(line, t, 2 * t + 1)[0], [2.0, 1.0])


def test_curve_fit_chooses_a_start_as_scipy_does():
    class Model:
        def decay(self, t, a, b):
            return a * np.exp(-b * t)

    t = np.linspace(0.0, 2.0, 6)
    y = 1.5 * np.exp(-0.4 * t)
    for options in ({}, {"bounds": ([0.0, 0.0], [3.0, np.inf])}):
        found, _, info, *_ = pb.optimize.curve_fit(Model().decay, t, y, full_output=True, **options)
        np.testing.assert_allclose(found, [1.5, 0.4], rtol=1e-6)
        assert info["nfev"] > 0
    with pytest.raises(ValueError, match="number of fit parameters"):
        pb.optimize.curve_fit(lambda t, *p: p[0] * t, t, y)


def test_a_function_to_minimize_that_returns_a_vector_is_named():
    with pytest.raises(ValueError, match=r"one number; chain returned shape \(2,\)"):
        pb.optimize.minimize(chain, [0.1, 0.2])
