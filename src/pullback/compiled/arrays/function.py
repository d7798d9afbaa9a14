"""A compiled graph as a function of arrays, which uses several threads for large ones."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.compiled.arrays.emitter import emit_arrays
from pullback.compiled.ir import Graph
from pullback.compiled.machine import compile_module
from pullback.kernels.threads import get_num_threads, share

__all__ = ["ArrayFunction"]

_ALIGNMENT = 64
_MIN_UNLOCKED_WORK = 1 << 17
"""Element operations, some 20 µs, from which the interpreter's lock is released."""
_MIN_THREADED_WORK = 1 << 20
"""Element operations, some 150 µs, from which two threads beat one."""


class ArrayFunction:
    """Machine code of a graph without loops and opaque calls.

    Attributes:
        llvm_ir: its text.
        memory: the bytes that a call needs beside its results.
    """

    def __init__(self, graph: Graph):
        self._emitted = emitted = emit_arrays(graph)
        self._engine, self.llvm_ir = compile_module(emitted.module, is_vectorized=True)
        self.memory = emitted.memory
        work = sum(step.work for step in emitted.steps)
        is_long = work >= _MIN_UNLOCKED_WORK
        prototype = ctypes.CFUNCTYPE if is_long else ctypes.PYFUNCTYPE
        self._run = prototype(None, ctypes.c_void_p)(self._address(emitted.name))
        self._share: Any = None
        if work >= _MIN_THREADED_WORK and any(step.chunks > 1 for step in emitted.steps):
            kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
            self._share = kind(self._address(f"{emitted.name}_share"))
        self._chunks = max((step.chunks for step in emitted.steps), default=1)
        self._constants = [array.ctypes.data for array in emitted.constants]
        size = len(graph.inputs) + len(emitted.constants) + len(emitted.outputs) + 1
        self._table = ctypes.c_void_p * size
        self._counters = ctypes.c_int64 * (2 * len(emitted.steps))

    def _address(self, name: str) -> int:
        return int(self._engine.get_function_address(name))

    def __call__(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The graph's outputs, then its checks, for C-contiguous inputs."""
        outputs = [np.empty(shape, dtype) for shape, dtype in self._emitted.outputs]
        memory = np.empty(self.memory + _ALIGNMENT, np.uint8)
        start = memory.ctypes.data
        table = self._table(
            *[array.ctypes.data for array in arrays],
            *self._constants,
            *[array.ctypes.data for array in outputs],
            start + -start % _ALIGNMENT,
        )
        threads = min(get_num_threads(), self._chunks) if self._share is not None else 1
        if threads > 1:
            counters = self._counters()
            run = self._share
            share(lambda _low, _high: run(table, counters), threads, threads)
        else:
            self._run(table)
        return outputs
