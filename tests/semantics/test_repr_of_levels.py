"""How tensors print inside transforms and with tangents, and what copies of leaves are."""

from __future__ import annotations

import copy
import re
import warnings

import numpy as np
import pytest

import pullback

GRAD = "GradTrackingTensor(lvl=1, value=\n    tensor([1., 2.])\n)"
BATCHED = "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 2.],\n            [3., 4.]])\n)"
GRAD_IN_VMAP = (
    "GradTrackingTensor(lvl=2, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n"
    "        tensor([[1., 2.],\n                [3., 4.]])\n    )\n)"
)
GRAD_IN_GRAD = (
    "GradTrackingTensor(lvl=2, value=\n    GradTrackingTensor(lvl=1, value=\n"
    "        tensor([1., 2.])\n    )\n)"
)


def plain(text):
    """What is printed, without the dtype that PyTorch says, and the line that it breaks for it."""
    return re.sub(r",\s+tangent", ", tangent", text.replace(", dtype=torch.float64", ""))


def printed(lib, transform, *args):
    """What a tensor prints that a transformed function gets."""
    texts = []

    def function(x):
        texts.append(plain(repr(x)))
        return x.sum()

    transform(function)(*args)
    (text,) = texts
    return text


def test_input_of_grad_prints_its_level(lib):
    assert printed(lib, lib.func.grad, lib.tensor([1.0, 2.0])) == GRAD


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_input_of_jvp_prints_its_level(lib):
    x = lib.tensor([1.0, 2.0])
    assert printed(lib, lambda f: lambda x: lib.func.jvp(f, (x,), (x,)), x) == GRAD


def test_input_of_vmap_prints_all_samples(lib):
    rows = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert printed(lib, lib.func.vmap, rows) == BATCHED


def test_nested_transforms_print_the_innermost_outside(lib):
    rows = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert printed(lib, lambda f: lib.func.vmap(lib.func.grad(f)), rows) == GRAD_IN_VMAP
    text = printed(
        lib,
        lambda f: lib.func.grad(lambda x: lib.func.grad(f)(x).sum()),
        lib.tensor([1.0, 2.0]),
    )
    assert text == GRAD_IN_GRAD


def test_result_prints_its_level(lib):
    texts = []

    def function(x):
        y = x * 2
        texts.append(plain(repr(y)))
        return y.sum()

    lib.func.grad(function)(lib.tensor([1.0, 2.0]))
    assert texts == [GRAD.replace("[1., 2.]", "[2., 4.]")]


def test_constant_inside_a_transform_prints_as_ever(lib):
    outside, texts = lib.tensor([1.0, 2.0]), []

    def function(x):
        texts.append(plain(repr(outside)))
        return x.sum()

    lib.func.grad(function)(lib.tensor([1.0, 2.0]))
    assert texts == ["tensor([1., 2.])"]


def test_dual_tensor_prints_its_tangent(lib):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0]))
        assert plain(repr(x)) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
        assert plain(repr(x * 2)) == "tensor([2., 4.], tangent=tensor([6., 8.]))"
        assert plain(repr(lib.tensor([1.0]))) == "tensor([1.])"
    assert plain(repr(x)) == "tensor([1., 2.])"


def test_dual_tensor_in_a_transform_prints_both(lib):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0]))
        text = printed(lib, lib.func.grad, x)
    assert text == GRAD.replace("[1., 2.]", "[1., 2.], tangent=tensor([3., 4.])")


def test_tensor_prints_as_ever_after_a_transform(pb):
    kept = []
    pb.func.grad(lambda x: kept.append(x) or x.sum())(pb.tensor([1.0, 2.0]))
    assert repr(kept[0]) == "tensor([1., 2.])"


# --- copies --------------------------------------------------------------------------------------


def test_copy_of_a_leaf_is_a_leaf(lib):
    x = lib.leaf(1.0, 2.0)
    x.grad = lib.tensor([3.0, 4.0])
    made = copy.copy(x)
    assert made is not x
    assert (made.is_leaf, made.requires_grad, made.grad_fn, made.grad) == (True, True, None, None)
    (made * 2).sum().backward()
    assert made.grad.tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [3.0, 4.0]


def test_copy_of_a_constant_is_a_constant(lib):
    made = copy.copy(lib.tensor([1.0, 2.0]))
    assert (made.tolist(), made.requires_grad) == ([1.0, 2.0], False)


def test_gradient_flows_through_the_copy_of_a_result(pb):
    x = pb.leaf(1.0, 2.0)
    copy.copy(x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "gradient",
    [
        pullback.func.grad,
        pullback.func.jacfwd,
        lambda f: pullback.grad(pullback.differentiable(f)),
        lambda f: pullback.jacobian(pullback.differentiable(f)),
    ],
)
def test_gradient_flows_through_the_copy_of_an_argument(gradient):
    function = gradient(lambda x: (copy.copy(x) * x).sum())
    found = function(pullback.tensor([1.0, 2.0]))
    assert np.asarray(found).tolist() == [2.0, 4.0]


def test_second_derivative_flows_through_the_copy_of_an_argument():
    function = pullback.differentiable(lambda x: (copy.copy(x) * x * x).sum())
    found = pullback.hessian(function)(pullback.tensor([1.0, 2.0]))
    assert np.asarray(found).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_gradient_flows_through_a_copy_in_numpy_mode():
    x = pullback.tensor([1.0, 2.0], requires_grad=True)
    with pullback.numpy_mode():
        y = copy.copy(x)
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


# --- anomaly mode --------------------------------------------------------------------------------


def nested(lib):
    """A function whose backward applies another one, whose backward makes NaN."""

    class Inner(lib.Function):
        @staticmethod
        def forward(_, x):
            return x * 2

        @staticmethod
        def backward(_, grad):
            return grad * float("nan")

    class Outer(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return Inner.apply(ctx.saved_tensors[0]) * grad

    return Outer


def messages(lib, is_forward_watched):
    """The warnings of a second backward that fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = lib.leaf(1.0)
        with lib.autograd.set_detect_anomaly(is_forward_watched):
            y = nested(lib).apply(x)  # the forward call
        with lib.autograd.set_detect_anomaly(True):
            (g,) = lib.grad(y, x, create_graph=True)
            with lib.raises("returned nan values in its 0th output"):
                g.backward()
    return [str(warning.message) for warning in caught]


def test_nested_anomaly_gives_the_call_of_the_parent_operation(lib):
    first, second = messages(lib, is_forward_watched=True)
    assert "Error detected in InnerBackward. Traceback of forward call that caused" in first
    assert "Inner.apply(" in first
    assert "Previous calculation was induced by OuterBackward. Traceback of forward call" in second
    assert "# the forward call" in second


def test_nested_anomaly_mode_names_where_it_was_off(lib):
    first, second = messages(lib, is_forward_watched=False)
    assert "Error detected in InnerBackward. Traceback of forward call that caused" in first
    assert "Error detected in OuterBackward. No forward pass information available" in second
