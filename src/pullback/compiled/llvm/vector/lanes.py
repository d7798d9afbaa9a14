"""Expressions on vectors of floating-point numbers of any width, written as LLVM instructions.

A number that needs more than the 53 bits of a float64 is a `Pair`: an unevaluated sum of two, the
second at most half a unit in the last place of the first (double-double arithmetic, after Dekker
and Knuth).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.compiled.llvm.compiler import has_avx512, ir
from pullback.compiled.llvm.instructions import declare, number_in_lanes, shuffle, vector_type

__all__ = ["Lanes", "Pair"]

_MANTISSA_BITS = 52
_BIAS = 1023
_WIDE = 8  # float64 of a register of AVX-512
_ROUNDING_SHIFT = 1.5 * 2.0**52  # adding it leaves an integer in the low bits: |x| < 2**51


class Pair(NamedTuple):
    """The unevaluated sum of two values."""

    high: Any
    low: Any


class _Division(NamedTuple):
    """A first quotient of x and y, the remainder, and 1 / y."""

    first: Any
    rest: Any
    inverse: Any


class Lanes:
    """A builder of expressions on vectors of one width.

    Attributes:
        b: the builder of LLVM's instructions, placed where they belong.
        width: the number of lanes.
        real, word, truth: the types of a number, an integer of its size and a bool in each lane.

    Numbers have 64 bits; arithmetic, comparison and rounding are right for 32 bits as well.
    """

    def __init__(self, builder: Any, width: int, bits: int = 64):
        self.b = builder
        self.width = width
        self.bits_of_number = bits
        self.real = vector_type(ir.DoubleType() if bits == 64 else ir.FloatType(), width)
        self.word = vector_type(ir.IntType(bits), width)
        self.truth = vector_type(ir.IntType(1), width)

    # --- constants and calls ----------------------------------------------------------------------

    def constant(self, value: float) -> Any:
        """A number in each lane."""
        return number_in_lanes(self.real, float(value))

    def integer(self, value: int) -> Any:
        """An integer in each lane."""
        return number_in_lanes(self.word, value)

    def intrinsic(self, name: str, *args: Any) -> Any:
        """The result of an intrinsic function whose type is that of its arguments."""
        lanes = f"v{self.width}" if self.width > 1 else ""
        full = f"llvm.{name}.{lanes}f{self.bits_of_number}"
        return self.b.call(declare(self.b.module, full, args[0].type, [a.type for a in args]), args)

    def library_where(self, condition: Any, name: str, args: Sequence[Any], value: Any) -> Any:
        """`value`, and in the lanes where `condition` holds the result of a function of libm.

        Branches: the function is called only if the condition holds somewhere.
        """
        b = self.b
        somewhere = condition
        if self.width > 1:
            reduce = f"llvm.vector.reduce.or.v{self.width}i1"
            somewhere = b.call(
                declare(self.b.module, reduce, ir.IntType(1), [self.truth]), [condition]
            )
        start = b.block
        slow, end = b.append_basic_block("slow"), b.append_basic_block("end")
        b.cbranch(somewhere, slow, end)
        b.position_at_end(slow)
        result = self._library_lanes(condition, name, args, value)
        last = b.block
        b.branch(end)
        b.position_at_end(end)
        merged = b.phi(self.real)
        merged.add_incoming(value, start)
        merged.add_incoming(result, last)
        return merged

    def _library_lanes(self, condition: Any, name: str, args: Sequence[Any], value: Any) -> Any:
        b = self.b
        function = declare(self.b.module, name, ir.DoubleType(), [ir.DoubleType()] * len(args))
        if self.width == 1:
            return b.call(function, args)
        for lane in range(self.width):
            place = ir.IntType(32)(lane)
            exact = b.call(function, [b.extract_element(a, place) for a in args])
            chosen = b.extract_element(condition, place)
            kept = b.select(chosen, exact, b.extract_element(value, place))
            value = b.insert_element(value, kept, place)
        return value

    # --- arithmetic and comparison ----------------------------------------------------------------

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self.b.fadd(x, y)

    def sub(self, x: Any, y: Any) -> Any:
        """x - y."""
        return self.b.fsub(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x y."""
        return self.b.fmul(x, y)

    def div(self, x: Any, y: Any) -> Any:
        """x / y."""
        return self.b.fdiv(x, y)

    def neg(self, x: Any) -> Any:
        """-x."""
        return self.b.fneg(x)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x y + z, rounded once."""
        return self.intrinsic("fma", x, y, z)

    def sqrt(self, x: Any) -> Any:
        """The square root."""
        return self.intrinsic("sqrt", x)

    def abs(self, x: Any) -> Any:
        """|x|."""
        return self.intrinsic("fabs", x)

    def copysign(self, x: Any, sign: Any) -> Any:
        """|x| with the sign of another value."""
        return self.intrinsic("copysign", x, sign)

    def less(self, x: Any, y: Any) -> Any:
        """x < y; false for NaN."""
        return self.b.fcmp_ordered("<", x, y)

    def greater(self, x: Any, y: Any) -> Any:
        """x > y; false for NaN."""
        return self.b.fcmp_ordered(">", x, y)

    def equal(self, x: Any, y: Any) -> Any:
        """x == y; false for NaN."""
        return self.b.fcmp_ordered("==", x, y)

    def is_nan(self, x: Any) -> Any:
        """Whether x is NaN."""
        return self.b.fcmp_unordered("uno", x, x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """x where the condition holds, y elsewhere."""
        return self.b.select(condition, x, y)

    def at_most(self, x: Any, bound: float) -> Any:
        """The smaller of x and a number; NaN stays."""
        return self.where(self.greater(x, self.constant(bound)), self.constant(bound), x)

    def at_least(self, x: Any, bound: float) -> Any:
        """The larger of x and a number; NaN stays."""
        return self.where(self.less(x, self.constant(bound)), self.constant(bound), x)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """A polynomial, the constant first, by Estrin's scheme: a short chain of dependencies."""
        terms = [self.constant(c) for c in coefficients]
        while len(terms) > 1:
            joined = [
                self.fma(high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)
            ]
            terms = joined + terms[2 * len(joined) :]
            if len(terms) > 1:
                x = self.mul(x, x)
        return terms[0]

    # --- representations --------------------------------------------------------------------------

    def bits(self, x: Any) -> Any:
        """The representation of a number as an integer."""
        return self.b.bitcast(x, self.word)

    def from_bits(self, x: Any) -> Any:
        """The number of a representation."""
        return self.b.bitcast(x, self.real)

    def round(self, x: Any, factor: float = 1.0) -> tuple[Any, Any]:
        """The integer nearest to a multiple of x, as float64 and as int64; below 2**51."""
        shift = self.constant(_ROUNDING_SHIFT)
        is_multiple = factor != 1.0
        shifted = self.fma(x, self.constant(factor), shift) if is_multiple else self.add(x, shift)
        return self.sub(shifted, shift), self.b.sub(self.bits(shifted), self.bits(shift))

    def to_real(self, k: Any) -> Any:
        """An int64 of magnitude below 2**51 as float64; AVX2 has no instruction for it."""
        shift = self.constant(_ROUNDING_SHIFT)
        return self.sub(self.from_bits(self.b.add(k, self.bits(shift))), shift)

    def power_of_two(self, k: Any) -> Any:
        """2**k for -1022 <= k <= 1023."""
        return self.from_bits(
            self.b.shl(self.b.add(k, self.integer(_BIAS)), self.integer(_MANTISSA_BITS))
        )

    def scale(self, x: Any, k: Any) -> Any:
        """x 2**k, for results that overflow or are subnormal, rounded once; |k| <= 2000."""
        if self.width % _WIDE == 0 and self.bits_of_number == 64 and has_avx512():
            return self._scale_wide(x, self.to_real(k))
        half = self.b.ashr(k, self.integer(1))
        x = self.mul(x, self.power_of_two(half))
        return self.mul(x, self.power_of_two(self.b.sub(k, half)))

    def _scale_wide(self, x: Any, k: Any) -> Any:
        """x 2**k by the instruction of AVX-512 for it."""
        kind = ir.VectorType(ir.DoubleType(), _WIDE)
        rest = [kind, ir.IntType(8), ir.IntType(32)]
        function = declare(
            self.b.module, "llvm.x86.avx512.mask.scalef.pd.512", kind, [kind, kind, *rest]
        )
        all_lanes, current_rounding = ir.IntType(8)(-1), ir.IntType(32)(4)
        parts = []
        for start in range(0, self.width, _WIDE):
            lanes = range(start, start + _WIDE)
            given = [shuffle(self.b, value, value, lanes) for value in (x, k)]
            unused = ir.Constant(kind, ir.Undefined)
            parts.append(self.b.call(function, [*given, unused, all_lanes, current_rounding]))
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [shuffle(self.b, x, y, range(2 * x.type.count)) for x, y in pairs]
        return parts[0]

    # --- pairs ------------------------------------------------------------------------------------

    def fast_two_sum(self, x: Any, y: Any) -> Pair:
        """x + y exactly, for |x| >= |y|."""
        high = self.add(x, y)
        return Pair(high, self.sub(y, self.sub(high, x)))

    def two_sum(self, x: Any, y: Any) -> Pair:
        """x + y exactly."""
        high = self.add(x, y)
        part = self.sub(high, x)
        return Pair(high, self.add(self.sub(x, self.sub(high, part)), self.sub(y, part)))

    def two_product(self, x: Any, y: Any) -> Pair:
        """x y exactly."""
        high = self.mul(x, y)
        return Pair(high, self.fma(x, y, self.neg(high)))

    def pair(self, x: Pair) -> Pair:
        """A pair of constants in each lane."""
        return Pair(self.constant(x.high), self.constant(x.low))

    def total(self, x: Pair) -> Any:
        """A pair as one number."""
        return self.add(x.high, x.low)

    def pair_scale(self, x: Pair, factor: Any) -> Pair:
        """x times a power of two."""
        return Pair(self.mul(x.high, factor), self.mul(x.low, factor))

    def plus_pair(self, x: Any, y: Pair) -> Pair:
        """x + y for one number and a pair."""
        exact = self.two_sum(x, y.high)
        return Pair(exact.high, self.add(exact.low, y.low))

    def pair_sum(self, x: Pair, y: Pair) -> Pair:
        """x + y; loses relative accuracy where they cancel."""
        high, low = self.two_sum(x.high, y.high)
        return self.fast_two_sum(high, self.add(low, self.add(x.low, y.low)))

    def pair_product(self, x: Pair, y: Pair) -> Pair:
        """x y."""
        high, low = self.two_product(x.high, y.high)
        low = self.fma(x.high, y.low, self.fma(x.low, y.high, low))
        return self.fast_two_sum(high, low)

    def pair_quotient(self, x: Pair, y: Pair) -> Pair:
        """x / y."""
        found = self._divide(x, y)
        return self.fast_two_sum(found.first, self.mul(found.rest, found.inverse))

    def quotient(self, x: Pair, y: Pair) -> Any:
        """x / y as one number."""
        found = self._divide(x, y)
        return self.fma(found.rest, found.inverse, found.first)

    def _divide(self, x: Pair, y: Pair) -> _Division:
        inverse = self.div(self.constant(1.0), y.high)
        first = self.mul(x.high, inverse)
        rest = self.fma(self.neg(first), y.high, x.high)
        rest = self.add(rest, self.fma(self.neg(first), y.low, x.low))
        return _Division(first, rest, inverse)

    def pair_sqrt(self, x: Pair) -> Pair:
        """The square root of x > 0."""
        root = self.sqrt(x.high)
        rest = self.add(self.fma(self.neg(root), root, x.high), x.low)
        return self.fast_two_sum(root, self.div(rest, self.add(root, root)))
