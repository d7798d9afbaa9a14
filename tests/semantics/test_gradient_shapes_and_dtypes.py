"""Gradients have the shape and dtype of their value, own their memory, and are summed."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb


def leaf(*values):
    return pb.tensor(list(values), requires_grad=True)


def test_a_cast_to_complex_numbers_narrows_its_gradient():
    x = leaf(1 + 2j, 3 - 1j)
    c = pb.tensor(np.array([1 + 3j, 2 - 5j]))
    (x.real.astype(pb.complex128) * c).imag.sum().backward()
    assert x.grad.tolist() == [3, -5]


def test_a_write_is_not_added_into_a_gradient_that_another_node_holds():
    class Add(pb.autograd.Function):
        @staticmethod
        def forward(ctx, p, q, v):
            ctx.mark_dirty(v)
            v.add_(p + q)
            return v

        @staticmethod
        def backward(ctx, grad):
            return grad, grad, grad

    w, u = leaf(1.0, 2.0), leaf(1.0, 2.0)
    a, p = w * 1, u * 1
    Add.apply(p, a, a[:])
    a.sum().backward()
    assert (u.grad.tolist(), w.grad.tolist()) == ([1.0, 1.0], [2.0, 2.0])


def test_no_gradient_flows_on_as_none():
    class First(pb.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    w = leaf(1.0, 2.0)
    h = w * 3
    First.apply(h * 1.0, pb.exp(h)).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_a_mapped_pull_that_reaches_nothing_gives_zeros():
    y = pb.tensor([1.0, 2.0])

    def gradient(b):
        return pb.func.grad(lambda z: z[0] * z[1] + b.sum())(y)

    rows = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = pb.func.vmap(lambda r: pb.func.vjp(gradient, r)[1](r)[0])(rows)
    assert found.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_write_to_gradient_that_is_a_view_of_the_seed_is_counted():
    w, x = leaf(1.0, 1.0), leaf(1.0, 1.0)
    seed = pb.ones((1, 2))
    z = (w.reshape((1, 2)) * seed).sum()
    (found,) = pb.autograd.grad(x.reshape((1, 2)), x, seed)
    found.mul_(5.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize("lib", ["pullback", pytest.param("torch", marks=pytest.mark.oracle)])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_data_of_another_shape_does_not_change_the_shape_of_a_gradient(lib, shape):
    xp = pytest.importorskip(lib)
    x = xp.ones(shape, requires_grad=True)
    z = (x * x).sum()
    x.data = xp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    (grad,) = xp.autograd.grad(z, [x])
    assert grad.tolist() == ([10.0, 14.0, 18.0] if shape else 42.0)
    x = xp.ones(3, requires_grad=True)
    y = x * 1.0
    total = (y * y * 2 + y).sum()
    seen = []
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.data = xp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    (grad,) = xp.autograd.grad(total, [x])
    assert seen == [grad.tolist()] == [[21.0, 29.0, 37.0]]


def test_data_of_another_dtype_does_not_change_the_dtype_of_a_gradient():
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    z = (x * x).sum()
    x.data = pb.tensor([1.0, 2j])
    (grad,) = pb.autograd.grad(z, [x])
    assert grad.dtype == pb.float64
    assert grad.tolist() == [2.0, 0.0]


@pytest.mark.parametrize("dtype", [None, np.dtype(np.float32)])
def test_elements_of_a_leaf_that_takes_gradients_of_another_dtype(dtype):
    x = leaf(1.0, 2.0, 3.0)
    x.grad_dtype = dtype
    expected = np.dtype(np.float64) if dtype is None else dtype
    for loss, wanted in [(x[0] * 2, [2, 0, 0]), (x[0] * 2 + x[1], [2, 1, 0])]:
        (grad,) = pb.autograd.grad(loss, [x], retain_graph=True)
        assert grad.tolist() == wanted
        assert grad.dtype == expected
        x.grad = None
        loss.backward()
        assert x.grad.tolist() == wanted
        assert x.grad.dtype == expected
