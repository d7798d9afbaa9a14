"""Output metadata: nodes with equal outputs share one object, unless one has extras."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.graph import output_metadata
from pullback.autograd.graph.output_metadata import FLOAT64, intern_metadata
from pullback.kernels.broadcasting import MIN_FUSED_SIZE
from pullback.tensor.batched import BatchShape


def _leaf(shape=(3,), dtype=np.float64):
    return pb.tensor(np.full(shape, 0.5, dtype), requires_grad=True)


@pytest.mark.parametrize(
    "step", [pb.sin, lambda y: y * y, lambda y: -y + 1.0, lambda y: y[:3], lambda y: y.clone()]
)
def test_results_of_one_shape_share_a_form(step):
    y = step(step(_leaf()))
    assert y.grad_fn._output_metadata is intern_metadata((3,), FLOAT64)


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda: pb.sin(_leaf(dtype=np.float32)), (3,), np.float32),
        (lambda: pb.abs(pb.sin(_leaf(dtype=np.complex128))), (3,), np.float64),
        (lambda: pb.sin(_leaf((2, 3)))[0], (3,), np.float64),
        (lambda: pb.sin(_leaf((2, 1)) + _leaf((1, 3))), (2, 3), np.float64),
        (lambda: pb.exp(pb.sin(_leaf((2, 3))).sum()), (), np.float64),
        (lambda: pb.sin(pb.sin(_leaf()).astype(np.float32)), (3,), np.float32),
    ],
)
def test_metadata_are_those_of_the_result(make, shape, dtype):
    y = make()
    metadata = y.grad_fn._output_metadata
    assert (metadata.shape, metadata.dtype) == (shape, dtype) == (y.shape, y.dtype)


def test_extras_belong_to_one_node():
    x = _leaf()
    y, z = pb.sin(x), pb.cos(x)
    y.register_hook(lambda grad: grad * 2)
    assert y.grad_fn._output_metadata.extras is not None
    assert z.grad_fn._output_metadata is intern_metadata((3,), FLOAT64)
    after = pb.sin(y)  # computed from it, without extras of its own
    assert after.grad_fn._output_metadata is intern_metadata((3,), FLOAT64)
    y.detach()
    (after + z).sum().backward()
    expected = 2 * np.cos(y.detach().numpy()) * np.cos(0.5) - np.sin(0.5)
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_after_new_data_metadata_are_of_the_new_result():
    x = _leaf()
    pb.sin(x)
    kept = x * 1.0  # keeps the leaf's node alive
    x.data = pb.ones((2, 2))
    assert pb.sin(x).grad_fn._output_metadata.shape == (2, 2)
    y = pb.sin(kept)
    y.data = pb.ones((4,))
    assert pb.cos(y).grad_fn._output_metadata.shape == (4,)


def test_batch_shapes_are_not_interned():
    plain = intern_metadata((3,), FLOAT64)
    samples = BatchShape((3,))
    assert samples == (3,)
    assert intern_metadata(samples, FLOAT64).shape is samples
    assert intern_metadata((3,), FLOAT64) is plain


def test_number_of_interned_metadata_is_bounded(monkeypatch):
    monkeypatch.setattr(output_metadata, "FLOAT64_METADATA", {})
    for size in range(3 * output_metadata._MAX_INTERNED):
        metadata = intern_metadata((size,), FLOAT64)
        assert (metadata.shape, metadata.dtype, metadata.extras) == ((size,), FLOAT64, None)
        assert metadata.is_small_float64 == (size < MIN_FUSED_SIZE)
        assert len(output_metadata.FLOAT64_METADATA) <= output_metadata._MAX_INTERNED


def test_a_chain_of_forgotten_shapes_still_gives_gradients(monkeypatch):
    monkeypatch.setattr(output_metadata, "_MAX_INTERNED", 2)
    x = _leaf((4, 3))
    y = x
    for size in range(1, 4):
        y = pb.sin(y[:, :size] * 1.0).sum() + y
    y.sum().backward()
    reference = _leaf((4, 3))
    monkeypatch.undo()
    z = reference
    for size in range(1, 4):
        z = pb.sin(z[:, :size] * 1.0).sum() + z
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), reference.grad.numpy())
