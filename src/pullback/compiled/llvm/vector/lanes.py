"""Formulas on vectors of floating-point numbers of any width, written as LLVM instructions.

A number that needs more than the 53 bits of a float64 is a `Pair`: an unevaluated sum of two, the
second at most half a unit in the last place of the first (double-double arithmetic, after Dekker
and Knuth).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.compiled.llvm.compiler import has_avx512, ir
from pullback.compiled.llvm.instructions import declare, join_vectors, shuffle, vector_type
from pullback.compiled.llvm.vector.number import Formulas, Number

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


class Lanes(Formulas):
    """Formulas of floating-point numbers.

    Attributes:
        width: the number of lanes.
        truth: the type of a bool in each lane.

    Numbers have 64 bits; arithmetic, comparison and rounding are right for 32 bits as well.
    """

    def __init__(self, builder: Any, width: int, bits: int = 64):
        real = vector_type(ir.DoubleType() if bits == 64 else ir.FloatType(), width)
        super().__init__(builder, real, vector_type(ir.IntType(bits), width), is_signed=True)
        self.width = width
        self.bits_of_number = bits
        self.truth = vector_type(ir.IntType(1), width)

    # --- calls ------------------------------------------------------------------------------------

    def intrinsic(self, name: str, *args: Any) -> Number:
        """The result of an intrinsic function whose type is that of its arguments."""
        lanes = f"v{self.width}" if self.width > 1 else ""
        full = f"llvm.{name}.{lanes}f{self.bits_of_number}"
        given = [self.value(x) for x in args]
        function = declare(self.b.module, full, self.real, [self.real] * len(given))
        return Number(self, self.b.call(function, given))

    def library_where(self, condition: Any, name: str, args: Sequence[Any], value: Any) -> Number:
        """`value`, and in the lanes where `condition` holds the result of a function of libm.

        Branches: the function is called only if the condition holds somewhere.
        """
        b = self.b
        somewhere = condition.value
        if self.width > 1:
            reduce = f"llvm.vector.reduce.or.v{self.width}i1"
            function = declare(self.b.module, reduce, ir.IntType(1), [self.truth])
            somewhere = b.call(function, [somewhere])
        start = b.block
        slow, end = b.append_basic_block("slow"), b.append_basic_block("end")
        b.cbranch(somewhere, slow, end)
        b.position_at_end(slow)
        given = [x.value for x in args]
        result = self._library_lanes(condition.value, name, given, value.value)
        last = b.block
        b.branch(end)
        b.position_at_end(end)
        merged = b.phi(self.real)
        merged.add_incoming(value.value, start)
        merged.add_incoming(result, last)
        return Number(self, merged)

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

    # --- elementary functions ---------------------------------------------------------------------

    def fma(self, x: Any, y: Any, z: Any) -> Number:
        """x y + z, rounded once."""
        return self.intrinsic("fma", x, y, z)

    def sqrt(self, x: Any) -> Number:
        """The square root."""
        return self.intrinsic("sqrt", x)

    def abs(self, x: Any) -> Number:
        """|x|."""
        return self.intrinsic("fabs", x)

    def copysign(self, x: Any, sign: Any) -> Number:
        """|x| with the sign of another value."""
        return self.intrinsic("copysign", x, sign)

    def unordered(self, sign: str, x: Any, y: Any) -> Number:
        """A comparison such as "<", which is true for NaN."""
        return Number(self, self.b.fcmp_unordered(sign, self.value(x), self.value(y)))

    def is_nan(self, x: Any, y: Any = None) -> Number:
        """Whether x or y is NaN."""
        return self.unordered("uno", x, x if y is None else y)

    def at_most(self, x: Any, bound: float) -> Number:
        """The smaller of x and a number; NaN stays."""
        return self.where(x > bound, bound, x)

    def at_least(self, x: Any, bound: float) -> Number:
        """The larger of x and a number; NaN stays."""
        return self.where(x < bound, bound, x)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """A polynomial, the constant first, by Estrin's scheme: a short chain of dependencies."""
        terms: list[Any] = list(coefficients)
        while len(terms) > 1:
            joined = [
                self.fma(high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)
            ]
            terms = joined + terms[2 * len(joined) :]
            if len(terms) > 1:
                x = x * x
        return terms[0]

    # --- representations --------------------------------------------------------------------------

    def bits(self, x: Any) -> Number:
        """The representation of a number as an integer."""
        return Number(self, self.b.bitcast(self.value(x), self.word))

    def from_bits(self, x: Any) -> Number:
        """The number of a representation."""
        return Number(self, self.b.bitcast(x.value, self.real))

    def round(self, x: Any, factor: float = 1.0) -> tuple[Any, Any]:
        """The integer nearest to a multiple of x, as float64 and as int64; below 2**51."""
        shift = _ROUNDING_SHIFT
        shifted = self.fma(x, factor, shift) if factor != 1.0 else x + shift
        return shifted - shift, self.bits(shifted) - self.bits(shift)

    def to_real(self, k: Any) -> Any:
        """An int64 of magnitude below 2**51 as float64; AVX2 has no instruction for it."""
        return self.from_bits(k + self.bits(_ROUNDING_SHIFT)) - _ROUNDING_SHIFT

    def power_of_two(self, k: Any) -> Any:
        """2**k for -1022 <= k <= 1023."""
        return self.from_bits((k + _BIAS) << _MANTISSA_BITS)

    def scale(self, x: Any, k: Any) -> Any:
        """x 2**k, for results that overflow or are subnormal, rounded once; |k| <= 2000."""
        if self.width % _WIDE == 0 and self.bits_of_number == 64 and has_avx512():
            return Number(self, self._scale_wide(x.value, self.to_real(k).value))
        half = k >> 1
        return x * self.power_of_two(half) * self.power_of_two(k - half)

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
        return join_vectors(self.b, parts)

    # --- pairs ------------------------------------------------------------------------------------

    def fast_two_sum(self, x: Any, y: Any) -> Pair:
        """x + y exactly, for |x| >= |y|."""
        high = x + y
        return Pair(high, y - (high - x))

    def two_sum(self, x: Any, y: Any) -> Pair:
        """x + y exactly."""
        high = x + y
        part = high - x
        return Pair(high, (x - (high - part)) + (y - part))

    def two_product(self, x: Any, y: Any) -> Pair:
        """x y exactly."""
        high = x * y
        return Pair(high, self.fma(x, y, -high))

    def total(self, x: Pair) -> Any:
        """A pair as one number."""
        return x.high + x.low

    def pair_scale(self, x: Pair, factor: Any) -> Pair:
        """x times a power of two."""
        return Pair(x.high * factor, x.low * factor)

    def plus_pair(self, x: Any, y: Pair) -> Pair:
        """x + y for one number and a pair."""
        exact = self.two_sum(x, y.high)
        return Pair(exact.high, exact.low + y.low)

    def pair_sum(self, x: Pair, y: Pair) -> Pair:
        """x + y; loses relative accuracy where they cancel."""
        high, low = self.two_sum(x.high, y.high)
        return self.fast_two_sum(high, low + (x.low + y.low))

    def pair_product(self, x: Pair, y: Pair) -> Pair:
        """x y."""
        high, low = self.two_product(x.high, y.high)
        low = self.fma(x.high, y.low, self.fma(x.low, y.high, low))
        return self.fast_two_sum(high, low)

    def pair_quotient(self, x: Pair, y: Pair) -> Pair:
        """x / y."""
        found = self._divide(x, y)
        return self.fast_two_sum(found.first, found.rest * found.inverse)

    def quotient(self, x: Pair, y: Pair) -> Any:
        """x / y as one number."""
        found = self._divide(x, y)
        return self.fma(found.rest, found.inverse, found.first)

    def _divide(self, x: Pair, y: Pair) -> _Division:
        inverse = 1.0 / y.high
        first = x.high * inverse
        rest = self.fma(-first, y.high, x.high)
        rest = rest + self.fma(-first, y.low, x.low)
        return _Division(first, rest, inverse)

    def pair_sqrt(self, x: Pair) -> Pair:
        """The square root of x > 0."""
        root = self.sqrt(x.high)
        rest = self.fma(-root, root, x.high) + x.low
        return self.fast_two_sum(root, rest / (root + root))
