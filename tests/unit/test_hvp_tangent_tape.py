"""Hessian products from a tangent tape: what is recorded, and which programs fall back."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd import functional
from pullback.autograd.function import Function
from pullback.autograd.levels import current_level
from pullback.dispatch.modes import DEFAULT_STATE, get_state
from pullback.utils.checkpoint import checkpoint

X, V = np.array([1.0, -2.0, 0.5]), np.array([1.0, 10.0, 100.0])


def counting(f):
    def counted(x):
        counted.calls += 1
        return f(x)

    counted.calls = 0
    return counted


def tangent_of_gradient(f):
    return func.jvp(func.grad(f), (pb.tensor(X),), (pb.tensor(V),))[1].numpy()


def check(f, *, calls):
    """All ways to the second derivatives agree; `calls` of the function for one product."""
    wanted = tangent_of_gradient(f)
    counted = counting(f)
    np.testing.assert_allclose(pb.hvp(counted)(X, V), wanted, rtol=1e-12)
    assert counted.calls == calls
    np.testing.assert_allclose(pb.hessian(f)(X) @ V, wanted, rtol=1e-12)
    assert get_state() is DEFAULT_STATE


def test_hvp_with_write_to_constant_after_its_use():
    def f(x):
        buffer = pb.ones(3)
        y = pb.sin(x ** (buffer + 1.0) + buffer)
        z = pb.where(buffer > 0, y, x)
        buffer.mul_(-2.0)  # which no note of before may see
        buffer[0] = 7.0
        return (y * z * x + buffer * x * x * x).sum()

    def without(x):
        y = pb.sin(x**2 + 1.0)
        return (y * y * x + pb.tensor([7.0, -2.0, -2.0]) * x * x * x).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), tangent_of_gradient(without), rtol=1e-12)
    check(f, calls=1)

    def saves_it(x):
        buffer = pb.ones(3)
        y = x * buffer * x
        buffer.mul_(2.0)
        return y.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pb.hvp(saves_it, mode=False)(X, V)  # as in any backward pass
    np.testing.assert_allclose(pb.hvp(saves_it)(X, V), 2 * V)


def test_hvp_with_write_to_value_that_depends_on_the_argument():
    def f(x):
        y = x * x
        z = pb.exp(y)
        y.mul_(x)
        return (y * z).sum()

    def saves_it(x):
        y = x * x
        return (pb.sin(y) * y.mul_(x)).sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pb.hvp(saves_it, mode=False)(X, V)
    wanted = tangent_of_gradient(lambda x: (pb.sin(x * x) * (x * x * x)).sum())
    np.testing.assert_allclose(pb.hvp(saves_it)(X, V), wanted, rtol=1e-12)
    check(f, calls=1)


def test_hvp_with_saved_value_without_history():
    def f(x):
        y = x * x
        y[1:]  # a view, so that the tensor itself is saved
        z = pb.sin(y) * y
        y.detach_()
        return (z * x).sum()

    for way in (pb.hvp(f), lambda *_: pb.hessian(f)(X), lambda *_: func.grad(f)(pb.tensor(X))):
        with pytest.raises(RuntimeError, match="detach"):
            way(X, V)


class Square(Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent


def test_hvp_runs_custom_function_once():
    def f(x):
        return (Square.apply(x) * pb.exp(x)).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), (2 + 4 * X + X * X) * np.exp(X) * V)
    check(f, calls=1)


def test_hvp_with_no_grad_inside():
    def f(x):
        with pb.no_grad():
            y = x * x
        return (y * x).sum()

    np.testing.assert_allclose(tangent_of_gradient(f), 2 * X * V)  # tangents do not care
    check(f, calls=2)
    found = functional.hvp(f, pb.tensor(X), pb.tensor(V))[1]
    np.testing.assert_array_equal(found.numpy(), np.zeros(3))  # but two backward passes do


def test_hvp_with_views_made_under_no_grad():
    def f(x):
        with pb.no_grad():
            part = x[1:]
        return (part * part * x[:2]).sum()

    check(f, calls=2)


def test_hvp_with_operations_of_another_thread():
    def f(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(pb.exp(x) * x))
        thread.start()
        thread.join()
        return found[0].sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), (2 + X) * np.exp(X) * V)


def test_error_of_the_function_leaves_no_level():
    levels = []

    def fails(x):
        levels.append(current_level())
        if pb.sin(x).sum().item() < 10:
            raise KeyError("mine")

    counted = counting(fails)
    for call in (lambda: pb.hvp(counted)(X, V), lambda: pb.hessian(counted)(X)):
        with pytest.raises(KeyError, match="mine"):
            call()
        assert get_state() is DEFAULT_STATE
        assert not levels[-1].tape
    assert counted.calls == 2


def test_tangent_tape_is_freed_afterwards():
    levels = []
    pb.hvp(lambda x: levels.append(current_level()) or pb.exp(x).sum())(X, V)
    assert not levels[0].tape
    assert not levels[0].tangents


def test_hvp_of_operators_with_several_results_and_lists():
    def f(x):
        low, high = pb.split(pb.concatenate([x, x * x]), 2)
        values, vectors = pb.linalg.eigh(pb.diag(low) + pb.ones((3, 3)))
        return (pb.stack([values, high]).prod(0) * pb.cumsum(x, 0) * vectors[0] ** 2).sum()

    check(f, calls=1)


def test_hvp_records_transforms_inside():
    def f(x):
        return (func.grad(lambda y: (pb.sin(y) * y).sum())(x) * x).sum()

    def g(x):
        return func.jvp(lambda y: (y * y * x).sum(), (x,), (x * x,))[1]

    check(f, calls=1)
    check(g, calls=1)


# --- what happens beside the notes ----------------------------------------------------------------


def in_no_grad(f):
    def g(x):
        with pb.no_grad():
            y = f(x)
        return (y * x).sum()

    return g


def pulled_without_recording(x):
    return func.vjp(lambda y: y * y, x)[1](x, create_graph=False)[0]


@pytest.mark.parametrize(
    "f",
    [
        in_no_grad(Square.apply),
        in_no_grad(func.grad(lambda y: (y * y * y).sum())),
        in_no_grad(lambda x: pb.hvp(lambda y: (y * y * y).sum())(x, x)),
        lambda x: (pulled_without_recording(x) * x).sum(),
        lambda x: (pb.autograd.grad((x * x * x).sum(), x)[0] * x).sum(),
    ],
)
def test_unrecorded_operations_have_tangents(f):
    assert tangent_of_gradient(f).all()
    check(f, calls=2)


def test_detach_in_place_after_a_tensor_was_used():
    def f(x):
        y = x * x
        z = pb.where(y > 1, y, x)
        y.detach_()
        return (z * z * z * y).sum()

    check(f, calls=2)

    def saves_it(x):
        y = x * x
        y[:2]
        z = y * y
        y.detach_()
        return z.sum()

    for product in (lambda: pb.hvp(saves_it)(X, V), lambda: pb.hessian(saves_it)(X)):
        with pytest.raises(RuntimeError, match="detached in-place"):
            product()


def test_the_data_of_a_constant_is_replaced_after_it_was_used():
    def f(x):
        mask = pb.tensor([True, False, True])
        y = pb.where(mask, pb.exp(x), x * x)
        mask.data = pb.tensor([False, True, False])
        return (y * y).sum()

    check(f, calls=2)


class Tripled(Function):
    @staticmethod
    def forward(x):
        x.numpy()[...] *= 3.0  # which nobody hears of
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(3)


def test_hvp_with_writes_in_user_code():
    def increment(x):
        x.numpy()[...] *= 3.0
        pb.autograd.graph.increment_version(x)

    def f(x, write):
        y = x / (x * x + 1.0)  # the forward formula reads the result, the backward does not
        z = y + 1.0
        write(y)
        return (z * z).sum()

    wanted = tangent_of_gradient(lambda x: f(x, lambda _: None))
    for write in (Tripled.apply, lambda y: increment(y.detach())):
        np.testing.assert_allclose(pb.hvp(f)(X, write, V), wanted, rtol=1e-12)
        np.testing.assert_allclose(pb.hessian(f)(X, write) @ V, wanted, rtol=1e-12)


def test_hvp_with_write_of_another_thread():
    def f(x, factor):
        y = x / (x * x + 1.0)
        z = y + 1.0
        thread = threading.Thread(target=lambda: y.detach().mul_(factor))
        thread.start()
        thread.join()
        return (z * z).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, 3.0, V), pb.hvp(f)(X, 1.0, V), rtol=1e-12)
    np.testing.assert_allclose(pb.hessian(f)(X, 3.0), pb.hessian(f)(X, 1.0), rtol=1e-12)


def filled_one_by_one(x, count=30):
    y = pb.zeros(count)
    for place in range(count):
        y[place] = x[place % 3] * x[0]
    return (y * y).sum()


def beside_a_buffer(x, count):
    buffer = pb.zeros(3)
    for _ in range(count):
        x = pb.sin(x) + buffer
        buffer.add_(0.1)
    return x.sum()


def test_hvp_with_writes_to_parts():
    check(filled_one_by_one, calls=1)


@pytest.mark.parametrize("f", [filled_one_by_one, beside_a_buffer])
def test_cost_of_writes_is_linear(f):
    def steps(count):
        taken = 0

        def step(frame, event, arg):
            nonlocal taken
            taken += 1

        sys.setprofile(step)  # calls, also of functions in C
        try:
            pb.hvp(lambda x: f(x, count))(X, V)
        finally:
            sys.setprofile(None)
        return taken

    steps(10)
    assert steps(400) < 2.2 * steps(200)


# --- autograd.functional, whose functions run as any other ----------------------------------------


class SquareWithContext(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


def with_leaf_inside(x):
    y = pb.tensor([1.0, 2.0, 3.0]).requires_grad_()
    return (pb.autograd.grad((y * y * y).sum(), y)[0] * x**3).sum()


CAPTURED = pb.zeros(3)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (SquareWithContext.apply(x) * x).sum(),
        with_leaf_inside,
        lambda x: (CAPTURED.fill_(2.0) * x**3).sum(),
        lambda x: (functional.vhp(lambda y: (y**3).sum(), x, x, create_graph=True)[1] * x).sum(),
    ],
)
def test_functional_products_accept_what_transforms_refuse(f):
    x, v = pb.tensor(X), pb.tensor(V)
    wanted = functional.hvp(f, x, v, create_graph=True)[1].detach().numpy()
    assert wanted.all()
    for product in (functional.hvp, functional.vhp):
        np.testing.assert_allclose(product(f, x, v)[1].numpy(), wanted)
    hessian = functional.hessian(f, x, vectorize=True).numpy()
    np.testing.assert_allclose(hessian @ V, wanted)


def test_functional_products_through_a_checkpoint():
    def f(x):
        return (checkpoint(lambda y: pb.sin(y) * y, x, use_reentrant=False) * x).sum()

    x, v = pb.tensor(X), pb.tensor(V)
    wanted = functional.hvp(f, x, v, create_graph=True)[1].detach().numpy()
    for product in (functional.hvp, functional.vhp):
        np.testing.assert_allclose(product(f, x, v)[1].numpy(), wanted)
