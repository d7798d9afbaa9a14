"""Solvers of scipy.optimize on tensors: captured parameters, bad input, kinks, evaluations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

from scipy import optimize

from pullback.scipy.registry import find_rule

SLOPE = 2.0 ** (-2 / 3) / 3  # derivative of the cube root at 2
GLOBAL = pb.tensor(2.0, requires_grad=True)


def solver(name: str) -> Any:
    assert find_rule(f"scipy.optimize.{name}") is not None
    return getattr(optimize, name)


def cube_from_global(y: Any) -> Any:
    return y**3 - GLOBAL


class Cube:
    def __init__(self, a: Any):
        self.a = a

    def residual(self, y: Any) -> Any:
        return y**3 - self.a

    __call__ = residual


def through_default(a: Any) -> Any:
    def f(y: Any, a: Any = a) -> Any:
        return y**3 - a

    return f


def through_function(a: Any) -> Any:
    def g(y: Any) -> Any:
        return y**3 - a

    def f(y: Any) -> Any:
        return g(y) * 1.0

    return f


CAPTURES = {
    "closure": lambda a: lambda y: y**3 - a,
    "default": through_default,
    "partial": lambda a: functools.partial(lambda a, y: y**3 - a, a),
    "method": lambda a: Cube(a).residual,
    "object": Cube,
    "list": lambda a: lambda y, held=[a]: y**3 - held[0],
    "inner function": through_function,
}


@pytest.mark.parametrize("kind", CAPTURES)
def test_captured_parameters_are_found(kind):
    a = pb.tensor(2.0, requires_grad=True)
    y = solver("brentq")(CAPTURES[kind](a), 0.0, 5.0)
    y.backward()
    assert a.grad.item() == pytest.approx(SLOPE)
    for transform in (pb.func.jacfwd, pb.func.jacrev):
        slope = transform(lambda a: solver("brentq")(CAPTURES[kind](a), 0.0, 5.0))
        assert slope(pb.tensor(2.0)).item() == pytest.approx(SLOPE)


def test_global_parameters_are_found():
    (slope,) = pb.autograd.grad(solver("brentq")(cube_from_global, 0.0, 5.0), GLOBAL)
    assert slope.item() == pytest.approx(SLOPE)


def test_the_solver_sees_arrays_only():
    seen = set()

    def f(y):
        seen.add(type(y))
        return y**3 - a

    a = pb.tensor(2.0, requires_grad=True)
    solver("brentq")(f, 0.0, 5.0)
    assert seen == {float, pb.Tensor}


def test_a_gradient_takes_three_evaluations_of_the_residual():
    recorded = []

    def f(y):
        if isinstance(y, pb.Tensor):
            recorded.append(y)
        return y**3 - a * pb.tensor([1.0, 2.0]) + y[::-1]

    a = pb.tensor(2.0, requires_grad=True)
    solver("root")(f, np.ones(2)).x.sum().backward()
    assert len(recorded) == 3


def test_no_bracket_is_scipys_error():
    a = pb.tensor(2.0, requires_grad=True)
    with pytest.raises(ValueError, match="must have different signs"):
        solver("brentq")(lambda y: y**2 + a, 0.0, 5.0)


def test_no_convergence_is_scipys_result_without_derivative():
    a = pb.tensor(2.0, requires_grad=True)
    result = solver("root")(lambda y: y**2 + a, np.ones(1))
    assert not result.success
    assert result.x.shape == (1,)
    with pytest.raises(DerivativeMissingError, match=r"root did not converge"):
        result.x.sum().backward()
    assert a.grad is None
    with pytest.raises(DerivativeMissingError, match="did not converge"):
        pb.func.jvp(
            lambda a: solver("root")(lambda y: y**2 + a, np.ones(1)).x,
            (pb.tensor(2.0),),
            (pb.tensor(1.0),),
        )
    with pytest.raises(RuntimeError, match="Failed to converge"):
        solver("newton")(lambda y: y**2 + a, 1.0)
    with pytest.warns(RuntimeWarning, match="not making good progress"):
        x = solver("fsolve")(lambda y: y**2 + a, 1.0)
    with pytest.raises(DerivativeMissingError):
        x.sum().backward()


def test_a_minimum_that_was_not_reached_has_no_derivative():
    a = pb.tensor(2.0, requires_grad=True)
    result = solver("minimize")(lambda x: ((x - a) ** 4).sum(), np.zeros(2), options={"maxiter": 1})
    assert not result.success
    with pytest.raises(DerivativeMissingError, match="minimize did not converge"):
        result.x.sum().backward()


def test_a_bound_with_multiplier_zero_is_a_kink():
    a = pb.tensor(0.0, requires_grad=True)
    with pytest.raises(DerivativeMissingError, match="kink"):
        solver("minimize")(lambda x: ((x - a) ** 2).sum(), np.ones(2), bounds=[(0, None)] * 2)


def test_a_flat_minimum_has_no_derivative():
    a = pb.tensor(2.0, requires_grad=True)
    with pytest.raises(np.linalg.LinAlgError):
        solver("minimize")(lambda x: (x[0] - a) ** 2 + 0 * x[1], np.ones(2))


def test_nan_gives_no_gradient():
    a = pb.tensor(np.nan, requires_grad=True)
    with pytest.raises(ValueError, match="NaN"):
        solver("brentq")(lambda y: y**3 - a, 0.0, 5.0)


def test_an_option_without_rule_is_named():
    a = pb.tensor(2.0, requires_grad=True)
    with pytest.raises(DerivativeMissingError, match="nan_policy='omit'"):
        solver("curve_fit")(lambda t, p: p * t, np.ones(3), a * np.ones(3), nan_policy="omit")
