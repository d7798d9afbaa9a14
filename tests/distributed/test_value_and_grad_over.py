"""Sums over partitions: values, derivatives, and the same bits on every executor."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.distributed import (
    grad_over,
    hvp_over,
    jacobian_over,
    residuals_over,
    value_and_grad_over,
    value_over,
)
from pullback.distributed.tree_sum import TreeSum, block_size
from pullback.errors import AutogradTypeError, AutogradValueError, PartitionLostError
from tests.distributed import losses
from tests.distributed.losses import PARAMS, loss, make_rows

ROWS = make_rows(37)


def same_bits(found: Any, expected: Any) -> bool:
    ours, theirs = pb.utils.pytree.leaves(found), pb.utils.pytree.leaves(expected)
    return len(ours) == len(theirs) and all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in zip(ours, theirs, strict=True)
    )


# --- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 37, 100])
def test_blocks_of_any_size_give_the_same_bits(count):
    terms = np.random.default_rng(count).normal(size=count) * 10.0 ** np.arange(count)
    whole = TreeSum()
    for term in terms:
        whole.add([term])
    for size in (1, 2, 4, 8, 16, 128):
        blocks = TreeSum()
        for first in range(0, count, size):
            block = TreeSum()
            for term in terms[first : first + size]:
                block.add([term])
            blocks.add(block.result())
        assert blocks.result() == whole.result()


def test_terms_are_not_written_to():
    terms = [np.array([float(n)]) for n in range(8)]
    total = TreeSum()
    for term in terms:
        total.add([term])
    assert total.result()[0].tolist() == [28.0]
    assert [term.tolist() for term in terms] == [[float(n)] for n in range(8)]


@pytest.mark.parametrize(
    ("terms", "blocks", "size"), [(1, 8, 1), (8, 8, 1), (16, 8, 2), (10_000, 8, 1024)]
)
def test_block_sizes_are_powers_of_two(terms, blocks, size):
    assert block_size(terms, blocks) == size


def test_an_empty_sum_is_refused():
    with pytest.raises(ValueError, match="nothing was added"):
        TreeSum().result()


# --- values and derivatives -----------------------------------------------------------------------


def whole(func: Any) -> Any:
    return lambda params: sum(func(params, rows) for rows in ROWS)


def test_value_and_gradient_are_those_of_the_sum():
    value, gradient = value_and_grad_over(loss, ROWS)(PARAMS)
    expected, slope = pb.value_and_grad(whole(loss))(PARAMS)
    assert np.isclose(value, expected, rtol=1e-13)
    assert np.allclose(gradient["w"], slope["w"], rtol=1e-12)
    assert np.isclose(gradient["b"], slope["b"], rtol=1e-12)
    assert isinstance(value, float)
    assert same_bits(grad_over(loss, ROWS)(PARAMS), gradient)
    assert same_bits(value_over(loss, ROWS)(PARAMS), value)


def test_products_with_the_hessian():
    vector = {"w": np.array([1.0, -1.0, 0.5, 2.0]), "b": 1.5}
    found = hvp_over(loss, ROWS)(PARAMS, vector)
    expected = pb.hvp(whole(loss))(PARAMS, vector)
    assert np.allclose(found["w"], expected["w"], rtol=1e-11)
    assert np.isclose(found["b"], expected["b"], rtol=1e-11)


def test_jacobians_and_residuals_are_stacked_in_order():
    stacked = np.concatenate(ROWS)
    found = jacobian_over(losses.residuals, ROWS)(PARAMS)
    expected = pb.jacobian(losses.residuals)(PARAMS, stacked)
    assert np.allclose(found["w"], expected["w"], rtol=1e-13)
    assert np.allclose(found["b"], expected["b"], rtol=1e-13)
    found = residuals_over(losses.residuals, ROWS)(PARAMS)
    assert np.allclose(found, losses.residuals(PARAMS, stacked), rtol=1e-13)


def test_auxiliary_results_stand_in_the_order_of_partitions():
    lengths = [len(rows) for rows in ROWS]
    (value, aux), gradient = value_and_grad_over(losses.loss_with_aux, ROWS, has_aux=True)(PARAMS)
    assert aux == lengths
    assert same_bits((value, gradient), value_and_grad_over(loss, ROWS)(PARAMS))
    assert grad_over(losses.loss_with_aux, ROWS, has_aux=True)(PARAMS)[1] == lengths
    assert value_over(losses.loss_with_aux, ROWS, has_aux=True)(PARAMS)[1] == lengths


@pytest.mark.parametrize(
    "weights", [[float(len(rows)) for rows in ROWS], len], ids=["list", "function"]
)
def test_weights_and_means(weights):
    lengths = np.array([len(rows) for rows in ROWS], float)
    values = np.array([loss(PARAMS, rows) for rows in ROWS])
    step = value_and_grad_over(loss, ROWS, weights=weights)
    assert np.isclose(step(PARAMS)[0], values @ lengths, rtol=1e-13)
    step = value_and_grad_over(loss, ROWS, weights=weights, mean=True)
    assert np.isclose(step(PARAMS)[0], values @ lengths / lengths.sum(), rtol=1e-13)
    assert np.isclose(value_over(loss, ROWS, mean=True)(PARAMS), values.mean(), rtol=1e-13)


def test_further_arguments_follow_the_partition():
    step = value_and_grad_over(lambda p, x, scale: scale * (p * x).sum(), [np.ones(2), np.ones(3)])
    assert step(2.0, 10.0) == (100.0, 50.0)


def test_scipy_minimize_takes_a_step():
    scipy = pytest.importorskip("scipy.optimize")
    rows = [rows[:, :2] / np.abs(rows[:, :2]).max() for rows in ROWS]

    def misfit(p: Any, x: Any) -> Any:
        return np.sum((x @ p - x @ np.array([2.0, -1.0])) ** 2)

    step, product = value_and_grad_over(misfit, rows), hvp_over(misfit, rows)
    fit = scipy.minimize(step, np.zeros(2), jac=True, hessp=product, method="Newton-CG")
    assert np.allclose(fit.x, [2.0, -1.0], atol=1e-6)
    assert len(step.timings) == fit.nfev


def test_optimizers_take_a_step():
    step = value_and_grad_over(lambda p, x: ((p - x) ** 2).sum(), [np.ones(3), np.full(3, 2.0)])
    fit = pb.optim.adam(step, np.zeros(3), steps=300, lr=0.05)
    assert np.allclose(fit.x, 1.5, atol=1e-2)
    parameter = pb.nn.Parameter(pb.zeros(3))
    optimizer = pb.optim.SGD([parameter], lr=0.1)
    for _ in range(100):
        _, (parameter.grad,) = value_and_grad_over(
            lambda p, x: ((p[0] - x) ** 2).sum(), [np.ones(3), np.full(3, 2.0)]
        )([parameter])
        optimizer.step()
    assert np.allclose(parameter.detach().numpy(), 1.5)


# --- executors ------------------------------------------------------------------------------------

EXPECTED = value_and_grad_over(loss, ROWS)(PARAMS)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_pools_give_the_same_bits(kind, count):
    with kind(count) as pool:
        step = value_and_grad_over(loss, ROWS, executor=pool)
        assert same_bits(step(PARAMS), EXPECTED)
        assert same_bits(step(PARAMS), EXPECTED)


def test_loky_gives_the_same_bits():
    loky = pytest.importorskip("loky")
    with loky.ProcessPoolExecutor(2) as pool:
        assert same_bits(value_and_grad_over(loss, ROWS, executor=pool)(PARAMS), EXPECTED)


def test_closures_reach_other_processes():
    pytest.importorskip("cloudpickle")
    scale = 2.0
    with ProcessPoolExecutor(1) as pool:
        step = value_and_grad_over(lambda p, x: scale * (p * x).sum(), ROWS[:2], executor=pool)
        assert step(np.ones(4))[0] == pytest.approx(2 * sum(r.sum() for r in ROWS[:2]))


def test_compiled_losses(client):
    """Their derivative is compiled in each process, with the same bits everywhere."""
    pytest.importorskip("llvmlite")
    rows = [np.random.default_rng(n).normal(size=(5, 4)) for n in range(12)]
    compiled = pb.compile(loss)
    step = value_and_grad_over(compiled, rows)
    found = step(PARAMS)
    assert np.isclose(found[0], value_and_grad_over(loss, rows)(PARAMS)[0], rtol=1e-12)
    assert step._program.transform.args[0].stats["traces"] == 1
    with ProcessPoolExecutor(1) as pool, ThreadPoolExecutor(2) as threads:
        for executor in (pool, threads, client):
            again = value_and_grad_over(compiled, rows, executor=executor)
            assert same_bits(again(PARAMS), found)
    vector = {"w": np.ones(4), "b": 1.0}
    expected = hvp_over(loss, rows)(PARAMS, vector)
    assert np.allclose(hvp_over(compiled, rows)(PARAMS, vector)["w"], expected["w"], rtol=1e-10)
    assert np.isclose(value_over(compiled, rows)(PARAMS), found[0], rtol=1e-12)


def test_a_pool_whose_process_died_costs_time_only(tmp_path):
    jobs = [(rows, "") for rows in ROWS]
    jobs[20] = (ROWS[20], str(tmp_path / "seen"))
    with ProcessPoolExecutor(2) as pool:
        step = value_and_grad_over(losses.deadly_loss, jobs, executor=pool)
        with pytest.warns(RuntimeWarning, match="a process of the pool died"):
            assert same_bits(step(PARAMS), EXPECTED)


def test_a_pool_that_can_be_made_again_is_replaced(tmp_path):
    pools: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(2))
        return pools[-1]

    jobs = [(rows, str(tmp_path / "seen") if n == 5 else "") for n, rows in enumerate(ROWS)]
    step = value_and_grad_over(losses.deadly_loss, jobs, executor=make)
    with pytest.warns(RuntimeWarning, match="a new one takes its place"):
        assert same_bits(step(PARAMS), EXPECTED)
    assert same_bits(step(PARAMS), EXPECTED)
    assert len(pools) == 2
    for pool in pools:
        pool.shutdown()


def test_errors_name_the_partition():
    rows = [*ROWS[:3], np.ones((7, 4))]
    with pytest.raises(KeyError, match="seven rows") as caught:
        value_and_grad_over(losses.failing_loss, rows)(PARAMS)
    assert "partition 3" in caught.value.__notes__[0]
    with ProcessPoolExecutor(1) as pool, pytest.raises(KeyError, match="seven rows") as caught:
        value_and_grad_over(losses.failing_loss, rows, executor=pool)(PARAMS)
    assert "failing_loss" in str(caught.value.__cause__)  # the traceback of the other process
    assert "partition 3" in caught.value.__notes__[0]


# --- dask -----------------------------------------------------------------------------------------


def test_partitions_of_every_kind_give_the_same_bits_on_a_cluster(client):
    import dask

    load = dask.delayed(np.array, pure=False)
    delayed = [load(rows.tolist()) for rows in ROWS]
    kinds = {
        "values": ROWS,
        "scattered": client.scatter(ROWS),
        "submitted": [client.submit(np.array, rows.tolist(), pure=False) for rows in ROWS],
        "delayed": delayed,
        "persisted": list(client.persist(delayed)),
    }
    for kind, partitions in kinds.items():
        step = value_and_grad_over(loss, partitions, executor=client)
        assert same_bits(step(PARAMS), EXPECTED), kind
    assert same_bits(value_and_grad_over(loss, delayed)(PARAMS), EXPECTED)


def test_collections_of_dask_are_partitions(client):
    bag = pytest.importorskip("dask.bag")
    array = pytest.importorskip("dask.array")
    rows = np.concatenate(ROWS)
    chunks = array.from_array(rows, chunks=(50, 4))
    expected = value_and_grad_over(loss, [rows[n : n + 50] for n in range(0, len(rows), 50)])
    assert same_bits(value_and_grad_over(loss, chunks, executor=client)(PARAMS), expected(PARAMS))
    numbers = bag.from_sequence([float(n) for n in range(100)], npartitions=7)
    step = value_and_grad_over(
        lambda p, xs: sum((p - x) ** 2 for x in xs), numbers, executor=client
    )
    assert np.allclose(
        step(1.0), pb.value_and_grad(lambda p: ((p - np.arange(100.0)) ** 2).sum())(1.0)
    )


def test_dataframes_are_partitions(client):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0) * 3})
    step = value_and_grad_over(
        lambda p, frame: np.sum((frame["y"].to_numpy() - p * frame["x"].to_numpy()) ** 2),
        frames.from_pandas(data, npartitions=4),
        executor=client,
    )
    assert np.allclose(step(3.0), (0.0, 0.0))


def test_what_changes_between_steps_reaches_the_cluster(client):
    """Functions and large arrays are sent once, and again after a change."""
    rows = [np.ones((200, 50)) for _ in range(8)]
    scale = {"by": 1.0}
    step = value_and_grad_over(lambda p, x: scale["by"] * p * x.sum(), rows, executor=client)
    sent = client.scatter
    counted: list[Any] = []
    client.scatter = lambda *args, **options: counted.append(args) or sent(*args, **options)
    try:
        assert step(1.0) == (80_000.0, 80_000.0)
        assert step(2.0) == (160_000.0, 80_000.0)
        assert len(counted) == 8 + 1 + 2  # groups, the function, and parameters of two steps
        rows[3][0, 0] = 2.0
        assert step(1.0) == (80_001.0, 80_001.0)
        scale["by"] = 10.0
        assert step(1.0) == (800_010.0, 800_010.0)
        assert len(counted) == 11 + 2 + 2
    finally:
        del client.scatter


def test_large_arrays_of_a_killed_worker_are_sent_again(cluster):
    rows = [np.full((200, 50), float(n)) for n in range(8)]
    step = value_and_grad_over(losses.product, rows, executor=cluster.client)
    expected = step(1.0)
    cluster.kill()
    assert step(1.0) == expected
    cluster.client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("kind", ["values", "delayed", "persisted"])
def test_few_tasks_are_sent(client, kind):
    import dask
    import distributed

    partitions: Any = make_rows(40)
    if kind != "values":
        partitions = [dask.delayed(np.array, pure=False)(rows.tolist()) for rows in partitions]
    if kind == "persisted":
        partitions = list(client.persist(partitions))
        distributed.wait(partitions)
    step = value_and_grad_over(loss, partitions, executor=client)
    with distributed.get_task_stream(client) as stream:
        step(PARAMS)
    assert 0 < len(stream.data) <= 1.1 * len(partitions) + 2


@pytest.mark.parametrize("kind", ["values", "submitted"])
@pytest.mark.parametrize(
    "share", [pytest.param(s, marks=[pytest.mark.slow] * (s != 0.5)) for s in (0.25, 0.5, 0.75)]
)
def test_a_killed_worker_costs_time_only(cluster, kind, share):
    partitions: Any = ROWS
    if kind == "submitted":
        partitions = [cluster.client.submit(np.array, r.tolist(), pure=False) for r in ROWS]
    step = value_and_grad_over(losses.slow_loss, partitions, executor=cluster.client)
    timer = threading.Timer(share * len(ROWS) * 0.05 / 2, cluster.kill)
    timer.start()
    assert same_bits(step(PARAMS), EXPECTED)
    timer.join()
    cluster.client.wait_for_workers(2, timeout=60)


def test_scattered_partitions_that_are_lost_are_named(cluster):
    rows = cluster.client.scatter(ROWS)
    step = value_and_grad_over(losses.slow_loss, rows, executor=cluster.client)
    cluster.kill()
    with pytest.raises(PartitionLostError, match="Scattered data has no origin"):
        step(PARAMS)
    cluster.client.wait_for_workers(2, timeout=60)


def test_errors_on_a_worker_come_back_with_their_traceback(client):
    rows = [*ROWS[:3], np.ones((7, 4))]
    with pytest.raises(KeyError, match="seven rows") as caught:
        value_and_grad_over(losses.failing_loss, rows, executor=client)(PARAMS)
    frames = []
    trace = caught.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "failing_loss" in frames
    assert "partition 3" in caught.value.__notes__[0]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partitions", "options", "error", "message"),
    [
        ([], {}, AutogradValueError, "there are no partitions"),
        ("data.npy", {}, AutogradTypeError, "partitions must be a list"),
        (5, {}, AutogradTypeError, "partitions must be a list"),
        (ROWS, {"executor": 3}, AutogradTypeError, "executor must be None"),
        (ROWS, {"weights": [1.0]}, AutogradValueError, "one number for each of the 37 partitions"),
        (ROWS, {"weights": "ab"}, AutogradTypeError, "weights must be real numbers"),
        (ROWS, {"weights": [1j] * 37}, AutogradTypeError, "weights must be real numbers"),
    ],
)
def test_bad_arguments_are_refused_early(partitions, options, error, message):
    with pytest.raises(error, match=message):
        value_and_grad_over(loss, partitions, **options)


def test_a_loss_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="value_and_grad_over"):
        value_and_grad_over(3, ROWS)


def test_parameters_with_a_history_are_refused():
    weights = pb.tensor(PARAMS["w"], requires_grad=True) * 2
    step = value_and_grad_over(loss, ROWS)
    with pytest.raises(AutogradValueError, match="MulBackward0"):
        step({"w": weights, "b": 0.25})


def test_residuals_need_an_axis():
    with pytest.raises(AutogradValueError, match="without an axis"):
        residuals_over(loss, ROWS)(PARAMS)


def test_jacobians_need_an_axis_of_residuals():
    with pytest.raises(AutogradValueError, match="without an axis"):
        jacobian_over(loss, ROWS)(PARAMS)


@pytest.mark.parametrize("over", [value_over, value_and_grad_over, residuals_over])
@pytest.mark.parametrize("written", ["params", "rows"])
def test_losses_do_not_write_to_what_tasks_share(over, written):
    def careless(p: Any, x: Any) -> Any:
        if written == "params":
            p += 1
        else:
            x += 1
        return p.sum() * (x if over is residuals_over else x.sum())

    rows, params = [np.ones(2), np.ones(3)], np.ones(2)
    with pytest.raises((ValueError, RuntimeError), match=r"read-only|in-place"):
        over(careless, rows)(params)
    assert [r.tolist() for r in rows] == [[1.0] * 2, [1.0] * 3]
    assert params.tolist() == [1.0, 1.0]


def test_parameters_are_those_of_the_call():
    params, begun = np.ones(2), threading.Event()

    def slow(p: Any, x: Any) -> Any:
        begun.set()
        time.sleep(0.02)
        return p.sum() * x

    with ThreadPoolExecutor(2) as pool, ThreadPoolExecutor(1) as other:
        found = other.submit(value_and_grad_over(slow, [1.0] * 20, executor=pool), params)
        begun.wait(10)
        params[:] = 5.0
        assert found.result()[0] == 40.0


def test_values_have_to_be_numbers():
    with pytest.raises(AutogradTypeError, match="returned a str"):
        value_over(lambda p, x: "one", ROWS[:2])(1.0)


def test_products_with_the_hessian_need_a_vector():
    with pytest.raises(AutogradTypeError, match="the parameters and a vector"):
        hvp_over(loss, ROWS)(PARAMS)


def test_gradients_of_arrays_without_axes_are_arrays():
    for count in (1, 2, 5):
        _, slope = value_and_grad_over(losses.product, ROWS[:count])(np.array(1.0))
        assert isinstance(slope, np.ndarray)


def test_partitions_that_pickle_cannot_send():
    pytest.importorskip("cloudpickle")
    with ProcessPoolExecutor(1) as pool:
        step = value_and_grad_over(lambda p, make: p * make(), [lambda: 2.0], executor=pool)
        assert step(3.0) == (6.0, 2.0)
        step = value_and_grad_over(lambda p, x: p * 1.0, [(n for n in "ab")], executor=pool)
        with pytest.raises(AutogradTypeError, match="a partition cannot be pickled"):
            step(3.0)
        recorded = pb.tensor([1.0], requires_grad=True) * 2
        with pytest.raises(RuntimeError, match="MulBackward0"):
            value_and_grad_over(losses.product, [recorded], executor=pool)(1.0)
        with pytest.raises(RuntimeError, match="MulBackward0"):
            value_and_grad_over(lambda p, x: p * recorded.sum(), ROWS, executor=pool)(1.0)


def test_weights_that_add_up_to_nothing_have_no_mean():
    with pytest.raises(AutogradValueError, match="add up to 0"):
        value_over(loss, ROWS[:2], weights=[1.0, -1.0], mean=True)(PARAMS)


def test_progress_is_shown_for_each_step(capsys):
    value_and_grad_over(loss, ROWS, progress=True)(PARAMS)
    assert "step 1" in capsys.readouterr().err
