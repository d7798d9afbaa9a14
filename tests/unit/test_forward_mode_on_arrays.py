"""Forward mode on raw arrays: which calls use this fast path, and what they return."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad as fw
from pullback.func import jacfwd, jacrev, jvp, vmap
from pullback.kernels.broadcasting import MIN_THREADED_SIZE

PAIRS = [((3,), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 0), (1,)), ((), ())]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "atan2", "maximum"])
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_operands_with_unequal_axes(name, left, right):
    rng = np.random.default_rng(0)
    x, y = (pb.tensor(rng.uniform(1.0, 2.0, shape)) for shape in (left, right))
    function = getattr(pb, name)
    for argnums in (0, 1, (0, 1)):
        columns = jacfwd(function, argnums)(x, y)
        rows = jacrev(function, argnums)(x, y)
        pairs = zip(columns, rows, strict=True) if argnums == (0, 1) else [(columns, rows)]
        for one, other in pairs:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-14)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
     ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((70, 2, 3), (3, 4)), ((0, 3), (3, 2))],
)  # fmt: skip
def test_products_of_matrices_and_vectors(left, right):
    rng = np.random.default_rng(0)
    x, y = (pb.tensor(rng.normal(size=shape)) for shape in (left, right))
    for one, other in zip(
        jacfwd(pb.matmul, (0, 1))(x, y), jacrev(pb.matmul, (0, 1))(x, y), strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x[:, None] * w,
        lambda x, w: x[:, None] * (x[:, None] * w),
        lambda x, w: pb.tanh(x)[:, None] * w / 3.0 - x[:, None],
        lambda x, w: x[:, None, None] @ w,  # a product with a thin matrix
    ],
)
def test_threads_share_many_large_tangents(function):
    rng = np.random.default_rng(0)
    x, w = pb.tensor(rng.normal(size=40)), pb.tensor(rng.normal(size=(1, 900)))
    assert x.size**2 * w.size >= MIN_THREADED_SIZE
    columns = jacfwd(function)(x, w).numpy()
    for place in (0, 17, 39):
        unit = pb.tensor(np.eye(40)[place])
        slope = jvp(lambda x: function(x, w), (x,), (unit,))[1].numpy()
        np.testing.assert_allclose(columns[..., place], slope, rtol=1e-15, atol=0)


@pytest.mark.parametrize("number", [2.0, -2, 1.5 + 1j, True])
def test_numbers_as_operands(number):
    x, t = pb.tensor([0.5, 2.0]), pb.tensor([1.0, -1.0])
    for function in (
        lambda x: x * number,
        lambda x: number - x,
        lambda x: x**number,
        lambda x: (number + 3) ** x,
        lambda x: number / x,
    ):
        value, slope = jvp(function, (x,), (t,))
        step = 1e-6
        there, here = (function(x + sign * step * t).numpy() for sign in (1, -1))
        np.testing.assert_allclose(slope.numpy(), (there - here) / (2 * step), rtol=1e-6)
        assert slope.dtype == value.dtype
        batched = vmap(lambda t, f=function: jvp(f, (x,), (t,))[1])(pb.stack([t, 2 * t]))
        np.testing.assert_array_equal(batched[0].numpy(), slope.numpy())
    single = jvp(lambda x: x * 2.0, (x.astype("float32"),), (t.astype("float32"),))[1]
    assert single.dtype == np.float32


def test_tangents_with_and_without_a_batch_meet():
    x, t = pb.tensor([1.0, 2.0]), pb.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    fixed = pb.tensor([[1.0, -1.0], [2.0, 0.0]])

    def push(direction):
        y = pb.ones((2, 2))
        return jvp(lambda a, b: (a * b + b @ a, pb.stack([a, b[0]])), (x, y), (direction, fixed))[1]

    for many, *each in zip(vmap(push)(t), *(push(row) for row in t), strict=True):
        np.testing.assert_allclose(many.numpy(), np.stack([one.numpy() for one in each]))


def test_a_tangent_that_came_to_require_grad_is_recorded():
    whole, scale = pb.tensor([[1.0, 2.0], [3.0, 4.0]]), pb.tensor(2.0, requires_grad=True)
    with fw.dual_level():
        x = fw.make_dual(pb.tensor([5.0, 6.0]), whole[0])
        whole.mul_(scale)  # and with it the tangent, which is a view
        tangent = fw.unpack_dual(x * x).tangent
        assert tangent.tolist() == [20.0, 48.0]
        (slope,) = pb.autograd.grad(tangent.sum(), scale)
        assert slope.item() == 34.0


def test_the_tangent_of_a_view_is_a_view_of_the_tangent():
    with fw.dual_level():
        x = fw.make_dual(pb.tensor([1.0, 2.0]), pb.tensor([1.0, 1.0])) * 1
        first = x[:1]
        first.mul_(5.0)
        assert fw.unpack_dual(x).tangent.tolist() == [5.0, 1.0]
        assert fw.unpack_dual(first).tangent._base is fw.unpack_dual(x).tangent


def test_a_result_has_a_tangent_of_its_own():
    with fw.dual_level():
        x = fw.make_dual(pb.tensor([1.0, 2.0]), pb.tensor([1.0, 1.0]))
        for y in (+x, x + 1.0, x.clone(), pb.real(x) * 1, x.astype("float64")):
            y.mul_(3.0)
        assert fw.unpack_dual(x).tangent.tolist() == [1.0, 1.0]


def test_a_result_made_in_a_transform_may_be_written_to_in_one_outside():
    def outer(x):
        value, slope = jvp(lambda y: y * y, (x,), (pb.ones(2),))
        slope.mul_(x)  # both were made inside of the outer function
        value.add_(slope)
        return value

    x = pb.tensor([1.0, 2.0])
    assert jacfwd(outer)(x).tolist() == jacrev(outer)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_results_without_a_derivative_have_no_tangent():
    with fw.dual_level():
        x = fw.make_dual(pb.tensor([1.0, 2.0]), pb.tensor([1.0, 1.0]))
        for y in (x > 1, pb.sign(x).astype("int64"), pb.argmax(x)):
            assert fw.unpack_dual(y).tangent is None


def pushed_in_a_map(function):
    """What a function of a dual tensor returns, for three tangents at once."""

    def push(direction):
        with fw.dual_level():
            return function(fw.make_dual(pb.tensor([1.0, 2.0, 3.0]), direction) * 2.0)

    return vmap(push)(pb.tensor(np.eye(3)))


def tangent(x):
    return fw.unpack_dual(x).tangent


@pytest.mark.parametrize("seen", ["before", "after", "never"])
def test_lazy_tangent_of_view_follows_writes_to_that_of_its_base(seen):
    scale = pb.tensor(2.0, requires_grad=True)

    def write(y):
        view = y[1:]
        early = tangent(view) if seen == "before" else None
        tangent(y).mul_(scale)
        if seen == "never":
            return tangent(view * 1.0)
        return (tangent(view) if early is None else early) * 1.0

    found = pushed_in_a_map(write)
    np.testing.assert_array_equal(found.detach().numpy(), 4.0 * np.eye(3)[:, 1:])
    found.sum().backward()
    assert scale.grad.item() == 4.0


def test_lazy_tangent_of_view_shares_memory_with_that_of_its_base():
    def write(y):
        first = y[1:]
        second = first[1:]
        tangent(y).mul_(10.0)
        tangent(second).mul_(10.0)
        return tangent(y) * 1.0, tangent(first) * 1.0, tangent(second * 1.0)

    whole, first, second = (x.numpy() for x in pushed_in_a_map(write))
    np.testing.assert_array_equal(whole, np.diag([20.0, 20.0, 200.0]))
    np.testing.assert_array_equal(first, whole[:, 1:])
    np.testing.assert_array_equal(second, whole[:, 2:])


def test_lazy_tangent_becomes_one_tensor():
    def read(y):
        assert y._meta.lazy_array is not None
        assert y._meta.tangents is y._meta.tangents
        assert y._meta.lazy_array is None
        view = y[:2]
        assert view._meta.lazy_array is not None
        assert tangent(view)._meta.base is y._meta.tangents[next(iter(y._meta.tangents))]
        return tangent(view) * 1.0

    np.testing.assert_array_equal(pushed_in_a_map(read).numpy(), 2.0 * np.eye(3)[:, :2])


def test_tangent_of_ended_level_does_not_propagate():
    kept = []
    with fw.dual_level():
        kept.append(fw.make_dual(pb.tensor([1.0, 2.0]), pb.tensor([1.0, 0.0])) * 3.0)
    with fw.dual_level():
        assert tangent(kept[0] * 2.0) is None
        mixed = kept[0] * fw.make_dual(pb.tensor([1.0, 1.0]), pb.tensor([0.0, 1.0]))
        np.testing.assert_array_equal(tangent(mixed).numpy(), [0.0, 6.0])
