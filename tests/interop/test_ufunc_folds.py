"""``reduce``, ``accumulate`` and ``reduceat`` of every function of two arguments, beside NumPy's.

NumPy's vectorised loops of ``arctan2`` and ``power`` fold floats wrongly on some processors (they
combine the first element with the last only), so these two are compared with a loop in Python.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.interop.ufuncs import UFUNCS

# Those of SciPy join the table when it is first used; folding them can overrun memory in SciPy.
NUMPY = [ufunc for ufunc in UFUNCS if getattr(np, ufunc.__name__, None) is ufunc]
BINARY = [ufunc for ufunc in NUMPY if ufunc.nin == 2 and ufunc.nout == 1]
FOLDED_WRONGLY = (np.arctan2, np.power)
COMPARED = [ufunc for ufunc in BINARY if ufunc not in FOLDED_WRONGLY]
ARRAYS = {
    "one": np.array([-3.0]),
    "three": np.array([-3.0, 2.0, 0.5]),
    "row": np.array([[-3.0, 1.5]]),
    "column": np.array([[-3.0], [1.5]]),
    "empty": np.zeros(0),
    "no_rows": np.zeros((0, 3)),
    "number": np.array(-3.0),
    "one_integer": np.array([-3]),
    "integers": np.array([[4, -6, 8], [2, 3, 5]]),
    "one_truth": np.array([True]),
    "truths": np.array([True, False, True]),
    "single": np.array([-3.0, 2.0], np.float32),
}
OPTIONS = {
    "plain": {},
    "all_axes": {"axis": None},
    "last_axis": {"axis": -1},
    "no_axis": {"axis": ()},
    "two_axes": {"axis": (0, 1)},
    "keepdims": {"keepdims": True},
    "initial": {"initial": 2},
    "no_initial": {"initial": None},
    "dtype": {"dtype": np.float32},
}


def attempt(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:
            return type(error)


def assert_same(found, expected):
    assert isinstance(found, type) is isinstance(expected, type), (found, expected)
    if not isinstance(expected, type):
        assert found.shape == np.shape(expected)
        assert found.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("ufunc", COMPARED, ids=lambda u: u.__name__)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_reduce_is_numpys(ufunc, options):
    for array in ARRAYS.values():
        expected = attempt(lambda: ufunc.reduce(array, **options))  # noqa: B023 - called at once
        found = attempt(lambda: ufunc.reduce(pb.tensor(array), **options))  # noqa: B023
        if ufunc in (np.logical_and, np.logical_or) and "dtype" in options:
            continue  # bools in any case
        assert_same(found, expected)


@pytest.mark.parametrize("ufunc", COMPARED, ids=lambda u: u.__name__)
@pytest.mark.parametrize("given", [{}, {"initial": 3}], ids=["identity", "initial"])
def test_reduce_with_a_mask_is_numpys(ufunc, given):
    for array in ARRAYS.values():
        for step in (1, 2, array.size + 1):
            where = np.arange(1, array.size + 1).reshape(array.shape) % step == 0
            options = {"where": where, **given}
            expected = attempt(lambda: ufunc.reduce(array, **options))  # noqa: B023
            assert_same(attempt(lambda: ufunc.reduce(pb.tensor(array), **options)), expected)  # noqa: B023


@pytest.mark.parametrize("ufunc", COMPARED, ids=lambda u: u.__name__)
@pytest.mark.parametrize("axis", [0, -1, 2, -3, None, (0,), (0, 1), ()], ids=str)
def test_accumulate_and_reduceat_are_numpys(ufunc, axis):
    if ufunc is np.ldexp:
        return  # NumPy refuses, because a result cannot be an exponent
    for array in ARRAYS.values():
        x = pb.tensor(array)
        expected = attempt(lambda: ufunc.accumulate(array, axis))  # noqa: B023
        found = attempt(lambda: ufunc.accumulate(x, axis))  # noqa: B023
        assert_same(found, expected)
        assert expected is not np.exceptions.AxisError or issubclass(found, expected)
        for places in ([0], [0, 0], [1, 0], [0, 2, 1]):
            expected = attempt(lambda: ufunc.reduceat(array, places, axis))  # noqa: B023
            assert_same(attempt(lambda: ufunc.reduceat(x, places, axis)), expected)  # noqa: B023


@pytest.mark.parametrize("ufunc", FOLDED_WRONGLY, ids=lambda u: u.__name__)
def test_fold_is_a_loop_where_numpy_differs_between_processors(ufunc):
    for values in ([2.0], [2.0, 0.5], [2.0, 0.5, 1.5]):
        expected = functools.reduce(ufunc, values)
        assert np.isclose(ufunc.reduce(pb.tensor(values)).item(), expected)


@pytest.mark.parametrize("method", [np.add.accumulate, np.hypot.accumulate, np.hypot.reduceat])
@pytest.mark.parametrize("axis", [None, (0, 1), ()], ids=str)
def test_several_axes_have_no_order_to_fold_in(method, axis):
    places = [[0]] if method.__name__ == "reduceat" else []
    with pytest.raises(ValueError, match="does not allow multiple axes"):
        method(pb.tensor(ARRAYS["row"]), *places, axis=axis)


def test_reduce_of_one_element_begins_with_the_identity():
    assert np.hypot.reduce(pb.tensor([-3.0])).item() == 3
    assert np.gcd.reduce(pb.tensor([-4])).item() == 4
    assert np.hypot.reduce(pb.tensor([-3.0]), initial=None).item() == -3
    assert np.hypot.accumulate(pb.tensor([-3.0])).tolist() == [-3]


DIFFERENTIABLE = [np.hypot, np.arctan2, np.logaddexp, np.subtract, np.divide, np.fmax, np.copysign]


@pytest.mark.parametrize("ufunc", DIFFERENTIABLE, ids=lambda u: u.__name__)
@pytest.mark.parametrize("shape", [(1,), (3,), (1, 2), (3, 2)])
def test_gradients_of_folds(ufunc, shape):
    x = np.random.default_rng(0).uniform(0.5, 2.0, shape)
    x[..., -1] *= -1
    x = pb.tensor(x, requires_grad=True)
    assert pb.autograd.gradcheck(ufunc.reduce, x, check_forward_ad=True)
    assert pb.autograd.gradcheck(lambda x: ufunc.reduce(x, axis=()), x, check_forward_ad=True)
    assert pb.autograd.gradcheck(lambda x: ufunc.reduceat(x, [0]), x, check_forward_ad=True)
    assert pb.autograd.gradcheck(ufunc.accumulate, x, check_forward_ad=True)


def test_gradient_of_a_single_term_of_logaddexp_is_one():
    x = pb.tensor([-np.inf], requires_grad=True)
    (found,) = pb.autograd.grad(np.logaddexp.reduce(x), x)
    assert found.tolist() == [1.0]


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32])
def test_sum_with_a_mask_has_numpys_dtype(dtype):
    array, mask = np.array([1, 0, 1], dtype), np.array([True, True, False])
    for function in (np.sum, np.prod):
        expected, found = function(array, where=mask), function(pb.tensor(array), where=mask)
        assert found.dtype == expected.dtype
        assert found.item() == expected
