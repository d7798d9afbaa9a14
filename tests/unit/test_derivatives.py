"""Derivatives for people who come from NumPy: what goes in comes out."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rosenbrock_gradient(x):
    slope = np.zeros_like(x)
    slope[:-1] += -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    slope[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return slope


START = np.array([-1.2, 1.0, 0.5])


def test_value_and_grad_serves_a_minimizer():
    value, gradient = pb.value_and_grad(rosenbrock)(START)
    assert type(value) is float
    assert type(gradient) is np.ndarray
    assert gradient.dtype == np.float64
    assert gradient.flags.writeable
    assert gradient.flags.owndata
    np.testing.assert_allclose(gradient, rosenbrock_gradient(START))
    assert value == pytest.approx(100 * (1 - 1.44) ** 2 + 2.2**2 + 100 * (0.5 - 1) ** 2)


def test_scipy_minimize_accepts_value_and_grad():
    optimize = pytest.importorskip("scipy.optimize")
    found = optimize.minimize(pb.value_and_grad(rosenbrock), START, jac=True, method="BFGS")
    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-5)
    newton = optimize.minimize(
        pb.value_and_grad(rosenbrock),
        START,
        jac=True,
        hess=pb.hessian(rosenbrock),
        method="Newton-CG",
    )
    np.testing.assert_allclose(newton.x, np.ones(3), atol=1e-5)
    trust = optimize.minimize(
        pb.value_and_grad(rosenbrock),
        START,
        jac=True,
        hessp=pb.hvp(rosenbrock),
        method="trust-krylov",
    )
    np.testing.assert_allclose(trust.x, np.ones(3), atol=1e-5)


def test_kinds_come_back():
    f = lambda x: (x * x).sum()  # noqa: E731 - a function of one line
    assert pb.grad(f)(3.0) == 6.0
    assert type(pb.grad(f)(3.0)) is float
    assert type(pb.grad(f)(np.float64(3.0))) is float
    assert isinstance(pb.grad(f)(np.array(3.0)), np.ndarray)
    assert isinstance(pb.grad(f)(pb.tensor(3.0)), pb.Tensor)
    assert pb.grad(f)(np.ones(2, np.float32)).dtype == np.float32
    value, gradient = pb.value_and_grad(f)(pb.tensor([3.0]))
    assert isinstance(value, pb.Tensor)
    assert isinstance(gradient, pb.Tensor)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Model:
    weight: Any
    bias: float


def test_trees():
    tree = {"a": [1.0, np.array([2.0, 3.0])], "b": Pair(Model(pb.tensor(4.0), 5.0), None)}

    def f(tree):
        model = tree["b"].left
        return tree["a"][0] * tree["a"][1].sum() + model.weight * model.bias

    found = pb.grad(f)(tree)
    assert found["a"][0] == 5.0
    np.testing.assert_array_equal(found["a"][1], [1.0, 1.0])
    assert isinstance(found["b"].left, Model)
    assert found["b"].left.weight.item() == 5.0
    assert found["b"].left.bias == 4.0
    assert found["b"].right is None


def test_argnums_aux_and_keywords():
    def f(x, y, *, power):
        return ((x * y) ** power).sum(), "extra"

    x, y = np.array([1.0, 2.0]), 3.0
    (by_y, by_x), aux = pb.grad(f, argnums=(1, 0), has_aux=True)(x, y, power=2)
    assert by_y == 2 * 3.0 * 5.0
    np.testing.assert_array_equal(by_x, [18.0, 36.0])
    assert aux == "extra"
    (value, aux), by_x = pb.value_and_grad(f, has_aux=True)(x, y, power=2)
    assert (value, aux) == (45.0, "extra")


def test_elementwise_grad():
    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(pb.elementwise_grad(pb.tanh)(x), 1 / np.cosh(x) ** 2)
    second = pb.elementwise_grad(pb.elementwise_grad(pb.tanh))
    np.testing.assert_allclose(second(x), -2 * np.tanh(x) / np.cosh(x) ** 2, atol=1e-15)
    with pytest.raises(TypeError, match="must return a tensor, not float"):
        pb.elementwise_grad(lambda _: 1.0)(x)


def test_jacobian_of_both_shapes():
    rng = np.random.default_rng(0)
    for shape in ((3, 7), (7, 3)):
        matrix = rng.normal(size=shape)
        found = pb.jacobian(lambda x: pb.tensor(matrix) @ x)(np.ones(shape[1]))  # noqa: B023
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, matrix)
    assert pb.jacobian(lambda x: x * x)(3.0) == 6.0
    both = pb.jacobian(lambda x, y: x * y, argnums=(0, 1))(np.ones(2), 3.0)
    np.testing.assert_allclose(both[0], 3 * np.eye(2))
    np.testing.assert_allclose(both[1], np.ones(2))


def test_hessian_and_hvp():
    x, v = START, np.array([1.0, -2.0, 0.5])
    full = pb.hessian(rosenbrock)(x)
    product = pb.hvp(rosenbrock)(x, v)
    assert type(full) is type(product) is np.ndarray
    np.testing.assert_allclose(product, full @ v)
    np.testing.assert_allclose(full, full.T)
    assert pb.hvp(lambda a, x: (a * x**3).sum(), argnums=1)(2.0, 3.0, 1.0) == 36.0
    with pytest.raises(TypeError, match="then the vector"):
        pb.hvp(rosenbrock)(x)
    with pytest.raises(RuntimeError, match="different size"):
        pb.hvp(rosenbrock)(x, v[:2])


def test_integers_are_refused_by_position():
    f = lambda x: x * x  # noqa: E731 - a function of one line
    for wrong in (3, np.arange(3), True, pb.tensor([1, 2])):
        with pytest.raises(ValueError, match="grad: argument 0 is an integer or bool"):
            pb.grad(f)(wrong)
    with pytest.raises(ValueError, match=r"grad: argument 1\['n'\] is an integer or bool \(2\)"):
        pb.grad(lambda x, t: x * t["n"], argnums=1)(1.0, {"n": 2})
    with pytest.raises(TypeError, match=r"argument 0 must be a tensor, an array or a number.*str"):
        pb.grad(f)("text")
    with pytest.raises(RuntimeError, match="argnum=1, but only 1"):
        pb.grad(f, argnums=1)(1.0)


def test_outputs_are_checked():
    with pytest.raises(RuntimeError, match="scalar Tensor"):
        pb.grad(lambda x: x)(np.ones(2))
    with pytest.raises(RuntimeError, match="unsupported type float"):
        pb.grad(lambda _: 1.0)(np.ones(2))


def test_they_nest_and_keep_what_can_be_differentiated():
    def f(a):
        value, slope = pb.value_and_grad(lambda x: (a * x**2).sum())(np.array([1.0, 2.0]))
        assert isinstance(slope, pb.Tensor)  # it depends on a
        return value + slope.sum()

    assert pb.grad(f)(3.0) == 5.0 + 6.0
    weight = pb.tensor(2.0, requires_grad=True)
    pb.grad(lambda x: (weight * x**2).sum())(np.array([1.0, 2.0])).sum().backward()
    assert weight.grad.item() == 6.0


def test_arguments_are_left_alone():
    x = np.array([1.0, 2.0])
    gradient = pb.grad(lambda x: (x * 1).sum())(x)
    gradient += 1
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="in-place operation"):
        pb.grad(lambda x: x.mul_(2).sum())(x)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: pb.hvp(f)(np.ones(2), np.ones(3)), "hvp: the vector has a different size"),
        (lambda f: pb.hvp(f)(np.ones(2), {"a": np.ones(2)}), "hvp: the vector must be a tensor"),
        (lambda f: pb.hvp(f)(np.ones(2), np.array([1, 2])), "hvp: the vector is an integer"),
        (lambda f: pb.elementwise_grad(f)(np.array([1, 2])), "elementwise_grad: argument 0 is"),
    ],
)
def test_errors_name_the_function_that_was_called(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(lambda x: (x * x).sum())


TRANSFORMS = ["grad", "value_and_grad", "elementwise_grad", "jacobian", "hessian", "hvp"]
IN_FUNC = ["grad", "grad_and_value", "vjp", "linearize", "jacrev", "jacfwd", "hessian", "vmap"]


@pytest.mark.parametrize("name", [*TRANSFORMS, *(f"func.{name}" for name in IN_FUNC)])
def test_what_is_no_function_is_refused_at_once(name):
    with pytest.raises(TypeError, match=f"{name.removeprefix('func.')}: a function is expected"):
        operator.attrgetter(name)(pb)(3)


def test_jvp_of_what_is_no_function():
    with pytest.raises(TypeError, match="a function is expected, not int"):
        pb.func.jvp(3, (pb.ones(2),), (pb.ones(2),))
