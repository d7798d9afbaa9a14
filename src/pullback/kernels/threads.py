"""Functions of large arrays, by several threads: NumPy's loops let go of the interpreter's lock.

Handing work to a waiting thread and waiting for it takes 7 microseconds at best, mostly 15 to 30,
and 100 where a processor has gone to sleep. Functions of several nanoseconds an element are worth
that, such as ``tanh``: they carry the tag ``heavy`` in the tables, and their kernels come here with
arrays of ``LARGE`` elements or more. Sums and products must be far larger, see ``broadcasting.py``.
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

__all__ = ["LARGE", "get_num_threads", "in_blocks", "set_num_threads", "share", "spread"]

LARGE = 1 << 15  # elements, from which two threads beat one for the cheapest heavy function, exp
_CHUNK = 1 << 14  # elements that a thread takes at a time, at least
_BLOCK = 1 << 13  # elements of a block: a handful of them stays in the cache of a processor

_threads = min(os.cpu_count() or 1, 8)


class _Call:
    """A call that another thread makes; the lock `done` is released when it has ended."""

    __slots__ = ("_function", "done", "error")

    def __init__(self, *function: Any):
        self._function: tuple[Any, ...] | None = function  # with its arguments
        self.done = Lock()
        self.done.acquire()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Makes the call; no array is kept after it."""
        assert self._function is not None
        function, *args = self._function
        self._function = None
        try:
            function(*args)
        except BaseException as error:
            self.error = error

    def finish(self) -> BaseException | None:
        """Waits for the end of the call; what it raised is returned."""
        self.done.acquire()
        return self.error


class _Worker:
    """A thread that makes one call after another; two locks are the fastest way to wake it.

    It adds itself to `_idle`, so that no worker is lost where the caller is interrupted.
    """

    _call: _Call

    def __init__(self) -> None:
        self._begun = Lock()
        self._begun.acquire()
        Thread(target=self._work, name="pullback", daemon=True).start()

    def begin(self, call: _Call) -> None:
        """Has the thread make a call."""
        self._call = call
        self._begun.release()

    def _work(self) -> None:
        while True:
            self._begun.acquire()
            call = self._call
            del self._call
            call.run()
            _idle.append(self)
            call.done.release()
            del call


_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads stay behind in the parent


def get_num_threads() -> int:
    """How many threads share the work on a large array.

    >>> get_num_threads() >= 1
    True
    """
    return _threads


def set_num_threads(num_threads: int) -> None:
    """Sets how many threads share the work on a large array; 1 turns sharing off.

    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> set_num_threads(before)
    """
    global _threads
    if not isinstance(num_threads, int) or isinstance(num_threads, bool) or num_threads < 1:
        raise ValueError(f"set_num_threads: expected a positive integer, not {num_threads!r}")
    _threads = num_threads


def spread(ufunc: np.ufunc, x: NDArray[Any], *others: NDArray[Any]) -> NDArray[Any]:
    """``ufunc(x, *others)``, each thread computing a stretch of memory.

    >>> x = np.linspace(0, 1, LARGE)
    >>> bool((spread(np.exp, x) == np.exp(x)).all())
    True
    """
    workers = min(_threads, x.size // _CHUNK)
    is_even = x.flags.forc and x.dtype.kind in "fc" and ufunc.nout == 1
    if not is_even or workers < 2 or not all(_lie_alike(x, other) for other in others):
        return ufunc(x, *others)  # type: ignore[no-any-return]
    kinds = (x.dtype,) * (1 + len(others)) + (None,)
    result = np.empty_like(x, dtype=ufunc.resolve_dtypes(kinds)[-1])
    flat = [array.ravel("K") for array in (x, *others, result)]
    share(lambda low, high: ufunc(*[array[low:high] for array in flat]), x.size, workers)
    return result


def _lie_alike(x: NDArray[Any], other: NDArray[Any]) -> bool:
    return x.dtype is other.dtype and x.shape == other.shape and x.strides == other.strides


def in_blocks(function: Callable[..., Any], size: int, *arrays: NDArray[Any]) -> None:
    """Calls a function with one stretch after another of flat arrays, in several threads.

    What it computes on the way stays in the cache, because a stretch is short.

    >>> x, y = np.arange(5.0), np.empty(5)
    >>> in_blocks(lambda a, b: np.add(a * a, 1, out=b), 5, x, y)
    >>> y
    array([ 1.,  2.,  5., 10., 17.])
    """

    def run(start: int, end: int) -> None:
        for low in range(start, end, _BLOCK):
            high = min(low + _BLOCK, end)
            function(*(array[low:high] for array in arrays))

    share(run, size, max(min(_threads, size // _CHUNK), 1))


def _take_worker() -> _Worker:
    try:
        return _idle.pop()
    except IndexError:  # all are busy, or there are none yet
        return _Worker()


def share(run: Callable[[int, int], Any], size: int, workers: int) -> None:
    """Has several threads run a part of a range each, the caller among them.

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
            # A copy of the context, so that NumPy's error state is the caller's everywhere.
            call = _Call(copy_context().run, run, low, high)
            _take_worker().begin(call)
            calls.append(call)
        run(0, bounds[1])
    finally:
        errors = [call.finish() for call in calls]
    for error in errors:
        if error is not None:
            raise error
