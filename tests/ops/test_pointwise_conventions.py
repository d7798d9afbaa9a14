"""Values and gradients at the points where a derivative is a matter of convention."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DerivativeMissingError

inf, nan = math.inf, math.nan


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


def second(f, point):
    """The second derivative of f at a point."""
    x = pb.tensor(point, requires_grad=True)
    (first,) = pb.autograd.grad(f(x), x, create_graph=True)
    return pb.autograd.grad(first, x)[0].item()


def test_abs_has_zero_gradient_at_zero():
    """Rule 7.15."""
    same(gradient(pb.abs, [0.0, -0.0, -2.0, nan]), [0, 0, -1, 0])


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round", "trunc", "rint"])
def test_piecewise_constant_functions_have_gradient_zero(name):
    """Rule 7.16."""
    x = pb.tensor([-1.5, 0.0, 0.5, 2.0], requires_grad=True)
    result = getattr(pb, name)(x)
    assert result.requires_grad
    result.backward(pb.tensor(np.full(4, 3.0)))
    assert x.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_have_gradient_one(name):
    """Rule 7.17."""
    same(gradient(lambda x: getattr(pb, name)(x, 2), [-2.0, -1.5, 0.0, 1.0, 4.0]), [1] * 5)


def test_remainders_in_the_divisor():
    """Rule 7.18."""
    same(gradient(lambda y: pb.remainder(5, y), [2.0, -3.0, 5.0]), [-2, 2, -1])
    same(gradient(lambda y: pb.fmod(5, y), [2.0, -3.0, 5.0]), [-2, 1, -1])


def test_the_divisor_is_counted_exactly():
    # 1 / 0.1 rounds to 10, but 0.1 fits only 9 times into 1.
    assert gradient(lambda y: pb.fmod(1.0, y), 0.1) == -9
    assert gradient(lambda y: pb.remainder(1.0, y), 0.1) == -9


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x // 2,
        lambda x: 5 // x,
        lambda x: pb.heaviside(x, x),
        lambda x: pb.nextafter(x, 2.0),
    ],
    ids=["floordiv", "rfloordiv", "heaviside", "nextafter"],
)
def test_recorded_but_without_derivative(f):
    """Rules 7.19, 14.41."""
    x = pb.tensor([1.0, 3.0], requires_grad=True)
    result = f(x)
    assert result.requires_grad
    with pytest.raises(DerivativeMissingError, match=r"derivative .* not implemented"):
        pb.autograd.grad(result, x, pb.tensor([1.0, 1.0]))


def test_divmod_has_a_gradient_in_its_remainder():
    x = pb.tensor([5.0, -5.0], requires_grad=True)
    quotient, remainder = divmod(x, 3)
    assert (quotient.tolist(), remainder.tolist()) == ([1, -2], [2, 1])
    assert pb.autograd.grad(remainder.sum(), x)[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rule", "low", "high", "points", "expected"),
    [
        ("7.20", 0, 1, [-1, 0, 0.5, 1, 2, nan], [0, 1, 1, 1, 0, 0]),
        ("7.21", 0, None, [-1, 0, 1], [0, 1, 1]),
        ("7.22", None, 0, [-1, 0, 1], [1, 1, 0]),
        ("7.23", 2, 1, [0, 1.5, 3], [0, 0, 0]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_clip_with_numbers(rule, low, high, points, expected):
    """Rules 7.20 to 7.23."""
    same(gradient(lambda x: pb.clip(x, low, high), points), expected)
    if rule == "7.23":
        assert pb.clip(np.array(points), low, high).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("x", "low", "high", "expected"),
    [
        pytest.param(0.0, 0.0, 1.0, (1, 0, 0), id="7.24_on_the_lower_bound"),
        pytest.param(1.0, 0.0, 1.0, (1, 0, 0), id="7.24_on_the_upper_bound"),
        pytest.param(-1.0, 0.0, 1.0, (0, 1, 0), id="7.25_below"),
        pytest.param(2.0, 0.0, 1.0, (0, 0, 1), id="7.25_above"),
        pytest.param(0.5, 2.0, 1.0, (0, 0, 1), id="7.26_bounds_the_wrong_way_round"),
        pytest.param(0.5, 1.0, 1.0, (0, 1, 0), id="equal_bounds"),
    ],
)
def test_clip_with_tensors(x, low, high, expected):
    """Rules 7.24 to 7.26."""
    same(gradients(pb.clip, x, low, high), expected)


@pytest.mark.parametrize(
    ("rule", "f", "points", "expected"),
    [
        ("7.27_sqrt", pb.sqrt, [0, 4, -1], [inf, 0.25, nan]),
        ("7.28_reciprocal", pb.reciprocal, 0.0, -inf),
        ("7.28_division", lambda x: 1 / x, 0.0, -inf),
        ("7.29_log", pb.log, [0, -1], [inf, -1]),
        ("7.29_log1p", pb.log1p, -1.0, inf),
        ("7.29_log2", pb.log2, 0.0, inf),
        ("7.29_log10", pb.log10, 0.0, inf),
        ("7.30_asin", pb.asin, [1, -1], [inf, inf]),
        ("7.30_acosh", pb.acosh, 1.0, inf),
        ("7.30_atanh", pb.atanh, 1.0, inf),
        ("7.30_erfinv", pb.erfinv, 1.0, inf),
        ("7.30_acos", pb.acos, 1.0, -inf),
        ("7.31_logit", pb.logit, [0, 1, 0.5], [inf, inf, 4]),
        ("7.32_logit", lambda x: pb.logit(x, 0.1), [0, 0.05, 0.1, 0.5], [0, 0, 11.11111111, 4]),
        ("7.33_sinc", pb.sinc, [0, 1], [0, -1]),
        ("7.36_xlogy", lambda x: pb.xlogy(x, 2), 0.0, 0.69314718),
        ("7.37_entr", pb.entr, [0, 1, -1], [inf, -1, nan]),
        ("7.38_nan_to_num", pb.nan_to_num, [nan, inf, 1], [0, 0, 1]),
        ("7.40_angle", pb.angle, [-1, 0, 2, nan], [0, 0, 0, 0]),
        ("7.42_lgamma", pb.lgamma, 0.0, -inf),
        ("7.42_digamma", pb.digamma, 0.0, inf),
        ("7.13_softplus", pb.softplus, [0, 20, 21], [0.5, 0.99999999794, 1]),
        ("cbrt", pb.cbrt, [0, 8, -8], [inf, 1 / 12, 1 / 12]),
        ("i1", pb.i1, 0.0, 0.5),
        ("xlog1py", lambda x: pb.xlog1py(x, -1.0), 0.0, 0.0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_functions_of_one_number_at_singular_points(rule, f, points, expected):
    """Rules 7.13, 7.27 to 7.33, 7.36 to 7.38, 7.40, 7.42."""
    del rule
    same(gradient(f, points), expected)


def test_atan2_at_origin():
    """Rule 7.34."""
    y, x = gradients(pb.atan2, 0.0, 0.0)
    assert (y, x) == (0, 0)
    assert np.signbit(x)


def test_hypot_at_origin_is_nan():
    """Rule 7.35."""
    same(gradients(pb.hypot, 0.0, 0.0), [nan, nan])


def test_xlogy_at_zero():
    """Rule 7.36."""
    assert pb.xlogy(0.0, 0.0).item() == 0
    same(gradients(pb.xlogy, 0.0, 0.0), [0, nan])


def test_copysign_gradient():
    """Rule 7.39."""
    same(gradient(lambda x: pb.copysign(x, -1), [0, 2, -2]), [0, -1, 1])
    same(gradients(pb.copysign, [2.0, -3.0], [-1.0, 0.0])[1], [0, 0])


@pytest.mark.parametrize(
    ("rule", "exponent", "points", "expected"),
    [
        ("7.43_int", 0, [0, 2, nan], [0, 0, 0]),
        ("7.43_float", 0.0, [0, 2, nan], [0, 0, 0]),
        ("7.44", 1, [0], [1]),
        ("7.45", 2, [0], [0]),
        ("7.46", 0.5, [0, 4, -1], [inf, 0.25, nan]),
        ("7.47", 1.5, [0], [0]),
        ("7.48", -1, [0], [-inf]),
        ("7.49", 1 / 3, [0, -8], [inf, nan]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_powers_with_a_number_as_exponent(rule, exponent, points, expected):
    """Rules 7.43 to 7.49."""
    same(gradient(lambda x: x**exponent, points), expected)
    if rule.startswith("7.43"):
        x = pb.tensor(points, requires_grad=True)
        assert (x**exponent).tolist() == [1, 1, 1]
        (first,) = pb.autograd.grad((x**exponent).sum(), x, create_graph=True)
        assert not first.requires_grad


def test_second_derivatives_of_powers_at_zero():
    """Rules 7.45, 7.47."""
    assert second(lambda x: x**2, 0.0) == 2
    assert second(pb.square, 0.0) == 2
    assert second(lambda x: x**1.5, 0.0) == inf


def test_zero_as_base_of_power():
    """Rule 7.50."""
    same((0 ** pb.tensor([0.0, 2.0, -1.0])).numpy(), [1, 0, inf])
    same(gradient(lambda x: 0**x, [0, 2, -1]), [0, 0, -inf])


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        pytest.param(0.0, 0.0, (0, 0), id="7.51"),
        pytest.param(0.0, 2.0, (0, 0), id="7.52"),
        pytest.param(2.0, 0.0, (0, 0.69314718), id="7.53"),
        pytest.param(-1.0, 2.0, (-2, nan), id="7.54"),
        pytest.param(0.0, -1.0, (-inf, -inf), id="7.55"),
        pytest.param(nan, 0.0, (0, nan), id="nan_to_the_zero"),
    ],
)
def test_powers_of_tensors_at_singular_points(base, exponent, expected):
    """Rules 7.51 to 7.55."""
    same(gradients(pb.power, base, exponent), expected)


def test_the_mixed_second_derivative_of_a_power_is_right_at_the_exponent_zero():
    a, b = (pb.tensor(v, requires_grad=True) for v in (2.0, 0.0))
    (first,) = pb.autograd.grad(a**b, a, create_graph=True)
    assert pb.autograd.grad(first, b)[0].item() == 0.5


@pytest.mark.parametrize("f", [pb.maximum, pb.minimum], ids=["maximum", "minimum"])
def test_equal_elements_share_the_gradient(f):
    """Rule 7.61."""
    same(gradients(f, [1.0, 2.0], [1.0, 2.0]), [[0.5, 0.5]] * 2)
    same(gradient(lambda x: f(x, x), 3.0), 1)


@pytest.mark.parametrize("f", [pb.maximum, pb.minimum], ids=["maximum", "minimum"])
def test_nan_has_the_gradient(f):
    """Rule 7.62."""
    same(gradients(f, nan, 0.0), [1, 0])
    same(gradients(f, 0.0, nan), [0, 1])


@pytest.mark.parametrize("f", [pb.fmax, pb.fmin], ids=["fmax", "fmin"])
def test_the_first_of_equal_elements_has_the_gradient(f):
    """Rule 7.63."""
    same(gradients(f, [1.0, nan, 0.0], [1.0, 0.0, nan]), [[1, 0, 1], [0, 1, 0]])


def test_logaddexp_of_minus_infinities_is_nan():
    """Rule 7.90."""
    same(gradients(pb.logaddexp, -inf, -inf), [nan, nan])
    same(gradients(pb.logaddexp, -inf, 1.0), [0, 1])
    same(gradients(pb.logaddexp, 1000.0, -1000.0), [1, 0])


def test_nan_flows_out_of_the_branch_not_taken():
    """Rule 7.103."""
    assert np.isnan(gradient(lambda x: pb.where(x > 0, pb.sqrt(x), 0.0), 0.0))
    safe = lambda x: pb.where(x > 0, pb.sqrt(pb.where(x > 0, x, 1.0)), 0.0)  # noqa: E731
    assert gradient(safe, 0.0) == 0


def test_zero_times_infinite_gradient_is_nan():
    """Rule 7.104."""
    assert np.isnan(gradient(lambda x: pb.sqrt(x) * 0, 0.0))
    assert gradient(lambda x: x / 0, 1.0) == inf
    assert gradient(lambda x: x * inf, 0.0) == inf


def test_where_takes_nan_away():
    """Rule 7.105."""
    assert gradient(lambda x: pb.where(pb.isnan(x), 0.0, x), nan) == 0


def test_second_derivatives_at_kinks():
    """Rule 7.107."""
    assert second(lambda x: pb.sqrt(x) * 1, 0.0) == -inf
    x = pb.tensor([-2.0, 3.0], requires_grad=True)
    for f in (lambda x: pb.clip(x, -1, 1), lambda x: pb.maximum(x, 0.0)):
        (first,) = pb.autograd.grad(f(x).sum(), x, create_graph=True)
        assert not first.requires_grad
    assert second(pb.abs, -2.0) == 0


def test_the_second_derivative_of_sinc_is_right_at_zero():
    assert second(pb.sinc, 0.0) == pytest.approx(-(math.pi**2) / 3)
