"""Matrix products: NumPy's own BLAS, found in the libraries that NumPy has loaded.

A candidate is used only if a product computed through it is right; without one, graphs with matrix
products have no machine code for them, and NumPy computes them.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.arrays.code import POINTER, WORD, Code
from pullback.compiled.llvm.arrays.gemm import Matrix
from pullback.compiled.llvm.compiler import ir, name_address
from pullback.compiled.llvm.instructions import declare
from pullback.compiled.llvm.vector.values import scalar_type
from pullback.compiled.lowering.ir import Node, c_strides

__all__ = ["Blas", "emit_matmul", "find_blas", "find_matrix"]

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_NAMES = (  # prefix, suffix, bits of an integer
    ("scipy_cblas_", "64_", 64),
    ("cblas_", "64_", 64),
    ("scipy_cblas_", "", 32),
    ("cblas_", "", 32),
)
_SYMBOL = "pullback_blas_{}gemm"


class Blas(NamedTuple):
    """A library, and the size of its integers."""

    integer: int


def _libraries() -> Iterator[Any]:
    folder = pathlib.Path(np.__file__).resolve().parent
    for place in (folder.parent / "numpy.libs", folder / ".libs", folder / ".dylibs"):
        yield from sorted(place.glob("*openblas*"))
    yield np._core._multiarray_umath.__file__  # type: ignore[attr-defined]


@functools.cache
def find_blas() -> Blas | None:
    """The library for products, whose functions are made symbols of machine code."""
    for path in _libraries():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix, suffix, bits in _NAMES:
            names = [f"{prefix}{letter}gemm{suffix}" for letter in _LETTERS.values()]
            if all(hasattr(library, name) for name in names):
                functions = [getattr(library, name) for name in names]
                if _is_right(functions[1], bits):
                    for letter, function in zip(_LETTERS.values(), functions, strict=True):
                        address = ctypes.cast(function, ctypes.c_void_p).value or 0
                        name_address(_SYMBOL.format(letter), address)
                    return Blas(bits)
    return None


def _is_right(gemm: Any, bits: int) -> bool:
    """Computes a small product through a candidate for dgemm."""
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    c = np.full((2, 4), np.nan)
    integer = ctypes.c_int64 if bits == 64 else ctypes.c_int32
    integers = [integer(n) for n in (2, 4, 3)]
    gemm.restype = None
    gemm(
        *(ctypes.c_int32(n) for n in (_ROW_MAJOR, _PLAIN, _TRANSPOSED)),
        *integers,
        ctypes.c_double(1.0),
        *(ctypes.c_void_p(a.ctypes.data), integer(3)),
        *(ctypes.c_void_p(b.ctypes.data), integer(3)),
        ctypes.c_double(0.0),
        *(ctypes.c_void_p(c.ctypes.data), integer(4)),
    )
    return bool(np.array_equal(c, a @ b.T))


class _Factor(NamedTuple):
    """A factor of a product as BLAS reads it."""

    pointer: Any
    transposed: int
    leading: int  # elements from one row (or column) to the next
    batch: tuple[int, ...]  # elements from one matrix to the next, for each leading axis


def find_matrix(node: Node, virtual: set[Node]) -> Matrix:
    """The memory of a factor, or of a product."""
    if node.op == "view" and node in virtual:
        place = node.place
        return Matrix(node.inputs[0], place.offset, place.strides[:-2], *place.strides[-2:])
    strides = c_strides(node.shape)
    return Matrix(node, 0, strides[:-2], *strides[-2:])


def _factor(code: Code, node: Node, virtual: set[Node]) -> _Factor:
    key, offset, batch, down, right = find_matrix(node, virtual)
    rows, columns = node.shape[-2:]
    pointer = code.pointer(key)
    if offset:
        pointer = code.b.gep(pointer, [WORD(offset * node.dtype.itemsize)])
    if (columns == 1 or right == 1) and (rows == 1 or down >= columns):
        return _Factor(pointer, _PLAIN, down if rows > 1 else columns, batch)
    return _Factor(pointer, _TRANSPOSED, right if columns > 1 else rows, batch)


def emit_matmul(code: Code, node: Node, virtual: set[Node], blas: Blas) -> None:
    """Writes the calls of a product of matrices, or of stacks of them."""
    if 0 in node.shape:
        return
    factors = [_factor(code, x, virtual) for x in node.inputs]
    own = _Factor(code.pointer(node), _PLAIN, node.shape[-1], c_strides(node.shape)[:-2])
    size = node.dtype.itemsize

    def one(indices: list[Any]) -> None:
        pointers = []
        for factor in (*factors, own):
            pointer = factor.pointer
            for index, stride in zip(indices, factor.batch, strict=True):
                if stride:
                    pointer = code.b.gep(pointer, [code.b.mul(index, WORD(stride * size))])
            pointers.append(pointer)
        _call(code, node, pointers, factors, blas)

    code.indices(node.shape[:-2], one)


def _call(code: Code, node: Node, pointers: list[Any], factors: list[_Factor], blas: Blas) -> None:
    a, b = node.inputs
    integer, choice = ir.IntType(blas.integer), ir.IntType(32)
    letter = _LETTERS[node.dtype.char]
    is_complex = node.dtype.kind == "c"
    real = scalar_type(node.dtype)
    factor = POINTER if is_complex else real  # complex scale factors are given by their address
    kinds = [choice] * 3 + [integer] * 3 + [factor, POINTER, integer, POINTER, integer]
    kinds += [factor, POINTER, integer]
    name = _SYMBOL.format(letter)
    function = declare(code.function.module, name, ir.VoidType(), kinds)
    scales = [real(1.0), real(0.0)]
    if is_complex:
        scales = [_pair(code, number) for number in scales]
    (m, k), n = a.shape[-2:], b.shape[-1]
    code.b.call(
        function,
        [
            *(choice(x) for x in (_ROW_MAJOR, factors[0].transposed, factors[1].transposed)),
            *(integer(x) for x in (m, n, k)),
            scales[0],
            *(pointers[0], integer(factors[0].leading)),
            *(pointers[1], integer(factors[1].leading)),
            scales[1],
            *(pointers[2], integer(n)),
        ],
    )


def _pair(code: Code, number: Any) -> Any:
    """The address of a complex number with no imaginary part."""
    kind = ir.ArrayType(number.type, 2)
    slot = code.variable(kind)
    code.b.store(ir.Constant(kind, [number, number.type(0.0)]), slot)
    return code.b.bitcast(slot, POINTER)
