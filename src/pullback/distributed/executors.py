"""Runners of tasks: in this process, on an executor of ``concurrent.futures``, on a dask cluster.

Each class runs the blocks of one step and yields their results as they arrive, with the place of
each. They differ in how a payload reaches the workers and in what happens when a worker dies; the
order in which results are combined is not theirs.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

from pullback.distributed.encoding import encode_value
from pullback.distributed.task import (
    Block,
    BlockResult,
    Payload,
    encode,
    run_block,
    run_encoded_block,
)

__all__ = ["Job", "PoolRunner", "Runner", "SerialRunner"]


class Job(NamedTuple):
    """One task of a step."""

    block: Block
    partitions: list[Any]


class Runner:
    """Runs the jobs of a step."""

    def workers(self) -> int:
        """The number of jobs that can run at a time."""
        raise NotImplementedError

    def run(self, payload: Payload, jobs: Sequence[Job]) -> Iterator[tuple[int, BlockResult]]:
        """Yields the place and the result of each job, in any order."""
        raise NotImplementedError


class SerialRunner(Runner):
    """Runs jobs one after the other in the calling thread."""

    def workers(self) -> int:
        """One."""
        return 1

    def run(self, payload: Payload, jobs: Sequence[Job]) -> Iterator[tuple[int, BlockResult]]:
        """Yields results in the order of the jobs."""
        for place, job in enumerate(jobs):
            yield place, run_block(payload, job.block, job.partitions)


class PoolRunner(Runner):
    """Runs jobs on an executor of ``concurrent.futures``, of loky, or of the same interface.

    A pool whose process died is broken for good. Jobs that are missing then run in this process; a
    pool that was given as the function that makes it is replaced.
    """

    def __init__(self, name: str, executor: Executor | Callable[[], Executor]):
        self._name = name
        self._make = None if isinstance(executor, Executor) else executor
        self._pool = executor if isinstance(executor, Executor) else executor()

    def workers(self) -> int:
        """The size of the pool."""
        return getattr(self._pool, "_max_workers", None) or os.cpu_count() or 1

    def run(self, payload: Payload, jobs: Sequence[Job]) -> Iterator[tuple[int, BlockResult]]:
        """Yields results as they arrive."""
        has_threads = isinstance(self._pool, ThreadPoolExecutor)
        common: Any = payload if has_threads else encode(payload)
        futures: dict[Future[BlockResult], int] = {}
        missing = set(range(len(jobs)))
        try:
            for place, (block, partitions) in enumerate(jobs):
                run: Any = run_block
                given: Any = partitions
                if not has_threads:
                    run = run_encoded_block
                    given = encode_value(self._name, "a partition", partitions)
                futures[self._pool.submit(run, common, block, given)] = place
            for future in as_completed(futures):
                result = future.result()
                missing.discard(futures[future])
                yield futures[future], result
        except BrokenExecutor as error:
            yield from self._rescue(error, payload, jobs, sorted(missing))
        finally:
            for future in futures:
                future.cancel()

    def _rescue(
        self, error: BrokenExecutor, payload: Payload, jobs: Sequence[Job], missing: list[int]
    ) -> Iterator[tuple[int, BlockResult]]:
        """Replaces a broken pool if that is possible, and runs the jobs that are missing here."""
        if self._make is not None:
            self._pool = self._make()
            remedy = "a new one takes its place"
        else:
            remedy = "pass executor=lambda: ProcessPoolExecutor() to have it replaced"
        warnings.warn(
            f"{self._name}: a process of the pool died ({error}); {len(missing)} of {len(jobs)} "
            f"tasks run in this process, and {remedy}",
            RuntimeWarning,
            stacklevel=5,
        )
        for place in missing:
            yield place, run_block(payload, jobs[place].block, jobs[place].partitions)
