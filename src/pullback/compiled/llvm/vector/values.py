"""Vectors of elements: their LLVM types, complex pairs, lanes, and the way to memory and back.

A value is an LLVM value of the vector type of its dtype (of one element: the scalar type). Truth
values have one bit; complex numbers are a ``Complex`` of two vectors. Memory has NumPy's form:
bytes for truth values, the parts of a complex number side by side. Both emitters, ``registers.py``
and ``arrays/``, read and write memory by these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import number_in_lanes, shuffle, splat, vector_type

__all__ = [
    "Complex",
    "extend",
    "full",
    "join",
    "load_vector",
    "map_parts",
    "memory_type",
    "part_dtype",
    "parts_of",
    "scalar_type",
    "spread",
    "store_vector",
    "take_lanes",
]

_INDEX = ir.IntType(32)


class Complex(NamedTuple):
    """The real and imaginary parts of complex numbers."""

    real: Any
    imag: Any


def parts_of(value: Any) -> tuple[Any, ...]:
    """The vectors of a value: both parts of a complex one."""
    return tuple(value) if isinstance(value, Complex) else (value,)


def map_parts(function: Callable[..., Any], *values: Any) -> Any:
    """A function of values, or of both parts of complex ones."""
    if isinstance(values[0], Complex):
        return Complex(*(function(*parts) for parts in zip(*values, strict=True)))
    return function(*values)


# --- types ----------------------------------------------------------------------------------------


def scalar_type(dtype: np.dtype[Any]) -> Any:
    """LLVM's type of an element in a register; of one part, for complex numbers."""
    if dtype.kind == "b":
        return ir.IntType(1)
    if dtype.kind in "iu":
        return ir.IntType(8 * dtype.itemsize)
    bits = 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    return {64: ir.DoubleType, 32: ir.FloatType}[bits]()


def memory_type(dtype: np.dtype[Any]) -> Any:
    """LLVM's type of an element in memory; of one part, for complex numbers."""
    return ir.IntType(8) if dtype.kind == "b" else scalar_type(dtype)


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype."""
    return np.dtype(f"f{dtype.itemsize // 2}")


# --- lanes ----------------------------------------------------------------------------------------


def full(value: Any, dtype: np.dtype[Any], width: int) -> Any:
    """A number in all lanes."""
    if dtype.kind == "c":
        part, number = part_dtype(dtype), complex(value)
        return Complex(*(full(x, part, width) for x in (number.real, number.imag)))
    number = float(value) if dtype.kind == "f" else int(value)
    return number_in_lanes(vector_type(scalar_type(dtype), width), number)


def spread(builder: Any, value: Any, width: int) -> Any:
    """A value of one element in all lanes."""
    return map_parts(lambda part: splat(builder, part, width), value)


def join(builder: Any, values: Sequence[Any]) -> Any:
    """Values of one element as the lanes of a vector."""

    def joined(*scalars: Any) -> Any:
        found = ir.Constant(ir.VectorType(scalars[0].type, len(scalars)), ir.Undefined)
        for lane, scalar in enumerate(scalars):
            found = builder.insert_element(found, scalar, _INDEX(lane))
        return found

    return map_parts(joined, *values)


def take_lanes(builder: Any, value: Any, lanes: Sequence[int]) -> Any:
    """Some lanes of a vector; one is a scalar."""
    if len(lanes) == 1:
        return map_parts(lambda part: builder.extract_element(part, _INDEX(lanes[0])), value)
    return map_parts(lambda part: shuffle(builder, part, part, lanes), value)


def extend(
    builder: Any, value: Any, count: int, number: Any, dtype: np.dtype[Any], width: int
) -> Any:
    """A vector of `width` lanes: the `count` elements of a value, and a number behind them."""
    if count == width:
        return value
    if count == 1:
        rest = full(number, dtype, width)
        return map_parts(lambda x, y: builder.insert_element(y, x, _INDEX(0)), value, rest)
    lanes = [min(lane, count) for lane in range(width)]  # the first of the others from there on
    return map_parts(lambda x, y: shuffle(builder, x, y, lanes), value, full(number, dtype, count))


# --- memory ---------------------------------------------------------------------------------------


def load_vector(builder: Any, address: Any, dtype: np.dtype[Any], width: int) -> Any:
    """The `width` elements that lie side by side from an address on."""
    is_complex = dtype.kind == "c"
    kind = vector_type(memory_type(dtype), 2 * width if is_complex else width)
    align = dtype.itemsize // 2 if is_complex else dtype.itemsize
    found = builder.load(builder.bitcast(address, kind.as_pointer()), align=align)
    if dtype.kind == "b":
        return builder.icmp_unsigned("!=", found, ir.Constant(kind, None))
    if is_complex:
        return Complex(*(take_lanes(builder, found, range(part, 2 * width, 2)) for part in (0, 1)))
    return found


def store_vector(builder: Any, value: Any, address: Any, dtype: np.dtype[Any], width: int) -> None:
    """Writes `width` elements side by side from an address on."""
    align = dtype.itemsize
    if dtype.kind == "b":
        value = builder.zext(value, vector_type(ir.IntType(8), width))
    if dtype.kind == "c":
        align //= 2
        order = [lane + part * width for lane in range(width) for part in (0, 1)]
        x, y = value
        value = join(builder, [x, y]) if width == 1 else shuffle(builder, x, y, order)
    builder.store(value, builder.bitcast(address, value.type.as_pointer()), align=align)
