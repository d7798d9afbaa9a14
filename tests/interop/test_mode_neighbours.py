"""`numpy_mode` beside compiled modules, Python's ``math``, and function transforms."""

from __future__ import annotations

import math
import subprocess
import sys
from math import sqrt
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.interop.compiled import originals
from pullback.interop.math_functions import MATH

from .compare import check_call

V = np.array([0.7, 1.2, 2.2])


def _check(function: Any, *arrays: Any) -> None:
    run = pb.differentiable(function)
    check_call(
        lambda *given: run(*given) if isinstance(given[0], pb.Tensor) else function(*given), *arrays
    )


# --- compiled modules ----------------------------------------------------------------------------


def test_compiled_modules_get_arrays() -> None:
    """Random numbers are the same in the mode, and are arrays; tensors made them crash."""
    draws = [
        lambda r: r.multivariate_normal(np.zeros(2), np.eye(2)),
        lambda r: r.normal(np.zeros(3), np.ones(3)),
        lambda r: r.choice(3, p=np.full(3, 1 / 3)),
        lambda r: r.dirichlet(np.ones(3)),
        lambda r: r.permutation(V),
        lambda r: r.uniform(size=3),
    ]
    for make in (np.random.default_rng, np.random.RandomState):
        for draw in draws:
            expected = draw(make(0))
            with pb.numpy_mode():
                made = draw(make(0))
            assert not isinstance(made, pb.Tensor)
            np.testing.assert_array_equal(made, expected)


def test_compiled_modules_have_a_numpy_in_which_nothing_is_replaced() -> None:
    from numpy.random import _generator, mtrand

    with pb.numpy_mode():
        for module in (_generator, mtrand):
            theirs = vars(module)["np"]
            assert theirs is originals()
            assert type(theirs.zeros(2)) is type(theirs.linalg.inv(theirs.eye(2))) is np.ndarray
    assert {name: value for name, value in vars(originals()).items() if callable(value)} == {
        name: value for name, value in vars(np).items() if callable(value)
    }


def test_numpy_random_may_be_used_first_in_the_mode() -> None:
    program = (
        "import pullback as pb, numpy as np\n"
        "with pb.numpy_mode():\n"
        "    x = np.random.default_rng(0).multivariate_normal(np.zeros(2), np.eye(2))\n"
        "print(type(x).__name__)"
    )
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert made.stdout.strip() == "ndarray", made.stderr


def test_a_gradient_into_random_numbers_raises_in_the_mode_too() -> None:
    x = pb.tensor(V, requires_grad=True)
    with pb.numpy_mode(), pytest.raises(pb.errors.AutogradError, match="carries a gradient"):
        np.random.default_rng(0).poisson(x)


# --- math ----------------------------------------------------------------------------------------

TWO = {"atan2", "copysign", "fmod", "hypot", "pow"}
SEVERAL = {"dist", "fsum", "prod"}


@pytest.mark.parametrize("name", sorted(set(MATH) - SEVERAL))
def test_math_records_in_the_mode(name: str) -> None:
    if name in TWO:
        _check(lambda x, y: np.array([getattr(math, name)(x, y)]), np.array(1.3), np.array(0.4))
    else:
        at = 1.3 if name == "acosh" else 0.4
        _check(lambda x: np.array([getattr(math, name)(x)]), np.array(at))


def test_math_of_several_numbers() -> None:
    _check(lambda x: np.array([math.fsum(v * v for v in x), math.fsum(x)]), V)
    _check(lambda x: np.array([math.prod(x), math.prod([x[0], 2.0], start=x[1])]), V)
    _check(lambda x: np.array([math.dist([x[0], x[1]], [0.1, x[2]])]), V)
    _check(lambda x: np.array([math.hypot(x[0], 1.0, x[2]), math.log(x[0], x[1])]), V)
    _check(lambda x: np.array([sqrt(x[0])]), V)  # imported by name


def test_math_is_as_ever_without_tensors_and_outside() -> None:
    original = math.sin
    with pb.numpy_mode():
        assert type(math.sin(1.0)) is float
        assert math.fsum(v for v in [0.1] * 10) == 1.0
        assert math.prod([2, 3]) == 6
        with pytest.raises(ValueError, match="domain"):
            math.sqrt(pb.tensor(-1.0))
        with pytest.raises(ValueError, match=r"domain|positive"):
            math.log(pb.tensor(0.0))
    assert math.sin is original
    with pytest.raises(pb.errors.GradientLostError, match=r"math\.sin .*numpy_mode"):
        math.sin(pb.tensor(1.0, requires_grad=True))


# --- transforms ----------------------------------------------------------------------------------


@pb.differentiable
def _recurrence(x: Any) -> Any:
    y = np.zeros(4)
    y[0] = x
    for i in range(1, 4):
        y[i] = math.sin(y[i - 1]) * x + 0.5
    return y


def _slope(x: float, step: float = 1e-6) -> np.ndarray:
    plain = _recurrence.__wrapped__
    return (plain(x + step) - plain(x - step)) / (2 * step)


def test_func_grad_of_a_differentiable_function() -> None:
    total = pb.differentiable(lambda x: np.array([v * v for v in _recurrence(x)]).sum())
    at = 0.8
    expected = 2 * _recurrence.__wrapped__(at) @ _slope(at)
    x = pb.tensor(at)
    assert func.grad(total)(x).item() == pytest.approx(expected, rel=1e-7)
    slope, value = func.grad_and_value(total)(x)
    assert slope.item() == pytest.approx(expected, rel=1e-7)
    assert value.item() == pytest.approx(float(np.sum(_recurrence.__wrapped__(at) ** 2)))


def test_every_transform_of_a_differentiable_function() -> None:
    at = 0.8
    x, expected = pb.tensor(at), _slope(at)
    np.testing.assert_allclose(func.jacrev(_recurrence)(x).numpy(), expected, rtol=1e-7)
    np.testing.assert_allclose(func.jacfwd(_recurrence)(x).numpy(), expected, rtol=1e-7)
    _, tangent = func.jvp(_recurrence, (x,), (pb.tensor(1.0),))
    np.testing.assert_allclose(tangent.numpy(), expected, rtol=1e-7)
    _, pull = func.vjp(_recurrence, x)
    (grad,) = pull(pb.ones(4))
    assert grad.item() == pytest.approx(expected.sum(), rel=1e-7)
    many = func.vmap(_recurrence)(pb.asarray([0.1, at]))
    np.testing.assert_allclose(many.numpy()[1], _recurrence.__wrapped__(at))
    slopes = func.vmap(func.grad(lambda v: _recurrence(v).sum()))(pb.asarray([0.1, at]))
    assert slopes[1].item() == pytest.approx(expected.sum(), rel=1e-7)
    curve = func.hessian(lambda v: _recurrence(v).sum())(x).item()
    ahead, behind = _slope(at + 1e-4, 1e-5).sum(), _slope(at - 1e-4, 1e-5).sum()
    assert curve == pytest.approx((ahead - behind) / 2e-4, rel=1e-4)
    assert pb.grad(lambda v: _recurrence(v).sum())(at) == pytest.approx(expected.sum(), rel=1e-7)


def test_a_transform_inside_of_a_differentiable_function() -> None:
    @pb.differentiable
    def newton(x: Any) -> Any:
        steps = np.zeros(3)
        for i in range(3):
            slope = func.grad(lambda v: np.sum(v**2 * np.ones(1)))(x)
            x = x - 0.1 * slope
            steps[i] = x
        return steps

    assert func.jacrev(newton)(pb.tensor(1.0)).tolist() == pytest.approx([0.8, 0.64, 0.512])
