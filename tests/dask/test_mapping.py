"""``map_blocks`` and ``map_overlap``: values and gradients against whole arrays."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="needs dask")
import dask.array as da  # noqa: E402 - needs dask

import pullback as pb  # noqa: E402 - beside it
import pullback.dask  # noqa: E402 - registers the fallback
from pullback.dask import DaskError  # noqa: E402
from pullback.errors import AutogradTypeError, AutogradValueError  # noqa: E402

PADDING = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}
TASKS_PER_BLOCK_AND_STEP = 70
BUILD_SECONDS = 20.0


def value(*tensors: Any) -> Any:
    return pb.dask.compute(*tensors, scheduler="synchronous")


def stencil(u: Any, w: Any = 0.1) -> Any:
    sides = pb.roll(u, 1, axis=0) + pb.roll(u, -1, axis=0)
    return u + w * (sides + pb.roll(u, 1, axis=1) * pb.roll(u, -1, axis=1) - 4 * pb.sin(u))


def padded(x: Any, depth: int, boundary: Any) -> Any:
    """The whole array with its boundary, differentiable."""
    if not isinstance(boundary, str):
        return pb.pad(x, depth, constant_values=boundary)
    numbers = np.arange(x.size).reshape(x.shape)
    return pb.reshape(x, (-1,))[np.pad(numbers, depth, mode=PADDING[boundary])]


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("boundary", ["reflect", "periodic", "nearest", 0, 1.5])
def test_overlap_against_the_whole_array(boundary, depth):
    array = np.random.default_rng(depth).normal(size=(12, 10))
    x = pb.dask.from_dask(da.from_array(array, chunks=(4, (5, 5))), requires_grad=True)
    w = pb.tensor(0.3, requires_grad=True)
    y = pb.dask.map_overlap(stencil, x, w, depth=depth, boundary=boundary)
    slopes = pb.autograd.grad((y * pb.cos(y)).sum(), [x, w])
    whole, scale = (pb.tensor(v, requires_grad=True) for v in (array, 0.3))
    part = (slice(depth, -depth),) * 2
    result = stencil(padded(whole, depth, boundary), scale)[part]
    expected = pb.autograd.grad((result * pb.cos(result)).sum(), [whole, scale])
    ours = value(y, *slopes)
    for a, b in zip(ours, (result.detach(), *expected), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("depth", [1, {0: 2}, {-1: 1}])
def test_overlap_without_boundary(depth):
    """With boundary none the first and last blocks have no halo outside of the array."""
    array = np.random.default_rng(0).normal(size=(6, 6))
    x = pb.dask.from_dask(da.from_array(array, chunks=3), requires_grad=True)

    def func(u: Any) -> Any:
        return u * u + 2 * u

    y = pb.dask.map_overlap(func, x, depth=depth, boundary="none")
    (slope,) = pb.autograd.grad(y.sum(), [x])
    found, gradient = value(y, slope)
    np.testing.assert_allclose(found, array * array + 2 * array)
    np.testing.assert_allclose(gradient, 2 * array + 2)


def test_adjoint_without_boundary_matches_dask():
    """A function that couples neighbours, against the same sums over whole arrays."""
    array = np.random.default_rng(1).normal(size=9)
    x = pb.dask.from_dask(da.from_array(array, chunks=3), requires_grad=True)

    def running(u: Any) -> Any:
        last = u.shape[0]
        inner = u[:-2] * u[2:]
        return pb.concatenate([u[:1], inner, u[last - 1 :]])

    y = pb.dask.map_overlap(running, x, depth=1, boundary=None)
    (slope,) = pb.autograd.grad((y * y).sum(), [x])
    t = pb.tensor(array, requires_grad=True)
    (expected,) = pb.autograd.grad((running(t) ** 2).sum(), [t])
    found, gradient = value(y, slope)
    np.testing.assert_allclose(found, running(pb.tensor(array)).numpy())
    np.testing.assert_allclose(gradient, expected.numpy())


def test_blocks_with_parameters_and_other_shapes():
    rows = np.random.default_rng(2).normal(size=(8, 3))
    x = pb.dask.from_dask(da.from_array(rows, chunks=(2, 3)), requires_grad=True)
    w = pb.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    chunks = ((2,) * 4, (2,))
    y = pb.dask.map_blocks(lambda block, w: np.tanh(block @ w), x, w, chunks=chunks)
    slopes = pb.autograd.grad((y * y).sum(), [x, w])
    t, v = pb.tensor(rows, requires_grad=True), pb.tensor(w.detach().numpy(), requires_grad=True)
    expected = pb.autograd.grad((pb.tanh(t @ v) ** 2).sum(), [t, v])
    for a, b in zip(value(*slopes), expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-12, atol=1e-14)


def test_second_order_is_refused():
    x = pb.dask.from_dask(da.ones(4, chunks=2), requires_grad=True)
    y = pb.dask.map_blocks(lambda u: u * u * u, x)
    (slope,) = pb.autograd.grad(y.sum(), [x], create_graph=True)
    with pytest.raises(DaskError, match="map_blocks: its second derivative"):
        pb.autograd.grad((slope * x).sum(), [x])


def test_refusals_are_named():
    x = pb.dask.from_dask(da.ones((4, 4), chunks=2))
    with pytest.raises(AutogradValueError, match="depth 3 along axis 0"):
        pb.dask.map_overlap(lambda u: u, x, depth=3)
    with pytest.raises(AutogradValueError, match="boundary has to be one of"):
        pb.dask.map_overlap(lambda u: u, x, depth=1, boundary="mirror")
    with pytest.raises(AutogradTypeError, match="no operand is a tensor"):
        pb.dask.map_blocks(lambda u: u, pb.ones(3))
    with pytest.raises(AutogradValueError, match="different blocks"):
        pb.dask.map_blocks(pb.add, x, pb.dask.from_dask(da.ones((4, 4), chunks=4)))
    wrong = pb.dask.map_blocks(lambda u: u[:1], x)
    with pytest.raises(AutogradValueError, match="returned an array of shape"):
        value(wrong)


def test_size_of_the_graph_of_a_stencil():
    """64 steps on 16 blocks: tasks for each block and step, and the time to build the graph."""
    begin = time.process_time()
    start = pb.dask.from_dask(da.zeros((64, 64), chunks=16), requires_grad=True)
    field = start
    for _ in range(64):
        field = pb.dask.map_overlap(stencil, field, depth=1, boundary="periodic")
    (slope,) = pb.autograd.grad((field * field).sum(), [start])
    assert time.process_time() - begin < BUILD_SECONDS
    count = len(dict(pb.dask.to_dask(slope).__dask_graph__()))
    assert count <= TASKS_PER_BLOCK_AND_STEP * 16 * 64
