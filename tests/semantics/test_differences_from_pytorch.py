"""Where PyTorch is wrong, or unclear: what Pullback does instead, one test a decision."""

from __future__ import annotations

import numpy as np
import pytest


def test_gradients_of_leaves_and_seeds_share_no_memory(pb):
    """Rule 13.1."""
    x, z = pb.leaf(1.0, 2.0), pb.leaf(1.0, 2.0)
    for _ in range(2):
        ((x.view(2) + z.view(2)) * 2).sum().backward()
    assert x.grad.tolist() == z.grad.tolist() == [4.0, 4.0]
    assert not np.shares_memory(x.grad.numpy(), z.grad.numpy())
    seed = pb.tensor([1.0, 1.0])
    y = pb.leaf(1.0, 2.0)
    y.view(2).backward(seed)
    seed.mul_(100)
    assert y.grad.tolist() == [1.0, 1.0]


def test_refused_write_to_inference_tensor_changes_nothing(pb):
    """Rule 13.2."""
    with pb.inference_mode():
        t = pb.tensor([1.0])
    with pb.raises("Inplace update to inference tensor outside InferenceMode"):
        t.add_(1)
    assert t.tolist() == [1.0]


def test_gradient_of_det_at_singular_matrix_is_its_cofactors(pb):
    """Rule 13.3."""
    found = pb.slopes(pb.linalg.det, [[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(found, [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("also", [False, True])
def test_grad_returns_gradients_after_tensor_hooks(pb, also):
    """Rule 13.4. After the hooks, whether or not something behind is asked for too."""
    a = pb.leaf(1.0)
    y = a * 2
    y.register_hook(lambda grad: grad * 10)
    found = pb.grad(y * 1, [y, a] if also else [y])
    assert [g.item() for g in found] == ([10.0, 20.0] if also else [10.0])


def test_mode_entered_twice_restores_the_outer_mode(pb):
    """Rule 13.5."""
    mode = pb.no_grad()
    with mode:
        with mode:
            assert not pb.is_grad_enabled()
        assert not pb.is_grad_enabled()
    assert pb.is_grad_enabled()


def test_jvp_that_returns_none_means_zero_tangent(pb):
    """Rule 13.6."""

    class Constant(pb.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def jvp(ctx, tangent):
            return None

    forward_ad = pb.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(pb.tensor([1.0]), pb.tensor([3.0]))
        tangent = forward_ad.unpack_dual(Constant.apply(dual)).tangent
        assert tangent is None or tangent.tolist() == [0.0]


def test_nan_elements_of_max_share_the_gradient(pb):
    """Rule 13.7."""
    nan = float("nan")
    assert pb.slopes(lambda x: pb.max(x, 0), [nan, 1.0, nan]) == [0.5, 0.0, 0.5]


def test_no_grad_view_raises_only_after_a_recorded_write(pb):
    """Rule 13.8."""
    a = pb.leaf(1.0, 2.0) * 1
    with pb.no_grad():
        view = a[:1]
        a.mul_(2)
    assert view.grad_fn is None
    a.mul_(2)
    with pb.raises("created in no_grad mode"):
        _ = view.grad_fn


def test_unused_input_of_batched_grad_has_the_batch_dimension(pb):
    """Rule 13.9."""
    a, unused = pb.leaf(1.0, 2.0), pb.leaf(1.0, 2.0, 3.0)
    used, zeros = pb.grad(
        a * a, [a, unused], pb.tensor(np.eye(2)), is_grads_batched=True, materialize_grads=True
    )
    assert used.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert zeros.tolist() == [[0.0] * 3] * 2


def test_multi_grad_hook_on_leaves_works_with_grad(pb):
    """Rule 13.11."""
    a, b = pb.leaf(1.0), pb.leaf(2.0)
    seen = []
    handle = pb.graph.register_multi_grad_hook([a, b], seen.append)
    pb.grad(a * b, [a, b])
    handle.remove()
    assert [[g.item() for g in grads] for grads in seen] == [[2.0, 1.0]]


def test_backward_with_inputs_keeps_the_producer_of_a_non_leaf(pb):
    """Rule 13.12. The node that made an input of ``backward`` is not needed, so it does not run."""
    a = pb.leaf(1.0, 2.0)
    y = a * a
    (y * y).sum().backward(inputs=[y])
    y.sum().backward()
    assert a.grad.tolist() == [2.0, 4.0]


def test_gradient_stops_at_no_grad_view(pb):
    """Rule 13.13. As in PyTorch: such a view counts as requiring grad, and gradients stop at it."""
    a = pb.leaf(1.0, 2.0)
    with pb.no_grad():
        view = a[:1]
    assert view.requires_grad
    (view * 3).sum().backward()
    assert a.grad is None
    with pb.raises("not have been used in the graph"):
        pb.grad((view * 3).sum(), a)
