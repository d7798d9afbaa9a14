"""Compiled functions of complex numbers have NumPy's signs of zeros: they choose branches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

PARTS = (0.0, -0.0, 1.0, -1.0, 4.0, -4.0, np.inf, -np.inf, np.nan)
EXPONENTS = (-3, -2, -1, 0, 1, 2, 3, 4, -1.0, 0.0, 1.0, 2.0, 3.0)
OLD_SHORT_CUTS = ("1", "-1.0", "1.0", "2.0")  # of NumPy 2.0, not of NumPy 2.4
NUMBERS = (1, -1, 4.0, 0.0, -0.0, 1 + 0j, complex(1.0, -0.0), complex(-0.0, -0.0))


def numbers(dtype):
    z = np.empty(len(PARTS) ** 2, dtype)
    z.real, z.imag = np.array(list(itertools.product(PARTS, PARTS))).T
    return z


def same_bits(found, expected):
    """Whether numbers and signs of zeros are the same; all NaN are."""
    pairs = ((found.real, expected.real), (found.imag, expected.imag))
    return all(
        np.array_equal(x, y, equal_nan=True)
        and np.array_equal(np.signbit(x)[~np.isnan(y)], np.signbit(y)[~np.isnan(y)])
        for x, y in pairs
    )


def assert_same_bits(function, reference, *args):
    """The second call of the compiled function against NumPy; all NaN are the same."""
    compiled = pb.compile(function, backend="llvm")
    tensors = [pb.asarray(x) for x in args]
    with np.errstate(all="ignore"):
        compiled(*tensors)
        found, expected = compiled(*tensors).numpy(), reference(*args)
    assert found.dtype == expected.dtype
    for x, y in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_array_equal(x, y)
        is_number = ~np.isnan(y)
        np.testing.assert_array_equal(np.signbit(x)[is_number], np.signbit(y)[is_number])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
class TestComplexNumbers:
    def test_reciprocal(self, dtype):
        assert_same_bits(pb.reciprocal, np.reciprocal, numbers(dtype))

    def test_divide(self, dtype):
        z = numbers(dtype)
        pairs = [np.ascontiguousarray(x) for x in np.broadcast_arrays(z[:, None], z)]
        assert_same_bits(pb.divide, np.divide, *pairs)

    @pytest.mark.parametrize("exponent", EXPONENTS)
    def test_powers(self, dtype, exponent):
        def power(z):
            return z**exponent

        z = numbers(dtype)
        with np.errstate(all="ignore"):
            has_short_cut = not same_bits(power(z), np.power(z, exponent))
        if has_short_cut and str(exponent) in OLD_SHORT_CUTS:
            pytest.skip("z**n of this NumPy differs from its power(z, n) at zeros and infinities")
        assert_same_bits(power, power, z)

    @pytest.mark.parametrize("number", NUMBERS)
    def test_arithmetic_with_numbers(self, dtype, number):
        for function in (
            lambda z: z / number,
            lambda z: number / z,
            lambda z: z * number,
            lambda z: z + number,
            lambda z: z - number,
            lambda z: number - z,
        ):
            assert_same_bits(function, function, numbers(dtype))


def test_branches_of_the_logarithm():
    z = np.array([complex(-4.0, -0.0), complex(-4.0, 0.0)])
    assert_same_bits(lambda z: pb.log(z / 1).imag, lambda z: np.log(z / 1).imag, z)
    assert_same_bits(lambda z: pb.log(z**-1).imag, lambda z: np.log(z**-1).imag, z)
    assert_same_bits(lambda z: pb.angle(pb.reciprocal(z)), lambda z: np.angle(1 / z), z[1:])


def test_square_root_as_a_power():
    z = np.array([complex(-4.0, 0.0), complex(-4.0, -0.0)])
    assert_same_bits(lambda z: (z**0.5).real, lambda z: (z**0.5).real, z)


def test_real_zeros_are_added_as_numpy_adds_them():
    x = np.array([0.0, -0.0, 1.0])
    for zero in (0.0, -0.0):
        assert_same_bits(lambda x, n=zero: x + n, lambda x, n=zero: x + n, x)
        assert_same_bits(lambda x, n=zero: x - n, lambda x, n=zero: x - n, x)


def test_the_later_of_equal_zeros_is_the_maximum():
    x, y = np.array([0.0, -0.0] * 8), np.array([-0.0, 0.0] * 8)
    for name in ("maximum", "minimum"):
        found = pb.compile(getattr(pb, name), backend="llvm")
        for _ in range(2):
            signs = np.signbit(found(pb.asarray(x), pb.asarray(y)).numpy())
        np.testing.assert_array_equal(signs, np.signbit(y))
