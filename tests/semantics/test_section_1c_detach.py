"""`detach`, `detach_` and `.data`; and the attribute `.grad`."""

from __future__ import annotations

import pytest


def test_rule_1_24(lib):
    x = lib.leaf(1.0, 2.0)
    d = x.detach()
    assert (d.requires_grad, d.is_leaf, d._is_view(), d._base) == (False, True, False, None)
    d.add_(1)
    assert x.tolist() == [2.0, 3.0]
    assert d._version == x._version == 1


def test_rule_1_25(lib, words):
    x = lib.leaf(1.0, 2.0)
    y = (x * x).sum()
    x.detach().add_(1)
    assert x._version == 1
    with lib.raises(words.version):
        y.backward()


def test_rule_1_26(lib):
    x = lib.leaf(1.0, 2.0)
    x.data.add_(1)
    assert x.tolist() == [2.0, 3.0]
    assert x._version == 0


def test_rule_1_27(lib):
    x = lib.leaf(1.0, 2.0)
    x.data = lib.tensor([1.0, 2.0, 3.0], "float32")
    assert (x.requires_grad, x._version, x.tolist()) == (True, 0, [1.0, 2.0, 3.0])
    with lib.raises("floating point"):
        x.data = lib.tensor([1, 2], "int64")
    y = lib.leaf(1.0) * 2
    node = y.grad_fn
    y.data = lib.tensor(7.0)
    assert y.grad_fn is node


def test_rule_1_27_saved(lib):
    w = lib.leaf(1.0, 2.0)
    y = (w * w).sum()
    w.data = lib.tensor([0.0, 0.0])
    y.backward()
    assert w.grad.tolist() == [0.0, 0.0]


def test_rule_1_27_saved_shape(lib):
    w = lib.leaf(1.0, 2.0)
    y = (w * w).sum()
    w.data = lib.tensor([0.0, 0.0, 0.0])
    with pytest.raises((RuntimeError, ValueError)):
        y.backward()


def test_rule_1_28(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    assert y.detach_() is y
    assert (y.is_leaf, y.requires_grad) == (True, False)
    x.detach_()
    assert not x.requires_grad
    for base in (lib.tensor([1.0, 2.0]), lib.leaf(1.0, 2.0) * 1):
        with lib.raises("Can't detach views in-place"):
            base[:1].detach_()


def test_rule_1_29(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.detach_()
    with lib.raises("saved tensor that has been detached in-place"):
        lib.grad(z.sum(), x)


def test_rule_1_30(lib):
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


def test_rule_1_31(lib):
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


def test_rule_1_31_limits(lib):
    x = lib.tensor([1.0, 2.0], "float32", requires_grad=True)
    y = (x * 2).sum()
    x.grad_dtype = lib.dtype("float64")  # counts for a graph that exists
    y.backward()
    assert x.grad.dtype == lib.dtype("float64")
    with lib.raises("already a gradient"):
        x.grad_dtype = lib.dtype("float16")
    with lib.raises("leaf"):
        (x * 2).grad_dtype = lib.dtype("float64")
