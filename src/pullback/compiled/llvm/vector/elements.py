"""Element-wise functions by NumPy's names, on vectors of elements of any dtype.

The functions are of values of ``values.py``, and compute in the dtype of their operands. Functions
that take many instructions are emitted once for each width, as functions of the module that are
called.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.compiled.llvm.compiler import has_avx512, ir
from pullback.compiled.llvm.instructions import (
    declare,
    join_vectors,
    new_function,
    number_in_lanes,
    shuffle,
    splat,
    vector_type,
)
from pullback.compiled.llvm.vector import (
    exponential,
    integers,
    logarithm,
    rounding,
    special,
    trigonometric,
)
from pullback.compiled.llvm.vector.integers import Integers
from pullback.compiled.llvm.vector.lanes import Lanes
from pullback.compiled.llvm.vector.values import (
    Complex,
    map_parts,
    part_dtype,
    scalar_type,
    take_lanes,
)
from pullback.compiled.lowering.ir import Node

__all__ = [
    "CALLED",
    "cast",
    "compute",
    "elementwise",
    "is_supported",
]

_CALL_LANES, _LONG_CALL_LANES = 16, 32
"""The lanes of one call, without and with the registers of AVX-512: wider vectors are cut."""

_MATHEMATICS = (
    exponential.FUNCTIONS
    | logarithm.FUNCTIONS
    | rounding.REMAINDERS
    | special.FUNCTIONS
    | trigonometric.FUNCTIONS
)
"""Functions of many instructions; float32 is computed in float64, and rounded once."""
CALLED = frozenset(_MATHEMATICS)
"""Functions that take many instructions."""
_COMPARISONS = {
    "equal": "==",
    "greater": ">",
    "greater_equal": ">=",
    "less": "<",
    "less_equal": "<=",
    "not_equal": "!=",
}
_LOGICAL = ("logical_and", "logical_not", "logical_or", "logical_xor")
_LIBM = "exp log sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh"
_COMPLEX_LIBRARY = {name: f"c{name.replace('arc', 'a')}" for name in _LIBM.split()}
"""Complex functions that libm has: NumPy calls the same."""


def is_supported(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether `elementwise` has a function for operands of a dtype.

    >>> is_supported("exp", np.dtype("float32")), is_supported("gcd", np.dtype("int64"))
    (True, False)
    """
    if dtype.kind not in "bifcu" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        return False
    if dtype == np.float16:
        return False
    if name in ("where", *_LOGICAL):
        return True
    if name == "complex":
        return dtype.kind == "f"
    if dtype.kind == "c":
        return name in _COMPLEX_LIBRARY or name in ("equal", "not_equal") or name in _COMPLEX
    is_called = dtype.kind == "f" and name in CALLED
    return name in _COMPARISONS or is_called or name in _formulas(dtype)


def _formulas(dtype: np.dtype[Any]) -> dict[str, Callable[..., Any]]:
    """The functions of a few instructions for a dtype."""
    if dtype.kind in "cf":
        return _COMPLEX if dtype.kind == "c" else rounding.FUNCTIONS
    return integers.TRUTH_FUNCTIONS if dtype.kind == "b" else integers.FUNCTIONS


def compute(builder: Any, node: Node, operands: Sequence[Any], width: int) -> Any:
    """The value of an element-wise node on vectors of its operands."""
    before = node.inputs[-1].dtype
    if node.function == "cast":
        return cast(builder, operands[0], before, node.dtype, width)
    return elementwise(builder, node.function, operands, before, width)


def elementwise(
    builder: Any, name: str, operands: Sequence[Any], dtype: np.dtype[Any], width: int
) -> Any:
    """The values of a function of operands of one dtype.

    The first operand of "where" is a truth value. Comparisons, logical functions, isnan, isinf,
    isfinite and signbit return truth values, "absolute", "real" and "imag" real numbers, "complex"
    of two real numbers complex ones; all others return the operands' dtype.
    """
    if name == "where":
        condition, x, y = operands
        return map_parts(lambda a, b: builder.select(condition, a, b), x, y)
    if name == "complex":
        return Complex(*operands)
    if name in _LOGICAL:
        truths = [cast(builder, x, dtype, np.dtype(bool), width) for x in operands]
        return _logical(builder, name, *truths)
    if name in _COMPARISONS:
        x, y = operands
        return _compare(builder, name, x, y, dtype)
    if dtype.kind == "c" and name in _COMPLEX_LIBRARY:
        return _complex_library(builder, _COMPLEX_LIBRARY[name], operands[0], width)
    if dtype.kind == "f" and name in CALLED:
        return _call(builder, name, list(operands), width)
    bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    is_real = dtype.kind in "fc"
    e = (
        Lanes(builder, width, bits)
        if is_real
        else Integers(builder, width, bits, dtype.kind == "i")
    )
    return _evaluate(_formulas(dtype)[name], e, operands)


def _evaluate(function: Callable[..., Any], e: Lanes | Integers, operands: Sequence[Any]) -> Any:
    """The LLVM value (or a `Complex` of two) of a formula on such values."""
    found = function(e, *(map_parts(e.number, x) for x in operands))
    return map_parts(e.value, found)


def _logical(builder: Any, name: str, x: Any, y: Any = None) -> Any:
    if y is None:
        return builder.not_(x)
    joins = {"logical_and": builder.and_, "logical_or": builder.or_, "logical_xor": builder.xor}
    return joins[name](x, y)


def _compare(builder: Any, name: str, x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":  # equal or not
        join, part = builder.and_ if name == "equal" else builder.or_, part_dtype(dtype)
        return join(*(_compare(builder, name, a, b, part) for a, b in zip(x, y, strict=True)))
    sign = _COMPARISONS[name]
    if dtype.kind == "i":
        return builder.icmp_signed(sign, x, y)
    if dtype.kind in "bu":
        return builder.icmp_unsigned(sign, x, y)
    if name == "not_equal":
        return builder.fcmp_unordered(sign, x, y)
    return builder.fcmp_ordered(sign, x, y)


# --- functions that are called --------------------------------------------------------------------


def _call(builder: Any, name: str, operands: list[Any], width: int) -> Any:
    """Calls the function of a name; float32 goes there and back, wide vectors in parts."""
    wide = vector_type(ir.DoubleType(), width)
    is_short = operands[0].type != wide
    if is_short:
        operands = [builder.fpext(x, wide) for x in operands]
    longest = _LONG_CALL_LANES if has_avx512() else _CALL_LANES
    lanes = 1 << (min(width, longest) - 1).bit_length()
    if lanes < _CALL_LANES and _function_name(name, _CALL_LANES) in builder.module.globals:
        lanes = _CALL_LANES  # idle lanes cost less than compiling another function
    function = _function(builder.module, name, lanes, len(operands))
    if lanes == width:
        result = builder.call(function, operands)
    else:
        result = _call_parts(builder, function, operands, lanes, width)
    return builder.fptrunc(result, vector_type(ir.FloatType(), width)) if is_short else result


def _call_parts(builder: Any, function: Any, operands: list[Any], lanes: int, width: int) -> Any:
    """The results for vectors of another width: parts, the last one filled up."""
    parts = []
    for start in range(0, width, lanes):
        places = [min(lane, width - 1) for lane in range(start, start + lanes)]
        if width == 1:
            given = [splat(builder, x, lanes) for x in operands]
        else:
            given = [shuffle(builder, x, x, places) for x in operands]
        parts.append(builder.call(function, given))
    return take_lanes(builder, join_vectors(builder, parts), range(width))


def _function_name(name: str, lanes: int) -> str:
    return f"pullback_{name}_{lanes}"


def _function(module: Any, name: str, lanes: int, arity: int) -> Any:
    """A function of the module on vectors of float64, written at its first use."""
    full = _function_name(name, lanes)
    known = module.globals.get(full)
    if known is not None:
        return known
    kind = vector_type(ir.DoubleType(), lanes)
    builder = new_function(module, full, [kind] * arity, kind, is_internal=True)
    function = builder.function
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder.ret(_evaluate(_MATHEMATICS[name], Lanes(builder, lanes), function.args))
    return function


# --- casts ----------------------------------------------------------------------------------------


def cast(builder: Any, value: Any, before: np.dtype[Any], after: np.dtype[Any], width: int) -> Any:
    """Values of another dtype, as `astype` gives them."""
    if before == after:
        return value
    if after.kind == "c":
        part = part_dtype(after)
        if before.kind == "c":
            own = part_dtype(before)
            return Complex(*(cast(builder, x, own, part, width) for x in value))
        real = cast(builder, value, before, part, width)
        return Complex(real, ir.Constant(real.type, None))
    if before.kind == "c":
        if after.kind == "b":
            own = part_dtype(before)
            return builder.or_(*(cast(builder, x, own, after, width) for x in value))
        value, before = value.real, part_dtype(before)
        return cast(builder, value, before, after, width)
    kind = vector_type(scalar_type(after), width)
    if after.kind == "b":
        nothing = ir.Constant(value.type, None)
        if before.kind == "f":
            return builder.fcmp_unordered("!=", value, nothing)
        return builder.icmp_unsigned("!=", value, nothing)
    if before.kind == "f":
        return _cast_real(builder, value, before, after, kind, width)
    if after.kind == "f":
        return (builder.sitofp if before.kind == "i" else builder.uitofp)(value, kind)
    if before.kind != "b" and before.itemsize >= after.itemsize:
        return builder.trunc(value, kind) if before.itemsize > after.itemsize else value
    return (builder.sext if before.kind == "i" else builder.zext)(value, kind)


def _cast_real(
    builder: Any, value: Any, before: np.dtype[Any], after: np.dtype[Any], kind: Any, width: int
) -> Any:
    if after.kind == "f":
        return (builder.fptrunc if before.itemsize > after.itemsize else builder.fpext)(value, kind)
    # as the processor converts where NumPy's loops do: small integers are the low bits of an int32,
    # and a uint64 beyond the largest int64 is moved below it
    wide = np.dtype("i4") if after.itemsize <= 2 or after == np.int32 else np.dtype("i8")
    if after == np.uint64:
        edge = number_in_lanes(value.type, 2.0**63)
        is_large = builder.fcmp_ordered(">=", value, edge)
        value = builder.select(is_large, builder.fsub(value, edge), value)
        number = _to_signed(builder, value, kind, 64)
        moved = builder.xor(number, number_in_lanes(kind, -(1 << 63)))
        return builder.select(is_large, moved, number)
    bits = 8 * wide.itemsize
    number = _to_signed(builder, value, vector_type(ir.IntType(bits), width), bits)
    return builder.trunc(number, kind) if wide.itemsize > after.itemsize else number


def _to_signed(builder: Any, value: Any, kind: Any, bits: int) -> Any:
    """Numbers as signed integers, rounded to zero; the least integer where they do not fit.

    That is what x86-64 makes of them; LLVM's own instruction leaves it undefined.
    """
    edge = 2.0 ** (bits - 1)
    above = builder.fcmp_ordered(">=", value, number_in_lanes(value.type, -edge))
    below = builder.fcmp_ordered("<", value, number_in_lanes(value.type, edge))
    fits = builder.and_(above, below)
    safe = builder.select(fits, value, number_in_lanes(value.type, 0.0))
    number = builder.fptosi(safe, kind)
    return builder.select(fits, number, number_in_lanes(kind, -(1 << (bits - 1))))


# --- complex numbers ------------------------------------------------------------------------------


def _complex_library(builder: Any, name: str, x: Complex, width: int) -> Complex:
    """Calls a function of libm for each lane; on x86-64 it takes and returns two registers."""
    real = ir.DoubleType()
    pair = ir.LiteralStructType([real, real])
    lanes = Lanes(builder, width)
    function = declare(builder.module, name, pair, [real, real])
    is_short = x.real.type != lanes.real
    parts = [builder.fpext(p, lanes.real) if is_short else p for p in x]
    if width == 1:
        found = builder.call(function, parts)
        results = [builder.extract_value(found, k) for k in range(2)]
    else:
        results = [ir.Constant(lanes.real, ir.Undefined)] * 2
        for lane in range(width):
            place = ir.IntType(32)(lane)
            found = builder.call(function, [builder.extract_element(p, place) for p in parts])
            results = [
                builder.insert_element(r, builder.extract_value(found, k), place)
                for k, r in enumerate(results)
            ]
    if is_short:
        results = [builder.fptrunc(r, x.real.type) for r in results]
    return Complex(*results)


def _multiply(x: Complex, y: Complex) -> Complex:
    return Complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _divide(e: Lanes, x: Complex, y: Complex) -> Complex:
    """Smith's algorithm: the smaller part of the divisor is divided by the larger one."""
    size_real, size_imag = abs(y.real), abs(y.imag)
    is_real = size_real >= size_imag
    large, small = e.where(is_real, y.real, y.imag), e.where(is_real, y.imag, y.real)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    first, second = e.where(is_real, x.real, x.imag), e.where(is_real, x.imag, x.real)
    turned = second * ratio
    real = (first + turned) * scale
    rest = e.where(is_real, x.imag - x.real * ratio, x.imag * ratio - x.real)
    imag = rest * scale
    is_zero = (size_real == 0.0) & (size_imag == 0.0)
    return Complex(
        e.where(is_zero, x.real / size_real, real), e.where(is_zero, x.imag / size_real, imag)
    )


def _reciprocal(e: Lanes, x: Complex) -> Complex:
    """The same of 1 without the products by zero, as NumPy: signs of zeros and NaN differ."""
    is_real = abs(x.real) >= abs(x.imag)
    large, small = e.where(is_real, x.real, x.imag), e.where(is_real, x.imag, x.real)
    ratio = small / large
    size = large + small * ratio
    return Complex(e.where(is_real, 1.0, ratio) / size, -e.where(is_real, ratio, 1.0) / size)


def _both(function: Callable[..., Any]) -> Callable[..., Complex]:
    """A function of complex numbers that treats their parts alike."""
    return lambda _, *args: Complex(*(function(*parts) for parts in zip(*args, strict=True)))


def _size(e: Lanes, x: Complex) -> Any:
    return e.number(_call(e.b, "hypot", [x.real.value, x.imag.value], e.width))


_COMPLEX: dict[str, Callable[..., Any]] = {
    "absolute": _size,
    "add": _both(operator.add),
    "conjugate": lambda _, x: Complex(x.real, -x.imag),
    "imag": lambda _, x: x.imag,
    "divide": _divide,
    "isfinite": lambda e, x: rounding.is_finite(e, x.real) & rounding.is_finite(e, x.imag),
    "isinf": lambda e, x: rounding.is_infinite(e, x.real) | rounding.is_infinite(e, x.imag),
    "isnan": lambda e, x: e.is_nan(*x),
    "multiply": lambda _, x, y: _multiply(x, y),
    "negative": _both(operator.neg),
    "real": lambda _, x: x.real,
    "reciprocal": _reciprocal,
    "square": lambda _, x: _multiply(x, x),
    "subtract": _both(operator.sub),
}
