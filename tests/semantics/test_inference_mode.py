"""Inference mode: tensors without versions and without a place in graphs."""

from __future__ import annotations

import copy

import pytest

SAVED = "Inference tensors cannot be saved for backward"
WRITTEN = "Inplace update to inference tensor outside InferenceMode"


@pytest.fixture
def t(lib):
    with lib.inference_mode():
        return lib.tensor([1.0, 2.0])


def test_results_in_inference_mode_are_inference_tensors(lib):
    """Rule 2.17."""
    x = lib.leaf(1.0, 2.0)
    with lib.inference_mode():
        assert not lib.is_grad_enabled()
        assert lib.is_inference_mode_enabled()
        assert lib.tensor([1.0]).is_inference()
        assert (x * 2).is_inference()
        v = x[:1]
    assert (v.is_inference(), v._is_view()) == (False, True)
    assert not x.is_inference()


def test_inference_mode_false_enables_grad(lib):
    """Rule 2.18."""
    x = lib.leaf(1.0)
    for outer in (lib.inference_mode, lib.no_grad):
        with outer(), lib.inference_mode(False):
            assert lib.is_grad_enabled()
            assert not lib.is_inference_mode_enabled()
            y = x * 2
            assert y.requires_grad
            assert not y.is_inference()


def test_enable_grad_in_inference_mode_records_nothing(lib):
    """Rule 2.19."""
    x = lib.leaf(1.0)
    with lib.inference_mode(), lib.enable_grad():
        assert lib.is_grad_enabled()
        y = x * 2
    assert (y.is_inference(), y.requires_grad) == (True, False)


def test_factory_in_inference_mode_can_require_grad(lib):
    """Rule 2.20."""
    with lib.inference_mode():
        t = lib.tensor([1.0], requires_grad=True)
        y = t * 2
    assert (t.is_inference(), t.is_leaf, t.requires_grad) == (True, True, True)
    assert (y.requires_grad, y.grad_fn) == (False, None)


def test_inference_tensor_has_no_version_counter(lib, t):
    """Rule 2.21."""
    key = "do not track version counter"
    with lib.raises(key):
        t._version  # noqa: B018 - reading it is the test
    with lib.inference_mode(), lib.raises(key):
        t._version  # noqa: B018 - reading it is the test


def test_views_of_inference_tensors_are_inference_tensors(lib, t):
    """Rule 2.22."""
    views = [t[:1], t.reshape(1, 2), t.detach(), t.data, t[0]]
    with lib.inference_mode():
        views += [t[:1], t.reshape(1, 2)]
        assert t.clone().is_inference()
    assert [(v.is_inference(), v._is_view()) for v in views] == [(True, False)] * 7
    for normal in (t.clone(), t + 1, t * t, t.sum(), copy.deepcopy(t)):
        assert not normal.is_inference()


def test_inference_tensor_cannot_be_saved(lib, t):
    """Rule 2.23."""
    x = lib.leaf(1.0, 2.0)
    y = x * 1
    with lib.inference_mode():
        index = lib.tensor([0], "int64")
    with lib.raises(SAVED):
        t * x
    with lib.raises(SAVED):
        y.mul_(t)
    with lib.raises(SAVED):
        x[index]
    assert y.tolist() == [1.0, 2.0]


def test_inference_operand_that_is_not_saved_works(lib, t):
    """Rule 2.24."""
    x = lib.leaf(1.0, 2.0)
    results = [t + x, lib.concatenate([t, x])]
    y = x * 1
    y.copy_(t)
    z = x * 1
    z[0] = t[0]
    for result in [*results, y, z]:
        assert result.requires_grad
        assert not result.is_inference()
    (results[0].sum() + z.sum()).backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_result_of_inference_tensor_outside_is_normal(t):
    """Rule 2.25."""
    for y in (t * 2, t.sum()):
        assert (y.is_inference(), y.requires_grad) == (False, False)


def test_write_to_inference_tensor_outside_raises(lib, t):
    """Rule 2.26."""
    for write in (
        lambda: t.add_(1),
        lambda: t[:1].add_(1),
        lambda: t.__setitem__(0, 5.0),
    ):
        with lib.raises(WRITTEN):
            write()
        with lib.no_grad(), lib.raises(WRITTEN):
            write()


def test_refused_write_leaves_inference_tensor_unchanged(pb):
    """Rule 2.26. PyTorch raises when the data have been changed already."""
    with pb.inference_mode():
        t = pb.tensor([1.0, 2.0])
    with pb.raises(WRITTEN):
        t.add_(1)
    with pb.raises(WRITTEN):
        t.zero_()
    assert t.tolist() == [1.0, 2.0]


def test_requires_grad_of_inference_tensor_outside_raises(lib, t):
    """Rule 2.27."""
    key = "Setting requires_grad=True on inference tensor outside"
    with lib.raises(key):
        t.requires_grad_()
    with lib.raises(key):
        t.requires_grad = True
    with lib.inference_mode():
        assert t.requires_grad_().requires_grad


def test_save_for_backward_of_inference_tensor_raises(lib, t):
    """Rule 2.28."""

    class Saves(lib.Function):
        @staticmethod
        def forward(ctx, x, other):
            ctx.save_for_backward(other)
            return x * other

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    with lib.raises(SAVED):
        Saves.apply(lib.leaf(1.0, 2.0), t)
    assert Saves.apply(lib.tensor([1.0, 2.0]), t).tolist() == [1.0, 4.0]


def test_inference_tensor_can_be_seed(lib, t):
    """Rule 2.29."""
    x = lib.leaf(3.0, 4.0)
    assert lib.grad(x * x, x, t)[0].tolist() == [6.0, 16.0]
    with lib.raises(SAVED):
        lib.grad(x * x, x, t, create_graph=True)


def test_inference_tensor_as_grad_refuses_accumulation(lib, t):
    """Rule 2.30."""
    x = lib.leaf(1.0, 2.0)
    x.grad = t
    with lib.raises(WRITTEN):
        x.sum().backward()


def test_inference_tensor_can_be_detached_read_and_copied(lib, t):
    """Rule 2.31."""
    assert t.detach_() is t
    assert t.numpy().tolist() == [1.0, 2.0]
    a = lib.tensor([0.0, 0.0])
    a.copy_(t)
    assert a.tolist() == [1.0, 2.0]
    a[:] = t + 1
    assert a.tolist() == [2.0, 3.0]


def test_hook_on_inference_tensor_raises(lib, t):
    """Rule 2.32."""
    with lib.raises("doesn't require gradient"):
        t.register_hook(print)


def test_requiring_inference_leaf_is_recorded_beside_normal_operand(lib):
    """Rule 2.33."""
    with lib.inference_mode():
        t = lib.tensor([1.0, 2.0], requires_grad=True)
    for y in (t * t, lib.exp(t)):
        assert not y.requires_grad
    y = t + lib.tensor([1.0, 1.0])
    assert y.requires_grad
    y.sum().backward()
    assert t.grad.tolist() == [1.0, 1.0]


def test_write_in_inference_mode_makes_saved_values_stale(lib, words):
    """Rule 2.34."""
    x = lib.leaf(1.0, 2.0)
    y = x * x
    z = x * 2
    node = z.grad_fn
    with lib.inference_mode():
        x.add_(1)
        z.add_(1)
    assert (x._version, z._version, z.grad_fn) == (1, 1, node)
    assert x.tolist() == [2.0, 3.0]
    with lib.raises(words.version):
        y.sum().backward()


def test_write_to_inference_view_in_normal_mode_raises(lib):
    """Rule 2.35."""
    y = lib.leaf(1.0, 2.0) * 1
    plain = lib.tensor([1.0, 2.0])
    with lib.inference_mode():
        v, u, w = y[:1], plain[:1], y[1:]
        w.mul_(2)
    with lib.raises("view was created in inference mode and is being modified inplace in normal"):
        v.mul_(2)
    u.mul_(2)
    assert (y.tolist(), plain.tolist()) == ([1.0, 4.0], [2.0, 2.0])


def test_an_object_of_the_mode_can_be_used_again_and_again(lib):
    mode = lib.inference_mode()
    for _ in range(2):
        with mode:
            assert lib.is_inference_mode_enabled()
        assert not lib.is_inference_mode_enabled()


def test_a_copy_made_inside_is_an_inference_tensor(lib):
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    with lib.inference_mode():
        copied = x.T.reshape(4)  # no view of such a shape exists
    assert copied.is_inference()
