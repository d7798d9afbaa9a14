"""Initial value problems on tensors: large systems, stiffness, mapped solutions, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

from scipy.integrate import solve_ivp

RATES = np.array([1.3, 0.7])


def change(t, y, p):
    return np.stack([p[0] * y[0] - y[0] * y[1], p[1] * y[0] * y[1] - y[1]])


def final(p, **options):
    given = {"rtol": 1e-9, "atol": 1e-10, **options}
    return (solve_ivp(change, (0.0, 2.0), [1.0, 0.6], args=(p,), **given).y[:, -1] ** 2).sum()


def test_the_adjoint_saves_no_right_hand_sides_and_agrees():
    p = pb.tensor(RATES, requires_grad=True)
    (plain,) = pb.autograd.grad(final(p), p)
    (again,) = pb.autograd.grad(final(p, adjoint=True), p)
    np.testing.assert_allclose(again.numpy(), plain.numpy(), rtol=1e-11)
    with pytest.raises(DerivativeMissingError, match="adjoint=True"):
        final(p, adjoint=True, method="Radau")


def test_a_branch_on_values_is_followed_point_by_point():
    def branched(t, y, p):
        values = y.detach().numpy() if isinstance(y, pb.Tensor) else y
        return -p * y if values.sum() > 0.5 else -2 * p * y

    def loss(p):
        return solve_ivp(branched, (0.0, 0.6), np.ones(1), args=(p,), rtol=1e-9, atol=1e-10).y[
            0, -1
        ]

    assert pb.grad(loss)(1.0) == pytest.approx(-0.6 * np.exp(-0.6), rel=1e-6)


def test_a_stiff_problem_by_lsoda_is_replayed_by_radau():
    def stiff(t, y, k):
        return -k * (y - np.cos(t))

    def loss(k, method="LSODA"):
        found = solve_ivp(stiff, (0.0, 1.0), np.zeros(1), method, args=(k,), rtol=1e-7, atol=1e-9)
        return found.y[0, -1]

    expected = pb.grad(lambda k: loss(k, "Radau"))(2000.0)
    assert pb.grad(loss)(2000.0) == pytest.approx(expected, rel=1e-3)


def test_mapped_solutions_have_the_gradients_of_single_ones():
    rows = np.stack([RATES, 1.1 * RATES, 0.9 * RATES])
    found = pb.func.vmap(pb.func.grad(final))(pb.tensor(rows)).numpy()
    np.testing.assert_allclose(found, [pb.grad(final)(row) for row in rows], rtol=1e-6)


def test_an_unknown_method_and_failed_steps():
    p = pb.tensor(RATES, requires_grad=True)
    with pytest.raises(ValueError, match="method"):
        solve_ivp(change, (0.0, 1.0), [1.0, 0.6], "Euler", args=(RATES,))

    def explodes(t, y, p):
        return p[0] * y * y

    result = solve_ivp(explodes, (0.0, 2.0), [1.0], args=(p,))
    assert not result.success
    assert result.t[-1] < 1.0
