"""Derivatives of checkpointed loops beyond one plain backward pass."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback.utils.checkpoint import checkpoint_loop


def plain_loop(step, state, n, budget):
    for _ in range(n):
        state = step(state)
    return state


def leaf():
    return pb.tensor([1.0, 2.0], requires_grad=True)


def higher_orders(loop):
    """First, second and third derivatives by the state and by what the steps capture."""
    x, w = leaf(), pb.tensor([[0.5, -0.3], [0.2, 0.7]], requires_grad=True)
    u = w * 1.5  # captured like w, which it depends on

    def step(state):
        y, total, count = state
        return pb.sin(u @ y) + y * w[0], total * y.sum() + 0.1, count + 1

    y, total, _ = loop(step, (x * 2, x[0], 0), 7, 100)
    value = (y**2).sum() * total
    orders = [pb.autograd.grad(value, [x, w], create_graph=True)]
    for _ in range(2):
        value = sum((g * g).sum() for g in orders[-1])
        orders.append(pb.autograd.grad(value, [x, w], create_graph=True))
    return [[g.detach().numpy() for g in order] for order in orders]


def test_derivatives_of_any_order_are_those_of_the_plain_loop():
    expected, found = higher_orders(plain_loop), higher_orders(checkpoint_loop)
    np.testing.assert_array_equal(found[0][0], expected[0][0])
    np.testing.assert_array_equal(found[0][1], expected[0][1])
    for order, wanted in zip(found[1:], expected[1:], strict=True):
        for got, want in zip(order, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)


def test_second_derivatives_of_nested_loops_and_of_random_steps():
    def step(s):
        noise = pb.tensor(np.random.rand(2))
        return checkpoint_loop(lambda inner: pb.sin(inner * s) + noise, s * 1, 2, 16)

    def plain(s):
        noise = pb.tensor(np.random.rand(2))
        return plain_loop(lambda inner: pb.sin(inner * s) + noise, s * 1, 2, 16)

    found = []
    for loop, body in ((plain_loop, plain), (checkpoint_loop, step)):
        np.random.seed(3)
        x = leaf()
        (g,) = pb.autograd.grad(loop(body, x, 3, 16).sum(), x, create_graph=True)
        (h,) = pb.autograd.grad((g * g).sum(), x)
        found.append((g.detach().numpy(), h.numpy(), np.random.rand()))
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_batches_of_gradients_and_tangents_pass_the_loop():
    def jacobian(loop, **options):
        def f(x):
            return loop(lambda s: pb.sin(s) * s.sum(), x, 5, 16)

        return pb.autograd.functional.jacobian(f, leaf().detach(), **options).numpy()

    want = jacobian(plain_loop)
    np.testing.assert_array_equal(jacobian(checkpoint_loop), want)
    np.testing.assert_allclose(jacobian(checkpoint_loop, vectorize=True), want, rtol=1e-14)
    found = []
    for loop in (plain_loop, checkpoint_loop):
        x = leaf()
        y = loop(lambda s: pb.sin(s) * s.sum(), x, 5, 16)
        with pb.autograd.forward_ad.dual_level():
            seed = pb.autograd.forward_ad.make_dual(pb.ones(2), pb.tensor([1.0, -1.0]))
            (gradient,) = pb.autograd.grad(y, x, seed)
            found.append([t.tolist() for t in pb.autograd.forward_ad.unpack_dual(gradient)])
    assert found[0] == found[1]
