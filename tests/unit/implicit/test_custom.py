"""Implicit differentiation around solvers of one's own: modes, orders, vmap, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError
from pullback.implicit import attach, custom_fixed_point, custom_linear_solve, custom_root

A = np.array([0.7, 1.3])


def residual(y, a):
    return pb.stack([y[0] ** 3 + a[0] * y[1] - 2.0, pb.exp(y[1]) * a[1] + y[0] * a[0] - 3.0])


def newton(f, y, a):
    for _ in range(60):
        y = y - pb.linalg.solve(pb.func.jacfwd(f)(y, a), f(y, a))
    return y


def loop(a):
    """The same root with the iteration recorded: exact after quadratic convergence."""
    y = pb.tensor([1.0, 0.5])
    for _ in range(12):
        y = y - pb.linalg.solve(pb.func.jacfwd(residual)(y, a), residual(y, a))
    return y


def root(a):
    return custom_root(residual, newton)(np.array([1.0, 0.5]), a)


def scalar(of):
    return lambda a: (of(a) ** 2 * np.array([1.0, 2.0])).sum() * a[0]


def test_value_and_gradient_are_those_of_the_recorded_iteration():
    np.testing.assert_allclose(pb.jacobian(root)(A), pb.jacobian(loop)(A), rtol=1e-10)
    np.testing.assert_allclose(pb.grad(scalar(root))(A), pb.grad(scalar(loop))(A), rtol=1e-10)


def test_second_derivatives_in_every_order_of_modes():
    expected = pb.hessian(scalar(loop))(A)
    jac = {"fwd": pb.func.jacfwd, "rev": pb.func.jacrev}
    f, a = scalar(root), pb.tensor(A)
    np.testing.assert_allclose(pb.hessian(f)(A), expected, rtol=1e-9)
    for outer in jac.values():
        for inner in jac.values():
            np.testing.assert_allclose(outer(inner(f))(a).numpy(), expected, rtol=1e-9)
    rows = [pb.hvp(f)(A, unit) for unit in np.eye(2)]
    np.testing.assert_allclose(rows, expected, rtol=1e-9)


def test_third_derivatives_by_nested_transforms():
    expected = pb.func.jacfwd(pb.func.hessian(scalar(loop)))(pb.tensor(A)).numpy()
    for outer in (pb.func.jacfwd, pb.func.jacrev):
        found = outer(pb.func.hessian(scalar(root)))(pb.tensor(A)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    found = pb.func.jacrev(pb.func.jacrev(pb.func.grad(scalar(root))))(pb.tensor(A)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def repeated(f, times):
    a = pb.tensor(A, requires_grad=True)
    found = f(a)
    for _ in range(times):
        (gradient,) = pb.autograd.grad(found, a, create_graph=True)
        found = gradient[0]
    return found.item()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_repeated_reverse_passes_are_exact_to_the_order_and_raise_beyond(order):
    def f(a):
        return (custom_root(residual, newton, order=order)([1.0, 0.5], a)).sum()

    for times in range(1, order + 1):
        exact = repeated(lambda a: loop(a).sum(), times)
        assert repeated(f, times) == pytest.approx(exact, rel=1e-8)
    with pytest.raises(DerivativeMissingError, match=rf"order {order + 1} .* exact to order"):
        repeated(f, order + 1)


def test_reverse_passes_inside_a_forward_level_are_counted_with_it():
    with pb.autograd.forward_ad.dual_level():
        a = pb.tensor(A, requires_grad=True)
        dual = pb.autograd.forward_ad.make_dual(a, pb.ones(2))
        y = custom_root(residual, newton)([1.0, 0.5], dual).sum()
        (first,) = pb.autograd.grad(y, a, create_graph=True)
        with pytest.raises(DerivativeMissingError, match="exact to order 1"):
            pb.autograd.grad(first.sum(), a)


def test_linearize_transposes_without_counting_as_a_second_derivative():
    f = lambda a: custom_root(residual, newton, order=1)([1.0, 0.5], a)  # noqa: E731
    _, push = pb.func.linearize(f, pb.tensor(A))
    expected = pb.jacobian(loop)(A) @ [1.0, 2.0]
    np.testing.assert_allclose(push(pb.tensor([1.0, 2.0])).numpy(), expected, rtol=1e-10)


def test_captured_tensors_take_part():
    b = pb.tensor(2.0, requires_grad=True)
    y = custom_root(lambda y: y**3 - b, lambda f, y: np.cbrt(b.detach().numpy()))(1.0)
    y.backward()
    assert b.grad.item() == pytest.approx(2 ** (-2 / 3) / 3)


def test_vmap_over_arguments():
    rows = np.stack([A, A + 0.1, A - 0.2])
    found = pb.func.vmap(root)(pb.tensor(rows)).numpy()
    np.testing.assert_allclose(found, [root(row).numpy() for row in rows], rtol=1e-12)
    gradients = pb.func.vmap(pb.func.grad(scalar(root)))(pb.tensor(rows)).numpy()
    np.testing.assert_allclose(gradients, [pb.grad(scalar(root))(r) for r in rows], rtol=1e-10)


def test_float32_stays_float32():
    a = pb.tensor(A.astype(np.float32), requires_grad=True)
    y = custom_root(residual, newton)(np.float32([1.0, 0.5]), a)
    y.sum().backward()
    assert y.dtype == a.grad.dtype == np.float32


def test_fixed_point_without_solver_and_no_convergence():
    point = custom_fixed_point(lambda y, a: pb.cos(a * y))
    slope, second = pb.grad(lambda a: point(0.5, a)), 1e-5
    y = point(0.5, 1.0).item()
    assert slope(1.0) == pytest.approx(-np.sin(y) * y / (1 + np.sin(y)), rel=1e-10)
    numeric = (slope(1 + second) - slope(1 - second)) / (2 * second)
    assert pb.grad(slope)(1.0) == pytest.approx(numeric, rel=1e-7)
    with pytest.raises(RuntimeError, match="no convergence"):
        custom_fixed_point(lambda y, a: a * y)(1.0, -3.0)


def test_linear_solve_by_matrix_and_right_hand_side():
    matrix = np.array([[3.0, 1.0], [-0.5, 2.0]])
    b = np.array([1.0, 2.0])

    def jacobi(product, b):
        x = b * 0
        for _ in range(200):
            x = x + 0.3 * (b - product(x))
        return x

    def ours(m, b):
        return (custom_linear_solve(lambda x: m @ x, b, jacobi) ** 3).sum()

    def theirs(m, b):
        return (pb.linalg.solve(m, b) ** 3).sum()

    for place in (0, 1):
        np.testing.assert_allclose(
            pb.grad(ours, place)(matrix, b), pb.grad(theirs, place)(matrix, b), atol=1e-12
        )
        np.testing.assert_allclose(
            pb.hessian(ours, place)(matrix, b), pb.hessian(theirs, place)(matrix, b), atol=1e-11
        )


def test_large_systems_are_solved_without_the_jacobian():
    n = 1500
    d = np.linspace(1.0, 2.0, n)

    def f(y, a):
        return d * y + 0.1 * pb.roll(y, 1) ** 2 - a

    def solver(f, y, a):
        for _ in range(100):
            y = y - f(y, a) / d
        return y

    a = pb.tensor(np.ones(n), requires_grad=True)
    y = custom_root(f, solver)(np.ones(n), a)
    y.sum().backward()
    jac = np.diag(d) + np.roll(np.diag(0.2 * np.roll(y.detach().numpy(), 1)), -1, axis=1)
    np.testing.assert_allclose(a.grad.numpy(), np.linalg.solve(jac.T, np.ones(n)), rtol=1e-9)


def test_singular_jacobian_raises():
    b = pb.tensor([1.0, 1.0], requires_grad=True)
    with pytest.raises(np.linalg.LinAlgError):
        attach(pb.tensor([0.5, 0.5]), lambda y: y.sum() * pb.ones(2) - b)
    with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
        attach(pb.tensor([0.5, 0.5]), lambda y: pb.stack([y.sum(), y.sum() * (1 + 1e-16)]) - b)


def test_residual_of_another_size_is_refused():
    b = pb.tensor(1.0, requires_grad=True)
    with pytest.raises(ValueError, match="3 elements and the solution 2"):
        attach(pb.tensor([0.5, 0.5]), lambda y: pb.ones(3) * b * y[0])


def test_a_linear_solver_may_read_values_in_every_way_to_the_hessian():
    base = np.array([[4.0, 1.0], [0.5, 3.0]])

    def solver(product, b):
        columns = [np.asarray(product(unit)) for unit in np.eye(2)]
        return np.linalg.solve(np.stack(columns, 1), np.asarray(b))

    def cost(p, solve=lambda a, b: pb.implicit.custom_linear_solve(lambda v: a @ v, b, solver)):
        return (solve(p[:, None] * np.array([1.0, 2.0]) + base, p**2) ** 3).sum()

    x = np.array([0.3, 0.5])
    expected = pb.hessian(lambda p: cost(p, np.linalg.solve))(x)
    for found in (
        pb.hessian(cost)(x),
        pb.func.jacfwd(pb.func.grad(cost))(pb.tensor(x)).numpy(),
        pb.func.jacrev(pb.func.grad(cost))(pb.tensor(x)).numpy(),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_residual_may_return_an_array_or_a_list():
    def newton(f, y, a):
        y = np.asarray(y)
        for _ in range(30):
            y = y - np.asarray(f(y, np.asarray(a))).reshape(y.shape) / (2 * y)
        return y

    for residual in (
        lambda y, a: [y[0] ** 2 - a[0], y[1] ** 2 - a[1]],
        lambda y, a: np.array([y[0] ** 2 - a[0], y[1] ** 2 - a[1]]),
    ):
        root = pb.implicit.custom_root(residual, newton)
        a = np.array([4.0, 9.0])
        np.testing.assert_allclose(root(np.ones(2), a).numpy(), [2.0, 3.0])
        found = pb.grad(lambda a, root=root: root(np.ones(2), a).sum())(a)
        np.testing.assert_allclose(found, [1 / 4, 1 / 6])
