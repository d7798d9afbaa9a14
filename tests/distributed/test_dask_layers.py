"""Tensors on dask arrays and functions on blocks, on a cluster: memory, and workers that die."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="needs dask")
pytest.importorskip("distributed", reason="needs dask.distributed")
import dask.array as da  # noqa: E402 - needs dask

import pullback as pb  # noqa: E402 - beside it
import pullback.dask  # noqa: E402 - registers the fallback
from pullback.utils.checkpoint import checkpoint  # noqa: E402
from tests.dask import by_hand  # noqa: E402
from tests.distributed.conftest import Cluster  # noqa: E402

MOST_MEGABYTES = 700
BLOCK_ROWS = 25_000
COLUMNS = 50  # 10 MB a block


def slow_sine(u: Any) -> Any:
    """A stencil that takes long enough for a worker to die in it."""
    time.sleep(0.02)
    return u + 0.1 * (pb.roll(u, 1, axis=0) - pb.sin(u))


def _rows(number: int) -> Any:
    time.sleep(0.02)
    rng = np.random.default_rng(number)
    return rng.normal(size=(200, 5))


def backend() -> list[Any]:
    """The gradient of a logistic regression on the backend."""
    blocks = [da.from_delayed(dask.delayed(_rows)(n), (200, 5), float) for n in range(40)]
    x = pb.dask.from_dask(da.concatenate(blocks))
    w = pb.tensor(np.linspace(-1, 1, 5), requires_grad=True)
    loss = by_hand.logistic(x, (x[:, 0] > 0) * 1.0, w)
    return [loss, *pb.autograd.grad(loss, [w])]


def stencil() -> list[Any]:
    """The gradient of three steps of a stencil."""
    start = da.from_array(np.random.default_rng(0).normal(size=(64, 8)), chunks=(8, 8))
    first = pb.dask.from_dask(start, requires_grad=True)
    field = first
    for _ in range(3):
        field = pb.dask.map_overlap(slow_sine, field, depth={0: 1}, boundary="periodic")
    loss = (field * field).sum()
    return [loss, *pb.autograd.grad(loss, [first])]


@pytest.fixture
def small_cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, workers=2)
    yield made
    made.close()


def _seconds(client: Any, make: Any) -> tuple[float, list[Any]]:
    begin = time.monotonic()
    found = client.gather(client.compute([pb.dask.to_dask(t) for t in make()]))
    return time.monotonic() - begin, found


@pytest.mark.slow
@pytest.mark.parametrize("make", [backend, stencil])
def test_killed_worker_changes_no_bit(small_cluster, make):
    _seconds(small_cluster.client, make)  # loads modules
    seconds, expected = _seconds(small_cluster.client, make)
    for share in (0.25, 0.5, 0.75):
        timer = threading.Timer(share * seconds, small_cluster.kill)
        timer.start()
        _, found = _seconds(small_cluster.client, make)
        timer.join()
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        small_cluster.client.wait_for_workers(2, timeout=60)


@pytest.mark.slow
def test_results_on_a_cluster(client):
    for make in (backend, stencil):
        (loss, slope) = make()
        alone = pb.dask.compute(loss, slope, scheduler="synchronous")
        arrays = [pb.dask.to_dask(t) for t in (loss, slope)]
        for a, b in zip(client.gather(client.compute(arrays)), alone, strict=True):
            np.testing.assert_array_equal(a, b)


# --- memory ---------------------------------------------------------------------------------------


def _block(block_id: Any = None) -> Any:
    rng = np.random.default_rng(block_id[0])
    return rng.random((BLOCK_ROWS, COLUMNS)) - 0.5  # quicker to make than normal numbers


def _large(blocks: int) -> Any:
    chunks = ((BLOCK_ROWS,) * blocks, (COLUMNS,))
    return da.map_blocks(_block, chunks=chunks, dtype=float, meta=np.empty((0, 0)))


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return float(peak.split()[1]) / 1024


def _spilled(dask_worker: Any) -> int:
    return len(getattr(dask_worker.data, "slow", None) or ())


def _gradient_by_blocks(blocks: int, w: Any) -> Any:
    total = np.zeros(COLUMNS)
    for number in range(blocks):
        x = _block((number,))
        total += x.T @ np.tanh(x @ w)
    return total


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
@pytest.mark.parametrize("blocks", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_memory_of_workers(tmp_path, blocks):
    """10 MB a block, on two workers of 1 GiB: nothing is spilled, and the peak is small."""
    cluster = Cluster(tmp_path, workers=2, options=("--memory-limit", "1GiB"))
    try:
        start = np.linspace(-1, 1, COLUMNS)
        w = pb.tensor(start, requires_grad=True)
        z = pb.dask.from_dask(_large(blocks)) @ w
        loss = pb.sum(pb.log(pb.cosh(z)))
        (slope,) = pb.autograd.grad(loss, [w])
        found = cluster.client.compute(pb.dask.to_dask(slope)).result(timeout=300)
        assert max(cluster.client.run(_peak).values()) < MOST_MEGABYTES
        assert not any(cluster.client.run(_spilled).values())
    finally:
        cluster.close()
    expected = _gradient_by_blocks(blocks, start)
    assert np.linalg.norm(found - expected) <= 1e-15 * np.linalg.norm(expected)


def _coupled_gradient_by_blocks(blocks: int, w: Any) -> Any:
    scores = [np.sum(np.tanh(_block((n,)) @ w), axis=1) for n in range(blocks)]
    top = max(block.max() for block in scores)
    whole = sum(np.exp(block - top).sum() for block in scores)
    total = np.zeros_like(w)
    for number, block in enumerate(scores):
        x = _block((number,))
        share = np.exp(block - top) / whole
        total += x.T @ (share[:, None] * (1 - np.tanh(x @ w) ** 2))
    return total


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
@pytest.mark.parametrize("blocks", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_memory_of_a_loss_that_couples_all_rows(tmp_path, blocks):
    """As large intermediate values as data; checkpoint makes them again where they are needed."""
    cluster = Cluster(tmp_path, workers=2, options=("--memory-limit", "1GiB"))
    try:
        start = np.linspace(-0.1, 0.1, COLUMNS * COLUMNS).reshape(COLUMNS, COLUMNS)
        w = pb.tensor(start, requires_grad=True)
        x = pb.dask.from_dask(_large(blocks))
        scores = checkpoint(lambda x, w: pb.sum(pb.tanh(x @ w), axis=1), x, w, use_reentrant=False)
        (slope,) = pb.autograd.grad(pb.logsumexp(scores), [w])
        found = cluster.client.compute(pb.dask.to_dask(slope)).result(timeout=300)
        assert not any(cluster.client.run(_spilled).values())
    finally:
        cluster.close()
    expected = _coupled_gradient_by_blocks(blocks, start)
    assert np.linalg.norm(found - expected) <= 1e-13 * np.linalg.norm(expected)
