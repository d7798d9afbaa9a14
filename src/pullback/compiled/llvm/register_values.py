"""Values in registers: lists of vectors of one legal width, and what moves their elements.

A value in registers is a list of *chunks* of equal width, a power of two of at most 8 lanes; the
last one is filled up with elements that do not matter. A chunk is a value of ``vector/values.py``:
an LLVM vector, or a ``Complex`` of two. Wider vectors, and widths that are no powers of two, are
not used: LLVM 22 makes wrong code of shuffles of them (a product of four 2 x 3 by 3 x 2 matrices as
vectors of 24 lanes with AVX-512), or stops at an assertion. Pointers are ``i8*``; positions count
elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.arena import ALIGNMENT
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import declare, shuffle, vector_type
from pullback.compiled.llvm.vector.values import (
    Complex,
    load_vector,
    parts_of,
    scalar_type,
    spread,
    store_vector,
    take_lanes,
)

__all__ = ["Elements", "constant", "constant_pointer", "width_of"]

_WIDTH = 8  # lanes of a vector


class _Lane(NamedTuple):
    """One element: a chunk and the lane in it."""

    chunk: Any
    lane: int


def width_of(size: int) -> int:
    """The lanes of the chunks of a value."""
    return min(_WIDTH, 1 << max(0, size - 1).bit_length())


def _starts(size: int) -> range:
    return range(0, size, width_of(size))


def _lanes_of(chunk: Any) -> int:
    kind = parts_of(chunk)[0].type
    return int(kind.count) if isinstance(kind, ir.VectorType) else 1


def _list_lanes(value: list[Any]) -> list[_Lane]:
    """The elements of a value, in order, and those behind them that do not matter."""
    return [_Lane(chunk, n) for chunk in value for n in range(_lanes_of(chunk))]


def _cut(start: int, count: int, most: int) -> Iterator[tuple[int, int]]:
    """(start, width) of parts of a run of elements whose widths are powers of two."""
    end = start + count
    while start < end:
        width = min(most, 1 << ((end - start).bit_length() - 1))
        yield start, width
        start += width


def _find_runs(places: Any) -> list[Any]:
    """Places that are loaded together: side by side, or with few others between them."""
    used = np.array(sorted(set(np.asarray(places).tolist())))  # np.unique imports numpy.ma: 5 ms
    gap = max(2, len(places)) if len(used) > 1 else 1
    runs = np.split(used, np.flatnonzero(np.diff(used) > gap) + 1)
    if sum(int(run[-1] - run[0]) + 1 for run in runs) > 4 * len(used):
        runs = np.split(used, np.flatnonzero(np.diff(used) > 1) + 1)
    return runs


def constant(array: Any) -> list[Any]:
    """The elements of an array as a constant value."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        parts = (constant(part.copy()) for part in (flat.real, flat.imag))
        return [Complex(*pair) for pair in zip(*parts, strict=True)]
    width = width_of(flat.size)
    found = []
    for start in _starts(flat.size):
        part = flat[start : start + width].tolist()
        part += part[-1:] * (width - len(part))
        part = [int(v) for v in part] if flat.dtype.kind == "b" else part
        kind = vector_type(scalar_type(flat.dtype), width)
        found.append(ir.Constant(kind, part[0] if width == 1 else part))
    return found


def constant_pointer(module: Any, array: Any) -> Any:
    """A pointer to the elements of an array, which become part of the module."""
    data = bytearray(np.ascontiguousarray(array).tobytes())
    kind = ir.ArrayType(ir.IntType(8), len(data))
    variable = ir.GlobalVariable(module, kind, module.get_unique_name("constant"))
    variable.global_constant = True
    variable.linkage = "internal"
    variable.align = ALIGNMENT
    variable.initializer = ir.Constant(kind, data)
    return variable.bitcast(ir.IntType(8).as_pointer())


class Elements:
    """Moves elements with a builder."""

    def __init__(self, builder: Any):
        self.b = builder
        self.word = ir.IntType(64)

    # --- registers --------------------------------------------------------------------------------

    def splat(self, value: list[Any], count: int) -> list[Any]:
        """A value of one element as a value of many."""
        return [spread(self.b, value[0], width_of(count))] * len(_starts(count))

    def shuffle(self, value: list[Any], places: Iterable[int]) -> list[Any]:
        """The elements at given places of a value."""
        lanes = _list_lanes(value)
        return self._collect([lanes[int(p)] for p in places])

    def blend(
        self, base: list[Any], part: list[Any], places: Iterable[int], size: int
    ) -> list[Any]:
        """`base`, of `size` elements, with the elements of `part` at given places."""
        lanes = _list_lanes(base)[:size]
        for place, lane in zip(places, _list_lanes(part), strict=False):
            lanes[int(place)] = lane
        return self._collect(lanes)

    def _collect(self, lanes: list[_Lane]) -> list[Any]:
        """The value that has given elements."""
        width = width_of(len(lanes))
        return [self._gather(lanes[n : n + width], width) for n in _starts(len(lanes))]

    def _gather(self, lanes: list[_Lane], width: int) -> Any:
        """A chunk of given elements; what is missing at its end does not matter."""
        first = lanes[0].chunk
        if isinstance(first, Complex):
            parts = [[_Lane(x.chunk[k], x.lane) for x in lanes] for k in (0, 1)]
            return Complex(*(self._gather(part, width) for part in parts))
        if all(x.chunk is first and x.lane == lanes[0].lane for x in lanes):
            is_scalar = _lanes_of(first) == 1
            one = first if is_scalar else take_lanes(self.b, first, [lanes[0].lane])
            return spread(self.b, one, width)
        sources: list[tuple[Any, dict[int, int]]] = []  # a vector, and its lanes by their places
        for vector in {id(x.chunk): x.chunk for x in lanes}.values():
            own = {n: x.lane for n, x in enumerate(lanes) if x.chunk is vector}
            stays = _lanes_of(vector) == width and all(n == m for n, m in own.items())
            sources.insert(0 if stays else len(sources), (vector, own))
        found = None
        for vector, own in sources:
            found = self._blend(found, vector, own, width)
        return found

    def _blend(self, found: Any, vector: Any, own: dict[int, int], width: int) -> Any:
        """A vector with elements of another one, given by their places, in it."""
        count = _lanes_of(vector)
        if count == 1:
            found = found or ir.Constant(vector_type(vector.type, width), ir.Undefined)
            for n in own:
                found = self.b.insert_element(found, vector, ir.IntType(32)(n))
            return found
        if count != width or (found is None and any(n != m for n, m in own.items())):
            spare = min(own.values())
            vector = shuffle(self.b, vector, vector, [own.get(n, spare) for n in range(width)])
            own = {n: n for n in own}
        if found is None:
            return vector
        places = [width + own[n] if n in own else n for n in range(width)]
        return shuffle(self.b, found, vector, places)

    # --- memory -----------------------------------------------------------------------------------

    def address(self, pointer: Any, position: Any, itemsize: int) -> Any:
        """The address of an element; positions are numbers, or values of the program."""
        if isinstance(position, int):
            offset = self.word(position * itemsize)
            return pointer if position == 0 else self.b.gep(pointer, [offset])
        return self.b.gep(pointer, [self.b.mul(position, self.word(itemsize))])

    def _cut_run(
        self, pointer: Any, dtype: np.dtype[Any], position: Any, start: int, count: int
    ) -> Iterator[tuple[Any, int, int]]:
        """(address, start, width) of the chunks of a run of elements behind a position."""
        if isinstance(position, int):
            position += start
        elif start:
            position = self.b.add(position, self.word(start))
        base = self.address(pointer, position, dtype.itemsize)
        most = _WIDTH // 2 if dtype.kind == "c" else _WIDTH
        for at, width in _cut(0, count, most):
            yield self.address(base, at, dtype.itemsize), start + at, width

    def load(self, pointer: Any, dtype: np.dtype[Any], position: Any, places: Any) -> list[Any]:
        """The elements at places behind a position."""
        known: dict[int, _Lane] = {}
        for run in _find_runs(places):
            first, count = int(run[0]), int(run[-1] - run[0]) + 1
            for address, start, width in self._cut_run(pointer, dtype, position, first, count):
                chunk = load_vector(self.b, address, dtype, width)
                known |= {start + n: _Lane(chunk, n) for n in range(width)}
        return self._collect([known[int(p)] for p in places])

    def store(
        self, pointer: Any, dtype: np.dtype[Any], position: Any, places: Any, value: list[Any]
    ) -> None:
        """Stores elements at places behind a position."""
        lanes = _list_lanes(value)
        for run in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1):
            first, own = int(places[run[0]]), lanes[run[0] : run[-1] + 1]
            for address, start, width in self._cut_run(pointer, dtype, position, first, len(run)):
                chunk = self._gather(own[start - first : start - first + width], width)
                store_vector(self.b, chunk, address, dtype, width)

    def copy(self, target: Any, source: Any, nbytes: int) -> None:
        """Copies bytes."""
        name = "llvm.memcpy.p0i8.p0i8.i64"
        pointer, bit = ir.IntType(8).as_pointer(), ir.IntType(1)
        kinds = [pointer, pointer, self.word, bit]
        function = declare(self.b.module, name, ir.VoidType(), kinds)
        self.b.call(function, [target, source, self.word(nbytes), bit(0)])
