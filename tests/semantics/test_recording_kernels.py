"""What every generated recording kernel does: checks, saved inputs, formulas that run."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad
from pullback.dispatch import DispatchKeySet
from pullback.errors import DerivativeMissingError


def key_names(tensor: pb.Tensor) -> set[str]:
    return {key.name for key in DispatchKeySet.from_bits(int(tensor._flags))}


def test_keys_of_a_tensor_depend_on_device_and_inference_mode_only():
    """Rules 14.12, 14.13."""
    recorded = {"CPU", "ADInplaceOrView", "AutogradCPU"}
    assert key_names(pb.ones(2)) == recorded
    assert key_names(pb.ones(2, requires_grad=True)) == recorded
    assert key_names(pb.ones(2, device="meta")) == {"Meta", "ADInplaceOrView", "AutogradMeta"}
    with pb.inference_mode():
        made_inside = pb.ones(2)
    assert key_names(made_inside) == {"CPU"}


@pytest.mark.parametrize("function", [lambda x: x // 2, lambda x: pb.heaviside(x, 0.5)])
def test_forward_mode_of_operator_without_jvp_rule_raises(function):
    """Rule 14.41."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(pb.tensor([1.0, 3.0]), pb.tensor([1.0, 1.0]))
        with pytest.raises(DerivativeMissingError, match="Trying to use forward AD"):
            function(dual)


@pytest.mark.parametrize("name", ["exp_", "sin_", "zero_", "neg_"])
def test_leaf_is_checked_before_the_in_place_kernel_runs(name):
    """Rule 17.26."""
    x = pb.tensor([0.5, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        getattr(x, name)()
    assert (x.tolist(), x._version) == ([0.5, 2.0], 0)


def test_failed_kernel_leaves_history_and_version_unchanged():
    """Rule 17.26."""
    y = pb.tensor([0.5, 2.0], requires_grad=True) * 1
    node = y.grad_fn
    with pytest.raises((RuntimeError, ValueError)):
        y.add_(pb.ones(3))
    assert y.grad_fn is node
    assert (y.tolist(), y._version) == ([0.5, 2.0], 0)


@pytest.mark.parametrize("function", [pb.multiply, pb.divide, pb.matmul])
def test_operand_is_saved_only_where_a_needed_formula_reads_it(function):
    """Rule 17.27."""
    x = pb.tensor(np.eye(2) + 1, requires_grad=True)
    constant = pb.tensor([[1.0, 2.0], [3.0, 5.0]])
    node = function(x, constant).grad_fn
    assert node._saved_self is None
    assert node._saved_other is constant
    node = function(x, x * 1).grad_fn
    assert node._saved_self is x


def test_in_place_kernel_saves_the_value_before_the_write():
    """Rule 17.27."""
    x = pb.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y.mul_(x)
    assert y.grad_fn._saved_self.tolist() == [2.0, 3.0]
    assert y.tolist() == [4.0, 9.0]


def test_formulas_run_only_for_inputs_that_need_a_gradient():
    """Rule 17.28."""
    x = pb.tensor([2.0, 3.0], requires_grad=True)
    constant = pb.tensor([5.0, 7.0])
    seed = pb.ones(2)
    first, second = (x * constant).grad_fn(seed)
    assert (first.tolist(), second) == ([5.0, 7.0], None)
    first, second = (constant * x).grad_fn(seed)
    assert (first, second.tolist()) == (None, [5.0, 7.0])


def test_undefined_cotangent_gives_no_gradient():
    """Rule 17.28."""
    x, y = (pb.tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
    assert (x * y).grad_fn(None) == (None, None)
    assert pb.exp(x).grad_fn(None) in (None, (None,))


def test_out_variant_is_recorded_and_carries_the_tangent():
    """Rule 17.29."""
    x = pb.tensor([2.0, 3.0], requires_grad=True)
    out = pb.zeros(2)
    pb.exp(x, out=out)
    assert out.requires_grad
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([2.0, 3.0]))
    plain = pb.zeros(2)
    with forward_ad.dual_level():
        pb.exp(forward_ad.make_dual(x.detach(), pb.ones(2)), out=plain)
        np.testing.assert_allclose(
            forward_ad.unpack_dual(plain).tangent.numpy(), np.exp([2.0, 3.0])
        )
