"""``Code``: one function of machine code that is being written.

It is what kernels are written with: loops, memory of values by their keys, and loads and stores of
vectors (``vector/values.py``) with any stride.
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
from pullback.compiled.llvm.vector.values import (
    join,
    load_vector,
    memory_type,
    spread,
    store_vector,
    take_lanes,
)

__all__ = [
    "POINTER",
    "WORD",
    "Buffer",
    "Chunks",
    "Code",
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
