"""What reductions give where a derivative is not defined, or easily goes wrong."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

inf, nan = np.inf, np.nan


def gradient(function, data, weights=None):
    """The gradient of a function at some data, for a sum of its results or given weights."""
    x = pb.tensor(data, requires_grad=True)
    y = function(x)
    weights = np.ones(y.shape, y.dtype) if weights is None else np.asarray(weights)
    with np.errstate(all="ignore"):
        return pb.autograd.grad(y, x, pb.tensor(weights), materialize_grads=True)[0].numpy()


def hessian(function, data):
    """The second derivatives of a function with one result."""
    x = pb.tensor(data, requires_grad=True)
    with np.errstate(all="ignore"):
        (first,) = pb.autograd.grad(function(x), x, create_graph=True)
        rows = [
            pb.autograd.grad(first[i], x, retain_graph=True, materialize_grads=True)[0].numpy()
            for i in range(x.size)
        ]
    return np.array(rows)


@pytest.mark.parametrize("function", [pb.max, lambda x: pb.max(x, 0), pb.nanmax])
def test_largest_elements_that_tie_share_evenly(function):
    """Rule 7.56."""
    np.testing.assert_array_equal(gradient(function, [3.0, 3.0, 1.0]), [0.5, 0.5, 0])
    np.testing.assert_array_equal(gradient(function, [2.0, 2.0, 2.0]), [1 / 3] * 3)


@pytest.mark.parametrize("function", [pb.min, lambda x: pb.min(x, -1, True), pb.nanmin])
def test_smallest_elements_that_tie_share_evenly(function):
    """Rule 7.56."""
    np.testing.assert_array_equal(gradient(function, [1.0, 3.0, 1.0]), [0.5, 0, 0.5])


def test_ties_are_shared_within_their_slice():
    """Rule 7.56."""
    data = [[3.0, 3.0, 1.0], [5.0, 3.0, 5.0]]
    got = gradient(lambda x: pb.max(x, 1), data, [2.0, 8.0])
    np.testing.assert_array_equal(got, [[1, 1, 0], [4, 0, 4]])
    got = gradient(lambda x: pb.max(x, (0, 1)), data)
    np.testing.assert_array_equal(got, [[0, 0, 0], [0.5, 0, 0.5]])


def test_smallest_and_largest_together():
    """Rule 7.58."""
    got = gradient(lambda x: pb.min(x) + pb.max(x), [1.0, 1.0, 3.0, 3.0])
    np.testing.assert_array_equal(got, [0.5, 0.5, 0.5, 0.5])


@pytest.mark.parametrize("function", [pb.max, pb.min, lambda x: pb.max(x, 0)])
def test_nan_takes_the_gradient(function):
    """Rules 7.59, 7.60."""
    np.testing.assert_array_equal(gradient(function, [nan, 1.0, nan]), [0.5, 0, 0.5])


def test_nanmax_of_nan_only_shares_among_them():
    np.testing.assert_array_equal(gradient(pb.nanmax, [nan, nan]), [0.5, 0.5])
    np.testing.assert_array_equal(gradient(pb.nanmax, [nan, -inf]), [0, 1])


def test_the_latest_of_equals_takes_over():
    """Rule 7.71."""
    data = [1.0, 2.0, 2.0, 1.0]
    np.testing.assert_array_equal(gradient(lambda x: pb.cummax(x, 0)[0], data), [1, 1, 2, 0])
    np.testing.assert_array_equal(
        gradient(lambda x: pb.cummin(x, 0)[0], [2.0, 1.0, 1.0, 2.0]), [1, 1, 2, 0]
    )


def test_running_extremes_stay_at_the_latest_nan():
    values, indices = pb.cummax(np.array([1.0, nan, 3.0, nan, 2.0]), 0)
    np.testing.assert_array_equal(values.numpy(), [1, nan, nan, nan, nan])
    np.testing.assert_array_equal(indices.numpy(), [0, 1, 1, 3, 3])


@pytest.mark.parametrize("function", [pb.prod, lambda x: pb.prod(x, 0), pb.nanprod])
def test_product_with_one_zero(function):
    """Rule 7.74."""
    np.testing.assert_array_equal(gradient(function, [0.0, 2.0, 3.0]), [6, 0, 0])


def test_product_with_two_zeros():
    """Rule 7.75."""
    np.testing.assert_array_equal(gradient(pb.prod, [0.0, 0.0, 3.0]), [0, 0, 0])
    second = hessian(pb.prod, [0.0, 0.0, 3.0])
    np.testing.assert_array_equal(second, [[0, 3, 0], [3, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(second.sum(1), [3, 3, 0])


def test_third_order_with_three_zeros():
    """Rule 7.75."""
    x = pb.tensor([0.0, 0.0, 0.0, 5.0], requires_grad=True)
    (first,) = pb.autograd.grad(pb.prod(x), x, create_graph=True)
    (second,) = pb.autograd.grad(first[0], x, create_graph=True)
    (third,) = pb.autograd.grad(second[1], x)
    np.testing.assert_array_equal(third.numpy(), [0, 0, 5, 0])


def test_product_with_infinity_is_not_divided_by_it():
    np.testing.assert_array_equal(gradient(pb.prod, [inf, 2.0]), [2, inf])


def test_running_product_with_zeros():
    """Rule 7.76."""
    np.testing.assert_array_equal(gradient(pb.cumprod, [2.0, 0.0, 3.0]), [1, 8, 0])
    np.testing.assert_array_equal(gradient(pb.cumprod, [2.0, 0.0, 0.0, 3.0]), [1, 2, 0, 0])


def test_running_product_second_order_with_zeros():
    """Rule 7.76."""
    second = hessian(lambda x: pb.cumprod(x).sum(), [0.0, 0.0, 3.0])
    np.testing.assert_array_equal(second, [[0, 4, 0], [4, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("function", [pb.std, pb.nanstd])
def test_deviation_of_a_constant(function):
    """Rule 7.83."""
    np.testing.assert_array_equal(gradient(function, [2.0, 2.0, 2.0]), [0, 0, 0])
    np.testing.assert_array_equal(hessian(function, [2.0, 2.0, 2.0]), np.zeros((3, 3)))


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize("function", [pb.std, pb.var, pb.nanstd, pb.nanvar])
def test_one_element_without_freedom(function):
    """Rule 7.83."""
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(gradient(lambda x: function(x, ddof=1), [2.0]), [nan])


@pytest.mark.parametrize("function", [pb.var, pb.nanvar])
def test_variance_of_a_constant(function):
    """Rule 7.84."""
    np.testing.assert_array_equal(gradient(function, [2.0, 2.0]), [0, 0])
    np.testing.assert_array_equal(gradient(function, [2.0]), [0])


@pytest.mark.parametrize(
    ("data", "expected"),
    [([-inf, -inf], [nan, nan]), ([inf, 1.0], [nan, 0]), ([-inf, 1.0], [0, 1])],
)
def test_logsumexp_of_infinities(data, expected):
    """Rule 7.89."""
    np.testing.assert_array_equal(gradient(pb.logsumexp, data), expected)


def test_logsumexp_does_not_overflow():
    x = np.array([1000.0, 1000.0])
    np.testing.assert_allclose(pb.logsumexp(x).item(), 1000 + np.log(2), rtol=1e-15)
    np.testing.assert_allclose(gradient(pb.logsumexp, x), [0.5, 0.5], rtol=1e-12)
    assert pb.logsumexp(np.zeros(0)).item() == -inf
    assert pb.logsumexp([-inf, -inf]).item() == -inf


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", [pb.sum, pb.mean, pb.prod, pb.logsumexp, pb.var])
def test_gradient_of_empty_slice_is_zero(function):
    """Rule 7.93."""
    assert gradient(lambda x: function(x, 1), np.zeros((2, 0))).shape == (2, 0)


def test_values_of_empty_slices():
    """Rule 7.93."""
    assert pb.sum(np.zeros(0)).item() == 0
    assert pb.prod(np.zeros(0)).item() == 1
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"), np.errstate(all="ignore"):
        assert np.isnan(pb.mean(np.zeros(0)).item())


def test_nan_gets_no_gradient():
    """Rule 7.94."""
    np.testing.assert_array_equal(gradient(pb.nansum, [nan, 2.0]), [0, 1])
    np.testing.assert_array_equal(gradient(pb.nanmean, [nan, 2.0]), [0, 1])


def test_gradient_of_an_extreme_is_a_constant():
    """Rule 7.107."""
    x = pb.tensor([3.0, 3.0, 1.0], requires_grad=True)
    (first,) = pb.autograd.grad(pb.max(x), x, create_graph=True)
    assert not first.requires_grad


def test_complex_reductions():
    """Rule 8.11."""
    z = np.array([1 + 1j, 2 + 0j])
    np.testing.assert_allclose(gradient(pb.prod, z), [2, 1 - 1j])
    np.testing.assert_allclose(gradient(pb.mean, z), [0.5, 0.5])
    np.testing.assert_allclose(gradient(pb.cumprod, z), [3, 1 - 1j])
    np.testing.assert_allclose(gradient(lambda x: pb.var(x, ddof=1), z), [-1 + 1j, 1 - 1j])


@pytest.mark.parametrize("name", ["max", "min", "ptp", "nanmax", "nanmin", "cummax", "cummin"])
def test_complex_numbers_have_no_order(name):
    """Rule 8.14."""
    args = (0,) if name.startswith("cum") else ()
    with pytest.raises(NotImplementedError, match="complex numbers have no order") as caught:
        getattr(pb, name)(np.array([1j, 2.0]), *args)
    assert isinstance(caught.value, pb.errors.PullbackError)


def with_nan():
    x = np.arange(12.0).reshape(3, 4) ** 1.5
    x[0, 1] = x[2, 3] = x[2, 0] = nan
    return x


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize(
    "name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian"]
)
def test_nan_is_left_out(name, axis):
    x = with_nan()
    got = getattr(pb, name)(x, axis)
    np.testing.assert_allclose(got.numpy(), getattr(np, name)(x, axis), rtol=1e-13)
    grad = gradient(lambda x: getattr(pb, name)(x, axis), x)
    assert not grad[np.isnan(x)].any()
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min"])
def test_gradients_without_nan_are_those_of_the_rest(name):
    x = np.array([3.0, nan, 1.5, nan, 2.0])
    rest = ~np.isnan(x)
    got = gradient(getattr(pb, "nan" + name), x)
    want = gradient(getattr(pb, name), x[rest])
    np.testing.assert_allclose(got[rest], want, rtol=1e-14)
    np.testing.assert_array_equal(got[~rest], 0)


@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
def test_running_reductions_count_nan_as_nothing(name):
    x = with_nan()
    for axis in (None, 0, 1):
        got = getattr(pb, name)(x, axis)
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(x, axis), rtol=1e-13)


def test_nan_reductions_of_integers_are_those_of_all():
    x = np.array([[1, 2], [3, 5]])
    for name in ("nansum", "nanmean", "nanvar", "nanmax", "nancumsum"):
        got, want = getattr(pb, name)(x), getattr(np, name)(x)
        np.testing.assert_allclose(got.numpy(), want)
        assert got.dtype == np.asarray(want).dtype


@pytest.mark.parametrize("length", [64, 65, 70, 5000])
def test_gradient_of_a_long_running_product(length):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], length) * rng.uniform(0.99, 1.01, length)
    x[length // 2] = 0
    g = rng.standard_normal(length)
    want = np.empty(length)
    for j in range(length):
        others = x.copy()
        others[j] = 1
        want[j] = g[j:] @ np.cumprod(others)[j:]
    np.testing.assert_allclose(gradient(pb.cumprod, x, g), want, rtol=1e-9, atol=1e-9)


def test_logcumsumexp_has_no_overflow_and_exact_gradients():
    x = np.array([-800.0, 900.0, -900.0, 900.0])
    got = pb.logcumsumexp(x, 0).numpy()
    np.testing.assert_allclose(got, [-800, 900, 900, 900 + np.log(2)])
    got = gradient(lambda x: pb.logcumsumexp(x, 0), x, [1.0, 10.0, 100.0, 1000.0])
    np.testing.assert_allclose(got, [1, 610, 0, 500])


def test_an_initial_element_is_a_constant():
    got = gradient(lambda x: pb.cumulative_sum(x, include_initial=True), [1.0, 2.0], [7, 5, 3])
    np.testing.assert_array_equal(got, [8, 3])


def test_methods_are_those_of_arrays():
    x = pb.tensor([[1.0, 4.0], [2.0, 0.0]])
    for name in (
        "sum",
        "mean",
        "prod",
        "std",
        "var",
        "min",
        "max",
        "all",
        "any",
        "argmax",
        "argmin",
    ):
        want = getattr(x.numpy(), name)(axis=1, keepdims=True)
        np.testing.assert_allclose(getattr(x, name)(axis=1, keepdims=True).numpy(), want)
    for name in ("cumsum", "cumprod"):
        np.testing.assert_allclose(getattr(x, name)(1).numpy(), getattr(x.numpy(), name)(1))


def test_numbers_are_reduced_too():
    assert pb.sum(2.5).item() == pb.max(2.5).item() == pb.prod(2.5).item() == 2.5
    assert pb.all(2.5).item() is True
    assert pb.logsumexp(2).item() == pytest.approx(2.0)


def test_gradient_of_a_dtype_goes_back_to_the_inputs():
    x = pb.tensor(np.array([1, 2], np.float32), requires_grad=True)
    pb.sum(x, dtype=np.float64).backward()
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: pb.max(np.zeros((0, 2)), 0), ValueError, r"max: no elements.*\(0, 2\), axis 0"),
        (lambda: pb.nanmin(np.zeros(0)), ValueError, r"nanmin: no elements"),
        (lambda: pb.sum(np.zeros(2), 1), np.exceptions.AxisError, "out of bounds"),
        (lambda: pb.var(np.zeros(2), ddof=1, correction=1), ValueError, "simultaneously"),
        (lambda: pb.cumulative_sum(np.zeros((2, 2))), ValueError, "cumulative_sum: axis is needed"),
        (lambda: pb.cumulative_prod(1.0), ValueError, "at least one axis"),
        (lambda: pb.diff(1.0), ValueError, "at least one axis"),
        (lambda: pb.diff([1.0, 2.0], -1), ValueError, "n must not be negative, but is -1"),
        (lambda: pb.diff([1.0, 2.0], axis=1), np.exceptions.AxisError, "out of bounds"),
        (lambda: pb.gradient([1.0]), ValueError, r"axis 0 of shape \(1,\) is too short"),
        (lambda: pb.gradient([1.0, 2.0], 1.0, 2.0), TypeError, "2 spacings are given for 1 axes"),
        (lambda: pb.gradient([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, r"\(3,\) do not match"),
        (lambda: pb.gradient([1.0, 2.0], edge_order=3), ValueError, "edge_order must be 1 or 2"),
        (lambda: pb.average(np.ones((2, 3)), weights=np.ones(3)), TypeError, "axis must be given"),
        (
            lambda: pb.average(np.ones((2, 3)), 0, np.ones(3)),
            ValueError,
            r"weights of shape \(3,\)",
        ),
        (lambda: pb.cov(np.ones((2, 2, 2))), ValueError, "more than 2 axes"),
    ],
)
def test_errors_name_the_wrong_argument(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_number_has_no_axis_to_take_the_mean_of(dtype, axis):
    with pytest.raises(np.exceptions.AxisError, match="mean: axis"):
        pb.mean(pb.tensor(1.0).astype(dtype), axis=axis)
