"""Special functions: accuracy against exact values, poles, dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.errors import UnsupportedDtypeError
from pullback.operators.special import kernels as special
from pullback.operators.special import kernels_gamma as special_gamma

inf, nan = math.inf, math.nan
EULER = 0.5772156649015329


def relative_error(f, exact, points):
    got = f(np.asarray(points))
    want = np.array([exact(p) for p in np.asarray(points).tolist()])
    return np.max(np.abs(got - want) / np.abs(want))


def points(low, high, *extra, n=4001):
    return np.concatenate([np.linspace(low, high, n), extra])


TINY = (1e-300, -1e-300, 1e-20, 1e-8, -1e-4)


def test_erf_is_accurate():
    assert relative_error(special.erf, math.erf, points(-6.5, 6.5, *TINY, n=4000)) < 6e-16


def test_erfc_is_accurate_also_where_it_nearly_vanishes():
    assert relative_error(special.erfc, math.erfc, points(-6.0, 26.5, 0.5, 1.0)) < 3e-15


def test_erfinv_inverts_erf_up_to_the_ends():
    p = points(-0.999, 0.999, *TINY, n=2000)
    np.testing.assert_allclose(special.erf(special.erfinv(p)), p, rtol=1e-15, atol=0)
    q = np.array([1e-3, 1e-6, 1e-9, 2.0**-40, 2.0**-52])
    # Near 1 the error function itself is flat, so the complement is compared.
    np.testing.assert_allclose(special.erfc(special.erfinv(1 - q)), 1 - (1 - q), rtol=1e-13)


def test_lgamma_is_accurate():
    x = points(0.01, 25.0, 1e-300, 1e10, 1e300)
    x = x[(abs(x - 1) > 0.2) & (abs(x - 2) > 0.2)]  # where math.lgamma itself is not exact
    assert relative_error(special_gamma.lgamma, math.lgamma, x) < 1e-14


@pytest.mark.parametrize("e", [2.0**-12, -(2.0**-12), 2.0**-30, -(2.0**-50)])
def test_lgamma_is_accurate_near_its_zeros(e):
    zeta2, zeta3, zeta4 = math.pi**2 / 6, 1.2020569031595942, math.pi**4 / 90
    tail = e * (zeta2 / 2 - e * (zeta3 / 3 - e * zeta4 / 4))
    assert special_gamma.lgamma(1 + e) == pytest.approx(e * (tail - EULER), rel=1e-15)
    log = e * (1 / 2 - e * (1 / 3 - e / 4))
    assert special_gamma.lgamma(2 + e) == pytest.approx(e * (tail - log + 1 - EULER), rel=1e-14)


def test_lgamma_of_negative_numbers():
    x = points(-30.03, -0.01)
    want = np.array([math.lgamma(v) for v in x])
    np.testing.assert_allclose(special_gamma.lgamma(x), want, rtol=1e-13, atol=1e-13)


def test_gamma_is_accurate():
    assert relative_error(special_gamma.gamma, math.gamma, points(0.01, 171.6, 1e-300)) < 3e-15
    assert relative_error(special_gamma.gamma, math.gamma, points(-20.03, -0.01)) < 1e-14
    n = np.arange(1, 20)
    np.testing.assert_allclose(
        special_gamma.gamma(n), [math.factorial(k - 1) for k in n.tolist()], rtol=1e-15
    )


@pytest.mark.parametrize(
    ("n", "x", "expected"),
    [
        (0, 1.0, -EULER),
        (0, 0.5, -EULER - 2 * math.log(2)),
        (0, 10.0, -EULER + sum(1 / k for k in range(1, 10))),
        (0, -0.5, -EULER - 2 * math.log(2) + 2),
        (1, 1.0, math.pi**2 / 6),
        (1, 0.5, math.pi**2 / 2),
        (1, -0.5, math.pi**2 / 2 + 4),
        (2, 1.0, -2 * 1.2020569031595942),
        (3, 1.0, math.pi**4 / 15),
        (3, 0.5, math.pi**4),
        (5, 1.0, 8 * math.pi**6 / 63),
        (4, -0.5, -24 * 31 * 1.0369277551433699 + 24 * 2**5),
    ],
)
def test_polygamma_at_points_with_known_values(n, x, expected):
    assert special_gamma.polygamma(n, x) == pytest.approx(expected, rel=5e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_polygamma_satisfies_its_recurrence(n):
    x = np.array([-3.3, -0.7, 1e-3, 0.4, 2.5, 11.0, 1e4])
    step = (-1) ** n * math.factorial(n) * x ** float(-n - 1)
    f = special_gamma.polygamma
    np.testing.assert_allclose(f(n, x), f(n, x + 1) - step, rtol=1e-13)


@pytest.mark.parametrize("x", [0.0, 1e-8, 0.5, -3.0, 12.0, 29.9, 30.1, -80.0, 700.0])
def test_i1_satisfies_its_integral(x):
    # I1(x) is the mean of exp(x cos t) cos t over a period, and of points at equal distances.
    t = np.arange(400) * (2 * math.pi / 400)
    scaled = np.mean(np.exp(x * np.cos(t) - abs(x)) * np.cos(t))
    assert special.i1(x) * math.exp(-abs(x)) == pytest.approx(scaled, rel=2e-12, abs=1e-16)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # at 0, -0, -1, -2.5 where that is a pole or special, inf, -inf, nan
        ("erf", [0, -0.0, math.erf(-1), math.erf(-2.5), 1, -1, nan]),
        ("erfc", [1, 1, math.erfc(-1), math.erfc(-2.5), 0, 2, nan]),
        ("erfinv", [0, -0.0, -inf, nan, nan, nan, nan]),
        ("lgamma", [inf, inf, inf, math.lgamma(-2.5), inf, inf, nan]),
        ("gamma", [inf, -inf, nan, math.gamma(-2.5), inf, nan, nan]),
        ("digamma", [-inf, inf, nan, 1.1031566406452431, inf, nan, nan]),
        ("i1", [0, -0.0, -0.5651591039924850, -2.5167162452886984, inf, -inf, nan]),
        ("entr", [0, 0, -inf, -inf, -inf, -inf, nan]),
        ("sigmoid", [0.5, 0.5, 1 / (1 + math.e), 1 / (1 + math.exp(2.5)), 1, 0, nan]),
    ],
)
def test_special_points(name, expected):
    result = getattr(pb, name)(np.array([0.0, -0.0, -1.0, -2.5, inf, -inf, nan])).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-14)
    zeros = np.asarray(expected) == 0
    np.testing.assert_array_equal(np.signbit(result)[zeros], np.signbit(expected)[zeros])


def test_no_warning_is_given_at_poles():
    for name in ("lgamma", "digamma", "gamma", "erfinv", "logit", "entr", "sigmoid"):
        getattr(pb, name)(np.array([0.0, 1.0, -1.0, -1000.0, inf]))


def test_logit_is_exact_near_one_half_and_in_the_tails():
    x = np.array([0.5 + 2.0**-40, 1e-300, 0.25])
    expected = [2.0**-38, math.log(1e-300), -math.log(3)]
    np.testing.assert_allclose(special.logit(x), expected, rtol=1e-15)


def test_lerp_is_exact_at_both_ends():
    start, end = np.array([0.1, 1e20]), np.array([0.7, 3.0])
    assert pb.lerp(start, end, 0.0).tolist() == start.tolist()
    assert pb.lerp(start, end, 1.0).tolist() == end.tolist()


UNARY = ["erf", "erfc", "erfinv", "gamma", "lgamma", "digamma", "i0", "i1"]


@pytest.mark.parametrize("name", UNARY)
def test_floating_dtypes_are_kept_and_integers_become_float64(name):
    f = getattr(pb, name)
    for dtype, expected in (("float16", "float16"), ("float32", "float32"), ("int8", "float64")):
        assert f(np.ones(2, dtype)).dtype == expected


@pytest.mark.parametrize("name", UNARY)
def test_complex_numbers_are_refused(name):
    with pytest.raises(UnsupportedDtypeError, match="real numbers are expected"):
        getattr(pb, name)(1j)


def test_blocks_are_put_together_in_order():
    x = np.linspace(-3, 3, 20_000).reshape(100, 200).T
    np.testing.assert_array_equal(special.erf(x).ravel(), [special.erf(v) for v in x.ravel()])


def test_polygamma_refuses_a_negative_order():
    with pytest.raises(ValueError, match="must not be negative, but it is -1"):
        pb.polygamma(-1, 1.0)


@pytest.mark.parametrize("name", ["erfinv", "lgamma", "digamma", "erfc", "i1"])
def test_values_agree_with_torch_on_a_grid(name, torch):
    x = np.linspace(-0.99, 0.99, 1000) if name == "erfinv" else np.linspace(-5.05, 30.0, 1000)
    theirs = getattr(torch if hasattr(torch, name) else torch.special, name)(torch.tensor(x))
    np.testing.assert_allclose(getattr(pb, name)(x).numpy(), theirs.numpy(), rtol=1e-11, atol=1e-12)
