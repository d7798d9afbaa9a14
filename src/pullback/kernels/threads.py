"""Element-wise functions of large arrays, by several threads: NumPy's loops let go of the lock.

Worth it only where a function costs several nanoseconds an element, such as ``tanh``: those carry
the tag ``heavy`` in the tables, and their kernels come here with arrays of ``LARGE`` elements or
more. Below that, handing the work over costs more than half of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import copy_context
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["LARGE", "get_num_threads", "in_blocks", "set_num_threads", "spread"]

LARGE = 1 << 15  # elements, from which two threads beat one for the cheapest heavy function, exp
_CHUNK = 1 << 14  # elements that a thread takes at a time, at least
_BLOCK = 1 << 13  # elements of a block: a handful of them stays in the cache of a processor

_threads = min(os.cpu_count() or 1, 8)
_pool: tuple[int, ThreadPoolExecutor] | None = (
    None  # with the process that made it: a fork has none
)


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
    global _threads, _pool
    if not isinstance(num_threads, int) or isinstance(num_threads, bool) or num_threads < 1:
        raise ValueError(f"set_num_threads: expected a positive integer, not {num_threads!r}")
    _threads, _pool = num_threads, None


def spread(ufunc: np.ufunc, x: NDArray[Any]) -> NDArray[Any]:
    """``ufunc(x)``, each thread computing a stretch of memory.

    >>> x = np.linspace(0, 1, LARGE)
    >>> bool((spread(np.exp, x) == np.exp(x)).all())
    True
    """
    workers = min(_threads, x.size // _CHUNK)
    if workers < 2 or not x.flags.forc or x.dtype.kind not in "fc":
        return ufunc(x)  # type: ignore[no-any-return]
    result = np.empty_like(x)
    source, target = x.ravel("K"), result.ravel("K")
    _share(lambda low, high: ufunc(source[low:high], target[low:high]), x.size, workers)
    return result


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

    _share(run, size, max(min(_threads, size // _CHUNK), 1))


def _share(run: Callable[[int, int], Any], size: int, workers: int) -> None:
    """Has each thread run its part of a range."""
    bounds = [size * i // workers for i in range(workers + 1)]
    # A copy of the context each, so that NumPy's error state is the caller's everywhere.
    tasks = [
        _executor().submit(copy_context().run, run, low, high) for low, high in pairwise(bounds[1:])
    ]
    try:
        run(0, bounds[1])
    finally:
        for task in tasks:
            task.result()


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool[0] != os.getpid():
        from concurrent.futures import ThreadPoolExecutor  # small programs start without it

        _pool = os.getpid(), ThreadPoolExecutor(max(_threads - 1, 1), "pullback")
    return _pool[1]
