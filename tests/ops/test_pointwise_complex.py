"""Gradients of complex numbers: the convention, values at given points, parts and views."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.errors import UnsupportedDtypeError

inf, nan = math.inf, math.nan
Z = 1 + 2j


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def gradients(f, *points, grad=None):
    """The gradients of sum(f(...)), or for a given gradient of the output."""
    arrays = [np.asarray(p, dtype=np.result_type(np.asarray(p), 0.5)) for p in points]
    leaves = [pb.tensor(array, requires_grad=True) for array in arrays]
    result = f(*leaves)
    seed = np.ones(result.shape, result.dtype) if grad is None else np.full(result.shape, grad)
    grads = pb.autograd.grad(result, leaves, pb.tensor(seed.astype(result.dtype)))
    return [g.numpy() for g in grads]


def gradient(f, point, grad=None):
    return gradients(f, point, grad=grad)[0]


def same(got, want, rtol=1e-6):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(
    ("f", "grad", "expected"),
    [
        (lambda z: z * z, 1, 2 - 4j),
        (lambda z: z * z, 1j, 4 + 2j),
        (lambda z: z**2, 1, 2 - 4j),
        (pb.exp, 1, -1.1312 - 2.4717j),
        (pb.sin, 1, 2.0327 + 3.0519j),
        (pb.log, 1, 0.2 + 0.4j),
        (lambda z: 1 / z, 1, 0.12 - 0.16j),
        (pb.sqrt, 1, 0.2844 + 0.1758j),
        (pb.tanh, 1, -0.3020 - 0.5681j),
        (lambda z: z * pb.conj(z), 1, 2 + 4j),
        (pb.conj, 1, 1),
        (pb.conj, 1j, -1j),
        (pb.sign, 1, 0.3578 - 0.1789j),
        (lambda z: z ** (1 + 1j), 1, -0.0090 - 0.4673j),
    ],
)
def test_gradients_of_complex_results(f, grad, expected):
    """Rule 8.3."""
    np.testing.assert_allclose(gradient(f, Z, grad), expected, atol=5e-5)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (pb.abs, 0.4472 + 0.8944j),
        (pb.real, 1),
        (pb.imag, 1j),
        (pb.angle, -0.4 + 0.2j),
        (lambda z: (z * z).real, 2 - 4j),
        (lambda z: (z * z).imag, 4 + 2j),
    ],
)
def test_gradients_of_real_results(f, expected):
    """Rule 8.4."""
    np.testing.assert_allclose(gradient(f, Z), expected, atol=5e-5)


def test_complex_gradient_is_steepest_ascent():
    """Rule 8.1."""
    same(gradient(lambda z: pb.abs(z) ** 2, Z), 2 + 4j)
    same(gradient(lambda z: pb.abs(z - 3) ** 2, Z), -4 + 4j)


@pytest.mark.parametrize("f", [pb.abs, pb.angle, pb.sign, lambda z: z**0])
def test_complex_gradients_at_zero(f):
    """Rule 8.5."""
    assert gradient(f, 0j) == 0


def test_square_root_of_zero():
    """Rule 8.5."""
    root = gradient(pb.sqrt, 0j)
    assert root.real == inf
    assert np.isnan(root.imag)


def test_a_real_input_gets_the_real_part():
    """Rule 8.7."""
    for grad, for_x, for_z in ((1, 1, 3), (1j, 2, 3j)):
        x, z = gradients(lambda x, z: x * z, 3.0, Z, grad=grad)
        assert (x, z) == (for_x, for_z)
        assert x.dtype == np.float64
    assert gradient(lambda x: x + 1j, 1.0, 2 + 5j) == 2
    assert gradient(lambda x: x.astype("complex128"), 1.0, 2 + 5j) == 2


def test_a_cast_to_real_numbers_warns():
    """Rule 8.8."""
    z = pb.tensor(Z, requires_grad=True)
    with pytest.warns(np.exceptions.ComplexWarning):
        x = z.astype("float64")
    assert pb.autograd.grad(x, z)[0].item() == 1 + 0j


def test_complex_numbers_from_and_as_real_ones():
    """Rule 8.9."""
    same(gradient(pb.view_as_real, Z), 1 + 1j)
    same(gradient(lambda x: pb.abs(pb.view_as_complex(x)), [3.0, 4.0]), [0.6, 0.8])
    same(gradients(lambda x, y: pb.abs(pb.complex(x, y)), 3.0, 4.0), [0.6, 0.8])
    r, t = gradients(lambda r, t: pb.real(pb.polar(r, t)), 2.0, 0.5)
    same([r, t], [math.cos(0.5), -2 * math.sin(0.5)])


def test_through_complex_numbers_and_back():
    """Rule 8.12."""
    same(gradient(lambda x: pb.imag(pb.sqrt(x.astype("complex128"))), -1.0), -0.5)


def test_writes_to_the_real_part_reach_the_base():
    """Rule 8.13."""
    z = pb.tensor([Z], requires_grad=True)
    y = z * 1
    y.real.mul_(10)
    assert y.tolist() == [10 + 2j]
    assert pb.autograd.grad(y, z, pb.tensor([1 + 1j]))[0].tolist() == [10 + 1j]


@pytest.mark.parametrize(
    "f",
    [
        lambda z: pb.maximum(z, 1.0),
        lambda z: pb.minimum(1j, z),
        lambda z: pb.fmax(z, z),
        lambda z: pb.fmin(z, z),
        lambda z: pb.clip(z, 0.0),
        lambda z: pb.clip(1.0, z),
        pb.erf,
    ],
)
def test_what_complex_numbers_do_not_have(f):
    """Rule 8.14."""
    with pytest.raises(UnsupportedDtypeError, match="not implemented for complex"):
        f(pb.tensor([1 + 1j]))


def test_nan_to_num_treats_real_and_imaginary_parts_apart():
    z = complex(nan, 2.0)
    assert pb.nan_to_num(z).item() == 2j
    assert gradient(pb.nan_to_num, z, 3 + 5j) == 5j


def test_complex_second_derivatives():
    """Rule 8.17."""
    z = pb.tensor(Z, requires_grad=True)
    (first,) = pb.autograd.grad(pb.abs(z) ** 4, z, create_graph=True)
    same(first.detach().numpy(), 20 + 40j)
    same(pb.autograd.grad(first.real, z, retain_graph=True)[0].numpy(), 28 + 16j)
    same(pb.autograd.grad(first.imag, z)[0].numpy(), 16 + 52j)
