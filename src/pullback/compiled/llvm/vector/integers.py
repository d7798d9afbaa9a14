"""Integers and truth values, as NumPy defines them: wrapping, floored division, x // 0 = 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import number_in_lanes, vector_type

__all__ = ["FUNCTIONS", "TRUTH_FUNCTIONS", "Integers"]


class Integers:
    """A builder of expressions on vectors of integers of one width; truth values have one bit."""

    def __init__(self, builder: Any, width: int, bits: int, is_signed: bool):
        self.b = builder
        self.width = width
        self.bits = bits
        self.is_signed = is_signed
        self.type = vector_type(ir.IntType(bits), width)

    def constant(self, value: int) -> Any:
        """An integer in each lane."""
        return number_in_lanes(self.type, value)

    def compare(self, sign: str, x: Any, y: Any) -> Any:
        """A comparison such as "<"."""
        return (self.b.icmp_signed if self.is_signed else self.b.icmp_unsigned)(sign, x, y)

    def _divide(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Quotient and remainder rounded to zero; by 1 where y is 0 or the quotient overflows."""
        b, zero, one = self.b, self.constant(0), self.constant(1)
        is_unsafe = b.icmp_signed("==", y, zero)
        if self.is_signed:
            is_minus = b.icmp_signed("==", y, self.constant(-1))
            least = self.constant(-(1 << (self.bits - 1)))
            is_unsafe = b.or_(is_unsafe, b.and_(is_minus, b.icmp_signed("==", x, least)))
        y = b.select(is_unsafe, one, y)
        if self.is_signed:
            return b.sdiv(x, y), b.srem(x, y)
        return b.udiv(x, y), b.urem(x, y)

    def _moves(self, rest: Any, y: Any) -> Any:
        """Whether a remainder is not 0 and has another sign than the divisor."""
        b, zero = self.b, self.constant(0)
        differs = b.icmp_signed("<", b.xor(rest, y), zero)
        return b.and_(b.icmp_signed("!=", rest, zero), differs)

    def floor_divide(self, x: Any, y: Any) -> Any:
        """floor(x / y), 0 where y is 0."""
        b, zero = self.b, self.constant(0)
        quotient, rest = self._divide(x, y)
        if self.is_signed:
            lower = b.sub(quotient, self.constant(1))
            quotient = b.select(self._moves(rest, y), lower, quotient)
        return b.select(b.icmp_signed("==", y, zero), zero, quotient)

    def remainder(self, x: Any, y: Any) -> Any:
        """x - y floor(x / y), 0 where y is 0."""
        b, zero = self.b, self.constant(0)
        _, rest = self._divide(x, y)
        if self.is_signed:
            rest = b.select(self._moves(rest, y), b.add(rest, y), rest)
        return b.select(b.icmp_signed("==", y, zero), zero, rest)

    def fmod(self, x: Any, y: Any) -> Any:
        """The remainder with the sign of x, 0 where y is 0."""
        zero = self.constant(0)
        return self.b.select(self.b.icmp_signed("==", y, zero), zero, self._divide(x, y)[1])

    def left_shift(self, x: Any, y: Any) -> Any:
        """x << y, 0 for shifts by all bits or a negative number of them."""
        is_inside = self.b.icmp_unsigned("<", y, self.constant(self.bits))
        safe = self.b.select(is_inside, y, self.constant(0))
        return self.b.select(is_inside, self.b.shl(x, safe), self.constant(0))

    def right_shift(self, x: Any, y: Any) -> Any:
        """x >> y, 0 or -1 for shifts by all bits or a negative number of them."""
        is_inside = self.b.icmp_unsigned("<", y, self.constant(self.bits))
        if self.is_signed:
            return self.b.ashr(x, self.b.select(is_inside, y, self.constant(self.bits - 1)))
        safe = self.b.select(is_inside, y, self.constant(0))
        return self.b.select(is_inside, self.b.lshr(x, safe), self.constant(0))

    def abs(self, x: Any) -> Any:
        """|x|; the least integer stays."""
        return self.b.select(self.compare("<", x, self.constant(0)), self.b.neg(x), x)

    def sign(self, x: Any) -> Any:
        """-1, 0 or 1."""
        zero, one = self.constant(0), self.constant(1)
        positive = self.b.select(self.b.icmp_signed("==", x, zero), zero, one)
        if not self.is_signed:
            return positive
        return self.b.select(self.compare("<", x, zero), self.constant(-1), positive)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absolute": Integers.abs,
    "add": lambda e, x, y: e.b.add(x, y),
    "bitwise_and": lambda e, x, y: e.b.and_(x, y),
    "bitwise_or": lambda e, x, y: e.b.or_(x, y),
    "bitwise_xor": lambda e, x, y: e.b.xor(x, y),
    "floor_divide": Integers.floor_divide,
    "fmod": Integers.fmod,
    "invert": lambda e, x: e.b.not_(x),
    "left_shift": Integers.left_shift,
    "maximum": lambda e, x, y: e.b.select(e.compare(">=", x, y), x, y),
    "minimum": lambda e, x, y: e.b.select(e.compare("<=", x, y), x, y),
    "multiply": lambda e, x, y: e.b.mul(x, y),
    "negative": lambda e, x: e.b.neg(x),
    "remainder": Integers.remainder,
    "right_shift": Integers.right_shift,
    "sign": Integers.sign,
    "square": lambda e, x: e.b.mul(x, x),
    "subtract": lambda e, x, y: e.b.sub(x, y),
}
"""Functions of integers by NumPy's names."""
TRUTH_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absolute": lambda e, x: e.b.and_(x, x),
    "add": lambda e, x, y: e.b.or_(x, y),
    "multiply": lambda e, x, y: e.b.and_(x, y),
    "maximum": lambda e, x, y: e.b.or_(x, y),
    "minimum": lambda e, x, y: e.b.and_(x, y),
    "square": lambda e, x: e.b.and_(x, x),
}
"""Functions of truth values, beside those of bits; the logical ones are in elements.py."""
