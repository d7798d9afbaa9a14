"""Operators from black boxes: derivatives by differences, their errors, and opcheck."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError
from pullback.library import numerical, numerical_jacobian


def box(x, a):
    return np.sin(x) * a + x**2


@pytest.fixture(params=["central", "complex-step"])
def op(request):
    made = numerical(
        box, name="tests::box", method=request.param, shape=lambda x, a: np.broadcast_shapes(x, a)
    )
    yield made
    made._destroy()


X, A = np.array([0.3, 1.0]), np.array([2.0, 3.0])


def test_opcheck_accepts_the_operator(op):
    given = tuple(pb.tensor(value, requires_grad=True) for value in (X, A))
    assert set(pb.library.opcheck(op, given).values()) == {"SUCCESS"}


def test_derivatives_are_those_of_the_function(op):
    expected = pb.grad(lambda x: (np.sin(x) * A + x**2).sum())(X)
    np.testing.assert_allclose(pb.grad(lambda x: op(x, pb.tensor(A)).sum())(X), expected, rtol=1e-9)
    tangent = pb.func.jvp(lambda x: op(x, pb.tensor(A)), (pb.tensor(X),), (pb.ones(2),))[1]
    np.testing.assert_allclose(tangent.numpy(), expected, rtol=1e-9)


def test_second_derivatives_raise(op):
    def total(x):
        return op(x, pb.tensor(A)).sum()

    with pytest.raises(DerivativeMissingError, match=r"box_vjp: a second derivative.*numerically"):
        pb.autograd.functional.hessian(total, pb.tensor(X))
    with pytest.raises(DerivativeMissingError, match=r"box_jvp: a second derivative.*numerically"):
        pb.func.jvp(
            lambda x: pb.func.jvp(total, (x,), (pb.ones(2),))[1], (pb.tensor(X),), (pb.ones(2),)
        )


def test_the_error_estimate_bounds_the_error():
    noise = np.random.default_rng(0)
    for size in (0.0, 1e-10, 1e-6):

        def noisy(x, size=size):
            return np.exp(x) + size * noise.standard_normal(x.shape)

        found = numerical_jacobian(noisy, "central", 0.02, 1.0, [np.array([1.0])])
        assert abs(found.value[0, 0] - np.e) <= 3 * found.error + 1e-12


def test_a_kink_raises_instead_of_giving_a_number():
    kink = numerical(lambda x: np.abs(x - 0.301) ** 0.5, name="tests::kink")
    x = pb.tensor([0.3], requires_grad=True)
    with pytest.raises(RuntimeError, match="estimated error"):
        kink(x).sum().backward()
    assert x.grad is None
    kink._destroy()


def test_complex_steps_need_a_complex_function():
    real = numerical(lambda x: np.abs(x), name="tests::real", method="complex-step")
    with pytest.raises(TypeError, match="must return complex numbers"):
        real(pb.tensor([0.3], requires_grad=True)).sum().backward()
    real._destroy()


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="'central', 'complex-step', not 'forward'"):
        numerical(np.sin, method="forward")
    with pytest.raises(TypeError, match="one or more arrays by position"):
        numerical(lambda *x: x[0])


def test_two_functions_of_one_name_have_an_operator_each():
    def make(factor):
        def box(grad):
            return factor * np.sin(grad)

        return pb.library.numerical(box)

    first, second, third = make(2.0), make(3.0), pb.library.numerical(lambda x: 4.0 * np.sin(x))
    try:
        for op, factor in ((first, 2.0), (second, 3.0), (third, 4.0)):
            found = pb.grad(lambda x, op=op: op(x).sum())(np.array([0.5, 1.0]))
            np.testing.assert_allclose(found, factor * np.cos([0.5, 1.0]), rtol=1e-6)
    finally:
        for op in (first, second, third):
            op._destroy()


def test_arrays_and_numbers_are_taken_beside_tensors_and_kept():
    def scale(x, a):
        x *= a  # as foreign code does that works in place
        return x

    op = pb.library.numerical(scale)
    try:
        x = np.array([1.0, 2.0])
        np.testing.assert_allclose(pb.grad(lambda x: op(x, 3.0).sum())(x), [3.0, 3.0], rtol=1e-6)
        np.testing.assert_allclose(pb.grad(lambda a: op(x, a=a).sum())(3.0), 3.0, rtol=1e-6)
        np.testing.assert_array_equal(x, [1.0, 2.0])
        kept = pb.tensor(x, requires_grad=True)
        op(kept * 1.0, pb.tensor(3.0))
        np.testing.assert_array_equal(kept.detach().numpy(), [1.0, 2.0])
        assert type(op(np.ones(2), 3.0)) is np.ndarray
    finally:
        op._destroy()
