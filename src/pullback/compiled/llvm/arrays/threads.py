"""Threads for the chunks of a program: machine code calls Python for them, and takes part itself.

The function of a long program calls `share_chunks`, which wakes workers of ``kernels/threads.py``.
All of them, and the caller, run ``run_share`` of the program, which takes chunks from common
counters until none is left. The caller runs it once more after that: whatever happens to the
workers, all chunks are done. Ctrl-C in this time becomes an interrupt of the main thread again when
the chunks are done: an exception cannot pass through machine code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Sequence

from pullback.compiled.llvm.compiler import name_address
from pullback.kernels.threads import get_num_threads, share

__all__ = [
    "INTERRUPT",
    "MIN_SHARED_WORK",
    "MIN_THREADED_WORK",
    "SHARE_CHUNKS",
    "is_threaded",
    "register_share_chunks",
]

SHARE_CHUNKS = "pullback_share_chunks"
"""Function of machine code: ``void f(void *run_share, void **table, int64 *counters, int64 chunks,
int64 *is_interrupted)``; the last is 1 before, and stays 1 where Ctrl-C ends the call."""
INTERRUPT = "pullback_interrupt"
"""``void f()``: CPython's ``PyErr_SetInterrupt``, which needs no lock."""
MIN_THREADED_WORK = 1 << 22
"""Operations on elements, some 200 µs, from which two threads beat one: 314 and 188 µs for tanh and
exp of 262,144 elements, 157 and 166 µs for half of them."""
MIN_SHARED_WORK = 1 << 19
"""Operations of one step, some 20 µs, from which its chunks are shared."""
_STAGE_WORK = 1 << 20
"""Operations that one more shared step has to add: what another processor has written is read
slowly (a Gaussian mixture of 25 in 10 dimensions has 11 steps, and takes 420 µs in one thread, 460
in two; one of 5 in 64 dimensions 1310 and 1030)."""


def is_threaded(shared: Sequence[int]) -> bool:
    """Whether threads pay for a program, by the operations of its shared steps.

    >>> is_threaded([MIN_THREADED_WORK]), is_threaded([MIN_SHARED_WORK] * 20)
    (True, False)
    """
    return sum(shared) >= MIN_THREADED_WORK + _STAGE_WORK * (len(shared) - 1) and bool(shared)


_run_share = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_callback = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
)


def _share_chunks(
    function: int, table: int, counters: int, chunks: int, is_interrupted: int
) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        try:
            threads = min(get_num_threads(), chunks)
            if threads > 1:
                run = _run_share(function)
                share(lambda thread, _: run(table, counters, thread), threads, threads)
        except Exception:  # no thread can be made: the caller does all chunks
            pass
        ctypes.c_int64.from_address(is_interrupted).value = 0


# Kept by the module: machine code has its address. A function that made it at the first use made
# two in two threads, of which one was freed.
_kept_callback = _callback(_share_chunks)


@functools.cache
def register_share_chunks() -> None:
    """Gives machine code the address of `share_chunks`."""
    for name, function in (
        (SHARE_CHUNKS, _kept_callback),
        (INTERRUPT, ctypes.pythonapi.PyErr_SetInterrupt),
    ):
        name_address(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
