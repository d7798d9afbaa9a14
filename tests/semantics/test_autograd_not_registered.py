"""Operators without an autograd kernel, on real tensors: rule 14.40."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.dispatch import set_autograd_fallback_mode
from pullback.tensor.tensor import wrap

COMPLAINT = r"an autograd kernel was not registered to the Autograd key\(s\)"


@pytest.fixture
def lib():
    with pb.library.Library("bare", "DEF") as library:
        yield library


@pytest.fixture
def double(lib):
    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: wrap(x._array * 2), "CPU")
    return lib.operator("double")


def test_warn_puts_the_result_into_the_graph_and_warns_at_backward(double):
    """Rule 14.40."""
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = double(x)
    assert y.requires_grad
    assert y.grad_fn.name() == "WarnNotImplemented"
    with pytest.warns(UserWarning, match=COMPLAINT):
        y.sum().backward()
    assert x.grad is None
    with (
        pytest.warns(UserWarning, match=COMPLAINT),
        pytest.raises(RuntimeError, match="not have been used in the graph"),
    ):
        pb.autograd.grad(double(x).sum(), x)


def test_other_paths_keep_their_gradient(double):
    """Rule 14.40."""
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match=COMPLAINT):
        (double(x) + x * 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_history_of_the_kernels_own_is_kept_and_warned_about(lib):
    """Rule 14.40."""
    lib.define("triple(Tensor x) -> Tensor")
    lib.impl("triple", lambda x: x * 3.0, "CPU")
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = lib.operator("triple")(x)
    assert y.grad_fn.name() == "MulBackward0"
    with pytest.warns(UserWarning, match=COMPLAINT):
        y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_nothing_leaves_the_result_alone(double):
    """Rule 14.40."""
    x = pb.tensor([1.0], requires_grad=True)
    with set_autograd_fallback_mode("nothing"):
        assert not double(x).requires_grad


def test_no_effect_without_need(double, lib):
    """Rule 14.40."""
    x = pb.tensor([1.0], requires_grad=True)
    with pb.no_grad():
        assert not double(x).requires_grad
    assert not double(pb.tensor([1.0])).requires_grad
    lib.define("count(Tensor x) -> Tensor")
    lib.impl("count", lambda x: wrap(x._array.astype(int)), "CPU")
    assert not lib.operator("count")(x).requires_grad
