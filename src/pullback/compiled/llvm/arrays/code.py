"""``Code``: one function of machine code that is being written, and reductions in it.

It is what kernels are written with: memory of values by their keys, loads and stores of vectors
(``vector/values.py``) with any stride, and the steps of reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import (
    emit_loop,
    emit_vectors,
    new_function,
)
from pullback.compiled.llvm.register_values import constant_pointer
from pullback.compiled.llvm.vector.elements import elementwise
from pullback.compiled.llvm.vector.lanes import Lanes
from pullback.compiled.llvm.vector.values import (
    extend,
    full,
    join,
    load_vector,
    map_parts,
    memory_type,
    spread,
    store_vector,
    take_lanes,
)
from pullback.compiled.lowering.elementwise import COMBINERS

__all__ = [
    "POINTER",
    "WORD",
    "Accumulator",
    "Buffer",
    "Chunks",
    "Code",
    "combine",
    "combine_lanes",
    "neutral",
]

WORD = ir.IntType(64)
POINTER = ir.IntType(8).as_pointer()


class Buffer(NamedTuple):
    """Memory of a value: an entry of the table of pointers, and an offset in bytes."""

    entry: int
    offset: int


class Chunks(NamedTuple):
    """A division of work: `number` parts of `length` each, the last one maybe shorter."""

    number: int
    length: int


class Code:
    """Writes a function ``void name(void **table, int64 chunk)``.

    With `keys` it is ``void name(void *..., int64 chunk)``, with the memory of each key.
    """

    def __init__(
        self, module: Any, name: str, buffers: dict[Any, Buffer], keys: Sequence[Any] = ()
    ):
        first = [POINTER] * len(keys) if keys else [POINTER.as_pointer()]
        self.b = new_function(module, name, [*first, WORD], is_internal=True)
        self.function = self.b.function
        self.function.attributes.add("nounwind")
        *pointers, self.chunk = self.function.args
        self.table = pointers[0]
        self.buffers = buffers
        self._pointers: dict[Any, Any] = dict(zip(keys, pointers, strict=True)) if keys else {}
        self._entries: dict[int, Any] = {}  # of the table

    def count_instructions(self) -> int:
        """The number of instructions so far."""
        return sum(len(block.instructions) for block in self.function.blocks)

    # --- loops ------------------------------------------------------------------------------------

    def loop(self, first: Any, last: Any, step: int, body: Callable[[Any], None]) -> None:
        """Runs `body` with indices from `first`, which are below `last`; maybe never."""
        emit_loop(self.b, first, last, step, body)

    def vectors(self, length: int, width: int, body: Callable[[Any, int], None]) -> None:
        """Runs `body` with the index and the width of each vector: full ones, then the rest."""
        emit_vectors(self.b, length, width, body)

    def variable(self, kind: Any) -> Any:
        """A place on the stack, which becomes a register."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def indices(self, lengths: Sequence[int], body: Callable[[list[Any]], None]) -> None:
        """Runs `body` with all indices of a shape, in C order, one loop in the other."""

        def level(axis: int, outer: list[Any]) -> None:
            if axis == len(lengths):
                body(outer)
            else:
                self.loop(0, lengths[axis], 1, lambda index: level(axis + 1, [*outer, index]))

        level(0, [])

    def range_of(self, chunks: Chunks | None, length: int) -> tuple[Any, Any]:
        """The first index of the chunk that is computed, and the end; of all without chunks."""
        if chunks is None or chunks.number == 1:
            return 0, length
        first = self.b.mul(self.chunk, WORD(chunks.length))
        end = self.b.add(first, WORD(chunks.length))
        is_inside = self.b.icmp_signed("<", end, WORD(length))
        return first, self.b.select(is_inside, end, WORD(length))

    # --- memory -----------------------------------------------------------------------------------

    def pointer(self, key: Any) -> Any:
        """The memory of a value, as bytes; read from the table once."""
        found = self._pointers.get(key)
        if found is None and getattr(key, "op", "") == "const":
            found = self._pointers[key] = constant_pointer(self.function.module, key.value)
        if found is None:
            buffer = self.buffers[key]
            with self.b.goto_entry_block():
                entry = self._entries.get(buffer.entry)
                if entry is None:
                    entry = self.b.load(self.b.gep(self.table, [WORD(buffer.entry)]))
                    self._entries[buffer.entry] = entry
                found = self.b.gep(entry, [WORD(buffer.offset)]) if buffer.offset else entry
            self._pointers[key] = found
        return found

    def _address(self, pointer: Any, dtype: np.dtype[Any], place: Any) -> Any:
        place = self.b.shl(place, WORD(1)) if dtype.kind == "c" else place
        elements = self.b.bitcast(pointer, memory_type(dtype).as_pointer())
        return self.b.gep(elements, [place])

    def load(self, pointer: Any, dtype: np.dtype[Any], place: Any, stride: int, width: int) -> Any:
        """Elements from a place on, `stride` elements apart."""
        b = self.b
        if stride == 0 and width > 1:
            return spread(b, self.load(pointer, dtype, place, 1, 1), width)
        if stride != 1 and width > 1:
            lanes = [b.add(place, WORD(lane * stride)) for lane in range(width)]
            return join(b, [self.load(pointer, dtype, lane, 1, 1) for lane in lanes])
        return load_vector(b, self._address(pointer, dtype, place), dtype, width)

    def store(
        self, value: Any, pointer: Any, dtype: np.dtype[Any], place: Any, stride: int, width: int
    ) -> None:
        """Writes elements from a place on, `stride` elements apart."""
        b = self.b
        if stride != 1 and width > 1:
            for lane in range(width):
                at = b.add(place, WORD(lane * stride))
                self.store(take_lanes(b, value, [lane]), pointer, dtype, at, 1, 1)
            return
        store_vector(b, value, self._address(pointer, dtype, place), dtype, width)


def combine(code: Code, combiner: str, x: Any, y: Any, dtype: np.dtype[Any], width: int) -> Any:
    """One step of a reduction."""
    if dtype.kind == "b" and combiner in ("all", "any"):
        return (code.b.and_ if combiner == "all" else code.b.or_)(x, y)
    return elementwise(code.b, COMBINERS[combiner], [x, y], dtype, width)


def neutral(combiner: str, dtype: np.dtype[Any]) -> Any:
    """The value that a reduction begins with."""
    if combiner == "sum":  # -0.0 + x is x, also for x = -0.0
        return {"f": -0.0, "c": complex(-0.0, -0.0)}.get(dtype.kind, 0)
    if combiner == "any":
        return 0
    if combiner in ("prod", "all"):
        return 1
    if dtype.kind == "b":
        return combiner == "min"
    if dtype.kind == "f":
        return -np.inf if combiner == "max" else np.inf
    info = np.iinfo(dtype)
    return info.min if combiner == "max" else info.max


def combine_lanes(
    code: Code, combiner: str, total: Any, error: Any, dtype: np.dtype[Any], width: int
) -> Any:
    """The lanes of a vector combined to a scalar, halves first; `width` is a power of two.

    `error` has what each lane of a sum has lost; None if that is not known.
    """
    while width > 1:
        width //= 2
        halves = (range(width), range(width, 2 * width))
        low, high = (take_lanes(code.b, total, half) for half in halves)
        if error is None:
            total = combine(code, combiner, low, high, dtype, width)
        else:
            errors = [take_lanes(code.b, error, half) for half in halves]
            total, lost = _exact_sum(code, low, high, dtype, width)
            error = code.b.fadd(code.b.fadd(*errors), lost)
    return total if error is None else _with_error(code, total, error, dtype, 1)


def _exact_sum(code: Code, x: Any, y: Any, dtype: np.dtype[Any], width: int) -> tuple[Any, Any]:
    """x + y and its rounding error (Knuth's two-sum)."""
    lanes = Lanes(code.b, width, 8 * dtype.itemsize)
    total, error = lanes.two_sum(lanes.number(x), lanes.number(y))
    return total.value, error.value


def _with_error(code: Code, total: Any, error: Any, dtype: np.dtype[Any], width: int) -> Any:
    """A sum and the sum of its errors, which are NaN for an infinite sum."""
    is_finite = elementwise(code.b, "isfinite", [total], dtype, width)
    return code.b.select(is_finite, code.b.fadd(total, error), total)


class _Slot:
    """A vector, or both parts of a complex one, on the stack; LLVM makes registers of it."""

    def __init__(self, code: Code, start: Any):
        self._b = code.b
        self._places = map_parts(lambda part: code.variable(part.type), start)
        self.store(start)

    def load(self) -> Any:
        """The value."""
        return map_parts(self._b.load, self._places)

    def store(self, value: Any) -> None:
        """Replaces the value."""
        map_parts(self._b.store, value, self._places)


class Accumulator:
    """The result of a reduction so far, in each lane; of an exact one also the sum of its errors.

    Long sums of floating-point numbers keep the rounding errors of their steps.
    """

    def __init__(
        self, code: Code, combiner: str, dtype: np.dtype[Any], width: int, *, is_exact: bool
    ):
        self.code, self.combiner, self.dtype, self.width = code, combiner, dtype, width
        self.total = _Slot(code, full(neutral(combiner, dtype), dtype, width))
        self.error = _Slot(code, full(0, dtype, width)) if is_exact else None

    def add(self, value: Any, width: int) -> None:
        """Accumulates one vector of elements, which may have fewer lanes."""
        code, before = self.code, self.total.load()
        start = neutral(self.combiner, self.dtype)
        value = extend(code.b, value, width, start, self.dtype, self.width)
        if self.error is None:
            total = combine(code, self.combiner, before, value, self.dtype, self.width)
        else:
            total, lost = _exact_sum(code, before, value, self.dtype, self.width)
            self.error.store(code.b.fadd(self.error.load(), lost))
        self.total.store(total)

    def finish(self) -> Any:
        """The result in each lane."""
        total = self.total.load()
        if self.error is None:
            return total
        return _with_error(self.code, total, self.error.load(), self.dtype, self.width)

    def finish_lanes(self) -> Any:
        """The result of all lanes; their number is a power of two."""
        error = None if self.error is None else self.error.load()
        total = self.total.load()
        return combine_lanes(self.code, self.combiner, total, error, self.dtype, self.width)
