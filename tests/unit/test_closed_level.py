"""Second derivatives from notes: what is noted, and what the notes cannot say."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pullback as pb
from pullback import func
from pullback.autograd import functional
from pullback.autograd.closed_level import closed_level
from pullback.autograd.function import Function
from pullback.dispatch.modes import DEFAULT_STATE, get_state

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


def test_a_constant_is_written_to_after_it_was_used():
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
        pb.hvp(saves_it)(X, V)  # as in any backward pass


def test_a_write_to_what_depends_on_the_argument():
    def f(x):
        y = x * x
        z = pb.exp(y)
        y.mul_(x)
        return (y * z).sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pb.hvp(lambda x: (pb.sin(y := x * x) * y.mul_(x)).sum())(X, V)
    check(f, calls=1)


def test_what_was_saved_has_lost_its_history():
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
    def setup_context(ctx, inputs, output):  # noqa: ARG004 - the interface
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


def test_a_function_of_the_users_needs_no_second_run():
    def f(x):
        return (Square.apply(x) * pb.exp(x)).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), (2 + 4 * X + X * X) * np.exp(X) * V)
    check(f, calls=1)


def test_recording_turned_off_for_a_while():
    def f(x):
        with pb.no_grad():
            y = x * x
        return (y * x).sum()

    np.testing.assert_allclose(tangent_of_gradient(f), 2 * X * V)  # tangents do not care
    check(f, calls=2)
    found = functional.hvp(f, pb.tensor(X), pb.tensor(V))[1]
    np.testing.assert_array_equal(found.numpy(), np.zeros(3))  # but two backward passes do


def test_views_made_while_recording_is_off():
    def f(x):
        with pb.no_grad():
            part = x[1:]
        return (part * part * x[:2]).sum()

    check(f, calls=2)


def test_operations_of_another_thread():
    def f(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(pb.exp(x) * x))
        thread.start()
        thread.join()
        return found[0].sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), (2 + X) * np.exp(X) * V)


def test_an_error_of_the_function_comes_at_once_and_leaves_nothing():
    def fails(x):
        if pb.sin(x).sum().item() < 10:
            raise KeyError("mine")

    counted = counting(fails)
    for call in (lambda: pb.hvp(counted)(X, V), lambda: pb.hessian(counted)(X)):
        with pytest.raises(KeyError, match="mine"):
            call()
        assert get_state() is DEFAULT_STATE
        assert not closed_level().notes
    assert counted.calls == 2


def test_notes_are_gone_afterwards():
    pb.hvp(lambda x: pb.exp(x).sum())(X, V)
    assert not closed_level().notes
    assert not closed_level().tangents


def test_several_results_and_lists():
    def f(x):
        low, high = pb.split(pb.concatenate([x, x * x]), 2)
        values, vectors = pb.linalg.eigh(pb.diag(low) + pb.ones((3, 3)))
        return (pb.stack([values, high]).prod(0) * pb.cumsum(x, 0) * vectors[0] ** 2).sum()

    check(f, calls=1)


def test_a_transform_inside_is_noted_as_well():
    def f(x):
        return (func.grad(lambda y: (pb.sin(y) * y).sum())(x) * x).sum()

    def g(x):
        return func.jvp(lambda y: (y * y * x).sum(), (x,), (x * x,))[1]

    check(f, calls=1)
    check(g, calls=1)
