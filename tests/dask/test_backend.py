"""Tensors on dask arrays: writes, views, refusals, order of derivatives, and the size of graphs."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="needs dask")
import dask.array as da  # noqa: E402 - needs dask

import pullback as pb  # noqa: E402 - beside it
import pullback.dask  # noqa: E402 - registers the fallback
from pullback.dask import DaskError  # noqa: E402
from pullback.errors import AutogradTypeError, NoDataError  # noqa: E402


def lazy(array: Any, chunks: Any = 2, **options: Any) -> Any:
    return pb.dask.from_dask(da.from_array(np.asarray(array), chunks=chunks), **options)


def value(tensor: Any) -> Any:
    return pb.dask.compute(tensor, scheduler="synchronous")[0]


def test_in_place_write_without_views():
    x = lazy(np.arange(4.0))
    x += 1
    x *= pb.tensor([1.0, 2.0, 3.0, 4.0])
    assert value(x).tolist() == [1.0, 4.0, 9.0, 16.0]


def test_in_place_write_has_a_gradient():
    w = lazy(np.arange(4.0), requires_grad=True)
    x = w * 2
    x *= w
    (gradient,) = pb.autograd.grad(x.sum(), [w])
    assert value(gradient).tolist() == [0.0, 4.0, 8.0, 12.0]


def test_in_place_write_of_a_saved_value_is_found():
    w = lazy(np.arange(4.0), requires_grad=True)
    x = w * 2
    y = pb.sin(x)
    x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pb.autograd.grad(y.sum(), [w])


def test_write_to_a_view_is_refused():
    x = lazy(np.arange(4.0))
    with pytest.raises(DaskError, match="in-place write to a tensor on dask that has views"):
        x[:2] = 5.0
    view = x[1:]
    with pytest.raises(DaskError, match="add_: an in-place write"):
        x += 1
    assert value(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert value(view).tolist() == [1.0, 2.0, 3.0]


def test_lazy_values_do_not_reach_memory_unasked():
    x = lazy(np.arange(4.0))
    for read in (float, bool, lambda t: t.item(), lambda t: t.numpy(), lambda t: t.tolist()):
        with pytest.raises(NoDataError, match=r"pb\.dask\.compute"):
            read(x.sum())
    held = pb.zeros(4)
    with pytest.raises(DaskError, match="copy_: a lazy dask array cannot be written"):
        held.copy_(x)


def test_optimizers_want_gradients_in_memory():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    x = lazy(np.ones((4, 2)))
    optimizer = pb.optim.SGD([w], lr=0.1)
    (x * w).sum().backward()
    with pytest.raises(NoDataError, match=r"pb\.dask\.compute"):
        optimizer.step()
    w.grad = pb.asarray(value(w.grad))
    optimizer.step()
    assert np.allclose(w.detach().numpy(), [0.6, 1.6])


def test_vmap_is_refused_by_name():
    x = lazy(np.ones((4, 3)))
    with pytest.raises(DaskError, match="vmap: _add_level"):
        pb.func.vmap(pb.sin)(x)
    with pytest.raises((DaskError, NoDataError), match="vmap"):
        pb.func.vmap(lambda row: row * x)(pb.ones((4, 3)))


def test_gathering_stops_at_the_limit():
    x = lazy(np.eye(8), chunks=4)
    with pb.dask.gather_limit(100), pytest.raises(DaskError, match="linalg_inv: no rule"):
        pb.linalg.inv(x)
    assert value(pb.linalg.inv(x)).tolist() == np.eye(8).tolist()


def test_wrong_arguments_are_named():
    with pytest.raises(AutogradTypeError, match="from_dask: expected a dask array"):
        pb.dask.from_dask(np.ones(3))
    array = da.ones(4, chunks=2)
    with pytest.raises(AutogradTypeError, match="unknown length"):
        pb.dask.from_dask(array[array > 0])
    with pytest.raises(AutogradTypeError, match="compute: expected tensors that hold dask"):
        pb.dask.compute(pb.ones(3))


def test_repeated_axes_cost_no_tasks():
    x = pb.dask.from_dask(da.ones((1000, 1000), chunks=10), requires_grad=True)
    (gradient,) = pb.autograd.grad(x.sum(), [x])
    assert gradient.shape == (1000, 1000)
    assert len(dict(gradient._array.array.__dask_graph__())) <= 4
    assert value((gradient * 3).sum()) == 3e6


@pytest.mark.parametrize("chunks", [((0, 1), (2, 0, 1)), ((1, 0), (0, 3))])
def test_empty_blocks(chunks):
    """An axis of length one with an empty block broadcasts as any other."""
    array = np.arange(3.0).reshape(1, 3)
    x = pb.dask.from_dask(da.from_array(array, chunks=chunks), requires_grad=True)
    total = x * np.ones((4, 1))
    (slope,) = pb.autograd.grad((total * total).sum(), [x])
    assert value(total).tolist() == [[0.0, 1.0, 2.0]] * 4
    assert value(slope).tolist() == [[0.0, 8.0, 16.0]]


def test_steps_of_slices_leave_no_empty_blocks():
    x = lazy(np.arange(12.0).reshape(3, 4), chunks=(1, 4))
    assert value(x[:2:2] * np.ones((3, 1))).shape == (3, 4)
    assert pb.dask.to_dask(x[:2:2]).chunks == ((1,), (4,))


def test_second_order_and_forward_mode():
    def func(x: Any) -> Any:
        return pb.sum(pb.exp(x) * pb.sum(x, axis=1, keepdims=True))

    array = np.random.default_rng(0).normal(size=(4, 3))
    found = []
    for x in (lazy(array, requires_grad=True), pb.tensor(array, requires_grad=True)):
        (slope,) = pb.autograd.grad(func(x), [x], create_graph=True)
        (second,) = pb.autograd.grad(pb.sum(slope * slope), [x])
        _, tangent = pb.func.jvp(func, (x.detach(),), (pb.ones_like(x.detach()),))
        found.append([second, tangent])
    for ours, reference in zip(*found, strict=True):
        np.testing.assert_allclose(value(ours), reference.numpy(), rtol=1e-12)


@pytest.mark.parametrize("n", [4, 4096])
def test_arrays_in_memory_are_read_when_the_graph_is_built(n):
    x = lazy(np.ones(n), chunks=n // 2)
    w = pb.tensor(np.ones(n))
    found = [
        (x * w).sum(),
        pb.concatenate([x, w]).sum(),
        pb.convolve(x, w).sum(),
        pb.dask.map_blocks(lambda block, w: block * w[0], x, w).sum(),
    ]
    expected = [float(value(t)) for t in found]
    w *= 100
    assert [float(value(t)) for t in found] == expected == [n, 2 * n, n * n, n]


def test_pickles_without_history():
    x = lazy(np.arange(4.0), requires_grad=True)
    copy = pickle.loads(pickle.dumps(x))
    assert copy.requires_grad
    assert value(copy).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_persisted_tensors_are_leaves():
    x = lazy(np.arange(4.0), requires_grad=True)
    (kept,) = pb.dask.persist(x)
    assert kept.requires_grad
    assert kept.is_leaf
    (slope,) = pb.autograd.grad((kept * kept).sum(), [kept])
    assert value(slope).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_checkpointed_regions_are_computed_again():
    """The recomputation has tasks of its own, those that make the data included."""
    array = np.random.default_rng(0).normal(size=(8, 4))
    made = []

    def load(block: Any) -> Any:
        made.append(block.shape)
        return block

    def region(x: Any) -> Any:
        return pb.logsumexp(pb.sin(x) * pb.exp(x), axis=1)

    found = []
    for checkpointed in (False, True):
        source = da.from_array(array, chunks=(2, 4)).map_blocks(load, dtype=float, meta=array[:0])
        x = pb.dask.from_dask(source, requires_grad=True)
        again = partial(pb.utils.checkpoint.checkpoint, region, use_reentrant=False)
        y = again(x) if checkpointed else region(x)
        loss = (y * y.sum()).sum()  # couples all rows
        (slope,) = pb.autograd.grad(loss, [x])
        made.clear()
        found.append(value(slope))
        assert len(made) == (8 if checkpointed else 4)
    np.testing.assert_array_equal(*found)
