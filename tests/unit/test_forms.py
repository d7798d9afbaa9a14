"""Forms: nodes whose results are alike share one tuple, until something is rare about one."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd.graph import output_metadata
from pullback.autograd.graph.output_metadata import FLOAT64, form_of
from pullback.kernels.broadcasting import PRODUCT
from pullback.tensor.batched import BatchShape


def _leaf(shape=(3,), dtype=np.float64):
    return pb.tensor(np.full(shape, 0.5, dtype), requires_grad=True)


@pytest.mark.parametrize(
    "step", [pb.sin, lambda y: y * y, lambda y: -y + 1.0, lambda y: y[:3], lambda y: y.clone()]
)
def test_results_of_one_shape_share_a_form(step):
    y = step(step(_leaf()))
    assert y.grad_fn._form is form_of((3,), FLOAT64)


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
def test_a_form_is_that_of_the_result(make, shape, dtype):
    y = make()
    assert y.grad_fn._form[:2] == (shape, dtype) == (y.shape, y.dtype)


def test_what_is_rare_stays_with_one_node():
    x = _leaf()
    y, z = pb.sin(x), pb.cos(x)
    y.register_hook(lambda grad: grad * 2)
    assert y.grad_fn._form[2] is not None
    assert z.grad_fn._form is form_of((3,), FLOAT64)
    after = pb.sin(y)  # computed from it, and nothing is rare about this one
    assert after.grad_fn._form is form_of((3,), FLOAT64)
    y.detach()
    (after + z).sum().backward()
    expected = 2 * np.cos(y.detach().numpy()) * np.cos(0.5) - np.sin(0.5)
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_after_new_data_the_form_is_of_the_new_result():
    x = _leaf()
    pb.sin(x)
    kept = x * 1.0  # keeps the leaf's node alive
    x.data = pb.ones((2, 2))
    assert pb.sin(x).grad_fn._form[0] == (2, 2)
    y = pb.sin(kept)
    y.data = pb.ones((4,))
    assert pb.cos(y).grad_fn._form[0] == (4,)


def test_a_shape_of_samples_is_never_taken_for_another():
    plain = form_of((3,), FLOAT64)
    samples = BatchShape((3,))
    assert samples == (3,)
    assert form_of(samples, FLOAT64)[0] is samples
    assert form_of((3,), FLOAT64) is plain


def test_the_number_of_forms_is_bounded(monkeypatch):
    monkeypatch.setattr(output_metadata, "FORMS", {})
    for size in range(3 * output_metadata._MOST_FORMS):
        assert form_of((size,), FLOAT64) == ((size,), FLOAT64, None, size < PRODUCT)
        assert len(output_metadata.FORMS) <= output_metadata._MOST_FORMS


def test_a_chain_of_forgotten_shapes_still_gives_gradients(monkeypatch):
    monkeypatch.setattr(output_metadata, "_MOST_FORMS", 2)
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
