"""Gradients of which only sums are made: the same numbers, and whole where somebody looks."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.graph import pre_reduced_cotangent
from pullback.errors import AutogradError

K, D, N = 3, 4, 300  # more than 2,048 elements, so that products are not simply made


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def parameter(*shape, seed=1, dtype=None):
    return pb.tensor(numbers(*shape, seed=seed), dtype=dtype).requires_grad_()


@pytest.fixture
def made(monkeypatch):
    """The shapes of all sums that are made."""
    shapes = []
    first = pre_reduced_cotangent.PreReducedCotangent.__init__

    def note(self, total, shape):
        shapes.append((total.shape, shape))
        first(self, total, shape)

    monkeypatch.setattr(pre_reduced_cotangent.PreReducedCotangent, "__init__", note)
    return shapes


POINTS = pb.tensor(numbers(K, D, N, seed=2))
SQUARE = pb.tensor(numbers(K, D, D, seed=3))
WIDE = pb.tensor(numbers(K, N, 200, seed=4))
USES = {
    "a factor that is constant": (lambda c: c * SQUARE[:, :, :1], (K, D, 1)),
    "a factor that varies": (lambda c: pb.sin(POINTS) * c, (K, D, 1)),
    "the second matrix": (lambda c: SQUARE @ c, (K, D, 1)),
    "the second matrix for many": (lambda c: SQUARE[0] @ c, (K, D, 1)),
    "the first matrix": (lambda c: c @ WIDE, (K, 1, N)),
    "the first matrix for many": (lambda c: c @ WIDE[1], (K, 1, N)),
    "two products": (lambda c: c * SQUARE[:, :, :1] + SQUARE @ c, (K, D, 1)),
    "a product and itself": (lambda c: c * pb.cos(POINTS) + c, (K, D, 1)),
    "itself and a product": (lambda c: pb.tanh(c) + pb.cos(POINTS) * c, (K, D, 1)),
    "a slice and a product": (lambda c: c * POINTS + pb.exp(c[:, 1:2]), (K, D, 1)),
    "fewer axes": (lambda c: c * POINTS, (D, 1)),
    "one axis": (lambda c: c * POINTS, (N,)),
    "something larger": (lambda c: c * pb.tensor(numbers(2, 1, 1, N)), (K, D, 1)),
}


def gradient(use, shape, watch):
    mean = parameter(*shape)
    centered = POINTS - mean
    if watch:
        centered.register_hook(lambda _: None)
    pb.sum(pb.sin(use(centered))).backward()
    return mean.grad.numpy()


@pytest.mark.parametrize("name", USES)
def test_sums_are_those_of_the_whole_gradient(name, made):
    use, shape = USES[name]
    whole = gradient(use, shape, watch=True)
    assert not made
    np.testing.assert_allclose(gradient(use, shape, watch=False), whole, rtol=1e-11, atol=1e-12)
    assert (shape, (K, D, N)) in made


@pytest.mark.parametrize("combine", [lambda m: m + POINTS, lambda m: m - POINTS])
def test_both_operands_may_be_the_repeated_one(combine, made):
    mean = parameter(K, D, 1)
    pb.sum(combine(mean) * POINTS).backward()
    np.testing.assert_allclose(mean.grad.numpy(), POINTS.numpy().sum(2, keepdims=True))
    assert made


def test_another_dtype_of_the_repeated_operand(made):
    mean = parameter(K, D, 1, dtype=pb.float32)
    pb.sum((POINTS - mean) * POINTS).backward()
    assert mean.grad.dtype == np.float32
    expected = -POINTS.numpy().sum(2, keepdims=True)
    np.testing.assert_allclose(mean.grad.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert made


def test_two_operands_with_gradients_get_them_whole(made):
    points, mean = parameter(K, D, N, seed=5), parameter(K, D, 1)
    pb.sum((points - mean) * POINTS).backward()
    assert points.grad.shape == (K, D, N)
    assert not made


def test_hooks_and_retained_gradients_see_the_whole(made):
    mean = parameter(K, D, 1)
    seen = []
    hooked = POINTS - mean
    hooked.register_hook(lambda grad: seen.append(grad.shape))
    retained = POINTS + mean
    retained.retain_grad()
    before = POINTS - mean
    before.grad_fn.register_prehook(lambda grads: seen.append(grads[0].shape))
    pb.sum(hooked * POINTS + SQUARE @ retained + before * POINTS).backward()
    assert seen == [(K, D, N)] * 2
    assert retained.grad.shape == (K, D, N)
    assert not made


def test_requested_gradient_has_its_full_size(made):
    centered = POINTS - parameter(K, D, 1)
    (grad,) = pb.autograd.grad(pb.sum(centered * POINTS), centered)
    np.testing.assert_array_equal(grad.numpy(), POINTS.numpy())
    assert not made


def test_a_hook_elsewhere_leaves_sums_as_they_are(made):
    mean, other = parameter(K, D, 1), parameter(K, D, N, seed=6)
    doubled = pb.exp(other)
    doubled.register_hook(lambda grad: 2 * grad)
    centered = POINTS - mean
    pb.sum(centered * POINTS + pb.sin(doubled) * 0 + pb.sin(centered)).backward()
    expected = -(POINTS + pb.cos(POINTS - mean)).detach().numpy().sum(2, keepdims=True)
    np.testing.assert_allclose(mean.grad.numpy(), expected, rtol=1e-11)
    assert made


def test_a_hook_registered_during_the_pass_is_refused():
    mean = parameter(K, D, 1)
    centered = POINTS - mean

    class Late(pb.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x * 1.0

        @staticmethod
        def backward(_, grad):
            centered.register_hook(lambda _: None)
            return grad

    late = Late.apply(pb.sum(mean))
    with pytest.raises(AutogradError, match="before the pass begins"):
        (pb.sum(centered * POINTS) + late).backward()
    assert mean.grad is None


def test_second_derivatives():
    def loss(mean):
        centered = POINTS - mean
        return pb.sum(pb.tanh(centered * SQUARE[:, :, :1] + SQUARE @ centered))

    mean, direction = parameter(K, D, 1), numbers(K, D, 1, seed=7)
    (first,) = pb.autograd.grad(loss(mean), mean, create_graph=True)
    (expected,) = pb.autograd.grad(pb.sum(first * pb.tensor(direction)), mean)
    found = pb.hvp(loss)(mean.detach(), pb.tensor(direction))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10)
    (plain,) = pb.autograd.grad(loss(mean), mean)
    np.testing.assert_allclose(first.detach().numpy(), plain.numpy(), rtol=1e-11)
