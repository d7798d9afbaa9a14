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


def _random_chunks(rng: Any, shape: Any) -> Any:
    made = []
    for n in shape:
        cuts = np.flatnonzero(rng.random(n - 1) < 0.4) + 1
        made.append(tuple(int(k) for k in np.diff([0, *cuts, n])))
    return tuple(made)


@pytest.mark.parametrize("seed", range(12))
def test_random_overlaps(seed):
    """Depths that differ by side, a boundary for each axis, blocks of any lengths."""
    rng = np.random.default_rng(seed)
    array = rng.normal(size=tuple(rng.integers(2, 7, int(rng.integers(1, 4)))))
    chunks = _random_chunks(rng, array.shape)
    depth = {
        axis: tuple(int(n) for n in rng.integers(0, min(chunk) + 1, 2))
        for axis, chunk in enumerate(chunks)
    }
    boundary = {axis: [*PADDING, 0.5][int(rng.integers(4))] for axis in depth}

    def func(u: Any, w: Any) -> Any:
        result = u * u * w
        for axis, (low, high) in depth.items():
            for shift in range(-high, low + 1):
                result = result + (0.1 * shift + 0.05) * pb.roll(u, shift, axis=axis) * u
        return result

    def outside(x: Any) -> Any:
        for axis, width in depth.items():
            if isinstance(boundary[axis], str):
                numbers = np.pad(np.arange(x.shape[axis]), width, mode=PADDING[boundary[axis]])
                x = pb.take(x, numbers, axis=axis)
            else:
                widths = [width if n == axis else (0, 0) for n in range(x.ndim)]
                x = pb.pad(x, widths, constant_values=boundary[axis])
        return x

    x = pb.dask.from_dask(da.from_array(array, chunks=chunks), requires_grad=True)
    w = pb.tensor(0.3, requires_grad=True)
    y = pb.dask.map_overlap(func, x, w, depth=depth, boundary=boundary)
    t, v = (pb.tensor(a, requires_grad=True) for a in (array, 0.3))
    part = tuple(slice(low, -high or None) for low, high in depth.values())
    expected = func(outside(t), v)[part]
    slopes = pb.autograd.grad((y * pb.cos(y)).sum(), [x, w])
    reference = pb.autograd.grad((expected * pb.cos(expected)).sum(), [t, v])
    for a, b in zip(value(y, *slopes), (expected.detach(), *reference), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_random_blocks(seed):
    """Operands that broadcast, axes that come and go, further arguments."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
    chunks = _random_chunks(rng, shape)
    arrays, operands = [rng.normal(size=shape)], []
    for _ in range(2):
        axes = range(int(rng.integers(0, len(shape) + 1)), len(shape))
        arrays.append(rng.normal(size=[shape[n] if rng.random() < 0.6 else 1 for n in axes]))
    for array in arrays:
        own = zip(array.shape, shape[len(shape) - array.ndim :], strict=True)
        blocks = [(1,) if n == 1 else chunks[k - array.ndim] for k, (n, _) in enumerate(own)]
        lazy = da.from_array(array, chunks=tuple(blocks))
        operands.append(pb.dask.from_dask(lazy, requires_grad=True))
    dropped = [axis for axis, c in enumerate(chunks) if len(c) == 1 and rng.random() < 0.5]
    kept: list[Any] = [chunk for axis, chunk in enumerate(chunks) if axis not in dropped]
    place = int(rng.integers(0, len(kept) + 1))

    def func(x: Any, y: Any, z: Any, scale: float) -> Any:
        result = pb.sum(scale * x * pb.cos(y) + y * z, axis=tuple(dropped))
        return pb.stack([result, result * result], axis=place)

    options: Any = {"chunks": (*kept[:place], (2,), *kept[place:])}
    options |= {"drop_axis": dropped, "new_axis": place, "scale": 1.5}
    found = pb.dask.map_blocks(func, *operands, **options)
    tensors = [pb.tensor(a, requires_grad=True) for a in arrays]
    expected = func(*tensors, scale=1.5)
    slopes = pb.autograd.grad((found * pb.sin(found)).sum(), operands)
    reference = pb.autograd.grad((expected * pb.sin(expected)).sum(), tensors)
    for a, b in zip(value(found, *slopes), (expected.detach(), *reference), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-11, atol=1e-12)


def test_results_of_another_kind_are_refused():
    x = pb.dask.from_dask(da.arange(4, chunks=2))
    with pytest.raises(AutogradValueError, match="dtype='float64'"):
        value(pb.dask.map_blocks(lambda u: u * 0.5, x))
    (found,) = value(pb.dask.map_blocks(lambda u: u * 0.5, x, dtype=float))
    assert found.tolist() == [0.0, 0.5, 1.0, 1.5]
    with pytest.raises(AutogradValueError, match=r"boundary 0\.5 does not fit"):
        pb.dask.map_overlap(lambda u: u, x, depth=1, boundary=0.5)


def test_functions_do_not_write_to_blocks():
    def double(u: Any) -> Any:
        u *= 2
        return u

    x = pb.dask.from_dask(da.arange(4.0, chunks=2))
    with pytest.raises(RuntimeError, match="read-only; clone"):
        value(x + pb.dask.map_blocks(double, x))


def test_gradients_of_closures_are_not_lost():
    w = pb.tensor(2.0, requires_grad=True)
    x = pb.dask.from_dask(da.arange(4.0, chunks=2))
    with pytest.raises(AutogradValueError, match="is no operand"):
        value(pb.dask.map_blocks(lambda u: u * w, x))
    with pytest.raises(AutogradTypeError, match="'w' is a tensor that requires grad"):
        pb.dask.map_blocks(lambda u, w: u * w, x, w=w)


def test_functions_run_in_numpy_mode_and_in_transforms():
    def squares(u: Any) -> Any:
        made = np.zeros(2)
        for n in range(2):
            made[n] = u[n] ** 2
        return made

    x = pb.dask.from_dask(da.arange(4.0, chunks=2))
    gradient = pb.func.grad(lambda x: pb.dask.map_blocks(squares, x).sum())(x)
    assert value(gradient)[0].tolist() == [0.0, 2.0, 4.0, 6.0]
    with pytest.raises(DaskError, match="map_blocks: forward mode is not supported"):
        pb.func.jvp(lambda x: pb.dask.map_blocks(squares, x), (x,), (pb.ones_like(x),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": {3: 1}}, "depth names axis 3, but the tensor has 2 axes"),
        ({"depth": 1, "boundary": {-3: "none"}}, "boundary names axis -3"),
        ({"depth": (1,)}, "depth has 1 entries for a tensor of 2 axes"),
        ({"depth": 1.0}, "has to be a whole number"),
        ({"depth": {0: (1, 2, 3)}}, "has to be a whole number or a pair"),
        ({"depth": {0: (1, 3)}}, "depth 3 along axis 0"),
    ],
)
def test_wrong_halos_are_named(options, message):
    x = pb.dask.from_dask(da.ones((4, 4), chunks=2))
    with pytest.raises((AutogradValueError, AutogradTypeError), match=message):
        pb.dask.map_overlap(lambda u: u, x, **options)


def test_wrong_axes_are_named():
    x = pb.dask.from_dask(da.ones((4, 4), chunks=2))
    with pytest.raises(AutogradValueError, match="drop_axis 1 has 2 blocks"):
        pb.dask.map_blocks(lambda u: u.sum(axis=1), x, drop_axis=1)
    with pytest.raises(AutogradValueError, match="drop_axis= and new_axis= name axes"):
        pb.dask.map_blocks(lambda u: u, x, chunks=((2, 2),))


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
