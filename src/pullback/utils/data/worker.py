"""The processes of a loader: what runs in one of them, and what they send.

A worker has one connection to the loader's process. A thread of the worker receives tasks, so that
the loader never waits while it sends, and ends the process when the loader's process is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from pullback.kernels.threads import set_num_threads

__all__ = [
    "End",
    "Failure",
    "Fetcher",
    "Result",
    "Task",
    "WorkerInfo",
    "WorkerSettings",
    "get_worker_info",
    "run_worker",
]

_STOP = None  # a task: ends the worker
_POLL_SECONDS = 1.0  # between two checks that the loader's process is alive


class Task(NamedTuple):
    """The indices of one batch, its place in the order of batches, and the pass it belongs to."""

    epoch: int
    place: int
    indices: Any


class End(NamedTuple):
    """The end of an iterable dataset, in the place of a batch."""


class Result(NamedTuple):
    """One batch, `End` or a `Failure`."""

    epoch: int
    place: int
    data: Any


@dataclass(frozen=True)
class WorkerInfo:
    """Number, seed and dataset of a worker: the result of `get_worker_info`.

    >>> import pullback as pb
    >>> from pullback.utils.data import WorkerInfo
    >>> WorkerInfo(0, 2, 17, None).num_workers
    2
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker: its number, the number of workers, its seed and its dataset; elsewhere None.

    >>> get_worker_info() is None
    True
    """
    return _info


class Failure(NamedTuple):
    """An exception of a worker: its class, and a message with its traceback."""

    kind: type[BaseException]
    message: str

    @classmethod
    def of(cls, error: BaseException, place: str) -> Failure:
        """Describes an exception that is being handled."""
        lines = "".join(traceback.format_exception(error))
        return cls(type(error), f"Caught {type(error).__name__} {place}.\nOriginal {lines}")

    def reraise(self) -> None:
        """Raises an exception of the same class, or a RuntimeError if it takes no message."""
        message: Any = self.message
        if issubclass(self.kind, KeyError):
            message = _Message(message)
        try:
            error = self.kind(message)
        except Exception:
            error = RuntimeError(message)
        raise error


class _Message(str):
    """A text whose repr is itself: KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Fetcher:
    """Loads and collates batches of a dataset."""

    def __init__(
        self, dataset: Any, is_iterable: bool, is_batched: bool, collate: Any, drop_last: bool
    ):
        self._dataset, self._collate = dataset, collate
        self._is_batched, self._drop_last = is_batched, drop_last
        self._items: Iterator[Any] | None = iter(dataset) if is_iterable else None
        self._has_ended = False

    def fetch(self, indices: Any) -> Any:
        """One batch, or `End` after the last one of an iterable dataset."""
        if self._items is not None:
            return self._next_items(indices)
        if not self._is_batched:
            return self._collate(self._dataset[indices])
        if callable(load := getattr(self._dataset, "__getitems__", None)):
            return self._collate(load(indices))
        return self._collate([self._dataset[i] for i in indices])

    def _next_items(self, indices: Any) -> Any:
        assert self._items is not None
        if self._has_ended:
            return End()
        if not self._is_batched:
            for item in self._items:
                return self._collate(item)
            return End()
        found = []
        for _ in indices:
            try:
                found.append(next(self._items))
            except StopIteration:
                self._has_ended = True
                break
        if not found or (self._drop_last and len(found) < len(indices)):
            return End()
        return self._collate(found)


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of one worker."""

    id: int
    num_workers: int
    base_seed: int
    dataset: Any
    make_fetcher: Callable[[], Fetcher]
    init_fn: Callable[[int], Any] | None
    inherited: tuple[Connection, ...]  # the loader's ends of connections, which a fork copies


def _receive(connection: Connection, tasks: queue.Queue[Any]) -> None:
    """Receives tasks; ends the process if the loader's process is gone."""
    parent, parent_pid = multiprocessing.parent_process(), os.getppid()
    while True:
        try:
            task = connection.recv() if connection.poll(_POLL_SECONDS) else ()
        except (EOFError, OSError):
            task = _STOP
        if os.getppid() != parent_pid or (parent is not None and not parent.is_alive()):
            os._exit(1)
        if task != ():
            tasks.put(task)
        if task is _STOP:
            return


def _start(settings: WorkerSettings, connection: Connection) -> queue.Queue[Any]:
    """Prepares the process: connections, threads, random numbers, `get_worker_info`."""
    global _info
    for other in settings.inherited:
        other.close()
    seed = settings.base_seed + settings.id
    random.seed(seed)
    np.random.seed(seed % 2**32)
    set_num_threads(1)
    _info = WorkerInfo(settings.id, settings.num_workers, seed, settings.dataset)
    tasks: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    return tasks


def run_worker(settings: WorkerSettings, connection: Connection) -> None:
    """Loads batches until it is stopped; the target of the process."""
    place = f"in DataLoader worker process {settings.id}"
    try:
        tasks = _start(settings, connection)
        epoch, fetcher, failure = -1, None, None
        try:
            if settings.init_fn is not None:
                settings.init_fn(settings.id)
        except Exception as error:
            failure = Failure.of(error, place)
        while (task := tasks.get()) is not _STOP:
            data: Any = failure
            if failure is None:
                try:
                    if fetcher is None or task.epoch != epoch:
                        epoch, fetcher = task.epoch, settings.make_fetcher()
                    data = fetcher.fetch(task.indices)
                except Exception as error:
                    data = Failure.of(error, place)
            _send(connection, Result(task.epoch, task.place, data), place)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the loader's process ends, or has left the loop


def _send(connection: Connection, result: Result, place: str) -> None:
    """Sends a result, or the reason why it cannot be pickled."""
    try:
        connection.send(result)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        failure = Failure.of(error, place)
        if isinstance(result.data, Failure):  # of a class that cannot be pickled
            failure = Failure(RuntimeError, result.data.message)
        connection.send(result._replace(data=failure))
