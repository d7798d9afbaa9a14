"""`retain_grad`: gradients of tensors in the middle of the graph."""

from __future__ import annotations

import gc
import weakref

import pytest


def test_reading_grad_of_non_leaf_warns_unless_retained(lib, recwarn):
    """Rule 1.15."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    assert x.grad is None
    assert not recwarn


def test_retained_grad_of_non_leaf_is_filled(lib):
    """Rule 1.16."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [8.0, 16.0]


def test_retain_grad_does_nothing_on_leaf_and_raises_without_grad(lib):
    """Rule 1.17."""
    x = lib.leaf(1.0, 2.0)
    assert x.retain_grad() is None
    assert not x.retains_grad
    with lib.raises("can't retain_grad"):
        lib.tensor([1.0]).retain_grad()


def test_retained_grad_accumulates_out_of_place(lib):
    """Rule 1.18."""
    x = lib.leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    z = y * 3
    z.backward(retain_graph=True)
    first = y.grad
    assert first.item() == 3.0
    z.backward()
    assert y.grad.item() == 6.0
    assert y.grad is not first
    assert first.item() == 3.0


def test_grad_fills_retained_grad_on_the_path(lib):
    """Rule 1.19."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (found,) = lib.grad((y * 3).sum(), x, retain_graph=True)
    assert found.tolist() == [6.0, 6.0]
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad is None
    lib.grad((y * 3).sum(), y)
    assert y.grad.tolist() == [6.0, 6.0]


def test_retained_tensor_off_the_path_gets_none(lib):
    """Rule 1.20."""
    x, z = lib.leaf(1.0), lib.leaf(2.0)
    y = x * 2
    y.retain_grad()
    (y * z).backward(inputs=[z])
    assert y.grad is None
    assert z.grad.item() == 2.0


def test_retained_grad_follows_in_place_write(lib):
    """Rule 1.21."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [30.0, 30.0]


def test_retained_grad_of_view_follows_write_to_base(lib):
    """Rule 1.22."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    v = y[:1]
    v.retain_grad()
    y.mul_(5)
    v.sum().backward()
    assert v.grad.tolist() == [1.0]
    assert x.grad.tolist() == [10.0, 0.0]


def test_retained_grad_of_base_follows_write_to_view(lib):
    """Rule 1.22."""
    x = lib.leaf(1.0, 2.0)
    y = x * 1
    y.retain_grad()
    v = y[:1]
    v.mul_(2)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [6.0, 3.0]


def test_retained_output_without_gradient_gets_none(lib):
    """Rule 1.23."""
    p, q = (lib.leaf(1.0, 2.0) * 1).unbind()
    q.retain_grad()
    p.backward()
    assert q.grad is None


def test_a_retained_gradient_does_not_keep_its_tensor_alive(pb):
    """Neither by a reference cycle nor through the graph."""
    x = pb.leaf(1.0, 2.0)
    y = x * 2
    v = y[:1]
    v.retain_grad()
    z = (v * 3).sum()
    gone = weakref.ref(v)
    gc.disable()
    try:
        del v
        assert gone() is None
    finally:
        gc.enable()
    z.backward()
    assert x.grad.tolist() == [6.0, 0.0]


def test_a_retained_gradient_is_not_the_users_seed(pb):
    y = pb.leaf(1.0, 2.0) * 1
    y.retain_grad()
    seed = pb.tensor([1.0, 1.0])
    y.backward(seed)
    seed.mul_(100)
    assert y.grad.tolist() == [1.0, 1.0]


def test_retained_grad_of_view_excludes_uses_before_write(lib):
    """Rule 1.22.

    What was computed from the old value does not count, though nobody has looked at the view.
    """
    x = lib.leaf(1.0, 2.0)
    y = x * 1
    v = y[:1]
    v.retain_grad()
    before = v * 5
    v.mul_(2)
    before.sum().backward(retain_graph=True)
    assert v.grad is None
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0]
    assert x.grad.tolist() == [11.0, 0.0]


def test_second_retain_grad_call_keeps_earlier_uses(lib):
    """Rule 1.22.

    A second call does not look at the view, and what has used it meanwhile still counts.
    """
    x = lib.leaf(1.0, 2.0)
    y = x * 1
    v = y[:1]
    v.retain_grad()
    z = (v * 5).sum()
    y.mul_(2)
    v.retain_grad()
    z.backward()
    assert v.grad.tolist() == [5.0]


def batched(pb, y, x, seeds, **options):
    return pb.grad(y, x, pb.tensor(seeds), is_grads_batched=True, retain_graph=True, **options)


ROWS = [[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize("create_graph", [False, True])
def test_batch_of_gradients_leaves_what_a_loop_leaves(pb, create_graph):
    """PyTorch leaves a tensor of its vmap there, which no operation accepts."""
    x = pb.leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    z = y * y
    for row in ROWS:
        pb.grad(z, x, pb.tensor(row), retain_graph=True)
    expected = y.grad.tolist()
    y.grad = None
    batched(pb, z, x, ROWS, create_graph=create_graph)
    assert y.grad.tolist() == expected == [6.0, 32.0]
    assert y.grad.requires_grad is create_graph
    batched(pb, z, x, ROWS)
    z.sum().backward()
    assert y.grad.tolist() == [14.0, 72.0]


def test_batch_of_gradients_for_the_retaining_tensor_itself(pb):
    x = pb.leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    (found,) = batched(pb, y * y, y, ROWS)
    assert found.tolist() == [[2.0, 0.0], [0.0, 8.0], [4.0, 24.0]]
    assert y.grad.tolist() == [6.0, 32.0]


def test_gradient_that_is_the_same_for_all_rows_counts_as_often(pb):
    class Constant(pb.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return pb.tensor([1.0, 5.0])

    x = pb.leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    batched(pb, Constant.apply(y), x, ROWS)
    assert y.grad.tolist() == [3.0, 15.0]


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian_leaves_the_sum_of_its_rows(pb, vectorize):
    kept = []

    def function(x):
        y = x * x
        y.retain_grad()
        kept.append(y)
        return y * y

    pb.autograd.functional.jacobian(function, pb.tensor([1.0, 2.0]), vectorize=vectorize)
    assert kept[0].grad.tolist() == [2.0, 8.0]
