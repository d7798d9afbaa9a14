"""How gradients arrive in the `.grad` of a leaf."""

from __future__ import annotations

import numpy as np
import pytest


def test_first_gradient_is_stored_without_requiring_grad(lib):
    """Rule 1.32."""
    x = lib.leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert not x.grad.requires_grad


def test_second_gradient_is_added_in_place(lib):
    """Rule 1.33."""
    x = lib.leaf(1.0, 2.0)
    (x * 2).sum().backward()
    g = x.grad
    view = g[:1]
    assert g._version == 0
    (x * 3).sum().backward()
    assert x.grad is g
    assert g._version == 1
    assert g.tolist() == [5.0, 5.0]
    assert view.tolist() == [5.0]


def test_create_graph_accumulates_out_of_place_and_warns(lib):
    """Rule 1.34."""
    x = lib.leaf(1.0, 2.0)
    (x * x).sum().backward()
    old = x.grad
    with pytest.warns(UserWarning, match="create_graph=True") as caught:
        (x * x).sum().backward(create_graph=True)
    assert len(caught) == 1
    assert old.tolist() == [2.0, 4.0]
    assert x.grad is not old
    assert x.grad.tolist() == [4.0, 8.0]
    assert x.grad.grad_fn is not None
    x.grad = None


def test_plain_pass_after_create_graph_adds_in_place(lib):
    """Rule 1.35."""
    x = lib.leaf(1.0, 2.0)
    with pytest.warns(UserWarning, match="create_graph=True"):
        (x * x).sum().backward(create_graph=True)
    g = x.grad
    (x * x).sum().backward()
    assert x.grad is g
    assert g.requires_grad
    assert g.tolist() == [4.0, 8.0]
    x.grad = None


def strides_in_elements(lib, tensor):
    return tensor.stride() if lib.is_torch else tuple(s // tensor.itemsize for s in tensor.strides)


def test_grad_has_strides_of_dense_leaf(lib):
    """Rule 1.36."""
    rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    transposed = lib.tensor(rows).T.detach().requires_grad_()
    (transposed * 2).sum().backward()
    assert strides_in_elements(lib, transposed.grad) == (1, 3)
    gaps = lib.tensor([row * 2 for row in rows])[:, :3].detach().requires_grad_()
    assert strides_in_elements(lib, gaps) == (6, 1)
    gaps.sum().backward()
    assert strides_in_elements(lib, gaps.grad) == (3, 1)
    expanded = lib.broadcast_to(lib.tensor(rows[0]), (2, 3)).detach().requires_grad_()
    expanded.sum().backward()
    assert strides_in_elements(lib, expanded.grad) == (3, 1)
    expanded.grad.mul_(2)
    assert expanded.grad.tolist() == [[2.0] * 3] * 2


def test_grad_is_copy_of_the_seed(lib):
    """Rule 1.37."""
    g = lib.tensor([1.0, 1.0])
    x = lib.leaf(1.0, 2.0)
    x.backward(g)
    assert x.grad is not g
    for through in (lambda x: x + 0, lambda x: x - 1, lambda x: x.clone()):
        y = lib.leaf(1.0, 2.0)
        through(y).backward(g)
        g.mul_(100)
        assert y.grad.tolist() == [1.0, 1.0]
        g.mul_(0.01)
    z = lib.leaf(3.0, 4.0)
    (y + z).backward(g)
    y.grad.zero_()
    assert z.grad.tolist() == [1.0, 1.0]


def test_grads_through_views_share_no_memory(pb):
    """Rule 1.38. PyTorch lets these gradients share memory, and gives [6, 6]."""
    x, z = pb.leaf(1.0, 2.0), pb.leaf(3.0, 4.0)
    for _ in range(2):
        ((x.reshape(2) + z.reshape(2)) * 2).sum().backward()
    assert x.grad.tolist() == z.grad.tolist() == [4.0, 4.0]
    assert not np.shares_memory(x.grad.numpy(), z.grad.numpy())
    x, g = pb.leaf(1.0, 2.0), pb.tensor([[1.0, 1.0]])
    x.reshape(1, 2).backward(g)
    g.mul_(100)
    assert x.grad.tolist() == [1.0, 1.0]


def test_grad_may_return_the_seed_itself(lib):
    """Rule 1.39."""
    x, z, g = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0), lib.tensor([1.0, 1.0])
    first, second = lib.grad(x + z, [x, z], g)
    assert first is second
    assert lib.grad(x, x, g)[0] is g


def test_accumulation_into_expanded_grad_raises(lib):
    """Rule 1.40."""
    x = lib.leaf(1.0, 2.0)
    x.grad = lib.broadcast_to(lib.tensor([1.0]), (2,))
    with lib.raises("more than one element of the written-to tensor refers"):
        x.sum().backward()
    x.grad = lib.leaf(1.0, 1.0)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert x.grad.requires_grad


def test_gradient_has_dtype_of_leaf(lib):
    """Rule 1.41."""
    x = lib.tensor([1.0, 2.0], "float32", requires_grad=True)
    (lib.cast(x, "float64") * lib.tensor([3.0, 4.0])).sum().backward()
    assert x.grad.dtype == lib.dtype("float32")
    assert x.grad.tolist() == [3.0, 4.0]
    y = lib.leaf(5.0, 6.0)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (lib.dtype("float32"), lib.dtype("float64"))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_gradient_cast_to_half_may_overflow(lib):
    """Rule 1.41."""
    h = lib.tensor([1.0], "float16", requires_grad=True)
    (lib.cast(h, "float32") * 1e5).sum().backward()
    assert h.grad.dtype == lib.dtype("float16")
    assert h.grad.tolist() == [float("inf")]


def test_broadcast_gradients_are_summed_to_shape(lib):
    """Rule 1.42."""
    a = lib.tensor([[1.0], [1.0]], requires_grad=True)
    b = lib.leaf(1.0, 1.0, 1.0)
    (a * b).sum().backward()
    assert a.grad.tolist() == [[3.0], [3.0]]
    assert b.grad.tolist() == [2.0, 2.0, 2.0]


def test_gradients_of_mixed_dtypes_have_dtype_of_their_leaf(lib):
    """Rule 1.42.

    The dtype of the product is each library's own; gradients have the dtype of their leaf.
    """
    number = lib.tensor(2.0, "float32", requires_grad=True)
    vector = lib.tensor([1.0, 2.0], "float16", requires_grad=True)
    product = number * vector
    assert product.dtype == lib.dtype("float16" if lib.is_torch else "float32")
    product.sum().backward()
    assert (number.grad.dtype, vector.grad.dtype) == (number.dtype, vector.dtype)
    assert (number.grad.item(), vector.grad.tolist()) == (3.0, [2.0, 2.0])


def test_undefined_gradient_leaves_grad_none(lib):
    """Rule 1.43."""

    class Nothing(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    x = lib.leaf(1.0, 2.0)
    Nothing.apply(x).sum().backward()
    assert x.grad is None
