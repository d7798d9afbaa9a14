"""Interpolators: classes, pickling, mixed arguments, bad input, and points outside."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError

si = pytest.importorskip("scipy.interpolate", reason="pip install scipy runs these tests")

X = np.linspace(0.0, 3.0, 7)
Y = np.sin(X)
POINTS = np.array([0.3, 1.7, 2.2])
GRID = (np.linspace(0.0, 1.0, 5), np.linspace(0.0, 2.0, 6))
VALUES = np.add.outer(GRID[0] ** 2, np.sin(GRID[1]))
SCATTERED = np.random.default_rng(0).random((7, 2))


def tensor(values):
    return pb.tensor(values, requires_grad=True)


CLASSES = {
    "CubicSpline": lambda y: si.CubicSpline(X, y),
    "CubicHermiteSpline": lambda y: si.CubicHermiteSpline(X, y, Y),
    "PchipInterpolator": lambda y: si.PchipInterpolator(X, y),
    "Akima1DInterpolator": lambda y: si.Akima1DInterpolator(X, y),
    "interp1d": lambda y: si.interp1d(X, y),
    "UnivariateSpline": lambda y: si.UnivariateSpline(X, y, s=0),
    "InterpolatedUnivariateSpline": lambda y: si.InterpolatedUnivariateSpline(X, y),
    "LSQUnivariateSpline": lambda y: si.LSQUnivariateSpline(X, y, [1.5]),
    "BarycentricInterpolator": lambda y: si.BarycentricInterpolator(X, y),
    "KroghInterpolator": lambda y: si.KroghInterpolator(X, y),
}


@pytest.mark.parametrize("name", CLASSES)
def test_an_interpolator_of_tensors_is_an_instance_of_scipys_class(name):
    made = CLASSES[name](tensor(Y))
    assert isinstance(made, getattr(si, name))
    np.testing.assert_allclose(made(POINTS).detach().numpy(), CLASSES[name](Y)(POINTS), atol=1e-12)


@pytest.mark.parametrize("name", CLASSES)
def test_data_and_points_have_gradients_together(name):
    y, points = tensor(Y), tensor(POINTS)
    by_data, by_points = pb.autograd.grad(CLASSES[name](y)(points).sum(), (y, points))
    step = 1e-6
    for place in (1, 4):
        up, down = (Y + sign * step * (np.arange(7) == place) for sign in (1, -1))
        change = (CLASSES[name](up)(POINTS) - CLASSES[name](down)(POINTS)).sum() / (2 * step)
        np.testing.assert_allclose(by_data.numpy()[place], change, atol=1e-6)
    moved = CLASSES[name](Y)
    change = (moved(POINTS + step) - moved(POINTS - step)) / (2 * step)
    np.testing.assert_allclose(by_points.numpy(), change, atol=1e-6)


def test_coefficients_and_breakpoints_are_tensors():
    y = tensor(Y)
    made = si.CubicSpline(X, y)
    assert isinstance(made.c, pb.Tensor)
    assert isinstance(made.x, pb.Tensor)
    assert made.c.shape == (4, 6)
    (gradient,) = pb.autograd.grad(made.c[3].sum(), y)  # the constant terms are the data
    assert gradient.tolist() == [1.0] * 6 + [0.0]


def test_a_spline_of_tensors_can_be_pickled():
    made = si.CubicSpline(X, tensor(Y))
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    np.testing.assert_array_equal(again(POINTS).detach().numpy(), made(POINTS).detach().numpy())


def test_constant_tensors_give_scipys_own_objects():
    assert type(si.CubicSpline(X, pb.tensor(Y))) is si.CubicSpline


def test_a_users_subclass_stays_one():
    class Mine(si.CubicSpline):
        def slope(self, x):
            return self(x, 1)

    y = tensor(Y)
    made = Mine(X, y)
    assert isinstance(made, Mine)
    assert made.slope(POINTS).requires_grad


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: si.CubicSpline(X[::-1].copy(), t), "strictly increasing"),
        (lambda t: si.CubicSpline(X[:-1], t), "doesn't match"),
        (lambda t: si.CubicSpline(X[:1], t[:1]), "at least 2"),
        (lambda t: si.CubicSpline(X, t * np.nan), "finite"),
        (lambda t: si.CubicSpline(X, t, bc_type="free"), "not allowed"),
        (lambda t: si.CubicSpline(X, t, bc_type="periodic"), "must be identical"),
        (lambda t: si.PchipInterpolator(X[::-1].copy(), t), "strictly increasing"),
        (lambda t: si.make_interp_spline(X[::-1].copy(), t), "increasing"),
        (lambda t: si.make_interp_spline(X[:3], t[:3], k=5), "number of derivatives"),
        (lambda t: si.interp1d(X, t)(9.0), "above the interpolation range"),
        (lambda t: si.interp1d(X, t)(-9.0), "below the interpolation range"),
        (lambda t: si.BSpline(X, t[:3], 3), "at least 8 knots"),
        (lambda t: si.BSpline(X[::-1].copy(), t[:5], 1), "non-decreasing"),
        (lambda t: si.RegularGridInterpolator(GRID, VALUES)(t[:2] + 9), "out of bounds"),
        (lambda t: si.RegularGridInterpolator(GRID, VALUES)(t[:3, None]), "dimension"),
        (lambda t: si.RectBivariateSpline(*GRID, VALUES)(t[::-1], t), "increasing"),
        (lambda t: si.RBFInterpolator(VALUES[:, :2], t[:5])(t), "2-dimensional"),
        (lambda t: si.splev(t - 9, si.splrep(X, Y), ext=2), "outside"),
        (lambda t: si.CubicSpline(X, t)(POINTS, -1), "negative"),
    ],
)
def test_bad_input_raises_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(tensor(Y))


def test_a_surface_on_the_grid_of_a_number_and_a_list():
    surface = si.RectBivariateSpline(*GRID, VALUES)
    low, high = float(GRID[1][0]), float(GRID[1][-1])
    at, along = float(GRID[0].mean()), [low, (low + high) / 2]
    expected = surface(at, along)
    by_point = pb.tensor(at, requires_grad=True)
    by_values = pb.tensor(VALUES, requires_grad=True)
    for found in (surface(by_point, along), si.RectBivariateSpline(*GRID, by_values)(at, along)):
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)
        found.sum().backward()
    np.testing.assert_allclose(by_point.grad.item(), surface(at, along, dx=1).sum(), rtol=1e-10)
    np.testing.assert_allclose(by_values.grad.numpy().sum(), 2.0, rtol=1e-10)


def test_points_outside_are_nan_where_scipy_says_so():
    y = tensor(Y)
    found = si.Akima1DInterpolator(X, y)(np.array([-1.0, 1.0, 9.0]))
    assert np.isnan(found.detach().numpy()).tolist() == [True, False, True]
    (gradient,) = pb.autograd.grad(found[1], y)
    assert np.isfinite(gradient.numpy()).all()


def test_nan_points_give_nan():
    found = si.CubicSpline(X, tensor(Y))(np.array([np.nan, 1.0]))
    assert np.isnan(found.detach().numpy()).tolist() == [True, False]


def test_no_points_give_no_values():
    y = tensor(Y)
    found = si.CubicSpline(X, y)(np.zeros(0))
    assert found.shape == (0,)
    (gradient,) = pb.autograd.grad(found.sum(), y)
    assert gradient.tolist() == [0.0] * 7


def test_a_smoothing_parameter_that_fitpack_searched_has_no_derivative():
    noisy = tensor(Y + 0.1 * np.cos(9 * X))
    with pytest.raises(DerivativeMissingError, match=r"s=0\.02"):
        si.splrep(X, noisy, s=0.02)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda t: si.make_interp_spline(X, 0 * t, bc_type="periodic"), "bc_type"),
        (lambda t: si.griddata(SCATTERED, t, VALUES[:, :2], "cubic"), "method"),
        (lambda t: si.KroghInterpolator(np.zeros(7), t), "repeated nodes"),
        (lambda t: si.CubicSpline(X, t).extend(np.ones((4, 1)), [9.0]), "extend"),
    ],
)
def test_options_without_a_rule_are_refused_by_name(call, name):
    with pytest.raises(DerivativeMissingError, match=name):
        call(tensor(Y))
