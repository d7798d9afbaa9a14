"""Tasks on a dask cluster: one graph for each step, sent by a `Client` of dask.distributed.

The payload is scattered once per step. Partitions that are plain values, or delayed objects that
share no task, go into a few large tasks. Partitions in the memory of the cluster (futures,
persisted collections) and delayed objects with common tasks get a task each, which the scheduler
places beside its data, and further tasks that add `FAN_IN` results each.

A worker that dies costs time only: dask runs its tasks again, and a step whose payload was lost is
run again from the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.distributed.executors import Job, Runner
from pullback.distributed.partitions import is_delayed, is_future
from pullback.distributed.task import Block, BlockResult, Payload, combine, encode, run_block
from pullback.errors import PartitionLostError

if TYPE_CHECKING:
    import dask
    import distributed
else:
    dask = lazy_module("dask")
    distributed = lazy_module("distributed")

__all__ = ["FAN_IN", "ClusterRunner"]

FAN_IN = 16
"""The number of results that one task adds: a power of two, so that sums are subtrees."""

_MOST_ATTEMPTS = 10  # of a step whose payload was lost with its worker


class ClusterRunner(Runner):
    """Runs the jobs of a step on a dask cluster."""

    def __init__(self, name: str, client: Any, partitions: list[Any]):
        self._name = name
        self._client = client
        self._futures = partitions if is_future(partitions[0]) else []
        self.runs_single = bool(self._futures) or is_delayed(partitions[0])

    def workers(self) -> int:
        """The number of threads of all workers."""
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def run(self, payload: Payload, jobs: Sequence[Job]) -> Iterator[tuple[int, BlockResult]]:
        """Yields results as they arrive; begins again where the payload was lost."""
        encoded = encode(payload)
        missing = set(range(len(jobs)))
        for attempt in range(_MOST_ATTEMPTS):
            try:
                common = self._client.scatter(encoded, hash=False)
            except OSError:  # the scheduler chose a worker that has just died
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
                time.sleep(0.2)
                continue
            try:
                for place, result in self._run_once(payload, common, jobs, sorted(missing)):
                    missing.discard(place)
                    yield place, result
                return
            except CancelledError as error:
                self._check_partitions(error)
                if attempt + 1 == _MOST_ATTEMPTS or common.status == "finished":
                    raise

    def _run_once(
        self, payload: Payload, common: Any, jobs: Sequence[Job], places: list[int]
    ) -> Iterator[tuple[int, BlockResult]]:
        run = dask.delayed(run_block, pure=False)
        add = dask.delayed(_add_results, pure=False)
        tasks = []
        for place in places:
            block, partitions = jobs[place]
            if self.runs_single:
                singles = [_single(block, n) for n in range(len(partitions))]
                pairs = zip(singles, partitions, strict=True)
                parts = [run(common, single, [data]) for single, data in pairs]
                tasks.append(add(payload.name, payload.kind, parts))
            else:
                tasks.append(run(common, block, _Opaque(partitions)))
        futures = self._client.compute(tasks)
        places_of = dict(zip((future.key for future in futures), places, strict=True))
        try:
            for future in distributed.as_completed(futures):
                yield places_of[future.key], future.result()
        finally:
            self._client.cancel(futures)

    def _check_partitions(self, error: BaseException) -> None:
        lost = [n for n, future in enumerate(self._futures) if future.status != "finished"]
        if lost:
            raise PartitionLostError(
                f"{self._name}: partition {lost[0]} ({len(lost)} of {len(self._futures)} in all) "
                f"was in the memory of a worker that is gone, and nothing can make it again. "
                f"Scattered data has no origin: pass paths, keys or delayed objects as partitions, "
                f"or client.submit(load, path) futures, which dask computes again"
            ) from error


class _Opaque(tuple[Any, ...]):
    """Partitions that dask passes on as they are: it looks into plain tuples and lists only."""

    __slots__ = ()


def _single(block: Block, place: int) -> Block:
    weights = None if block.weights is None else [block.weights[place]]
    return Block(block.first + place, weights)


def _add_results(name: str, kind: str, results: Sequence[BlockResult]) -> BlockResult:
    return combine(name, kind, results)
