"""Derivatives of linear algebra where there is none, or more than one: what is chosen."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

import pullback as pb


def gradient(function, x, weight=None):
    """The gradient of the sum of a result, or of its product with a weight."""
    leaf = pb.tensor(x, requires_grad=True)
    result = function(leaf)
    weight = np.ones(result.shape, result.dtype) if weight is None else np.asarray(weight)
    return pb.autograd.grad(result, leaf, pb.tensor(weight))[0].numpy()


def check(function, x, expected, **kwargs):
    np.testing.assert_allclose(gradient(function, x, **kwargs), expected, rtol=1e-12, atol=1e-15)


def second(function, x):
    """The diagonal sum of second derivatives: the gradient of the sum of the gradient."""
    leaf = pb.tensor(x, requires_grad=True)
    (first,) = pb.autograd.grad(function(leaf), leaf, create_graph=True)
    with np.errstate(all="ignore"):
        return pb.autograd.grad(first.sum(), leaf)[0].numpy()


@pytest.mark.parametrize("norm", [pb.linalg.norm, pb.linalg.vector_norm])
def test_norm_of_the_zero_vector(norm):
    """Rule 7.77."""
    check(norm, [0.0, 0.0], [0.0, 0.0])
    np.testing.assert_array_equal(second(norm, [0.0, 0.0]), [nan, nan])


def test_norm_1_at_a_zero():
    """Rule 7.78."""
    check(lambda x: pb.linalg.norm(x, 1), [0.0, 2.0], [0.0, 1.0])


@pytest.mark.parametrize(
    ("order", "x", "expected"),
    [
        (inf, [2.0, -2.0, 1.0], [0.5, -0.5, 0.0]),
        (-inf, [1.0, -1.0, 2.0], [0.5, -0.5, 0.0]),
        (inf, [0.0, 0.0], [0.0, 0.0]),
        (-inf, [0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_norm_inf_shares_ties(order, x, expected):
    """Rule 7.79."""
    check(lambda x: pb.linalg.norm(x, order), x, expected)


@pytest.mark.parametrize("order", [3, 1.5, 0.5])
def test_norms_with_a_zero_entry(order):
    """Rule 7.80."""
    check(lambda x: pb.linalg.norm(x, order), [0.0, 2.0], [0.0, 1.0])
    check(lambda x: pb.linalg.norm(x, order), [0.0, 0.0], [0.0, 0.0])


def test_norms_of_negative_order_with_a_zero_entry():
    """Rule 7.80."""
    for order in (-1, -3):
        check(lambda x, order=order: pb.linalg.norm(x, order), [1.0, 0.0, 2.0], [0.0, 0.0, 0.0])


def test_norm_0_does_not_use_its_input():
    """Rule 7.81."""
    x = pb.tensor([1.0, 0.0, 2.0], requires_grad=True)
    count = pb.linalg.norm(x, 0)
    assert count.item() == 2.0
    assert pb.autograd.grad(count, x, allow_unused=True) == (None,)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fro", [[0, 0], [0, 0]]),
        (2, [[0.5, 0], [0, 0.5]]),
        (-2, [[0.5, 0], [0, 0.5]]),
        ("nuc", [[1, 0], [0, 1]]),
        (1, [[0, 0], [0, 0]]),
        (inf, [[0, 0], [0, 0]]),
    ],
)
def test_matrix_norms_of_zero(order, expected):
    """Rule 7.82."""
    check(lambda x: pb.linalg.matrix_norm(x, ord=order), np.zeros((2, 2)), expected)
    check(lambda x: pb.linalg.norm(x, order), np.zeros((2, 2)), expected)


@pytest.mark.parametrize(
    "values",
    [
        lambda x: pb.linalg.eigh(x).eigenvalues,
        lambda x: pb.linalg.svd(x).S,
        pb.linalg.eigvalsh,
        pb.linalg.svdvals,
    ],
)
def test_repeated_values_alone_are_harmless(values):
    """Rule 7.100."""
    check(values, np.eye(2), np.eye(2))


@pytest.mark.parametrize(
    "vectors",
    [
        lambda x: pb.linalg.eigh(x).eigenvectors,
        lambda x: pb.linalg.svd(x).U,
        lambda x: pb.linalg.svd(x).Vh,
    ],
)
def test_vectors_of_repeated_values_have_no_derivative(vectors):
    """Rule 7.100."""
    assert np.isnan(gradient(vectors, np.eye(2))).all()


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], [[4, -2], [-2, 1]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
        ([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], np.diag([0, 0, 2])),
        ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], np.zeros((3, 3))),
        ([[0.0]], [[1]]),
    ],
)
def test_determinant_of_a_singular_matrix_has_its_cofactors(x, expected):
    """Rule 7.101."""
    check(pb.linalg.det, x, expected)


def test_determinant_of_a_nearly_singular_matrix_keeps_its_digits():
    """Rule 7.101."""
    x = np.array([[1.0, 2.0], [2.0, 4.0 + 1e-14]])
    check(pb.linalg.det, x, [[4.0 + 1e-14, -2], [-2, 1]])


def test_second_derivative_of_a_determinant_at_zero():
    """Rule 7.101."""

    def hessian_row(i, j):
        leaf = pb.tensor(np.zeros((2, 2)), requires_grad=True)
        (first,) = pb.autograd.grad(pb.linalg.det(leaf), leaf, create_graph=True)
        return pb.autograd.grad(first[i, j], leaf)[0].tolist()

    assert hessian_row(0, 0) == [[0.0, 0.0], [0.0, 1.0]]
    assert hessian_row(0, 1) == [[0.0, 0.0], [-1.0, 0.0]]


def test_slogdet_of_a_singular_matrix_is_infinitely_steep():
    """Rule 7.102."""
    x = [[1.0, 2.0], [2.0, 4.0]]
    expected = [[-inf, inf], [inf, -inf]]
    check(lambda x: pb.linalg.slogdet(x).logabsdet, x, expected)
    stack = np.array([x, [[2.0, 0.0], [0.0, 4.0]]])
    both = gradient(lambda x: pb.linalg.slogdet(x).logabsdet, stack)
    np.testing.assert_array_equal(both, [expected, [[0.5, 0.0], [0.0, 0.25]]])


def test_products_of_complex_numbers():
    """Rule 8.10."""
    z, w = np.array([1 + 2j, 3 - 1j]), np.array([2 - 1j, 1j])
    check(lambda x: pb.dot(x, w), z, w.conj())
    check(lambda x: pb.dot(z, x), w, z.conj())
    check(lambda x: pb.vdot(x, w), z, w)
    check(lambda x: pb.vdot(z, x), w, z)
    a, b = np.array([[1 + 1j, 2], [3j, 4]]), np.array([[1, 1j], [2 - 1j, 3]])
    g = np.array([[1, 2j], [3, 4 + 1j]])
    check(lambda x: pb.matmul(x, b), a, g @ b.conj().T, weight=g)
    check(lambda x: pb.matmul(a, x), b, a.conj().T @ g, weight=g)


def test_norms_of_complex_numbers():
    """Rule 8.11."""
    check(pb.linalg.norm, [3 + 4j, 0j], [0.6 + 0.8j, 0])
    check(lambda x: pb.linalg.norm(x, 1), [3 + 4j, 0j], [0.6 + 0.8j, 0])


def test_power_of_a_spectrum():
    """Rule 8.11."""
    check(lambda x: pb.sum(pb.abs(pb.fft.fft(x)) ** 2), [3.0, 4.0], [12.0, 16.0])
