"""Writes to views and bases; several views from one call; memory that overlaps."""

from __future__ import annotations

import numpy as np
import pytest


def test_write_to_view_rewrites_base(lib):
    """Rule 4.12."""
    w, c = lib.leaf(1.0, 2.0, 3.0), lib.leaf(10.0)
    a = w * 1
    old = a.grad_fn
    v = a[:2]
    v.mul_(c)
    assert a.grad_fn.name().endswith("CopySlices")
    assert a.grad_fn.next_functions[0][0] is old
    assert len(a.grad_fn.next_functions) == 2
    assert v.grad_fn.next_functions[0][0] is a.grad_fn
    a.sum().backward()
    assert w.grad.tolist() == [10.0, 10.0, 1.0]
    assert c.grad.item() == 3.0


def test_write_through_chained_views_rewrites_base(lib):
    """Rule 4.13."""
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    v = a.reshape(2, 2)
    u = v[0]
    u.mul_(10)
    (v * lib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad.tolist() == [10.0, 20.0, 3.0, 4.0]


def test_write_through_transpose_rewrites_base(lib):
    """Rule 4.13."""
    m = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    a = lib.tensor([0.0] * 4)
    a.reshape(2, 2).T.copy_(m)
    (a * lib.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert m.grad.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_write_through_diagonal_rewrites_base(lib):
    """Rule 4.13."""
    m = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    a = m * 1
    a.diagonal().mul_(10)
    a.sum().backward()
    assert m.grad.tolist() == [[10.0, 1.0], [1.0, 10.0]]


def test_write_through_strided_slice_rewrites_base(lib):
    """Rule 4.13."""
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    a[::2].exp_()
    a.sum().backward()
    np.testing.assert_allclose(w.grad.tolist(), [np.e, 1.0, np.e**3, 1.0])


def test_writes_to_overlapping_siblings_compose(lib):
    """Rule 4.14."""
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    a[:2].mul_(10)
    a[1:3].mul_(3)
    a.sum().backward()
    assert w.grad.tolist() == [10.0, 30.0, 3.0, 1.0]


def test_write_to_base_renews_history_of_views(lib):
    """Rule 4.15."""
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    a = w * 1
    v = a.reshape(2, 2)
    before = v.grad_fn
    assert v.grad_fn is before
    a.mul_(5)
    assert v.grad_fn is not before
    (v[0] * lib.tensor([1.0, 2.0])).sum().backward()
    assert w.grad.tolist() == [5.0, 10.0, 0.0, 0.0]


def test_history_spreads_between_plain_base_and_view(lib):
    """Rule 4.16."""
    w = lib.leaf(3.0, 4.0)
    a = lib.tensor([1.0, 1.0])
    v = a[:1]
    a.mul_(w)
    v.sum().backward()
    assert w.grad.tolist() == [1.0, 0.0]
    b = lib.tensor([1.0, 1.0])
    b[:1].mul_(w[:1])
    assert b.requires_grad
    b.sum().backward()
    assert w.grad.tolist() == [2.0, 0.0]


def test_earlier_result_of_view_keeps_its_state(lib):
    """Rule 4.17."""
    w, b = lib.leaf(1.0, 2.0), lib.leaf(3.0)
    a = w * 1
    v = a[:1]
    v.mul_(b)
    y = v * 1
    a.mul_(2)
    y.sum().backward()
    assert (w.grad.tolist(), b.grad.item()) == ([3.0, 0.0], 1.0)


def test_setitem_builds_graph(lib):
    """Rule 4.18."""
    w, b = lib.leaf(1.0, 2.0), lib.leaf(3.0)
    a = lib.tensor([0.0, 0.0, 0.0])
    a[:2] = w
    a[2] = b
    (a * lib.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert (w.grad.tolist(), b.grad.item()) == ([1.0, 2.0], 3.0)
    w.grad = None
    a = lib.tensor([0.0, 0.0, 0.0])
    a[:2] = w
    a[0] = 7.0
    a.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0]


def test_setitem_by_integer_list(lib):
    """Rule 4.19."""
    w, c = lib.leaf(1.0, 2.0, 3.0), lib.leaf(5.0, 6.0)
    a = w * 1
    a[[0, 1]] = c
    a.sum().backward()
    assert (w.grad.tolist(), c.grad.tolist()) == ([0.0, 0.0, 1.0], [1.0, 1.0])
    w.grad = c.grad = None
    a = w * 1
    a.index_put_([lib.tensor([0, 0], "int64")], c, accumulate=True)
    assert a.tolist() == [12.0, 2.0, 3.0]
    a.sum().backward()
    assert (w.grad.tolist(), c.grad.tolist()) == ([1.0, 1.0, 1.0], [1.0, 1.0])


def test_last_write_to_duplicate_index_gets_gradient(pb):
    """Rule 4.20.

    Undefined in PyTorch; in NumPy, and so here, the last of two writes to one element wins.
    """
    w, v = pb.leaf(1.0, 2.0, 3.0), pb.leaf(5.0, 6.0)
    a = w * 1
    a[[0, 0]] = v
    assert a.tolist() == [6.0, 2.0, 3.0]
    (a * 2).sum().backward()
    assert (w.grad.tolist(), v.grad.tolist()) == ([0.0, 2.0, 2.0], [0.0, 2.0])


def test_setitem_by_bool_mask(lib):
    """Rule 4.21."""
    w, v = lib.leaf(1.0, 2.0, 3.0), lib.leaf(9.0)
    a = w * 1
    a[w > 1] = v
    a.sum().backward()
    assert (w.grad.tolist(), v.grad.item()) == ([1.0, 0.0, 0.0], 2.0)
    w.grad = None
    a = w * 1
    a[w > 1] *= 10
    a.sum().backward()
    assert w.grad.tolist() == [1.0, 10.0, 10.0]


def test_second_derivative_through_written_view(lib):
    """Rule 4.22."""
    w = lib.leaf(2.0, 3.0)
    a = w * 1
    a[:1].mul_(w[1])
    (g,) = lib.grad((a**2).sum(), w, create_graph=True)
    assert g.tolist() == [36.0, 30.0]
    rows = [lib.grad(part, w, retain_graph=True)[0].tolist() for part in (g[0], g[1])]
    assert rows == [[18.0, 24.0], [24.0, 10.0]]


def test_rows_of_iteration_can_be_written(pb):
    """Rule 4.23. PyTorch refuses to write to one of several views that one call has made."""
    w = pb.leaf([[1.0, 2.0], [3.0, 4.0]])
    a = w * 1
    for number, row in enumerate(a):
        row.mul_(number + 10)
    assert a.tolist() == [[10.0, 20.0], [33.0, 44.0]]
    (a * pb.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad.tolist() == [[10.0, 20.0], [33.0, 44.0]]


def test_write_to_unbound_part_of_leaf_raises(lib):
    """Rule 4.23."""
    a = lib.leaf(1.0, 2.0)
    p, _ = a.unbind()
    with pytest.raises(RuntimeError):
        p.mul_(2)
    assert a.tolist() == [1.0, 2.0]


def test_unbound_part_takes_history_of_operand(pb):
    """Rule 4.23."""
    b, c = pb.leaf(5.0), pb.tensor([1.0, 2.0])
    p, q = c.unbind()
    p.mul_(b)
    (p * 10 + q).backward()
    assert b.grad.item() == 10.0
    assert (c.requires_grad, q.requires_grad) == (True, True)


def test_slice_of_unbound_part_can_be_written(pb):
    """Rule 4.23."""
    w = pb.leaf([[1.0, 2.0], [3.0, 4.0]])
    first, _ = (w * 1).unbind()
    first[1:].exp_()
    first.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [[1.0, np.e**2], [0.0, 0.0]])


def test_second_derivative_through_written_rows(pb):
    """Rule 4.23."""
    w = pb.leaf(2.0, 3.0)
    a = w * 1
    for row in a:
        row.pow_(3)
    (g,) = pb.grad(a.sum(), w, create_graph=True)
    assert g.tolist() == [12.0, 27.0]
    assert pb.grad(g.sum(), w)[0].tolist() == [12.0, 18.0]


def test_unbound_parts_follow_write_to_base(pb):
    """Rule 4.24. PyTorch refuses to use such a view once its base has been written to."""
    w = pb.leaf(1.0, 2.0)
    a = w * 1
    p, q = a.unbind()
    a.mul_(5)
    assert (p.item(), p.grad_fn.name(), q.output_nr) == (5.0, "GetitemBackward0", 0)
    (p + 2 * q).backward()
    assert w.grad.tolist() == [5.0, 10.0]


def test_unbound_part_written_under_no_grad_keeps_history(pb):
    """Rule 4.25. After a write under no_grad the history is as it was, as with any other view."""
    w = pb.leaf(1.0, 2.0)
    a = w * 1
    p, _ = a.unbind()
    with pb.no_grad():
        p.mul_(5)
    assert (a.tolist(), a._version) == ([5.0, 2.0], 1)
    assert "grad_fn=<UnbindBackward0>" in repr(p)
    p.backward()
    assert w.grad.tolist() == [1.0, 0.0]


def test_outputs_of_unbind_share_one_node(lib):
    """Rule 4.27."""
    w = lib.leaf(1.0, 2.0, 3.0)
    p, q, _ = (w * 1).unbind()
    assert p.grad_fn is q.grad_fn
    assert (p.output_nr, q.output_nr) == (0, 1)
    (p * 2).backward()
    assert w.grad.tolist() == [2.0, 0.0, 0.0]


def test_one_view_of_a_list_of_one(lib):
    w = lib.vector(3.0)
    (only,) = w.unbind()
    (only * 2).backward()
    assert w.grad.tolist() == [2.0]


def test_gradients_of_single_elements_add_up_in_their_places(pb):
    """Two slices with integers only, one of them read twice."""
    w = pb.leaf(1.0, 2.0, 3.0)
    a = w * 1
    (a[0] * a[0] + a[2] * 5.0 + a[0]).backward()
    assert w.grad.tolist() == [3.0, 0.0, 5.0]
