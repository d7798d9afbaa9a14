"""Conventions of element-wise functions at points without a derivative, in both libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest

nan, inf = math.nan, math.inf


def same(found, expected, **tolerance):
    np.testing.assert_allclose(found, expected, **{"rtol": 1e-9, "atol": 1e-12} | tolerance)


def test_relu_gradient_is_zero_at_kink(lib):
    """Rule 7.1."""
    assert lib.slopes(lib.F.relu, [0.0, -0.0, 1.0, nan]) == [0, 0, 1, 1]


def test_relu6_gradient_is_zero_at_both_kinks(lib):
    """Rule 7.2."""
    assert lib.slopes(lib.F.relu6, [0.0, 3.0, 6.0, 7.0]) == [0, 1, 0, 0]


def test_leaky_relu_gradient_is_slope_at_kink(lib):
    """Rule 7.3."""
    same(lib.slopes(lambda x: lib.F.leaky_relu(x, 0.01), [0.0, -1.0, 1.0]), [0.01, 0.01, 1])


def test_prelu_gradient_is_slope_at_kink(lib):
    """Rule 7.4."""
    found, _ = lib.slopes(lib.F.prelu, [0.0, -1.0], [0.25])
    assert found == [0.25, 0.25]


def test_rrelu_gradient_is_mean_slope_at_kink(lib):
    """Rule 7.5."""
    same(lib.slopes(lambda x: lib.F.rrelu(x, training=False), [0.0]), [(1 / 8 + 1 / 3) / 2])


@pytest.mark.parametrize("name", ["elu", "celu"])
def test_elu_and_celu_gradient_is_one_at_kink(lib, name):
    """Rule 7.6."""
    same(lib.slopes(getattr(lib.F, name), [0.0, -1.0]), [1, math.exp(-1)])


def test_selu_gradient_at_kink_is_that_of_negative_side(lib):
    """Rule 7.7."""
    same(lib.slopes(lib.F.selu, [0.0]), [1.7580993408473766])


def test_hardtanh_gradient_is_zero_at_bounds(lib):
    """Rule 7.8."""
    assert lib.slopes(lib.F.hardtanh, [-1.0, 0.0, 1.0]) == [0, 1, 0]


def test_hardsigmoid_gradient_is_zero_at_bounds(lib):
    """Rule 7.9."""
    same(lib.slopes(lib.F.hardsigmoid, [-3.0, 0.0, 3.0]), [0, 1 / 6, 0], rtol=1e-7)


def test_hardswish_gradient_at_bounds(lib):
    """Rule 7.10."""
    points = [-3.0, -2.9999, 0.0, 2.9999, 3.0]
    expected = [0, -0.4999666667, 0.5, 1.4999666667, 1]
    same(lib.slopes(lib.F.hardswish, points), expected)


@pytest.mark.parametrize("name", ["softshrink", "hardshrink"])
def test_shrink_gradient_is_zero_at_bounds(lib, name):
    """Rule 7.11."""
    function = getattr(lib.F, name)
    assert lib.slopes(lambda x: function(x, 0.5), [-0.5, 0.5, 0.0, 1.0]) == [0, 0, 0, 1]


def test_threshold_gradient_is_zero_at_threshold(lib):
    """Rule 7.12."""
    assert lib.slopes(lambda x: lib.F.threshold(x, 0.0, 5.0), [0.0, 1.0, -1.0]) == [0, 1, 0]


def test_softplus_gradient_is_one_above_threshold(lib):
    """Rule 7.13."""
    same(lib.slopes(lib.F.softplus, [0.0, 20.0, 21.0]), [0.5, 0.99999999794, 1])


def test_logsigmoid_gradient_saturates(lib):
    """Rule 7.14."""
    assert lib.slopes(lib.F.logsigmoid, [0.0, -1000.0, 1000.0]) == [0.5, 1, 0]


def test_abs_gradient_is_zero_at_zero_and_nan(lib):
    """Rule 7.15."""
    assert lib.slopes(lib.abs, [0.0, -0.0, -2.0, nan]) == [0, 0, -1, 0]


def test_clamp_includes_both_bounds(lib):
    """Rule 7.20."""
    points = [-1.0, 0.0, 0.5, 1.0, 2.0, nan]
    assert lib.slopes(lambda x: lib.clip(x, 0.0, 1.0), points) == [0, 1, 1, 1, 0, 0]


def test_clamp_min_includes_bound(lib):
    """Rule 7.21."""
    assert lib.slopes(lambda x: lib.clip(x, 0.0, None), [-1.0, 0.0, 1.0]) == [0, 1, 1]


def test_clamp_max_includes_bound(lib):
    """Rule 7.22."""
    assert lib.slopes(lambda x: lib.clip(x, None, 0.0), [-1.0, 0.0, 1.0]) == [1, 1, 0]


def test_clamp_with_crossed_bounds_is_constant(lib):
    """Rule 7.23."""
    assert lib.clip(lib.tensor([0.0, 1.5, 3.0]), 2.0, 1.0).tolist() == [1, 1, 1]
    assert lib.slopes(lambda x: lib.clip(x, 2.0, 1.0), [0.0, 1.5, 3.0]) == [0, 0, 0]


def test_clamp_on_tensor_bound_gives_gradient_to_x(lib):
    """Rule 7.24."""
    assert lib.slopes(lib.clip, 0.0, 0.0, 1.0) == [1, 0, 0]
    assert lib.slopes(lib.clip, 1.0, 0.0, 1.0) == [1, 0, 0]


def test_clamp_outside_gives_gradient_to_bound(lib):
    """Rule 7.25."""
    assert lib.slopes(lib.clip, -1.0, 0.0, 1.0) == [0, 1, 0]
    assert lib.slopes(lib.clip, 2.0, 0.0, 1.0) == [0, 0, 1]


def test_clamp_with_crossed_tensor_bounds_gives_gradient_to_upper(lib):
    """Rule 7.26."""
    assert lib.slopes(lib.clip, 0.5, 2.0, 1.0) == [0, 0, 1]


def test_sqrt_gradient_is_infinite_at_zero(lib):
    """Rule 7.27."""
    same(lib.slopes(lib.sqrt, [0.0, 4.0, -1.0]), [inf, 0.25, nan])


def test_reciprocal_gradient_is_infinite_at_zero(lib):
    """Rule 7.28."""
    functions = [lib.reciprocal, lambda x: 1 / x]
    if lib.is_torch:  # NumPy has no such function
        functions.append(lib.rsqrt)
    for function in functions:
        assert lib.slopes(function, [0.0]) == [-inf]


def test_logarithm_gradients_are_infinite_at_zero(lib):
    """Rule 7.29."""
    for function, point in [(lib.log, 0.0), (lib.log1p, -1.0), (lib.log2, 0.0), (lib.log10, 0.0)]:
        assert lib.slopes(function, [point]) == [inf]
    assert lib.slopes(lib.log, [-1.0]) == [-1]


def test_inverse_function_gradients_are_infinite_at_domain_ends(lib):
    """Rule 7.30."""
    assert lib.slopes(lib.asin, [1.0, -1.0]) == [inf, inf]
    for name in ("acosh", "atanh", "erfinv"):
        assert lib.slopes(getattr(lib, name), [1.0]) == [inf]
    assert lib.slopes(lib.acos, [1.0]) == [-inf]


def test_logit_gradient_is_infinite_at_domain_ends(lib):
    """Rule 7.31."""
    assert lib.slopes(lib.logit, [0.0, 1.0, 0.5]) == [inf, inf, 4]


def test_logit_gradient_is_zero_below_eps(lib):
    """Rule 7.32."""
    same(lib.slopes(lambda x: lib.logit(x, 0.1), [0.0, 0.05, 0.1, 0.5]), [0, 0, 1 / 0.09, 4])


def test_sinc_gradient_is_zero_at_zero(lib):
    """Rule 7.33."""
    same(lib.slopes(lib.sinc, [0.0, 1.0]), [0, -1])


def test_entr_gradient_is_infinite_at_zero(lib):
    """Rule 7.37."""
    entr = lib.special.entr if lib.is_torch else lib.entr
    same(lib.slopes(entr, [0.0, 1.0, -1.0]), [inf, -1, nan])


def test_nan_to_num_gradient_is_zero_at_replaced_elements(lib):
    """Rule 7.38."""
    assert lib.slopes(lib.nan_to_num, [nan, inf, 1.0]) == [0, 0, 1]


def test_angle_of_real_input_has_zero_gradient(lib):
    """Rule 7.40."""
    assert lib.slopes(lib.angle, [-1.0, 0.0, 2.0]) == [0, 0, 0]


def test_masked_fill_gives_zero_to_filled_slots(lib):
    """Rule 7.41."""
    mask = lib.tensor([True, False], "bool")
    assert lib.slopes(lambda x: x.masked_fill(mask, 7.0), [1.0, 2.0]) == [0, 1]


def test_lgamma_and_digamma_gradients_are_infinite_at_zero(lib):
    """Rule 7.42."""
    assert lib.slopes(lib.lgamma, [0.0]) == [-inf]
    assert lib.slopes(lib.digamma, [0.0]) == [inf]


@pytest.mark.parametrize("exponent", [0, 0.0])
def test_power_zero_has_zero_gradient(lib, exponent):
    """Rule 7.43."""
    x = lib.leaf(0.0, 2.0, nan)
    y = x**exponent
    assert y.tolist() == [1, 1, 1]
    (first,) = lib.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [0, 0, 0]
    assert not first.requires_grad


def test_gradient_of_power_one_is_one_at_zero(lib):
    """Rule 7.44."""
    assert lib.slopes(lambda x: x**1, [0.0]) == [1]


@pytest.mark.parametrize("square", [lambda lib, x: x**2, lambda lib, x: lib.square(x)])
def test_second_derivative_of_square_is_two_at_zero(lib, square):
    """Rule 7.45."""
    x = lib.leaf(0.0)
    (first,) = lib.grad(square(lib, x), x, create_graph=True)
    assert first.item() == 0
    assert lib.grad(first, x)[0].item() == 2


def test_gradient_of_power_half_is_infinite_at_zero(lib):
    """Rule 7.46."""
    same(lib.slopes(lambda x: x**0.5, [0.0, 4.0, -1.0]), [inf, 0.25, nan])


def test_second_derivative_of_power_three_halves_is_infinite_at_zero(lib):
    """Rule 7.47."""
    x = lib.leaf(0.0)
    (first,) = lib.grad(x**1.5, x, create_graph=True)
    assert first.item() == 0
    assert lib.grad(first, x)[0].item() == inf


def test_gradient_of_power_minus_one_is_infinite_at_zero(lib):
    """Rule 7.48."""
    assert lib.slopes(lambda x: x**-1, [0.0]) == [-inf]


def test_gradient_of_cube_root_is_infinite_at_zero(lib):
    """Rule 7.49."""
    same(lib.slopes(lambda x: x ** (1 / 3), [0.0, -8.0]), [inf, nan])


def test_gradient_of_power_with_base_zero(lib):
    """Rule 7.50."""
    assert lib.slopes(lambda x: 0**x, [0.0, 2.0, -1.0]) == [0, 0, -inf]


def test_gradients_of_zero_to_the_zero_are_zero(lib):
    """Rule 7.51."""
    assert lib.slopes(lambda a, b: a**b, 0.0, 0.0) == [0, 0]


def test_gradients_of_zero_squared_are_zero(lib):
    """Rule 7.52."""
    assert lib.slopes(lambda a, b: a**b, 0.0, 2.0) == [0, 0]


def test_gradient_of_exponent_zero_is_logarithm_of_base(lib):
    """Rule 7.53."""
    same(lib.slopes(lambda a, b: a**b, 2.0, 0.0), [0, math.log(2)])


def test_gradient_of_exponent_is_nan_for_negative_base(lib):
    """Rule 7.54."""
    same(lib.slopes(lambda a, b: a**b, -1.0, 2.0), [-2, nan])


def test_gradients_of_zero_to_negative_power_are_infinite(lib):
    """Rule 7.55."""
    assert lib.slopes(lambda a, b: a**b, 0.0, -1.0) == [-inf, -inf]
