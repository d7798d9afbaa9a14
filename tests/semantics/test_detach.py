"""`detach`, `detach_` and `.data`; and the attribute `.grad`."""

from __future__ import annotations

import pytest


def test_detach_shares_memory_and_version_counter(lib):
    """Rule 1.24."""
    x = lib.leaf(1.0, 2.0)
    d = x.detach()
    assert (d.requires_grad, d.is_leaf, d._is_view(), d._base) == (False, True, False, None)
    d.add_(1)
    assert x.tolist() == [2.0, 3.0]
    assert d._version == x._version == 1


def test_write_through_detach_is_detected(lib, words):
    """Rule 1.25."""
    x = lib.leaf(1.0, 2.0)
    y = (x * x).sum()
    x.detach().add_(1)
    assert x._version == 1
    with lib.raises(words.version):
        y.backward()


def test_write_through_data_is_not_counted(lib):
    """Rule 1.26."""
    x = lib.leaf(1.0, 2.0)
    x.data.add_(1)
    assert x.tolist() == [2.0, 3.0]
    assert x._version == 0


def test_assigning_data_keeps_flags_and_version(lib):
    """Rule 1.27."""
    x = lib.leaf(1.0, 2.0)
    x.data = lib.tensor([1.0, 2.0, 3.0], "float32")
    assert (x.requires_grad, x._version, x.tolist()) == (True, 0, [1.0, 2.0, 3.0])
    with lib.raises("floating point"):
        x.data = lib.tensor([1, 2], "int64")
    y = lib.leaf(1.0) * 2
    node = y.grad_fn
    y.data = lib.tensor(7.0)
    assert y.grad_fn is node


def test_backward_reads_data_assigned_after_saving(lib):
    """Rule 1.27."""
    w = lib.leaf(1.0, 2.0)
    y = (w * w).sum()
    w.data = lib.tensor([0.0, 0.0])
    y.backward()
    assert w.grad.tolist() == [0.0, 0.0]


def test_data_of_other_shape_raises_in_backward(lib):
    """Rule 1.27."""
    w = lib.leaf(1.0, 2.0)
    y = (w * w).sum()
    w.data = lib.tensor([0.0, 0.0, 0.0])
    with pytest.raises((RuntimeError, ValueError)):
        y.backward()


def test_detach_in_place_makes_leaf_and_refuses_views(lib):
    """Rule 1.28."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    assert y.detach_() is y
    assert (y.is_leaf, y.requires_grad) == (True, False)
    x.detach_()
    assert not x.requires_grad
    for base in (lib.tensor([1.0, 2.0]), lib.leaf(1.0, 2.0) * 1):
        with lib.raises("Can't detach views in-place"):
            base[:1].detach_()


def test_saved_tensor_detached_in_place_raises(lib):
    """Rule 1.29."""
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.detach_()
    with lib.raises("saved tensor that has been detached in-place"):
        lib.grad(z.sum(), x)


def test_grad_assignment_checks_shape_dtype_and_type(lib):
    """Rule 1.30."""
    x = lib.leaf(1.0, 2.0)
    with lib.raises("size"):
        x.grad = lib.tensor([1.0])
    with lib.raises("dtype"):
        x.grad = lib.tensor([1.0, 2.0], "float32")
    with lib.raises("own grad"):
        x.grad = x
    with pytest.raises(TypeError):
        x.grad = [1.0, 2.0]
    x.grad = lib.tensor([1.0, 2.0])
    assert x.grad.tolist() == [1.0, 2.0]
    x.grad = None
    assert x.grad is None
    x.grad = lib.tensor([1.0, 2.0])
    del x.grad
    assert x.grad is None
    for other in (lib.tensor([1.0, 2.0]), x * 2):
        other.grad = lib.tensor([5.0, 6.0])
        assert other.grad.tolist() == [5.0, 6.0]


def test_grad_dtype_sets_dtype_of_accumulated_grad(lib):
    """Rule 1.31."""
    x = lib.tensor([1.0, 2.0], "float32", requires_grad=True)
    assert x.grad_dtype == lib.dtype("float32")
    x.grad_dtype = lib.dtype("float64")
    (x * 2).sum().backward()
    assert x.grad.dtype == lib.dtype("float64")
    x.grad = None
    x.grad_dtype = None
    x.grad = lib.tensor([1.0, 2.0], "float16")
    assert x.grad.dtype == lib.dtype("float16")
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.dtype == lib.dtype("float32")


def test_grad_dtype_is_refused_after_a_gradient_and_on_non_leaf(lib):
    """Rule 1.31."""
    x = lib.tensor([1.0, 2.0], "float32", requires_grad=True)
    y = (x * 2).sum()
    x.grad_dtype = lib.dtype("float64")  # counts for a graph that exists
    y.backward()
    assert x.grad.dtype == lib.dtype("float64")
    with lib.raises("already a gradient"):
        x.grad_dtype = lib.dtype("float16")
    with lib.raises("leaf"):
        (x * 2).grad_dtype = lib.dtype("float64")
