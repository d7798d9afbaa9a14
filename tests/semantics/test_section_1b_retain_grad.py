"""`retain_grad`: gradients of tensors in the middle of the graph."""

from __future__ import annotations

import gc
import weakref

import pytest


def test_rule_1_15(lib, recwarn):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    assert x.grad is None
    assert not recwarn


def test_rule_1_16(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [8.0, 16.0]


def test_rule_1_17(lib):
    x = lib.leaf(1.0, 2.0)
    assert x.retain_grad() is None
    assert not x.retains_grad
    with lib.raises("can't retain_grad"):
        lib.tensor([1.0]).retain_grad()


def test_rule_1_18(lib):
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


def test_rule_1_19(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (found,) = lib.grad((y * 3).sum(), x, retain_graph=True)
    assert found.tolist() == [6.0, 6.0]
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad is None
    lib.grad((y * 3).sum(), y)
    assert y.grad.tolist() == [6.0, 6.0]


def test_rule_1_20(lib):
    x, z = lib.leaf(1.0), lib.leaf(2.0)
    y = x * 2
    y.retain_grad()
    (y * z).backward(inputs=[z])
    assert y.grad is None
    assert z.grad.item() == 2.0


def test_rule_1_21(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [30.0, 30.0]


def test_rule_1_22_on_the_view(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    v = y[:1]
    v.retain_grad()
    y.mul_(5)
    v.sum().backward()
    assert v.grad.tolist() == [1.0]
    assert x.grad.tolist() == [10.0, 0.0]


def test_rule_1_22_on_the_base(lib):
    x = lib.leaf(1.0, 2.0)
    y = x * 1
    y.retain_grad()
    v = y[:1]
    v.mul_(2)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [6.0, 3.0]


def test_rule_1_23(lib):
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


def test_rule_1_22_written_through_the_view(lib):
    """What was computed from the old value does not count, though nobody has looked at the view."""
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


def test_rule_1_22_asked_twice(lib):
    """A second call does not look at the view, and what has used it meanwhile still counts."""
    x = lib.leaf(1.0, 2.0)
    y = x * 1
    v = y[:1]
    v.retain_grad()
    z = (v * 5).sum()
    y.mul_(2)
    v.retain_grad()
    z.backward()
    assert v.grad.tolist() == [5.0]
