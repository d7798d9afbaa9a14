"""`DataLoader`: batches of a dataset, loaded by this process or by others ahead of use."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from pullback.utils.data.collate import default_collate, default_convert
from pullback.utils.data.dataset import IterableDataset
from pullback.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    as_generator,
)
from pullback.utils.data.worker import (
    End,
    Failure,
    Fetcher,
    Result,
    Task,
    WorkerSettings,
    run_worker,
)

__all__ = ["DataLoader"]

_JOIN_SECONDS = 5.0  # for a worker to end by itself


class DataLoader:
    """Iterates over batches of a dataset.

    With `num_workers` the items are loaded by so many processes, `prefetch_factor` batches ahead
    for each. The order of batches does not depend on their number. Workers end with the loop, or
    with the loader if they are persistent; an exception in one is raised in the loop with its
    traceback, and one that is killed raises RuntimeError at once.

    Args:
        dataset: a `Dataset`, a sequence, or an `IterableDataset`.
        batch_size: items in a batch; None gives single items.
        shuffle: whether each pass has a new random order.
        sampler: the order of items, instead of `shuffle`.
        batch_sampler: lists of indices, instead of all of these.
        num_workers: number of processes; 0 loads in this one.
        collate_fn: makes a batch of a list of items; `default_collate` by default.
        pin_memory: accepted; there is no other memory.
        drop_last: whether a shorter batch at the end is left out.
        timeout: seconds to wait for a batch of the workers; 0 waits as long as they live.
        worker_init_fn: called with the worker's number when it starts.
        multiprocessing_context: a context of `multiprocessing`, or the name of a start method.
        generator: a seed or a NumPy generator for the order and the seeds of workers.
        prefetch_factor: batches that each worker loads ahead, 2 by default.
        persistent_workers: keeps the workers for the next pass.
        pin_memory_device: accepted; there is no other memory.
        in_order: False yields batches of workers as they arrive.

    >>> loader = DataLoader(range(5), batch_size=2)
    >>> [batch.tolist() for batch in loader], len(loader)
    ([[0, 1], [2, 3], [4]], 3)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = None if generator is None else as_generator(generator)
        self._is_iterable = isinstance(dataset, IterableDataset)
        self._check_workers()
        self._check_order(shuffle, sampler, batch_sampler, batch_size, drop_last)
        if sampler is None:
            if self._is_iterable:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=self.generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        elif batch_sampler is not None:
            batch_size = None
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )
        self._workers: _Workers | None = None

    def _check_workers(self) -> None:
        if self.num_workers < 0:
            raise ValueError(f"num_workers should be non-negative, but got {self.num_workers}")
        if self.timeout < 0:
            raise ValueError(f"timeout should be non-negative, but got {self.timeout}")
        if not self.num_workers:
            for name in ("prefetch_factor", "persistent_workers", "timeout"):
                if getattr(self, name):
                    raise ValueError(f"{name} needs num_workers > 0")
        elif self.prefetch_factor is not None and self.prefetch_factor < 1:
            raise ValueError(f"prefetch_factor should be positive, got {self.prefetch_factor}")

    def _check_order(
        self, shuffle: Any, sampler: Any, batch_sampler: Any, batch_size: Any, drop_last: bool
    ) -> None:
        if self._is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "an IterableDataset has its own order: shuffle, sampler and batch_sampler are not "
                "accepted"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last
        ):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None has no batches, so that drop_last has no meaning")

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._is_iterable:
            return len(self._index_sampler)
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def _make_fetcher(self) -> Callable[[], Fetcher]:
        has_batches = self.batch_sampler is not None
        options = (self._is_iterable, has_batches, self.collate_fn, self.drop_last)
        return partial(Fetcher, self.dataset, *options)

    def __iter__(self) -> Iterator[Any]:
        # Drawn without workers too, so that their number does not change the order.
        seed = int(as_generator(self.generator).integers(2**31))
        if not self.num_workers:
            return self._load_here()
        workers = self._workers
        if workers is None or not workers.is_usable:
            workers = _Workers(self, seed)
            self._workers = workers if self.persistent_workers else None
        return workers.load(iter(self._index_sampler), is_last_pass=not self.persistent_workers)

    def _load_here(self) -> Iterator[Any]:
        fetcher = self._make_fetcher()()
        for indices in self._index_sampler:
            data = fetcher.fetch(indices)
            if isinstance(data, End):
                return
            yield data


class _Endless:
    """The sampler of iterable datasets, whose items have no numbers."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _Workers:
    """The processes of a loader, their connections, and what they are loading."""

    def __init__(self, loader: DataLoader, seed: int):
        self._timeout, self._in_order = loader.timeout, loader.in_order
        self._ahead = loader.num_workers * (loader.prefetch_factor or 1)
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        self._epoch = -1
        self.is_usable = True
        context = loader.multiprocessing_context
        if not hasattr(context, "Process"):
            context = multiprocessing.get_context(context)
        self._owner = os.getpid()
        parts = (self._owner, self._processes, self._connections)
        self._finalizer = weakref.finalize(self, _end_workers, *parts)
        for number in range(loader.num_workers):
            ours, theirs = context.Pipe()
            is_fork = context.get_start_method() == "fork"
            settings = WorkerSettings(
                number,
                loader.num_workers,
                seed,
                loader.dataset,
                loader._make_fetcher(),
                loader.worker_init_fn,
                (*self._connections, ours) if is_fork else (),
            )
            process = context.Process(target=run_worker, args=(settings, theirs), daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    def close(self, patience: float = _JOIN_SECONDS) -> None:
        """Ends the processes; those that take longer than `patience` by a signal."""
        self.is_usable = False
        if self._finalizer.detach():
            _end_workers(self._owner, self._processes, self._connections, patience)

    def load(self, batches: Iterator[Any], is_last_pass: bool) -> Iterator[Any]:
        """One pass over the batches of a sampler."""
        self._epoch += 1
        state = _Pass(self._epoch, batches, len(self._processes))
        try:
            self._send_tasks(state)
            while state.pending:
                result = self._next_result(state)
                self._send_tasks(state)
                if isinstance(result.data, Failure):
                    result.data.reraise()
                if not isinstance(result.data, End):
                    yield result.data
                    self._require_current(state)
        finally:
            if is_last_pass:
                self.close()

    def _require_current(self, state: _Pass) -> None:
        if state.epoch != self._epoch:
            raise RuntimeError(
                "DataLoader: persistent workers serve one loop at a time, and a new one has begun"
            )

    def _send_tasks(self, state: _Pass) -> None:
        """Gives workers tasks, in turn, until enough batches are on their way."""
        while len(state.pending) < self._ahead and state.active:
            try:
                indices = next(state.batches)
            except StopIteration:
                state.active.clear()
                return
            worker = state.next_worker()
            try:
                self._connections[worker].send(Task(state.epoch, state.place, indices))
            except (BrokenPipeError, ConnectionResetError):
                self._raise_dead(worker)
            state.pending[state.place] = worker
            state.place += 1

    def _next_result(self, state: _Pass) -> Result:
        """The batch that comes next in order, or the first to arrive."""
        deadline = time.monotonic() + self._timeout if self._timeout else None
        while True:
            expected = next(iter(state.pending))
            if self._in_order and expected in state.arrived:
                place = expected
            elif not self._in_order and state.arrived:
                place = next(iter(state.arrived))
            else:
                self._receive(state, deadline)
                continue
            del state.pending[place]
            return state.arrived.pop(place)

    def _receive(self, state: _Pass, deadline: float | None) -> None:
        """Waits for results of any worker; raises if one is dead or the time is over."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready: Any = wait(self._connections, left)
        if not ready:
            self.close(patience=0.0)
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for connection in ready:
            worker = self._connections.index(connection)
            try:
                result = connection.recv()
            except (EOFError, OSError):
                self._raise_dead(worker)
            if result.epoch != state.epoch:
                continue  # of a pass that was left early
            state.arrived[result.place] = result
            if isinstance(result.data, End):
                state.active.discard(worker)

    def _raise_dead(self, worker: int) -> NoReturn:
        process = self._processes[worker]
        process.join(_JOIN_SECONDS)
        pid, code = process.pid, process.exitcode
        self.close(patience=0.0)
        raise RuntimeError(
            f"DataLoader worker {worker} (pid {pid}) exited unexpectedly with exit code {code}"
        )


class _Pass:
    """The state of one pass: which batches are on their way, and which have arrived."""

    def __init__(self, epoch: int, batches: Iterator[Any], workers: int):
        self.epoch, self.batches = epoch, batches
        self.active = set(range(workers))
        self.place = 0
        self.pending: dict[int, int] = {}  # the worker of each batch, in order
        self.arrived: dict[int, Result] = {}
        self._turns = itertools.cycle(range(workers))

    def next_worker(self) -> int:
        """The worker whose turn it is, of those with items left."""
        return next(worker for worker in self._turns if worker in self.active)


def _end_workers(
    owner: int,
    processes: list[Any],
    connections: list[Connection],
    patience: float = _JOIN_SECONDS,
) -> None:
    """Ends processes: by a message, after some seconds by signals."""
    if os.getpid() != owner:
        return  # a copy of the loader in a forked process
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(None)
        connection.close()
    deadline = time.monotonic() + patience
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()
