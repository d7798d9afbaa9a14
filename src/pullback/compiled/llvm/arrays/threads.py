"""The steps of a program one after the other, and the chunks of long ones in several threads.

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
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.compiled.llvm.arena import Arena
from pullback.compiled.llvm.arrays.code import POINTER, WORD
from pullback.compiled.llvm.compiler import ir, name_address
from pullback.compiled.llvm.instructions import declare, emit_loop, new_function
from pullback.kernels.threads import get_num_threads, share

__all__ = [
    "MIN_SHARED_WORK",
    "MIN_THREADED_WORK",
    "SHARE_CHUNKS",
    "Step",
    "emit_steps",
    "is_threaded",
    "register_share_chunks",
]

SHARE_CHUNKS = "pullback_share_chunks"
"""Function of machine code: ``void f(void *run_share, void **table, int64 *counters, int64 chunks,
int64 *is_interrupted)``; the last is 1 before, and stays 1 where Ctrl-C ends the call."""
_INTERRUPT = "pullback_interrupt"
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


_SPINS = 2000  # turns of a waiting thread before it lets others run


class Step(NamedTuple):
    """A function ``void name(void **table, int64 chunk)``, and the number of its chunks."""

    name: str
    chunks: int
    work: int  # an estimate: operations on elements

    @property
    def is_shared(self) -> bool:
        """Whether several threads run its chunks."""
        return self.chunks > 1 and self.work >= MIN_SHARED_WORK


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
        (_INTERRUPT, ctypes.pythonapi.PyErr_SetInterrupt),
    ):
        name_address(name, ctypes.cast(function, ctypes.c_void_p).value or 0)


# --- machine code ---------------------------------------------------------------------------------


def emit_steps(
    module: Any, name: str, steps: Sequence[Step], arena: Arena, arena_entry: int
) -> None:
    """Writes ``void name(void **table)``, which runs steps in their order, alone or with threads.

    The table has the memory of `arena` as its entry `arena_entry`.
    """
    if not is_threaded([step.work for step in steps if step.is_shared]):
        _emit_in_order(module, name, [POINTER.as_pointer()], steps)
        return
    stages = _find_stages(module, name, steps)
    counters = arena.extend(16 * len(stages))
    run = _emit_share(module, name, stages)
    b = new_function(module, name, [POINTER.as_pointer()])
    (table,) = b.function.args
    memory = b.load(b.gep(table, [WORD(arena_entry)]))
    numbers = b.bitcast(b.gep(memory, [WORD(counters)]), WORD.as_pointer())
    for number in range(2 * len(stages)):
        b.store(WORD(0), b.gep(numbers, [WORD(number)]))
    register_share_chunks()
    is_interrupted = b.alloca(WORD)
    b.store(WORD(1), is_interrupted)
    kinds = [POINTER, POINTER.as_pointer(), WORD.as_pointer(), WORD, WORD.as_pointer()]
    wake = declare(module, SHARE_CHUNKS, ir.VoidType(), kinds)
    most = WORD(max(stage.chunks for stage in stages))
    b.call(wake, [b.bitcast(run, POINTER), table, numbers, most, is_interrupted])
    b.call(run, [table, numbers, WORD(0)])
    with b.if_then(b.icmp_signed("!=", b.load(is_interrupted), WORD(0)), likely=False):
        b.call(declare(module, _INTERRUPT, ir.VoidType(), []), [])
    b.ret_void()


def _emit_in_order(module: Any, name: str, kinds: list[Any], steps: Sequence[Step]) -> Any:
    """Writes a function of the table that runs steps one after the other."""
    b = new_function(module, name, kinds)
    table = b.function.args[0]
    for step in steps:
        run = module.globals[step.name]
        emit_loop(b, 0, step.chunks, 1, functools.partial(_call_chunk, b, run, table))
    b.ret_void()
    return b.function


def _call_chunk(builder: Any, run: Any, table: Any, chunk: Any) -> None:
    builder.call(run, [table, chunk])


def _find_stages(module: Any, name: str, steps: Sequence[Step]) -> list[Step]:
    """The steps between which threads wait for each other.

    Small steps in a row become one, which one thread runs: to wait for another thread takes up to
    2 µs on some machines.
    """
    found: list[Step] = []
    for is_shared, group in itertools.groupby(steps, lambda step: step.is_shared):
        own = list(group)
        if not is_shared:
            stage = f"{name}_stage{len(found)}"
            function = _emit_in_order(module, stage, [POINTER.as_pointer(), WORD], own)
            function.linkage = "internal"
            own = [Step(stage, 1, sum(step.work for step in own))]
        found += own
    return found


def _emit_share(module: Any, name: str, stages: list[Step]) -> Any:
    """Writes ``void run_share(void **table, int64 *counters, int64 thread)``.

    Several threads call it, and run the chunks of all stages. There are two counters for each
    stage.
    """
    kinds = [POINTER.as_pointer(), WORD.as_pointer(), WORD]
    b = new_function(module, f"{name}_share", kinds)
    table, counters, thread = b.function.args
    run_stage = _emit_stage(module, f"{name}_run_stage")
    for number, stage in enumerate(stages):
        own = b.gep(counters, [WORD(2 * number)])
        run = module.globals[stage.name]
        b.call(run_stage, [run, WORD(stage.chunks), table, own, thread])
    b.ret_void()
    return b.function


def _emit_stage(module: Any, name: str) -> Any:
    """Writes ``void stage(void run(table, chunk), int64 chunks, void **table, int64 *counters,
    int64 thread)``, which runs chunks until all of a stage are done.

    The counters are of the chunks that are begun, and of those that are done. Threads with even
    numbers take chunks from the first on, and count in the low half; others take them from the
    last on, and count in the high half. So chunks of one stage mostly read what the same
    processor has written in the stage before.
    """
    kernel = ir.FunctionType(ir.VoidType(), [POINTER.as_pointer(), WORD]).as_pointer()
    kinds = [kernel, WORD, POINTER.as_pointer(), WORD.as_pointer(), WORD]
    b = new_function(module, name, kinds, is_internal=True)
    run_chunk, chunks, table, counters, thread = b.function.args
    names = ("next", "run", "wait", "spin", "end")
    following, run, wait, spin, end = map(b.append_basic_block, names)
    half, low_bits, one = WORD(32), WORD(2**32 - 1), WORD(1)
    is_backwards = b.trunc(thread, ir.IntType(1))
    unit = b.select(is_backwards, WORD(2**32), one)
    begun, done = counters, b.gep(counters, [one])
    b.branch(following)
    b.position_at_end(following)
    before = b.atomic_rmw("add", begun, unit, "acq_rel")
    front, back = b.and_(before, low_bits), b.lshr(before, half)
    b.cbranch(b.icmp_signed("<", b.add(front, back), chunks), run, wait)
    b.position_at_end(run)
    chunk = b.select(is_backwards, b.sub(b.sub(chunks, one), back), front)
    b.call(run_chunk, [table, chunk])
    b.atomic_rmw("add", done, one, "acq_rel")
    b.branch(following)
    b.position_at_end(wait)
    turns = b.phi(WORD)
    turns.add_incoming(WORD(0), following)
    finished = b.load_atomic(done, "acquire", 8)
    b.cbranch(b.icmp_signed(">=", finished, chunks), end, spin)
    b.position_at_end(spin)
    b.call(declare(module, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
    with b.if_then(b.icmp_signed(">", turns, WORD(_SPINS))):
        b.call(declare(module, "sched_yield", ir.IntType(32), []), [])
    turns.add_incoming(b.add(turns, one), b.block)
    b.branch(wait)
    b.position_at_end(end)
    b.ret_void()
    return b.function
