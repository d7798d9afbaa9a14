"""Sparse systems: interception, bad input, and the factorisation that backward passes keep."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError, DerivativeMissingError

sparse = pytest.importorskip("scipy.sparse", reason="pip install scipy runs these tests")
linalg = pytest.importorskip("scipy.sparse.linalg")

VALUES = np.array([4.0, 1.0, 1.0, 3.0])
B = np.array([1.0, 2.0])


def matrix(values, kind="csr_array"):
    return getattr(sparse, kind)((values, ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2))


def tensor(values):
    return pb.tensor(values, requires_grad=True)


def test_a_scipy_array_made_from_a_tensor_is_differentiable():
    made = matrix(tensor(VALUES))
    assert isinstance(made, sparse.csr_array)
    assert isinstance(made, pb.sparse.csr_array)
    assert linalg.spsolve(made, B).requires_grad


def test_factorisations_stay_scipys():
    factors = linalg.splu(matrix(VALUES, "csc_array"))
    assert isinstance(factors, linalg.SuperLU)
    assert factors.shape == (2, 2)
    np.testing.assert_allclose((factors.L @ factors.U).toarray().shape, (2, 2))
    np.testing.assert_allclose(matrix(VALUES) @ factors.solve(B), B)


def test_a_backward_pass_uses_the_factorisation_of_the_forward_pass(monkeypatch):
    counts = []
    original = linalg.splu

    def counted(*args, **kwargs):
        counts.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(linalg, "splu", counted)
    values = tensor(VALUES)
    linalg.spsolve(matrix(values), tensor(B)).sum().backward()
    assert values.grad is not None
    assert len(counts) == 1


def test_a_singular_matrix_warns_and_gives_nan_as_scipy_does():
    values = tensor(np.array([1.0, 2.0, 2.0, 4.0]))
    with pytest.warns(linalg.MatrixRankWarning):
        found = linalg.spsolve(matrix(values), B)
    assert np.isnan(found.detach().numpy()).all()
    with pytest.raises(RuntimeError, match="singular"):
        linalg.splu(matrix(values, "csc_array"))


def test_nan_and_wrong_shapes():
    found = linalg.spsolve(matrix(VALUES), tensor(np.array([np.nan, 1.0])))
    assert np.isnan(found.detach().numpy()).any()
    with pytest.raises(ValueError, match="rhs dimension mismatch"):
        linalg.spsolve(matrix(VALUES), tensor(np.ones(3)))
    with pytest.raises(ValueError, match="must be square"):
        linalg.spsolve(matrix(tensor(VALUES))[:1], B)
    with pytest.raises(ValueError, match="incompatible size"):
        linalg.splu(matrix(VALUES, "csc_array")).solve(tensor(np.ones(3)))


def test_an_iteration_that_stops_early_has_scipys_info_and_the_exact_gradient():
    size = 30
    fixed = sparse.diags_array(
        [np.full(size, 2.0), -np.ones(size - 1), -np.ones(size - 1)], offsets=[0, 1, -1]
    ).tocsr()
    right = tensor(np.ones(size))
    found, info = linalg.cg(fixed, right, maxiter=3)
    expected, expected_info = linalg.cg(fixed, np.ones(size), maxiter=3)
    assert info == expected_info == 3
    np.testing.assert_allclose(found.detach().numpy(), expected)
    (gradient,) = pb.autograd.grad(found.sum(), right)
    np.testing.assert_allclose(gradient.numpy(), linalg.spsolve(fixed, np.ones(size)), rtol=1e-8)


def test_a_derivative_that_does_not_converge_raises():
    singular = sparse.diags_array([np.array([1.0, 0.0])], offsets=[0]).tocsr()
    right = tensor(np.array([1.0, 0.0]))
    found, _ = linalg.gmres(singular, right)
    with pytest.raises(AutogradError, match="did not converge"):
        (found * np.array([0.0, 1.0])).sum().backward()
    assert right.grad is None


def test_what_has_no_rule_is_refused_by_name():
    with pytest.raises(DerivativeMissingError, match="spilu"):
        linalg.spilu(matrix(tensor(VALUES), "csc_array"))
    with pytest.raises(DerivativeMissingError, match="b is a sparse array"):
        linalg.spsolve(matrix(tensor(VALUES)), sparse.csc_array(B[:, None]))
    with pytest.raises(DerivativeMissingError, match="mode"):
        linalg.eigsh(matrix(tensor(VALUES)), k=1, sigma=0.5, mode="buckling")


def test_a_parameter_in_the_functions_of_an_operator_is_refused_and_not_lost():
    def solve(p):
        return linalg.LinearOperator(
            (2, 2), matvec=lambda v: v * (1 + p[0]), rmatvec=lambda v: v * (1 + p[0]), dtype=float
        )

    point = np.array([0.3, 0.5])
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"cg.*capture a gradient"):
        pb.grad(lambda p: linalg.cg(solve(p), p)[0].sum())(point)
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"matvec.*capture a gradient"):
        pb.grad(lambda p: solve(p).matvec(p).sum())(point)
    with pytest.raises(pb.errors.DerivativeMissingError, match="LinearOperator"):
        pb.grad(lambda p: (pb.sparse.LinearOperator(lambda x: x**2, p) @ np.ones(2)).sum())(point)
    with pytest.raises(pb.errors.DerivativeMissingError, match="LinearOperator"):
        pb.grad(lambda p: (pb.sparse.LinearOperator(lambda x: x * p, point) @ point).sum())(point)


@pytest.mark.parametrize(
    ("name", "dtype"), [("cg", np.float64), ("cg", np.complex128), ("minres", np.float64)]
)
def test_an_operator_for_a_hermitian_matrix_needs_no_rmatvec(name, dtype):
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]], dtype)
    if dtype == np.complex128:
        matrix += np.array([[0.0, 1j], [-1j, 0.0]])
    operator = linalg.LinearOperator((2, 2), matvec=lambda v: matrix @ v, dtype=dtype)
    b = pb.tensor(np.array([1.0, 2.0], dtype), requires_grad=True)
    weights = np.array([1.0, -0.5], dtype)
    (found,) = pb.autograd.grad((getattr(linalg, name)(operator, b)[0] * weights).sum().real, b)
    expected = np.linalg.solve(matrix.conj().T, weights.conj())
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)


def test_an_operator_without_rmatvec_is_refused_by_name_in_the_derivative():
    operator = linalg.LinearOperator((2, 2), matvec=lambda v: 2.0 * v)
    b = pb.tensor([1.0, 2.0], requires_grad=True)
    solution, _ = linalg.gmres(operator, b)
    with pytest.raises(pb.errors.DerivativeMissingError, match=r"gmres.*rmatvec"):
        solution.sum().backward()
