"""Elements between memory and registers: loads, stores and shuffles of vectors of any dtype.

A value in registers is one LLVM vector (a scalar for one element), of bits for truth values, and a
``Complex`` of two for complex numbers. Memory has NumPy's form: bytes for truth values, parts side
by side for complex numbers. Pointers are ``i8*``; positions count elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.compiled.machine import ir
from pullback.compiled.vector import Complex, scalar_type, vector_type

__all__ = ["Elements", "constant", "make_constant"]

_LONGEST_LOAD = 4096  # bytes of a load from which elements are chosen by a shuffle


def make_constant(dtype: np.dtype[Any], values: Any) -> Any:
    """A constant vector of one part of a dtype."""
    kind = vector_type(scalar_type(dtype), len(values))
    plain = [v.item() if hasattr(v, "item") else v for v in values]
    if dtype.kind == "b":
        plain = [int(v) for v in plain]
    return ir.Constant(kind, plain[0] if len(plain) == 1 else plain)


def constant(array: Any) -> Any:
    """The elements of an array as a constant value."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        part = np.dtype(flat.dtype.char.lower())
        return Complex(make_constant(part, flat.real.copy()), make_constant(part, flat.imag.copy()))
    return make_constant(flat.dtype, flat)


class Elements:
    """Moves elements with a builder."""

    def __init__(self, builder: Any):
        self.b = builder
        self.word = ir.IntType(64)

    # --- registers --------------------------------------------------------------------------------

    def map_parts(self, function: Callable[..., Any], *values: Any) -> Any:
        """A function of vectors, on each part of complex values."""
        if isinstance(values[0], Complex):
            return Complex(*(function(*parts) for parts in zip(*values, strict=True)))
        return function(*values)

    def width(self, value: Any) -> int:
        """The number of elements of a value."""
        kind = (value.real if isinstance(value, Complex) else value).type
        return int(kind.count) if isinstance(kind, ir.VectorType) else 1

    def shuffle(self, value: Any, places: Any) -> Any:
        """The elements at given places; -1 for an element that does not matter."""
        places = [int(p) for p in places]
        if places == list(range(self.width(value))):
            return value
        return self.map_parts(lambda part: self._shuffle(part, places), value)

    def _shuffle(self, part: Any, places: list[int]) -> Any:
        count = len(places)
        if not isinstance(part.type, ir.VectorType):
            return part if count == 1 else self.splat(part, count)
        if count == 1:
            return self.b.extract_element(part, ir.IntType(32)(max(0, places[0])))
        return self.b.shuffle_vector(part, ir.Constant(part.type, ir.Undefined), _mask(places))

    def splat(self, part: Any, count: int) -> Any:
        """A scalar in all elements of a vector."""
        if count == 1:
            return part
        empty = ir.Constant(vector_type(part.type, count), ir.Undefined)
        first = self.b.insert_element(empty, part, ir.IntType(32)(0))
        return self.b.shuffle_vector(first, empty, _mask([0] * count))

    def blend(self, base: Any, part: Any, places: Any) -> Any:
        """`base` with the elements of `part` at given places."""
        count, own = self.width(base), self.width(part)
        if count == 1:
            return part
        if own == 1:
            at = ir.IntType(32)(int(places[0]))
            return self.map_parts(lambda x, y: self.b.insert_element(x, y, at), base, part)
        wide = [-1] * count
        chosen = list(range(count))
        for number, place in enumerate(places):
            wide[int(place)] = number
            chosen[int(place)] = count + int(place)
        spread = self.shuffle(part, wide)
        return self.map_parts(lambda x, y: self.b.shuffle_vector(x, y, _mask(chosen)), base, spread)

    def join(self, values: list[Any]) -> Any:
        """Values one behind the other."""
        widths = [self.width(v) for v in values]
        if len(values) == 1:
            return values[0]
        total = sum(widths)

        def joined(*parts: Any) -> Any:
            kind = parts[0].type
            element = kind.element if isinstance(kind, ir.VectorType) else kind
            found = ir.Constant(vector_type(element, total), ir.Undefined)
            start = 0
            for part, width in zip(parts, widths, strict=True):
                found = self.blend(found, part, range(start, start + width))
                start += width
            return found

        return self.map_parts(joined, *values)

    # --- memory -----------------------------------------------------------------------------------

    def address(self, pointer: Any, position: Any, itemsize: int) -> Any:
        """The address of an element; positions are numbers, or values of the program."""
        if isinstance(position, int):
            return (
                pointer if position == 0 else self.b.gep(pointer, [self.word(position * itemsize)])
            )
        return self.b.gep(pointer, [self.b.mul(position, self.word(itemsize))])

    def load(self, pointer: Any, dtype: np.dtype[Any], position: Any, places: Any) -> Any:
        """The elements at places behind a position."""
        places = np.asarray(places)
        low = int(places.min())
        span = int(places.max()) - low + 1
        if (
            len(places) > 1
            and span > 1
            and span <= 2 * len(places)
            and span * dtype.itemsize <= _LONGEST_LOAD
        ):
            start = self._moved(position, low)
            return self.shuffle(self._load_dense(pointer, dtype, start, span), places - low)
        if span == 1:
            one = self._load_dense(pointer, dtype, self._moved(position, low), 1)
            return self.map_parts(lambda part: self.splat(part, len(places)), one)
        runs = np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1)
        found = [
            self._load_dense(pointer, dtype, self._moved(position, int(places[run[0]])), len(run))
            for run in runs
        ]
        return self.join(found)

    def _moved(self, position: Any, distance: int) -> Any:
        if isinstance(position, int):
            return position + distance
        return self.b.add(position, self.word(distance)) if distance else position

    def _load_dense(self, pointer: Any, dtype: np.dtype[Any], position: Any, count: int) -> Any:
        address = self.address(pointer, position, dtype.itemsize)
        if dtype.kind == "c":
            part = np.dtype(dtype.char.lower())
            both = self._load_plain(address, scalar_type(part), 2 * count, part.itemsize)
            return Complex(*(self._shuffle(both, list(range(n, 2 * count, 2))) for n in (0, 1)))
        if dtype.kind == "b":
            found = self._load_plain(address, ir.IntType(8), count, 1)
            return self.b.icmp_unsigned("!=", found, ir.Constant(found.type, None))
        return self._load_plain(address, scalar_type(dtype), count, dtype.itemsize)

    def _load_plain(self, address: Any, element: Any, count: int, align: int) -> Any:
        kind = vector_type(element, count)
        return self.b.load(self.b.bitcast(address, kind.as_pointer()), align=align)

    def store(
        self, pointer: Any, dtype: np.dtype[Any], position: Any, places: Any, value: Any
    ) -> None:
        """Stores elements at places behind a position."""
        places = np.asarray(places)
        if self.width(value) == 1 and len(places) > 1:
            value = self.map_parts(lambda part: self.splat(part, len(places)), value)
        runs = np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1)
        for run in runs:
            part = self.shuffle(value, run)
            self._store_dense(pointer, dtype, self._moved(position, int(places[run[0]])), part)

    def _store_dense(self, pointer: Any, dtype: np.dtype[Any], position: Any, value: Any) -> None:
        address = self.address(pointer, position, dtype.itemsize)
        align = dtype.itemsize
        if isinstance(value, Complex):
            count = self.width(value)
            align //= 2
            if count == 1:
                pair = ir.Constant(vector_type(value.real.type, 2), ir.Undefined)
                for number, part in enumerate(value):
                    pair = self.b.insert_element(pair, part, ir.IntType(32)(number))
                value = pair
            else:
                order = [n + count * m for n in range(count) for m in (0, 1)]
                value = self.b.shuffle_vector(value.real, value.imag, _mask(order))
        if dtype.kind == "b":
            value = self.b.zext(value, vector_type(ir.IntType(8), self.width(value)))
        self.b.store(value, self.b.bitcast(address, value.type.as_pointer()), align=align)

    def copy(self, target: Any, source: Any, nbytes: int) -> None:
        """Copies bytes."""
        name = "llvm.memcpy.p0i8.p0i8.i64"
        pointer, bit = ir.IntType(8).as_pointer(), ir.IntType(1)
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, self.word, bit])
        function = self.b.module.globals.get(name) or ir.Function(self.b.module, kind, name)
        self.b.call(function, [target, source, self.word(nbytes), bit(0)])


def _mask(places: list[int]) -> Any:
    kind = ir.VectorType(ir.IntType(32), len(places))
    return ir.Constant(kind, [max(0, place) for place in places])
