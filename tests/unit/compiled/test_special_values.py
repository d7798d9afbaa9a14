"""Machine code gives NumPy's values for infinities, zeros and numbers that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.nn import functional

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

SIZES = (1, 7, 1000)  # a scalar, registers, loops over memory


def assert_same(function, x):
    """The second call of the compiled function against the function, bit by bit but for NaN."""
    for size in SIZES:
        given = np.resize(x, size)
        compiled = pb.compile(function, backend="llvm")
        compiled(given)
        found, expected = compiled(given), np.asarray(function(given))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        if found.dtype.kind in "fc":
            for part in (np.real, np.imag):
                signs = [np.signbit(part(y))[~np.isnan(part(y))] for y in (found, expected)]
                np.testing.assert_array_equal(*signs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
class TestCastsOfNumbersThatDoNotFit:
    def test_negative_numbers_wrap(self, dtype):
        x = np.array([-1.0, -2.5, -100.0, -(2.0**30), -(2.0**62), 3.0], dtype)
        assert_same(lambda x: x.astype(np.uint64), x)
        assert_same(lambda x: x.astype(np.uint32), x[:4])

    def test_large_numbers_are_unsigned(self, dtype):
        x = np.array([2.0**63, 2.0**63 + 2.0**41, 1.5 * 2.0**63, 2.0**62, 7.9], dtype)
        assert_same(lambda x: x.astype(np.uint64), x)

    @pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
    def test_small_integers_are_the_low_bits_of_an_int32(self, dtype, kind):
        x = np.array([-1.0, -129.5, 300.0, 70000.0, -70000.0, 2.0**30 + 2**10], dtype)
        assert_same(lambda x: x.astype(kind), x)
        assert_same(lambda x: x.astype(kind), np.array([2.0**31, 2.0**40, -(2.0**33)], dtype))

    @pytest.mark.parametrize("kind", [np.int32, np.int64])
    def test_signed_integers_are_the_least_one(self, dtype, kind):
        x = np.array([np.nan, np.inf, -np.inf, 2.0**63, -(2.0**64), 1e30], dtype)
        assert_same(lambda x: x.astype(kind), x)
        fits = np.array([-(2.0**31), 2.0**31 - 128, -1.9, 1.9], dtype)
        assert_same(lambda x: x.astype(kind), fits)


def test_signs_of_zeros_of_activations():
    x = np.array([-0.0, 0.0, -1.0, 7.0, np.nan, np.inf, -np.inf])
    if not np.signbit(np.clip(x, 0, 6))[0]:  # NumPy 2.0 with AVX-512
        x = x[1:]
    assert_same(functional.relu6, x)
    assert_same(lambda x: functional.hardtanh(x, 0.0, 2.0), x)
    assert_same(lambda x: functional.hardtanh(x, 2.0, 0.0), x)
    z = np.array([0j, complex(-0.0, -0.0), complex(0.0, -0.0), 3 + 0j, -3 - 2j])
    assert_same(pb.sigmoid, z[:4])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.uint64])
def test_the_logistic_function_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, limits.min, limits.max], dtype)
    expected = pb.sigmoid(x.astype(float)).numpy()
    tolerance = {1: 1e-3, 2: 1e-6}.get(x.itemsize, 1e-14)
    for function in (pb.sigmoid, pb.compile(pb.sigmoid)):
        for _ in range(2):
            found = np.asarray(function(x))
            assert found.dtype == np.exp(x[:1]).dtype
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-30)


def test_logaddexp2_is_zero_where_the_sum_is_one():
    assert_same(lambda x: pb.logaddexp2(x, x), np.array([-1.0, 3.0, -7.5, 1e300]))


@pytest.mark.parametrize("name", ["silu", "sigmoid", "logsigmoid"])
def test_logistic_functions_are_within_two_units(name):
    x = np.linspace(-30, 30, 2001)
    wide = x.astype(np.longdouble)
    sizes = {"silu": wide, "sigmoid": 1}.get(name, 0)
    exact = -np.log1p(np.exp(-wide)) if name == "logsigmoid" else sizes / (1 + np.exp(-wide))
    compiled = pb.compile(getattr(functional, name))
    for _ in range(2):
        found = compiled(x)
    unit = np.spacing(np.abs(exact.astype(float)))
    assert (np.abs(found - exact) <= 2 * unit).all()
