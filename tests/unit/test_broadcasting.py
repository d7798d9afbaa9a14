"""Broadcasting of large arrays, done and undone in the quickest way, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.kernels.broadcasting import (
    MIN_FUSED_SIZE,
    MIN_THREADED_SIZE,
    axes_to,
    broadcast_ufunc,
    max_rows,
    product_to,
    sum_first,
    sum_huge,
    sum_last,
    sum_rows,
    twice_product,
)

FULL = (6, 50, 80)
SMALLER = [(), (1,), (80,), (1, 1), (50, 1), (50, 80), (1, 50, 80), (6, 1, 1), (6, 50, 1)]
SMALLER += [(6, 1, 80), (1, 1, 80), (1, 1, 1), FULL]


def summed(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    axes = axes_to(x.shape, shape)
    assert axes is not None
    return x.sum(axis=tuple(axes)).reshape(shape)


def operands(dtype: str, factor_shape: tuple[int, ...] = FULL) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=FULL).astype(dtype), rng.normal(size=factor_shape).astype(dtype)


@pytest.mark.parametrize("shape", SMALLER)
@pytest.mark.parametrize("factor_shape", [FULL, (50, 80), (80,), (6, 1, 80), ()])
def test_a_product_is_summed_to_every_shape(
    shape: tuple[int, ...], factor_shape: tuple[int, ...]
) -> None:
    grad, factor = operands("f8", factor_shape)
    found = product_to(grad, factor, shape)
    if shape == FULL:
        np.testing.assert_array_equal(found, grad * factor)
    else:
        assert found.shape == shape
        np.testing.assert_allclose(found, summed(grad * factor, shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f2", "f4", "c16", "i8"])
def test_a_product_keeps_its_dtype(dtype: str) -> None:
    grad, factor = operands(dtype)
    found = product_to(grad, factor, (6, 50, 1))
    assert found.dtype == dtype
    expected = (grad * factor).astype("c16").sum(axis=2, keepdims=True)
    total = found if found.shape == expected.shape else found.astype("c16").sum(2, keepdims=True)
    np.testing.assert_allclose(total, expected, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("layout", ["repeated", "transposed", "reversed"])
def test_a_product_takes_every_layout(layout: str) -> None:
    grad, factor = operands("f8")
    if layout == "repeated":
        grad = np.broadcast_to(grad[:, :1], FULL)
    elif layout == "transposed":
        factor = np.asfortranarray(factor)
    else:
        grad, factor = grad[..., ::-1], factor[::-1]
    for shape in SMALLER[:-1]:
        found = product_to(grad, factor, shape)
        np.testing.assert_allclose(found, summed(grad * factor, shape), rtol=1e-12, atol=1e-12)


def test_a_long_product_in_single_precision_loses_no_more_than_a_sum() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(size=(2, 1_000_003)).astype("f4")
    exact = np.dot(a.astype("f8"), b.astype("f8"))
    assert abs(product_to(a, b, ()) - exact) < 1e-6 * exact


@pytest.mark.parametrize("full", [(2, 300, 1000), (2, 300_000), (2, 100_000, 3), (2, 30, 30, 500)])
def test_long_rows_in_single_precision_lose_no_more_than_a_sum(full: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(size=(2, *full)).astype("f4")
    shape = (2, *[1] * (len(full) - 1))
    exact = summed(a.astype("f8") * b, shape)
    s = pb.ones(shape, dtype=pb.float32, requires_grad=True)
    (found,) = pb.autograd.grad(s * 1 * pb.tensor(b), s, pb.tensor(a))
    np.testing.assert_allclose(found.numpy(), exact, rtol=1e-6)


def test_many_rows_in_single_precision_are_summed_in_blocks() -> None:
    x = np.random.default_rng(1).uniform(size=(1_000_003, 2)).astype("f4")
    np.testing.assert_allclose(sum_first(x), x.sum(axis=0, dtype="f8"), rtol=2e-6)
    assert sum_first(np.zeros((9000, 0), "f4")).shape == (0,)


def test_a_factor_may_be_repeated_along_the_axis_that_is_summed() -> None:
    start, end, weight = (
        pb.full(shape, 0.5, requires_grad=True) for shape in ((4, 3000), (4, 1), (4, 1))
    )
    y = pb.lerp(start, end * 1, weight)
    (on_arrays,) = pb.autograd.grad(y.sum(), end, retain_graph=True)
    (on_tensors,) = pb.autograd.grad(y.sum(), end, create_graph=True)
    assert on_arrays.tolist() == on_tensors.tolist() == [[1500.0]] * 4


@pytest.mark.parametrize("shape", [(7, 3), (0, 3), (5000, 3), (8192, 3), (2, 3, 4), (5,)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i8"])
def test_the_first_axis_is_summed(shape: tuple[int, ...], dtype: str) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape).astype(dtype)
    for array in (x, np.asfortranarray(x)):
        found = sum_first(array)
        assert found.dtype == dtype
        exact = array.sum(axis=0, dtype="f8" if dtype == "f4" else dtype)
        np.testing.assert_allclose(found, exact, rtol=2e-5)


@pytest.mark.parametrize("shape", SMALLER)
@pytest.mark.parametrize("operation", [pb.multiply, pb.subtract])
def test_both_worlds_give_the_same_gradient(operation, shape: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    assert np.prod(FULL) > MIN_FUSED_SIZE
    large, small = operands("f8", shape)
    for operands_ in ((large, small), (small, large)):
        a, b = (pb.tensor(x, requires_grad=True) for x in operands_)
        weights = pb.tensor(np.random.default_rng(2).normal(size=FULL))
        y = operation(a, b)
        on_arrays = pb.autograd.grad(y, (a, b), weights, retain_graph=True)
        on_tensors = pb.autograd.grad(y, (a, b), weights, create_graph=True)
        for first, second in zip(on_arrays, on_tensors, strict=True):
            np.testing.assert_allclose(
                first.numpy(), second.detach().numpy(), rtol=1e-12, atol=1e-12
            )


def test_a_value_times_itself_has_both_gradients() -> None:
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = pb.sin(x)
    z = y * y
    (first,) = pb.autograd.grad(z.sum(), x, retain_graph=True)
    (second,) = pb.autograd.grad(z.sum(), x)
    expected = np.sin(2 * x.detach().numpy())
    np.testing.assert_allclose(first.numpy(), expected)
    np.testing.assert_allclose(second.numpy(), expected)
    with pytest.raises(RuntimeError, match="second time"):
        z.sum().backward()


def test_a_complex_number_times_itself() -> None:
    z = pb.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z * z).backward(pb.tensor([1 + 0j, 1j]))
    np.testing.assert_allclose(z.grad.numpy(), 2 * np.conj(z.detach().numpy()) * np.array([1, 1j]))


def test_gradients_that_meet_leave_what_others_hold_alone() -> None:
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = x + 0
    seed = pb.tensor([1.0, 1.0])
    z = (y * 3 + y) + y * x
    (found,) = pb.autograd.grad(z, x, seed)
    assert found.tolist() == [6.0, 8.0]
    assert seed.tolist() == [1.0, 1.0]


LONG = [(40, 10, 600), (10, 600), (40, 10, 1), (600,), (1, 1, 600), (40, 1, 1), (), (40, 1, 600)]


@pytest.mark.parametrize("a_shape", LONG)
@pytest.mark.parametrize("b_shape", LONG)
def test_arrays_of_different_shapes_are_combined_as_numpy_does(a_shape, b_shape) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=a_shape), rng.normal(size=b_shape)
    for x, y in ((a, b), (a.T, b.T), (a.astype("f4"), b), (np.flip(a), b)):
        try:
            expected = x - y
        except ValueError:
            with pytest.raises(ValueError, match="broadcast"):
                broadcast_ufunc(np.subtract, np.asarray(x), np.asarray(y))
            continue
        found = broadcast_ufunc(np.subtract, np.asarray(x), np.asarray(y))
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("b_shape", [(90, 10, 1), (10, 600), (1, 10, 600), (90, 1, 600), (600,)])
@pytest.mark.parametrize("function", [np.subtract, np.less, np.divmod])
def test_threads_share_what_is_repeated(function, b_shape) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, size=(90, 10, 600)), rng.uniform(1, 2, size=b_shape)
    for x, y in ((a, b), (b, a), (a[:, ::-1], b), (a.astype(int), b.astype(int))):
        np.testing.assert_array_equal(broadcast_ufunc(function, x, y), function(x, y), strict=True)


def test_broadcasting_leaves_numpys_settings_alone() -> None:
    size = np.getbufsize()
    with np.errstate(invalid="raise"):
        with pytest.raises(FloatingPointError):
            broadcast_ufunc(np.subtract, np.full((30, 600), np.inf), np.full(600, np.inf))
        assert np.geterr()["invalid"] == "raise"
        assert np.getbufsize() == size


@pytest.mark.parametrize("number", [2.0, 3, np.float32(2), np.array(2.0)])
def test_a_number_times_a_large_gradient_keeps_its_dtype(number) -> None:
    grad = np.ones((50, 300), "f4")
    np.testing.assert_array_equal(product_to(grad, number, grad.shape), grad * number, strict=True)
    repeated = np.broadcast_to(grad[0], grad.shape)
    found = product_to(repeated, number, grad.shape)
    np.testing.assert_array_equal(found, repeated * number, strict=True)


@pytest.mark.parametrize("shape", [(40, 1, 600), (1, 1, 1), (40, 10, 1), (40, 10, 600), (600,)])
def test_the_gradient_of_a_square_is_twice_a_product(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    full = (40, 10, 600)
    grad, factor = np.broadcast_to(rng.normal(size=shape), full), rng.normal(size=full)
    np.testing.assert_array_equal(twice_product(grad, factor), 2 * grad * factor, strict=True)
    x = pb.tensor(factor, requires_grad=True)
    ((x * x) * pb.tensor(np.array(grad))).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * grad * factor)


def test_columns_and_short_vectors_are_summed_to_one_element():
    column, row = (pb.tensor(np.arange(3.0).reshape(s), requires_grad=True) for s in [(3, 1), (3,)])
    one = pb.tensor([2.0], requires_grad=True)
    ((column * one).sum() + (row * one).sum()).backward()
    assert one.grad.tolist() == [6.0]
    assert one.grad.shape == (1,)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, (1, 2), (0, 2), (-1, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_threads_share_a_sum(axis: int | tuple[int, ...], keepdims: bool) -> None:
    x = np.random.default_rng(0).normal(size=(7, 300, 400))
    assert x.size >= MIN_THREADED_SIZE
    expected = x.sum(axis=axis, keepdims=keepdims)
    for found in (sum_huge(x, axis, keepdims), pb.sum(pb.tensor(x), axis, keepdims).numpy()):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8"])
@pytest.mark.parametrize("shape", [(64, 1), (64, 10), (500, 32), (500, 33), (63, 4), (64, 0)])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_short_rows_are_reduced_as_numpy_does(shape, dtype, axis):
    x = np.random.default_rng(0).normal(scale=9, size=shape).astype(dtype)
    for given in (x, np.asfortranarray(x), x[::2]):
        expected = given.sum(axis, keepdims=True)
        np.testing.assert_allclose(sum_rows(given, axis), expected, rtol=1e-5, atol=1e-5)
        assert sum_rows(given, axis).dtype == expected.dtype
        if given.shape[axis]:
            found = max_rows(given, axis)
            np.testing.assert_array_equal(found, given.max(axis, keepdims=True), strict=True)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16"])
@pytest.mark.parametrize(
    "shape", [(9,), (4, 1), (3, 70), (2, 3, 500), (2, 4096), (2, 5000), (3, 0)]
)
def test_last_axes_are_summed_as_numpy_does(shape, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for given in (x, np.asfortranarray(x), x[..., ::2], np.broadcast_to(x, (2, *shape))):
        expected = given.sum(-1, keepdims=True)
        found = sum_last(given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 if dtype != "f2" else 0.5)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


def test_rows_with_nan_and_infinity_show_them():
    x = np.zeros((64, 3))
    x[0, 1], x[1, 2], x[2] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(sum_rows(x, 1)[:4, 0], [np.nan, np.inf, -np.inf, 0])
    np.testing.assert_array_equal(sum_last(x)[:4, 0], [np.nan, np.inf, -np.inf, 0])
    np.testing.assert_array_equal(max_rows(x, 1)[:4, 0], [np.nan, np.inf, -np.inf, 0])
