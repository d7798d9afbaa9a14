"""`autograd.grad`: its inputs, its outputs, unused inputs, batches of gradients."""

from __future__ import annotations

import pytest


class NothingReturned:
    """A function whose backward gives no gradient, in either library."""

    def __new__(cls, lib):
        class Nothing(lib.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return None

        return Nothing.apply


def test_grad_does_not_write_grad_of_leaves(lib):
    """Rule 1.64."""
    a, b = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)

    def product():
        return (a * b).sum()

    assert lib.grad(product(), a)[0].tolist() == [3.0, 4.0]
    assert [g.tolist() for g in lib.grad([product()], (a, b))] == [[3.0, 4.0], [1.0, 2.0]]
    found = lib.grad(product(), {"x": a, "y": b})
    assert {k: g.tolist() for k, g in found.items()} == {"x": [3.0, 4.0], "y": [1.0, 2.0]}
    edge = lib.graph.get_gradient_edge(a)
    assert lib.grad(product(), edge)[0].tolist() == [3.0, 4.0]
    assert a.grad is None
    assert b.grad is None


def test_grad_accepts_generators(pb):
    """Rule 1.64."""
    a = pb.leaf(1.0, 2.0)
    found = pb.grad((t for t in [(a * a).sum()]), (t for t in [a]))
    assert found[0].tolist() == [2.0, 4.0]


def test_unused_input_raises_or_gives_none_or_zeros(lib):
    """Rule 1.65."""
    a, b = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    y = (a * 2).sum()
    with lib.raises("not have been used in the graph"):
        lib.grad(y, b, retain_graph=True)
    assert lib.grad(y, b, retain_graph=True, allow_unused=True) == (None,)
    (zeros,) = lib.grad(y, b, materialize_grads=True)
    assert zeros.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="materialize_grads"):
        lib.grad(y, b, materialize_grads=True, allow_unused=False)


def test_grad_refuses_inputs_and_outputs_without_grad(lib):
    """Rule 1.66."""
    a, plain = lib.leaf(1.0), lib.tensor(1.0)
    y = a * 2
    for options in ({}, {"allow_unused": True}, {"materialize_grads": True}):
        with lib.raises("One of the differentiated Tensors does not require grad"):
            lib.grad(y, plain, **options)
        with lib.raises("element 0 of tensors does not require grad and does not have a grad_fn"):
            lib.grad(plain, a, **options)
    with lib.raises("cannot be empty"):
        lib.grad(y, [])
    with lib.raises("not have been used in the graph"):
        lib.grad([], [a])


def test_undefined_gradient_counts_as_unused(lib):
    """Rule 1.67."""
    nothing = NothingReturned(lib)
    a = lib.leaf(1.0, 2.0)
    with lib.raises("not have been used in the graph"):
        lib.grad(nothing(a).sum(), a)
    assert lib.grad(nothing(a).sum(), a, allow_unused=True) == (None,)


def test_duplicate_and_intermediate_inputs_get_their_gradients(lib):
    """Rule 1.68."""
    a = lib.leaf(1.0, 2.0)
    y = a * 2
    z = (y * a).sum()
    assert [g.tolist() for g in lib.grad(z, [a, a], retain_graph=True)] == [[4.0, 8.0]] * 2
    assert [g.tolist() for g in lib.grad(z, [a, y])] == [[4.0, 8.0], [1.0, 2.0]]


def test_view_off_the_path_is_unused(lib):
    """Rule 1.69."""
    a = lib.leaf(1.0, 2.0)
    v = a[:1]
    with lib.raises("not have been used in the graph"):
        lib.grad((a * 2).sum(), v)


def test_written_input_means_its_newest_value(lib):
    """Rule 1.70."""
    a = lib.leaf(1.0, 2.0)
    y = a * 2
    y.add_(1)
    assert lib.grad((y * 3).sum(), y)[0].tolist() == [3.0, 3.0]


def test_only_inputs_false_warns(lib):
    """Rule 1.71."""
    a = lib.leaf(1.0, 2.0)
    with lib.raises("implicitly created only for scalar outputs"):
        lib.grad(a * 2, a)
    with lib.raises("Mismatch in shape: grad_output[0]"):
        lib.grad(a * 2, a, lib.tensor([1.0]))
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert lib.grad((a * 2).sum(), a, only_inputs=False)[0].tolist() == [2.0, 2.0]


def test_batched_grad_equals_loop_over_rows(lib):
    """Rule 1.72."""
    a = lib.leaf(1.0, 2.0)
    eye = lib.tensor([[1.0, 0.0], [0.0, 1.0]])
    (rows,) = lib.grad(a * a, a, eye, is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with lib.raises("shape"):
        lib.grad(a * a, a, lib.tensor([[1.0], [1.0]]), is_grads_batched=True)


def test_batched_grad_looks_unbatched_inside_function(pb):
    """Rule 1.72."""
    seen = []

    class Square(pb.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            seen.append(grad.shape)
            return 2 * ctx.saved_tensors[0] * grad

    a = pb.leaf(1.0, 2.0, 3.0)
    eye = pb.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    (rows,) = pb.grad(Square.apply(a), a, eye, is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    assert set(seen) == {(3,)}


def test_batched_grad_needs_grad_outputs_and_batches_zeros(pb):
    """Rule 1.72. PyTorch's zeros for an unused input lack the batch's axis."""
    a, b = pb.leaf(1.0, 2.0), pb.leaf(3.0, 4.0, 5.0)
    eye = pb.tensor([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="grad_outputs"):
        pb.grad(a * a, a, is_grads_batched=True)
    _, zeros = pb.grad(a * a, [a, b], eye, is_grads_batched=True, materialize_grads=True)
    assert zeros.shape == (2, 3)


def test_batched_grad_can_be_differentiated(pb):
    """Rule 1.72."""
    a = pb.leaf(1.0, 2.0)
    eye = pb.tensor([[1.0, 0.0], [0.0, 1.0]])
    (rows,) = pb.grad((a**3), a, eye, is_grads_batched=True, create_graph=True)
    assert pb.grad(rows.sum(), a)[0].tolist() == [6.0, 12.0]


def test_grad_in_inference_mode_gives_inference_tensor(lib):
    """Rule 1.73."""
    a = lib.leaf(1.0, 2.0)
    y = (a * a).sum()
    with lib.inference_mode():
        (g,) = lib.grad(y, a, retain_graph=True)
        (again,) = lib.grad(y, a, create_graph=True)
        y.backward()
    assert g.is_inference()
    assert g.tolist() == [2.0, 4.0]
    assert not again.requires_grad
    assert a.grad.is_inference()
    with lib.raises("Inplace update to inference tensor outside InferenceMode"):
        (a * a).sum().backward()


def test_non_tensor_outputs_and_inputs_are_refused(lib):
    """Rule 1.74."""
    a = lib.leaf(1.0)
    with pytest.raises((AssertionError, TypeError)):
        lib.grad(1.0, a)
    with lib.raises("have to be ... Tensors or GradientEdges"):
        lib.grad(a * 2, [1.0])
