"""Tasks on a dask cluster: one graph for each step, sent by a `Client` of dask.distributed.

The parameters are scattered once per step, the function once, and again if it has changed.
Partitions that are plain values, or delayed objects that share no task, go into a few large tasks;
large values are scattered once, and again if they have changed. Partitions in the memory of the
cluster (futures, persisted collections) and delayed objects with common tasks get a task each,
which the scheduler places beside its data, and further tasks that add `FAN_IN` results each.

A worker that dies costs time only: dask runs its tasks again, and a step whose payload was lost is
run again from the beginning.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.distributed.executors import Job, Runner
from pullback.distributed.partitions import is_delayed, is_future
from pullback.distributed.task import (
    Block,
    BlockResult,
    Encoded,
    Payload,
    Program,
    combine,
    encode,
    run_block,
)
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

_SCATTERED_BYTES = 1 << 16  # of values in one task; what is smaller is part of it
_MOST_ATTEMPTS = 10  # of a step whose payload was lost with its worker


class ClusterRunner(Runner):
    """Runs the jobs of a step on a dask cluster."""

    def __init__(self, name: str, client: Any, partitions: list[Any]):
        self._name = name
        self._client = client
        self._sent: dict[Any, tuple[bytes, Any]] = {}  # what was sent, by place: digest and future
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
                common = self._scattered(encoded)
            except OSError:  # the scheduler chose a worker that has just died
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
                time.sleep(0.2)
                continue
            try:
                program = payload.program
                for place, result in self._run_once(program, common, jobs, sorted(missing)):
                    missing.discard(place)
                    yield place, result
                return
            except CancelledError as error:
                self._check_partitions(error)
                futures = [*common, *(future for _, future in self._sent.values())]
                is_whole = all(future.status == "finished" for future in futures)
                if attempt + 1 == _MOST_ATTEMPTS or (is_whole and not self._futures):
                    raise
                self._sent = {k: v for k, v in self._sent.items() if v[1].status == "finished"}

    def _scattered(self, encoded: Encoded) -> list[Any]:
        """Futures of the program, which stays on the cluster until it changes, and arguments."""
        program = self._keep("program", encoded.program, encoded.program)
        return [program, self._client.scatter(encoded.arguments, hash=False)]

    def _keep(self, place: Any, digest: bytes, value: Any) -> Any:
        """The future of a value that stays on the cluster; sends it unless it is there."""
        before, future = self._sent.get(place, (None, None))
        if before != digest:
            future = self._client.scatter(value, hash=False)
            self._sent[place] = digest, future
        return future

    def _values(self, job: Job) -> Any:
        """The partitions of a job for its task: themselves, or the future of large ones."""
        place = (job.block.first, len(job.partitions))
        value = _Opaque(job.partitions)
        digest = _digest(job.partitions)
        return value if digest is None else self._keep(place, digest, value)

    def _run_once(
        self, program: Program, common: list[Any], jobs: Sequence[Job], places: list[int]
    ) -> Iterator[tuple[int, BlockResult]]:
        run = dask.delayed(_run_block, pure=False)
        add = dask.delayed(_add_results, pure=False)
        tasks = []
        for place in places:
            job = jobs[place]
            block, partitions = job
            if self.runs_single:
                singles = [_single(block, n) for n in range(len(partitions))]
                pairs = zip(singles, partitions, strict=True)
                parts = [run(*common, single, [data]) for single, data in pairs]
                tasks.append(add(program.name, program.kind, parts))
            else:
                tasks.append(run(*common, block, self._values(job)))
        futures = self._client.compute(tasks)
        places_of = dict(zip((future.key for future in futures), places, strict=True))
        try:
            for future in distributed.as_completed(futures):
                yield places_of[future.key], future.result()
        finally:
            self._client.cancel(futures)

    def _check_partitions(self, error: BaseException) -> None:
        # "lost" are futures that dask is computing again
        lost = [n for n, future in enumerate(self._futures) if future.status == "cancelled"]
        if lost:
            raise PartitionLostError(
                f"{self._name}: partition {lost[0]} ({len(lost)} of {len(self._futures)} in all) "
                f"was cancelled, or in the memory of a worker that is gone, and nothing can make "
                f"it again. "
                f"Scattered data has no origin: pass paths, keys or delayed objects as partitions, "
                f"or client.submit(load, path) futures, which dask computes again"
            ) from error


class _Opaque(tuple[Any, ...]):
    """Partitions that dask passes on as they are: it looks into plain tuples and lists only."""

    __slots__ = ()


def _digest(values: list[Any]) -> bytes | None:
    """A digest of values that are large, so that changes are found; None of others."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(values, protocol=5, buffer_callback=buffers.append)
        if len(head) + sum(buffer.raw().nbytes for buffer in buffers) < _SCATTERED_BYTES:
            return None
    except Exception:  # what only cloudpickle can send, or arrays that are not contiguous
        return None
    found = hashlib.blake2b(head)
    for buffer in buffers:
        found.update(buffer.raw())
    return found.digest()


def _single(block: Block, place: int) -> Block:
    weights = None if block.weights is None else [block.weights[place]]
    return Block(block.first + place, weights)


def _run_block(program: bytes, arguments: bytes, block: Block, partitions: Any) -> BlockResult:
    return run_block(Encoded(program, arguments), block, partitions)


def _add_results(name: str, kind: str, results: Sequence[BlockResult]) -> BlockResult:
    return combine(name, kind, results)
