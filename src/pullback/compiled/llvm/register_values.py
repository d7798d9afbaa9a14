"""Elements between memory and registers: values as lists of LLVM vectors of one legal width.

A value in registers is a list of vectors of equal width, a power of two of at most 8 lanes; the
last one is filled up with elements that do not matter. Truth values are bits, complex numbers a
``Complex`` of two such lists. Wider vectors, and widths that are no powers of two, are not used:
LLVM 22 makes wrong code of shuffles of them (a product of four 2 x 3 by 3 x 2 matrices as vectors
of 24 lanes with AVX-512), or stops at an assertion. Memory has NumPy's form: bytes for truth
values, parts side by side for complex numbers. Pointers are ``i8*``; positions count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.arena import ALIGNMENT
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import declare, shuffle, splat, vector_type
from pullback.compiled.llvm.vector.elements import Complex, part_dtype, scalar_type

__all__ = ["Elements", "constant", "constant_pointer", "map_chunks", "width_of"]

_WIDTH = 8  # lanes of a vector


class _Lane(NamedTuple):
    """One element: a vector and the lane in it."""

    vector: Any
    lane: int


def width_of(size: int) -> int:
    """The lanes of the vectors of a value."""
    return min(_WIDTH, 1 << max(0, size - 1).bit_length())


def _starts(size: int) -> range:
    return range(0, size, width_of(size))


def _lanes_of(vector: Any) -> int:
    return int(vector.type.count) if isinstance(vector.type, ir.VectorType) else 1


def constant(array: Any) -> Any:
    """The elements of an array as a constant value."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        return Complex(constant(flat.real.copy()), constant(flat.imag.copy()))
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


def map_chunks(function: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    """A function of vectors (or a ``Complex`` of two) on all vectors of some values."""
    chunks = [
        [Complex(x, y) for x, y in zip(*value, strict=True)]
        if isinstance(value, Complex)
        else value
        for value in values
    ]
    found = [function(list(row)) for row in zip(*chunks, strict=True)]
    if isinstance(found[0], Complex):
        return Complex([x.real for x in found], [x.imag for x in found])
    return found


class Elements:
    """Moves elements with a builder."""

    def __init__(self, builder: Any):
        self.b = builder
        self.word = ir.IntType(64)

    # --- registers --------------------------------------------------------------------------------

    def _parts(self, function: Callable[..., Any], *values: Any) -> Any:
        """A function of lists of vectors, on each part of complex values."""
        if isinstance(values[0], Complex):
            return Complex(*(function(*parts) for parts in zip(*values, strict=True)))
        return function(*values)

    def _gather(self, lanes: list[_Lane], width: int) -> Any:
        """A vector of given elements; what is missing at its end does not matter."""
        if width == 1:
            return self._element(lanes[0])
        first = lanes[0].vector
        if all(lane.vector is first and lane.lane == lanes[0].lane for lane in lanes):
            return splat(self.b, self._element(lanes[0]), width)
        sources: list[Any] = []
        for lane in lanes:
            if not any(lane.vector is known for known in sources):
                sources.append(lane.vector)
        for known in sources:  # a vector whose elements stay where they are comes first
            own = [(n, lane.lane) for n, lane in enumerate(lanes) if lane.vector is known]
            if _lanes_of(known) == width and all(n == m for n, m in own):
                sources.remove(known)
                sources.insert(0, known)
                break
        found = self._place(sources[0], lanes, width)
        for source in sources[1:]:
            found = self._blend(found, source, lanes, width)
        return found

    def _element(self, lane: _Lane) -> Any:
        if _lanes_of(lane.vector) == 1:
            return lane.vector
        return self.b.extract_element(lane.vector, ir.IntType(32)(lane.lane))

    def _place(self, source: Any, lanes: list[_Lane], width: int) -> Any:
        """The elements of one vector at their lanes."""
        own = {n: lane.lane for n, lane in enumerate(lanes) if lane.vector is source}
        count = _lanes_of(source)
        if count == 1:
            empty = ir.Constant(vector_type(source.type, width), ir.Undefined)
            if len(own) > 1:
                return splat(self.b, source, width)
            return self.b.insert_element(empty, source, ir.IntType(32)(min(own)))
        if count == width and all(n == m for n, m in own.items()):
            return source
        spare = next(iter(own.values()))
        places = tuple(own.get(n, spare) for n in range(width))
        return shuffle(self.b, source, source, places)

    def _blend(self, base: Any, source: Any, lanes: list[_Lane], width: int) -> Any:
        """A vector with the elements of another one at their lanes."""
        own = {n: lane.lane for n, lane in enumerate(lanes) if lane.vector is source}
        if _lanes_of(source) == 1 or len(own) == 1:
            for n, lane in own.items():
                element = self._element(_Lane(source, lane))
                base = self.b.insert_element(base, element, ir.IntType(32)(n))
            return base
        if _lanes_of(source) == width:
            places = tuple(width + own[n] if n in own else n for n in range(width))
            return shuffle(self.b, base, source, places)
        spread = self._place(source, lanes, width)
        places = tuple(width + n if n in own else n for n in range(width))
        return shuffle(self.b, base, spread, places)

    def splat(self, value: Any, count: int) -> Any:
        """A value of one element as a value of many."""

        def wide(part: list[Any]) -> list[Any]:
            vector = splat(self.b, part[0], width_of(count))
            return [vector] * len(_starts(count))

        return self._parts(wide, value)

    def _collect(self, lanes: list[_Lane]) -> list[Any]:
        """The vectors of a value with given elements."""
        width = width_of(len(lanes))
        return [self._gather(lanes[n : n + width], width) for n in _starts(len(lanes))]

    def shuffle(self, value: Any, places: Iterable[int]) -> Any:
        """The elements at given places of a value."""
        order = [int(p) for p in places]

        def moved(part: list[Any]) -> list[Any]:
            width = _lanes_of(part[0])
            return self._collect([_Lane(part[p // width], p % width) for p in order])

        return self._parts(moved, value)

    def blend(self, base: Any, part: Any, places: Iterable[int], size: int) -> Any:
        """`base`, of `size` elements, with the elements of `part` at given places."""
        target = {int(place): number for number, place in enumerate(places)}

        def blended(x: list[Any], y: list[Any]) -> list[Any]:
            own, other = _lanes_of(x[0]), _lanes_of(y[0])
            lanes = [
                _Lane(y[target[n] // other], target[n] % other)
                if n in target
                else _Lane(x[n // own], n % own)
                for n in range(size)
            ]
            return self._collect(lanes)

        return self._parts(blended, base, part)

    # --- memory -----------------------------------------------------------------------------------

    def address(self, pointer: Any, position: Any, itemsize: int) -> Any:
        """The address of an element; positions are numbers, or values of the program."""
        if isinstance(position, int):
            offset = self.word(position * itemsize)
            return pointer if position == 0 else self.b.gep(pointer, [offset])
        return self.b.gep(pointer, [self.b.mul(position, self.word(itemsize))])

    def load(self, pointer: Any, dtype: np.dtype[Any], position: Any, places: Any) -> Any:
        """The elements at places behind a position."""
        order = np.asarray(places)
        used = np.array(sorted(set(order.tolist())))  # np.unique imports numpy.ma: 5 ms
        gap = max(2, len(order)) if len(used) > 1 else 1
        runs = np.split(used, np.flatnonzero(np.diff(used) > gap) + 1)
        if sum(int(run[-1] - run[0]) + 1 for run in runs) > 4 * len(used):
            runs = np.split(used, np.flatnonzero(np.diff(used) > 1) + 1)
        parts = 2 if dtype.kind == "c" else 1
        element = part_dtype(dtype) if dtype.kind == "c" else dtype
        known: dict[int, _Lane] = {}
        for run in runs:
            start, count = int(run[0]), int(run[-1] - run[0]) + 1
            address = self.address(pointer, self._add_distance(position, start), dtype.itemsize)
            for number, lane in enumerate(self._load_run(address, element, count * parts)):
                known[start * parts + number] = lane
        if dtype.kind == "c":
            return Complex(*(self._collect([known[2 * p + n] for p in order]) for n in (0, 1)))
        return self._collect([known[int(p)] for p in order])

    def _add_distance(self, position: Any, distance: int) -> Any:
        if isinstance(position, int):
            return position + distance
        return self.b.add(position, self.word(distance)) if distance else position

    def _load_run(self, address: Any, dtype: np.dtype[Any], count: int) -> list[_Lane]:
        """Elements that lie side by side, in vectors of widths that are powers of two."""
        found: list[_Lane] = []
        is_truth = dtype.kind == "b"
        element = ir.IntType(8) if is_truth else scalar_type(dtype)
        while len(found) < count:
            width = min(_WIDTH, 1 << ((count - len(found)).bit_length() - 1))
            kind = vector_type(element, width)
            at = self.address(address, len(found), dtype.itemsize)
            vector = self.b.load(self.b.bitcast(at, kind.as_pointer()), align=dtype.itemsize)
            if is_truth:
                vector = self.b.icmp_unsigned("!=", vector, ir.Constant(kind, None))
            found += [_Lane(vector, n) for n in range(width)]
        return found

    def store(
        self, pointer: Any, dtype: np.dtype[Any], position: Any, places: Any, value: Any
    ) -> None:
        """Stores elements at places behind a position."""
        order = np.asarray(places)
        runs = np.split(np.arange(len(order)), np.flatnonzero(np.diff(order) != 1) + 1)
        for run in runs:
            start = self._add_distance(position, int(order[run[0]]))
            address = self.address(pointer, start, dtype.itemsize)
            if isinstance(value, Complex):
                width = _lanes_of(value.real[0])
                lanes = [_Lane(part[n // width], n % width) for n in run for part in value]
                self._store_run(address, part_dtype(dtype), lanes)
            else:
                width = _lanes_of(value[0])
                self._store_run(address, dtype, [_Lane(value[n // width], n % width) for n in run])

    def _store_run(self, address: Any, dtype: np.dtype[Any], lanes: list[_Lane]) -> None:
        done = 0
        while done < len(lanes):
            width = min(_WIDTH, 1 << ((len(lanes) - done).bit_length() - 1))
            vector = self._gather(lanes[done : done + width], width)
            if dtype.kind == "b":
                vector = self.b.zext(vector, vector_type(ir.IntType(8), width))
            at = self.address(address, done, dtype.itemsize)
            target = self.b.bitcast(at, vector.type.as_pointer())
            self.b.store(vector, target, align=dtype.itemsize)
            done += width

    def copy(self, target: Any, source: Any, nbytes: int) -> None:
        """Copies bytes."""
        name = "llvm.memcpy.p0i8.p0i8.i64"
        pointer, bit = ir.IntType(8).as_pointer(), ir.IntType(1)
        kinds = [pointer, pointer, self.word, bit]
        function = declare(self.b.module, name, ir.VoidType(), kinds)
        self.b.call(function, [target, source, self.word(nbytes), bit(0)])
