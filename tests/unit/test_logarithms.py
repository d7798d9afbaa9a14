"""``logaddexp`` of large arrays: the values of NumPy, and both gradients of one exponential."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.kernels.threads import MIN_THREADED_HEAVY_SIZE
from pullback.operators.pointwise.kernels_logaddexp import logaddexp, logaddexp_grads

SPECIAL = [
    (np.inf, np.inf),
    (-np.inf, -np.inf),
    (np.inf, -np.inf),
    (np.inf, 1.0),
    (1.0, -np.inf),
    (np.nan, 1.0),
    (800.0, -800.0),
    (-800.0, 800.0),
]


def operands() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.random.default_rng(0).normal(size=(2, MIN_THREADED_HEAVY_SIZE + 5)) * 30
    for i, (x, y) in enumerate(SPECIAL):
        a[i], b[i] = x, y
    return a, b


def test_values_are_those_of_numpy() -> None:
    a, b = operands()
    with np.errstate(invalid="ignore"):  # NumPy warns of NaN
        np.testing.assert_array_equal(logaddexp(a, b), np.logaddexp(a, b))


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("grad", ["number", "array", "reversed"])
def test_gradients_are_shares(wanted: tuple[bool, bool], grad: str) -> None:
    a, b = operands()
    incoming = np.random.default_rng(1).normal(size=a.shape)
    incoming = {
        "number": np.broadcast_to(np.array(2.0), a.shape),
        "array": incoming,
        "reversed": incoming[::-1],
    }[grad]
    found = logaddexp_grads(incoming, a, b, wanted)
    assert found is not None
    with np.errstate(all="ignore"):
        expected = incoming / (1 + np.exp(b - a)), incoming / (1 + np.exp(a - b))
    for each, value, is_wanted in zip(found, expected, wanted, strict=True):
        assert (each is not None) == is_wanted
        if each is not None:
            np.testing.assert_allclose(each, value, rtol=1e-14, atol=1e-300)


def test_small_arrays_and_others_are_left_to_the_formula() -> None:
    a, b = operands()
    both = (True, True)
    assert logaddexp_grads(a[:9], a[:9], b[:9], both) is None
    assert logaddexp_grads(a, a, b[:1], both) is None
    assert logaddexp_grads(a, a[::-1], b, both) is None
    a32, b32 = (v[len(SPECIAL) :].astype("f4") for v in (a, b))
    assert logaddexp_grads(a32, a32, b32, both) is None
    assert logaddexp(a32, b32).dtype == np.float32


def test_both_worlds_give_the_same_gradient() -> None:
    x, y = (pb.tensor(v[len(SPECIAL) :], requires_grad=True) for v in operands())
    total = pb.logaddexp(x, y).sum()
    on_arrays = pb.autograd.grad(total, (x, y), retain_graph=True)
    on_tensors = pb.autograd.grad(total, (x, y), create_graph=True)
    for first, second in zip(on_arrays, on_tensors, strict=True):
        np.testing.assert_allclose(first.numpy(), second.detach().numpy(), rtol=1e-14, atol=1e-300)
