"""Rules 12.21 to 12.25: numbers that a naive implementation gets silently wrong."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad


def leaf(*values):
    return pb.tensor(np.array(values), requires_grad=True)


def gradient(f, *values, weight=None):
    x = leaf(*values)
    y = f(x)
    (grad,) = pb.autograd.grad(y, x, None if weight is None else pb.tensor(weight))
    return grad.numpy()


def test_products_with_zeros():
    """Rule 12.21."""
    assert gradient(pb.prod, 0.0, 2.0, 3.0).tolist() == [6.0, 0.0, 0.0]
    x = leaf(0.0, 0.0, 3.0)
    (first,) = pb.autograd.grad(pb.prod(x), x, create_graph=True)
    assert first.tolist() == [0.0, 0.0, 0.0]
    (rows,) = pb.autograd.grad(first.sum(), x)
    assert rows.tolist() == [3.0, 3.0, 0.0]


def test_norms_and_deviations_at_singular_points():
    """Rule 12.21."""
    assert gradient(pb.linalg.vector_norm, 0.0, 0.0).tolist() == [0.0, 0.0]
    assert gradient(pb.std, 2.0, 2.0).tolist() == [0.0, 0.0]
    with np.errstate(all="ignore"):
        assert np.isnan(gradient(lambda x: pb.hypot(x[0], x[1]), 0.0, 0.0)).all()
        naive = gradient(lambda x: pb.where(x > 0, pb.sqrt(x), 0.0).sum(), 0.0)
    assert np.isnan(naive).all()


def test_complex_gradients_are_conjugated():
    """Rule 12.22."""
    z = 1 + 2j
    assert gradient(lambda x: (abs(x) ** 2).sum(), z).tolist() == [pytest.approx(2 + 4j)]
    one, imaginary = np.array([1 + 0j]), np.array([1j])
    assert gradient(lambda x: x * x, z, weight=one).tolist() == [2 - 4j]
    assert gradient(pb.conj, z, weight=imaginary).tolist() == [-1j]
    x = leaf(3.0)
    (grad,) = pb.autograd.grad(x * z, x, pb.tensor(imaginary))
    assert grad.dtype == np.float64
    assert grad.tolist() == [2.0]


def test_writes_to_duals_mutate_the_tangent():
    """Rule 12.23."""
    tangent = pb.tensor([1.0, 2.0, 3.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(pb.tensor([1.0, 1.0, 1.0]), tangent)
        dual.mul_(2.0)
        base = pb.zeros((3,))
        base[:1].copy_(forward_ad.make_dual(pb.tensor([1.0]), pb.tensor([5.0])))
        assert forward_ad.unpack_dual(base).tangent.tolist() == [5.0, 0.0, 0.0]
    assert tangent.tolist() == [2.0, 4.0, 6.0]


def test_duplicates_in_an_assignment():
    """Rule 12.24."""
    w, v = leaf(1.0, 2.0, 3.0), leaf(7.0, 8.0)
    a = w * 1
    a[[0, 0]] = v
    (a * 2).sum().backward()
    assert v.grad.tolist() == [0.0, 2.0]  # where PyTorch leaves it open
    assert w.grad.tolist() == [0.0, 2.0, 2.0]
    w.grad = v.grad = None
    added = (w * 1).index_put([pb.tensor([0, 0])], v, accumulate=True)
    assert added.tolist() == [16.0, 2.0, 3.0]
    added.sum().backward()
    assert v.grad.tolist() == [1.0, 1.0]
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_modes_across_threads_and_nested_blocks():
    """Rule 12.25."""
    seen = []

    def look():
        seen.append((pb.is_grad_enabled(), pb.autograd.is_anomaly_enabled()))

    with pb.no_grad(), pb.autograd.set_detect_anomaly(True):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        with pb.inference_mode(False):
            assert pb.is_grad_enabled()
    assert seen == [(True, True)]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(pb.tensor([1.0]), pb.tensor([3.0]))
        thread = threading.Thread(
            target=lambda: seen.append(forward_ad.unpack_dual(dual).tangent.item())
        )
        thread.start()
        thread.join()
    assert seen.pop() == 3.0
    x = leaf(1.0)
    with pb.inference_mode(), pb.enable_grad():
        assert pb.is_grad_enabled()
        assert not (x * 2).requires_grad

    @pb.no_grad()
    def generator():
        yield pb.is_grad_enabled()

    running = generator()
    assert next(running) is False
    assert pb.is_grad_enabled()
