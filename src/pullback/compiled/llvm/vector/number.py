"""``Number``: an LLVM value in a formula, with Python's operators.

The functions of this folder are written as formulas: ``high = x + y; low = y - (high - x)``. Each
operator writes one LLVM instruction, in the order in which Python evaluates the formula.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.llvm.instructions import number_in_lanes

__all__ = ["Formulas", "Number"]


class Formulas:
    """Operands of formulas of one width and type, and the builder of their instructions.

    Attributes:
        b: the builder of LLVM's instructions, placed where they belong.
        real, word: the types of a floating-point number and of an integer in each lane.
        is_signed: whether integers are compared, and shifted to the right, with their sign.
    """

    def __init__(self, builder: Any, real: Any, word: Any, is_signed: bool):
        self.b = builder
        self.real = real
        self.word = word
        self.is_signed = is_signed

    def number(self, value: Any) -> Number:
        """An LLVM value as an operand."""
        return Number(self, value)

    def value(self, x: Any) -> Any:
        """The LLVM value of an operand; of a Python number, the constant in each lane."""
        if isinstance(x, int | float):
            return number_in_lanes(self.real if isinstance(x, float) else self.word, x)
        return x.value if isinstance(x, Number) else x

    def where(self, condition: Any, x: Any, y: Any) -> Number:
        """x where the condition holds, y elsewhere."""
        return Number(self, self.b.select(condition.value, self.value(x), self.value(y)))

    def abs(self, x: Any) -> Number:
        """|x|; the least integer stays."""
        return self.where(x < 0, -x, x)


def _operator(real: str, integer: str, *, is_reflected: bool = False) -> Any:
    """A method for an operator, by the builder's methods for floating-point numbers and others."""

    def method(self: Number, other: Any) -> Number:
        write = getattr(self.e.b, real if self.is_real else integer)
        x, y = self.value, self.e.value(other)
        return Number(self.e, write(y, x) if is_reflected else write(x, y))

    return method


def _comparison(sign: str) -> Any:
    """A method for a comparison, which is false for NaN; but ``!=`` is true."""

    def method(self: Number, other: Any) -> Number:
        b = self.e.b
        compare = b.icmp_signed if self.e.is_signed else b.icmp_unsigned
        if self.is_real:
            compare = b.fcmp_unordered if sign == "!=" else b.fcmp_ordered
        return Number(self.e, compare(sign, self.value, self.e.value(other)))

    return method


class Number:
    """A floating-point number, an integer or a truth value in each lane.

    Operands of operators are other ``Number`` objects, and Python's numbers, which are constants:
    a float a floating-point number, an int an integer.
    """

    __slots__ = ("e", "value")

    def __init__(self, e: Formulas, value: Any):
        self.e = e
        self.value = value

    @property
    def is_real(self) -> bool:
        """Whether it is a floating-point number."""
        return bool(self.value.type == self.e.real)

    __add__, __radd__ = _operator("fadd", "add"), _operator("fadd", "add", is_reflected=True)
    __sub__, __rsub__ = _operator("fsub", "sub"), _operator("fsub", "sub", is_reflected=True)
    __mul__, __rmul__ = _operator("fmul", "mul"), _operator("fmul", "mul", is_reflected=True)
    __truediv__, __rtruediv__ = _operator("fdiv", ""), _operator("fdiv", "", is_reflected=True)
    __floordiv__ = _operator("", "udiv")  # of integers that are not negative
    __and__, __or__, __xor__ = _operator("", "and_"), _operator("", "or_"), _operator("", "xor")
    __lshift__ = _operator("", "shl")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __hash__ = None  # type: ignore[assignment]

    def __rshift__(self, bits: Any) -> Number:
        b = self.e.b
        shift = b.ashr if self.e.is_signed else b.lshr
        return Number(self.e, shift(self.value, self.e.value(bits)))

    def __neg__(self) -> Number:
        b = self.e.b
        return Number(self.e, (b.fneg if self.is_real else b.neg)(self.value))

    def __invert__(self) -> Number:
        return Number(self.e, self.e.b.not_(self.value))

    def __abs__(self) -> Number:
        return self.e.abs(self)
