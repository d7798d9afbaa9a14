"""Ufuncs of large arrays in several threads; NumPy's loops release the interpreter's lock.

Waking a worker thread and waiting for its result takes 7 microseconds at best, mostly 15 to 30, and
100 if the processor was asleep. Functions that take several nanoseconds an element, such as
``tanh``, are worth that: they have the tag ``heavy`` in the tables. Their kernels call ``spread``
for arrays of at least ``MIN_THREADED_HEAVY_SIZE`` elements. Sums and products need far larger
arrays: ``MIN_THREADED_SIZE`` of ``broadcasting.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import copy_context
from itertools import pairwise
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MIN_THREADED_HEAVY_SIZE",
    "get_num_threads",
    "in_blocks",
    "set_num_threads",
    "share",
    "spread",
]

# Elements from which two threads beat one for the cheapest heavy function, exp.
MIN_THREADED_HEAVY_SIZE = 1 << 15
_MIN_CHUNK_SIZE = 1 << 14  # elements per thread, at least
_BLOCK_SIZE = 1 << 13  # elements of a block; several blocks fit into a processor's cache


def _count_processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_threads = min(_count_processors(), 8)


class _Call:
    """Call that a worker thread makes; the lock `done` is released when the call ends."""

    __slots__ = ("_function", "done", "error", "is_done")

    def __init__(self, *function: Any):
        self._function: tuple[Any, ...] | None = function  # with its arguments
        self.done = Lock()
        self.done.acquire()
        self.is_done = False  # before `done` is released
        self.error: BaseException | None = None

    def run(self) -> None:
        """Makes the call and drops the references to its arguments."""
        assert self._function is not None
        function, *args = self._function
        self._function = None
        try:
            function(*args)
        except BaseException as error:
            self.error = error

    def finish(self) -> BaseException | None:
        """Waits for the end of the call and returns the exception that it raised, or None.

        An interrupt does not end the wait, because the call may write to memory of the caller; it
        is returned.
        """
        interrupt: BaseException | None = None
        while not self.is_done:
            try:
                self.done.acquire()
            except BaseException as error:
                interrupt = error
        return self.error or interrupt


class _Worker:
    """Daemon thread that makes calls sequentially; a lock is the fastest way to wake it.

    The worker itself appends to `_idle` after a call, so that an interrupted caller loses none.
    """

    _call: _Call

    def __init__(self) -> None:
        self._begun = Lock()
        self._begun.acquire()
        Thread(target=self._work, name="pullback", daemon=True).start()

    def begin(self, call: _Call) -> None:
        """Starts a call in the thread."""
        self._call = call
        self._begun.release()

    def _work(self) -> None:
        while True:
            self._begun.acquire()
            call = self._call
            del self._call
            call.run()
            _idle.append(self)
            call.is_done = True
            call.done.release()
            del call


_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


def get_num_threads() -> int:
    """Returns the number of threads that compute on a large array.

    >>> get_num_threads() >= 1
    True
    """
    return _threads


def set_num_threads(num_threads: int) -> None:
    """Sets the number of threads that compute on a large array; 1 disables threading.

    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> set_num_threads(before)
    """
    global _threads
    if not isinstance(num_threads, int) or isinstance(num_threads, bool) or num_threads < 1:
        raise ValueError(f"set_num_threads: expected a positive integer, not {num_threads!r}")
    _threads = num_threads


def spread(ufunc: np.ufunc, x: NDArray[Any], *others: NDArray[Any]) -> NDArray[Any]:
    """Computes ``ufunc(x, *others)``, each thread on a slice of the memory.

    Arrays of different layouts, and small ones, are computed by the calling thread alone.

    >>> x = np.linspace(0, 1, MIN_THREADED_HEAVY_SIZE)
    >>> bool((spread(np.exp, x) == np.exp(x)).all())
    True
    """
    workers = min(_threads, x.size // _MIN_CHUNK_SIZE)
    is_divisible = x.flags.forc and x.dtype.kind in "fc" and ufunc.nout == 1
    if not is_divisible or workers < 2 or not all(_has_same_layout(x, other) for other in others):
        return ufunc(x, *others)  # type: ignore[no-any-return]
    kinds = (x.dtype,) * (1 + len(others)) + (None,)
    result = np.empty_like(x, dtype=ufunc.resolve_dtypes(kinds)[-1])
    flat = [array.ravel("K") for array in (x, *others, result)]
    share(lambda low, high: ufunc(*[array[low:high] for array in flat]), x.size, workers)
    return result


def _has_same_layout(x: NDArray[Any], other: NDArray[Any]) -> bool:
    return x.dtype is other.dtype and x.shape == other.shape and x.strides == other.strides


def in_blocks(function: Callable[..., Any], size: int, *arrays: NDArray[Any]) -> None:
    """Calls a function with consecutive blocks of flat arrays, in several threads.

    A block is so small that intermediate results of the function stay in the cache.

    >>> x, y = np.arange(5.0), np.empty(5)
    >>> in_blocks(lambda a, b: np.add(a * a, 1, out=b), 5, x, y)
    >>> y
    array([ 1.,  2.,  5., 10., 17.])
    """

    def run(start: int, end: int) -> None:
        for low in range(start, end, _BLOCK_SIZE):
            high = min(low + _BLOCK_SIZE, end)
            function(*(array[low:high] for array in arrays))

    share(run, size, max(min(_threads, size // _MIN_CHUNK_SIZE), 1))


def _acquire_worker() -> _Worker:
    try:
        return _idle.pop()
    except IndexError:  # all workers are busy, or none exists yet
        return _Worker()


def share(run: Callable[[int, int], Any], size: int, workers: int) -> None:
    """Calls `run` with parts of a range, in several threads including the calling one.

    >>> squares = np.empty(6)
    >>> def run(low, high):
    ...     squares[low:high] = np.arange(low, high) ** 2
    >>> share(run, 6, 2)
    >>> squares
    array([ 0.,  1.,  4.,  9., 16., 25.])
    """
    bounds = [size * i // workers for i in range(workers + 1)]
    calls = []
    try:
        for low, high in pairwise(bounds[1:]):
            # A copy of the context carries the caller's NumPy error state.
            call = _Call(copy_context().run, run, low, high)
            _acquire_worker().begin(call)
            calls.append(call)
        run(0, bounds[1])
    finally:
        errors = [call.finish() for call in calls]
    for error in errors:
        if error is not None:
            raise error
