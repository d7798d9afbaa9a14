"""What sorting gives for equal elements and NaN, where gradients go, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.kernels.platform import NUMPY

nan, inf = np.nan, np.inf


def gradient(function, data, weights=None):
    """The gradient of a function at some data, for a sum of its results or given weights."""
    x = pb.tensor(data, requires_grad=True)
    y = function(x)
    weights = np.ones(y.shape, y.dtype) if weights is None else np.asarray(weights, y.dtype)
    return pb.autograd.grad(y, x, pb.tensor(weights))[0].numpy()


@pytest.mark.parametrize(
    "function",
    [
        pb.unique_values,
        lambda x: pb.unique_all(x)[0],
        lambda x: pb.unique_counts(x)[0],
        lambda x: pb.unique_inverse(x)[0],
    ],
)
def test_distinct_elements_have_no_derivative(function):
    """Rule 7.19."""
    x = pb.tensor([2.0, 1.0, 2.0], requires_grad=True)
    values = function(x)
    assert values.requires_grad
    with pytest.raises(NotImplementedError, match=r"derivative .*unique.* not implemented"):
        pb.sum(values).backward()


def test_median_shares_ties():
    """Rule 7.64."""
    for function in (pb.median, pb.nanmedian):
        np.testing.assert_array_equal(gradient(function, [1.0, 2.0, 2.0, 3.0]), [0, 0.5, 0.5, 0])


def test_median_of_an_even_number_is_a_mean():
    """Rule 7.64."""
    # NumPy's median, unlike PyTorch's, lies between the two in the middle.
    assert pb.median([1.0, 2.0, 3.0, 4.0]).item() == 2.5
    np.testing.assert_array_equal(gradient(pb.median, [4.0, 1.0, 3.0, 2.0]), [0, 0, 0.5, 0.5])
    got = gradient(lambda x: pb.quantile(x, 0.5, method="lower"), [4.0, 1.0, 3.0, 2.0])
    np.testing.assert_array_equal(got, [0, 0, 0, 1])


def test_median_along_an_axis_is_one_element():
    """Rule 7.65."""
    np.testing.assert_array_equal(gradient(lambda x: pb.median(x, 0), [2.0, 2.0, 2.0]), [0, 1, 0])


@pytest.mark.parametrize("function", [pb.quantile, pb.nanquantile])
def test_quantile_of_equal_elements(function):
    """Rule 7.66."""

    def middle(x):
        return function(x, 0.5)

    np.testing.assert_array_equal(gradient(middle, [1.0, 2.0, 3.0, 4.0]), [0, 0.5, 0.5, 0])
    np.testing.assert_array_equal(gradient(middle, [2.0, 2.0, 2.0]), [0, 1, 0])


def test_kth_and_top_of_equals_are_the_first():
    """Rule 7.67."""
    data = [2.0, 2.0, 2.0]
    np.testing.assert_array_equal(gradient(lambda x: pb.kthvalue(x, 2)[0], data), [1, 0, 0])
    np.testing.assert_array_equal(gradient(lambda x: pb.topk(x, 1)[0], data), [1, 0, 0])


def test_mode_is_the_last_of_equals():
    """Rule 7.68."""
    np.testing.assert_array_equal(gradient(lambda x: pb.mode(x)[0], [2.0, 2.0, 1.0]), [0, 1, 0])


def test_sorting_moves_gradients():
    """Rule 7.69."""
    weights = [1.0, 10.0, 100.0]
    np.testing.assert_array_equal(gradient(pb.sort, [2.0, 2.0, 1.0], weights), [10, 100, 1])


def test_descending_order_is_stable():
    """Rule 7.70."""

    def descending(x):
        return pb.sort(x, descending=True)

    weights = [1.0, 10.0, 100.0]
    np.testing.assert_array_equal(gradient(descending, [2.0, 2.0, 1.0], weights), [1, 10, 100])
    order = pb.argsort([1, 3, 1, 3, 2], descending=True)
    np.testing.assert_array_equal(order.numpy(), [1, 3, 4, 0, 2])


@pytest.mark.parametrize(
    "call",
    [
        pb.sort,
        pb.argsort,
        pb.median,
        pb.mode,
        lambda z: pb.topk(z, 1),
        lambda z: pb.kthvalue(z, 1),
        lambda z: pb.quantile(z, 0.5),
    ],
)
def test_complex_numbers_have_no_order(call):
    """Rule 8.14."""
    with pytest.raises(NotImplementedError, match="complex numbers have no order"):
        call(np.array([1j, 2.0]))


def test_nan_counts_as_largest():
    x = np.array([1.0, nan, 3.0, 2.0])
    np.testing.assert_array_equal(pb.sort(x).numpy(), [1, 2, 3, nan])
    np.testing.assert_array_equal(pb.sort(x, descending=True).numpy(), [nan, 3, 2, 1])
    np.testing.assert_array_equal(pb.topk(x, 2)[1].numpy(), [1, 2])
    value, index = pb.kthvalue(x, 4)
    assert np.isnan(value.item())
    assert index.item() == 1


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, 3, 7, 12])
def test_topk_is_the_beginning_of_a_stable_order(k, largest):
    x = np.random.default_rng(k).choice([1.0, 2.0, 2.0, 3.0, nan], (4, 12))
    order = pb.argsort(x, descending=largest).numpy()[:, :k]
    values, indices = pb.topk(x, k, largest=largest)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("q", [0.0, 0.4, [0.2, 0.5, 0.9], np.linspace(0, 1, 9)])
def test_quantiles_of_equals_pick_by_stable_order(q):
    x = np.random.default_rng(3).choice([1.0, 2.0, 3.0], (5, 7))
    got = gradient(lambda x: pb.quantile(x, q, 1, method="lower"), x)
    want = np.zeros_like(x)
    for rank in np.atleast_1d(np.floor(np.multiply(q, 6))).astype(int):
        want[np.arange(5), np.argsort(x, 1, kind="stable")[:, rank]] += 1
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", [pb.median, lambda x, axis: pb.quantile(x, 0.5, axis)])
def test_a_slice_with_nan_has_no_quantile(function):
    x = np.array([[1.0, nan, 3.0], [1.0, 2.0, 4.0]])
    np.testing.assert_array_equal(function(pb.tensor(x), 1).numpy(), [nan, 2])


@pytest.mark.parametrize("q", [0.3, [0.1, 0.5, 1.0]])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantiles_leave_nan_out(q, axis):
    x = np.arange(15.0).reshape(5, 3) ** 1.5
    x[1, 1] = x[2, 1] = x[4, 0] = nan
    got = pb.nanquantile(x, q, axis).numpy()
    np.testing.assert_allclose(got, np.nanquantile(x, q, axis), rtol=1e-13)
    np.testing.assert_allclose(
        pb.nanpercentile(x, np.multiply(100, q), axis).numpy(), got, rtol=1e-13
    )
    grad = gradient(lambda x: pb.nanquantile(x, q, axis), x)
    assert not grad[np.isnan(x)].any()


def test_all_nan_has_no_median():
    assert np.isnan(pb.nanmedian([nan, nan]).item())


@pytest.mark.parametrize("n", [3, 4, 5, 8])
@pytest.mark.parametrize(
    "method", ["lower", "higher", "nearest", "inverted_cdf", "closest_observation", "linear"]
)
def test_quantile_methods_on_their_steps(method, n):
    if method == "closest_observation" and NUMPY < (2, 1):
        pytest.skip("NumPy 2.0 counts from the other end at ties, a mistake that 2.1 corrected")
    x = np.arange(n) * 10
    for q in np.linspace(0, 1, 2 * n * (n - 1) + 1):
        got, want = pb.quantile(x, q, method=method), np.quantile(x, q, method=method)
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
        assert got.dtype == want.dtype


def test_medians_of_infinities():
    assert pb.median([1.0, 2.0, inf]).item() == 2
    assert pb.median([1.0, inf, inf]).item() == inf
    assert pb.quantile([1.0, 2.0, inf], 0.5).item() == 2


def test_medians_of_integers_are_real():
    got = pb.median(np.array([[1, 2, 4], [3, 3, 7]]), 0)
    np.testing.assert_array_equal(got.numpy(), [2, 2.5, 5.5])


def test_quantile_keeps_single_precision_for_a_number():
    x = np.array([1, 2, 4], np.float32)
    assert pb.quantile(x, 0.3).dtype == np.float32
    assert pb.percentile(x, 30).dtype == np.float32


def test_indices_are_not_differentiable():
    x = pb.tensor([3.0, 1.0, 2.0], requires_grad=True)
    for result in (pb.argsort(x), pb.topk(x, 2)[1], pb.nonzero(x)[0], pb.searchsorted(x, 2.0)):
        assert not result.requires_grad
        assert result.dtype == np.intp


def test_nonzero_indexes():
    x = pb.tensor([[0.0, 2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(x[pb.nonzero(x)].numpy(), [2, 3])


def test_interp_outside_is_constant():
    xp, fp = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    got = gradient(lambda x: pb.interp(x, xp, fp), [0.0, 1.5, 3.0])
    np.testing.assert_array_equal(got, [0, 10, 0])
    got = gradient(lambda fp: pb.interp([0.0, 1.5, 3.0], xp, fp), fp)
    np.testing.assert_array_equal(got, [1.5, 1.5])
    got = gradient(lambda fp: pb.interp([0.0, 3.0], xp, fp, left=0, right=0), fp)
    np.testing.assert_array_equal(got, [0, 0])
    np.testing.assert_array_equal(pb.interp([nan, 1.0, 2.0], xp, fp).numpy(), [nan, 10, 20])


def test_weights_of_bincount_keep_their_dtype():
    weights = np.array([1, 2, 4], np.float32)
    assert pb.bincount([0, 1, 1], weights).dtype == np.float32
    got = gradient(lambda w: pb.bincount([0, 1, 1], w), weights, [3.0, 5.0])
    np.testing.assert_array_equal(got, [3, 5, 5])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: pb.topk(np.zeros((2, 3)), 4),
            ValueError,
            r"topk: k must be from 0 to 3.*but is 4",
        ),
        (lambda: pb.kthvalue([1.0], 0), ValueError, r"kthvalue: k must be from 1 to 1"),
        (lambda: pb.mode(np.zeros((2, 0))), ValueError, r"mode: axis -1 of shape \(2, 0\)"),
        (lambda: pb.median(np.zeros(0)), ValueError, r"median: no elements.*\(0,\)"),
        (lambda: pb.quantile([1.0], 1.5), ValueError, r"in the range \[0, 1\]"),
        (lambda: pb.quantile([1.0], 0.5, method="no"), ValueError, "unknown method 'no'"),
        (lambda: pb.quantile([1.0], 0.5, 3), np.exceptions.AxisError, "quantile: axis 3 is out of"),
        (lambda: pb.nonzero(1.0), ValueError, "nonzero: .* at least one axis"),
        (lambda: pb.interp(1.0, [1.0, 2.0], [1.0]), ValueError, r"\(2,\) and \(1,\)"),
        (lambda: pb.interp(1.0, [1.0], [1.0], period=0), ValueError, "period must not be 0"),
        (lambda: pb.sort(np.zeros(2), 1), np.exceptions.AxisError, "out of bounds"),
    ],
)
def test_errors_name_the_wrong_argument(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64"])
def test_medians_of_integers_do_not_overflow(name, dtype):
    x = np.array([1, 100, 120, 127]).astype(dtype)
    expected = getattr(np, name)(x)
    found = getattr(pb, name)(pb.tensor(x))
    assert (found.item(), found.dtype) == (expected, expected.dtype)


@pytest.mark.parametrize("dtype", ["d", "f", "l"])
def test_long_lines_are_sorted_stably(dtype):
    rng = np.random.default_rng(5)
    for size in (999, 1000, 70_000, 140_000):
        x = rng.permutation(size).astype(dtype)
        lines = [x, np.where(x == size - 1, size - 2, x), x // 10]
        if dtype != "l":
            lines += [np.where(x < 3, np.nan, x), np.where(x < 3, np.copysign(0.0, x - 1.5), x)]
        for line in lines:
            order = pb.argsort(pb.asarray(line)).numpy()
            assert (order == np.argsort(line, kind="stable")).all()


@pytest.mark.parametrize("size", [7, 1500])
@pytest.mark.parametrize("ties", [1, 4])
def test_quantiles_of_lines_with_ties_and_nan(size, ties):
    x = np.random.default_rng(6).permutation(size) // ties * 1.0
    for line in (x, np.where(x == 1, np.nan, x)):
        for name in ("median", "nanmedian"):
            found = getattr(pb, name)(pb.asarray(line)).numpy()
            np.testing.assert_array_equal(found, getattr(np, name)(line))
        for q in (0.0, 0.3, 1.0, np.array([0.1, 0.5, 0.9])):
            for name in ("quantile", "nanquantile"):
                found = getattr(pb, name)(pb.asarray(line), q).numpy()
                np.testing.assert_allclose(found, getattr(np, name)(line, q), rtol=1e-12)
