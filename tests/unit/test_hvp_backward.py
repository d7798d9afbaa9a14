"""The backward pass of a Hessian product: which tangents it omits, and which it must not."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import func

RNG = np.random.default_rng(0)
X, V, A = RNG.normal(size=4), RNG.normal(size=4), RNG.normal(size=(3, 4))


def writes_last(x):
    y = (x * x * x).sum()
    y.mul_(x[0])
    return y


def straight_beside_bent(x):
    line = pb.tensor(A) @ (2.0 - x)
    return (line * 3.0).sum() + (pb.tanh(line) * line).sum() - x[1:].sum()


def many_ways(x):
    for _ in range(40):  # 2^40 paths, which must not be gone one by one
        x = x * 0.5 + pb.sin(x) * x * 0.1
    return x.sum()


@pytest.mark.parametrize("f", [writes_last, straight_beside_bent, many_ways])
def test_products_and_hessians_are_those_of_two_passes(f):
    product = func.vjp(func.grad(f), pb.tensor(X))[1](pb.tensor(V))[0].numpy()
    np.testing.assert_allclose(pb.hvp(f)(X, V), product, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(pb.hessian(f)(X) @ V, product, rtol=1e-10, atol=1e-12)


def test_hooks_get_gradient_without_tangent():
    seen = []

    def f(x):
        y = x * 3.0
        y.register_hook(lambda grad: seen.append(1) or grad * 2)
        return y.sum() + (x * x).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), 2 * V)
    assert seen


def test_what_requires_no_grad_may_still_have_a_tangent():
    constant = pb.tensor(A[0])

    def f(x):
        steady = constant * x  # the same operator, with a factor that does not change
        with pb.no_grad():
            factor = x * x
        return steady.sum() + (factor * x).sum() + (x * factor).sum()

    np.testing.assert_allclose(pb.hvp(f)(X, V), 4 * X * V)
    np.testing.assert_allclose(pb.hessian(f)(X), np.diag(4 * X))


@pytest.mark.parametrize("f", [lambda x: (2 * x).sum(), lambda x: pb.exp(x * x).sum()])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_a_product_has_the_dtype_of_the_argument(f, shape):
    for own, other in [(np.float32, np.float64), (np.float64, np.float32)]:
        product = pb.hvp(f)(pb.ones(shape, dtype=own), pb.ones(shape, dtype=other))
        assert (product.dtype, product.shape) == (own, shape)
