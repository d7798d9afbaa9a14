"""Integers and truth values, as NumPy defines them: wrapping, floored division, x // 0 = 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import vector_type
from pullback.compiled.llvm.vector.number import Formulas, Number

__all__ = ["FUNCTIONS", "TRUTH_FUNCTIONS", "Integers"]


class Integers(Formulas):
    """Formulas of integers of one size; truth values have one bit."""

    def __init__(self, builder: Any, width: int, bits: int, is_signed: bool):
        super().__init__(builder, None, vector_type(ir.IntType(bits), width), is_signed)
        self.bits = bits

    def _divide(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Quotient and remainder rounded to zero; by 1 where y is 0 or the quotient overflows."""
        b = self.b
        is_unsafe = y == 0
        if self.is_signed:
            least = -(1 << (self.bits - 1))
            is_unsafe = is_unsafe | ((y == -1) & (x == least))
        y = self.where(is_unsafe, 1, y)
        quotient, rest = (b.sdiv, b.srem) if self.is_signed else (b.udiv, b.urem)
        return Number(self, quotient(x.value, y.value)), Number(self, rest(x.value, y.value))

    def _moves(self, rest: Any, y: Any) -> Any:
        """Whether a remainder is not 0 and has another sign than the divisor."""
        differs = (rest ^ y) < 0
        return (rest != 0) & differs

    def floor_divide(self, x: Any, y: Any) -> Any:
        """floor(x / y), 0 where y is 0."""
        quotient, rest = self._divide(x, y)
        if self.is_signed:
            lower = quotient - 1
            quotient = self.where(self._moves(rest, y), lower, quotient)
        return self.where(y == 0, 0, quotient)

    def remainder(self, x: Any, y: Any) -> Any:
        """x - y floor(x / y), 0 where y is 0."""
        _, rest = self._divide(x, y)
        if self.is_signed:
            rest = self.where(self._moves(rest, y), rest + y, rest)
        return self.where(y == 0, 0, rest)

    def fmod(self, x: Any, y: Any) -> Any:
        """The remainder with the sign of x, 0 where y is 0."""
        return self.where(y == 0, 0, self._divide(x, y)[1])

    def _is_inside(self, y: Any) -> Any:
        """Whether a shift is by fewer than all bits; negative ones are large without a sign."""
        return Number(self, self.b.icmp_unsigned("<", y.value, self.value(self.bits)))

    def left_shift(self, x: Any, y: Any) -> Any:
        """x << y, 0 for shifts by all bits or a negative number of them."""
        is_inside = self._is_inside(y)
        return self.where(is_inside, x << self.where(is_inside, y, 0), 0)

    def right_shift(self, x: Any, y: Any) -> Any:
        """x >> y, 0 or -1 for shifts by all bits or a negative number of them."""
        is_inside = self._is_inside(y)
        if self.is_signed:
            return x >> self.where(is_inside, y, self.bits - 1)
        return self.where(is_inside, x >> self.where(is_inside, y, 0), 0)

    def sign(self, x: Any) -> Any:
        """-1, 0 or 1."""
        positive = self.where(x == 0, 0, 1)
        return self.where(x < 0, -1, positive) if self.is_signed else positive


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absolute": Integers.abs,
    "add": lambda _, x, y: x + y,
    "bitwise_and": lambda _, x, y: x & y,
    "bitwise_or": lambda _, x, y: x | y,
    "bitwise_xor": lambda _, x, y: x ^ y,
    "floor_divide": Integers.floor_divide,
    "fmod": Integers.fmod,
    "invert": lambda _, x: ~x,
    "left_shift": Integers.left_shift,
    "maximum": lambda e, x, y: e.where(x >= y, x, y),
    "minimum": lambda e, x, y: e.where(x <= y, x, y),
    "multiply": lambda _, x, y: x * y,
    "negative": lambda _, x: -x,
    "remainder": Integers.remainder,
    "right_shift": Integers.right_shift,
    "sign": Integers.sign,
    "square": lambda _, x: x * x,
    "subtract": lambda _, x, y: x - y,
}
"""Functions of integers by NumPy's names."""
_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")
TRUTH_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: FUNCTIONS[name] for name in _BITWISE},
    "absolute": lambda _, x: x & x,
    "add": lambda _, x, y: x | y,
    "multiply": lambda _, x, y: x & y,
    "maximum": lambda _, x, y: x | y,
    "minimum": lambda _, x, y: x & y,
    "square": lambda _, x: x & x,
}
"""Functions of truth values; the logical ones are in elements.py."""
