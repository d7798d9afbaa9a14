"""Formulas of element-wise operators.

Arguments are arrays or tensors, as the namespace has it, or Python numbers. A value that would be
divided by zero, or be an argument outside a domain, is replaced before the division and not after:
a mask after it would let NaN into the second derivative.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NoReturn

import numpy as np

from pullback.errors import DerivativeMissingError
from pullback.operators.pointwise.kernels_logaddexp import logaddexp_grads
from pullback.tensor.tensor import Tensor

__all__ = [
    "angle_jvp",
    "angle_vjp",
    "by_exponent",
    "clamped",
    "conj",
    "conj_slope_of_base",
    "logaddexp_vjp",
    "not_implemented",
    "real_part",
    "share",
    "slope_of_base",
    "slope_of_exponent",
    "slope_of_sinc",
    "squared_radius",
    "stop_infinite",
    "turned",
    "where_finite",
    "whole_part",
    "zero_gradient",
]

# (-1)^k 2k / (2k + 1)!: the derivative of sin(x)/x as a power series, for k from 1.
_SINC_SERIES = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 8)]


def not_implemented(xp: Any, name: str) -> NoReturn:  # noqa: ARG001 - the interface of formulas
    """Refuses the backward pass through an operator that has no derivative."""
    raise DerivativeMissingError(
        f"the derivative for {name!r} is not implemented; detach() its input if no gradient is to "
        f"flow through it"
    )


def conj(xp: Any, x: Any) -> Any:
    """The complex conjugate; what is real is returned as it is, without a copy or a record."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:  # a Python number
        return x.conjugate()
    return xp.conjugate(x) if dtype.kind == "c" else x


def logaddexp_vjp(xp: Any, grad: Any, x: Any, y: Any, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
    """The gradients of log(exp(x) + exp(y)): each argument has its share of the sum."""
    if not isinstance(grad, Tensor):
        found = logaddexp_grads(grad, x, y, wanted)
        if found is not None:
            return found
    return (
        grad * xp.sigmoid(x - y) if wanted[0] else None,
        grad * xp.sigmoid(y - x) if wanted[1] else None,
    )


def real_part(xp: Any, x: Any) -> Any:
    """The real part; what is real is returned as it is, without a record."""
    return xp.real(x) if x.dtype.kind == "c" else x


def zero_gradient(xp: Any, grad: Any) -> Any:
    """A gradient of zeros, which is no part of a graph."""
    return xp.zeros_like(grad)


def whole_part(xp: Any, self: Any, other: Any, result: Any) -> Any:
    """The integer quotient ``(self - result) / other`` of a remainder."""
    return xp.rint((self - result) / other)


def share(xp: Any, grad: Any, self: Any, other: Any, wins: Any) -> Any:
    """The gradient where `self` wins over `other` or is NaN, half of it where they are equal."""
    return xp.where(self == other, grad / 2, xp.where(wins | (self != self), grad, 0))


def clamped(xp: Any, self: Any, low: Any, high: Any, inside: Any, below: Any, above: Any) -> Any:
    """One of three gradients: `inside` the bounds or on them, `below`, or `above`; 0 for None.

    If the bounds are the wrong way round the upper one is the result, and everything is above.
    """
    parts = []
    if inside is not None:
        for bound, holds in ((low, operator.ge), (high, operator.le)):
            if bound is not None:
                inside = xp.where(holds(self, bound), inside, 0)
        parts.append(inside)
    if below is not None:
        is_below = self < low if high is None else (self < low) & (low <= high)
        parts.append(xp.where(is_below, below, 0))
    if above is not None:
        is_above = self > high if low is None else (self > high) | (high < low)
        parts.append(xp.where(is_above, above, 0))
    return functools.reduce(operator.add, parts)


def where_finite(xp: Any, self: Any, grad: Any) -> Any:
    """The gradient where the element is finite; real and imaginary parts each for themselves."""
    if self.dtype.kind != "c":
        return xp.where(xp.isfinite(self), grad, 0)
    parts = [xp.where(xp.isfinite(part(self)), part(grad), 0) for part in (xp.real, xp.imag)]
    return xp.complex(*parts)


def turned(xp: Any, grad: Any, self: Any, result: Any) -> Any:
    """The tangent of the direction z/|z|: the part of `grad` across it; 0 for real numbers."""
    if self.dtype.kind != "c":
        return zero_gradient(xp, grad)
    along = result * xp.real(grad * conj(xp, result))
    size = xp.abs(self)
    nowhere = size == 0
    return xp.where(nowhere, 0, grad - along) / xp.where(nowhere, 1, size)


def angle_vjp(xp: Any, grad: Any, self: Any, deg: bool) -> Any:
    """The gradient of the angle of a complex number, at a right angle to it; 0 for real ones."""
    if self.dtype.kind != "c":
        return xp.zeros_like(self)
    return grad * _slope_of_angle(xp, self, deg)


def angle_jvp(xp: Any, tangent: Any, self: Any, deg: bool) -> Any:
    """The tangent of the angle of a complex number; 0 for real ones."""
    if self.dtype.kind != "c":
        return xp.zeros_like(tangent)
    return xp.real(conj(xp, tangent) * _slope_of_angle(xp, self, deg))


def _slope_of_angle(xp: Any, self: Any, deg: bool) -> Any:
    size = xp.real(self * xp.conjugate(self))
    return self * (180j / math.pi if deg else 1j) / xp.where(size == 0, 1, size)


def squared_radius(xp: Any, self: Any, other: Any) -> Any:
    """The squared distance from the origin, 1 at the origin itself."""
    square = self * self + other * other
    return xp.where(square == 0, 1, square)


def stop_infinite(xp: Any, change: Any, factor: Any) -> Any:
    """A gradient or tangent, with 0 in place of infinity and NaN where `factor` is 0.

    The slope that it is multiplied with is 0 there, and the product would be NaN. Finite values
    stay, because the product has derivatives in `factor`.
    """
    value = factor._array if isinstance(factor, Tensor) else factor
    if type(value) is np.ndarray:
        if np.count_nonzero(value) == value.size:
            return change
    elif isinstance(value, int | float | complex) and value:
        return change
    return xp.where((factor == 0) & ~xp.isfinite(change), 0, change)


def slope_of_base(xp: Any, self: Any, other: Any) -> Any:
    """The derivative of a power in its base: 0 for the exponent 0, whatever the base is."""
    number = _number(other)
    if type(self) is np.ndarray and not self.ndim:
        self = self[()]  # numbers are computed with several times as fast
    if number == 2:
        return self + self  # the square of something: half of all powers
    if number is not None:
        return xp.zeros((), self.dtype) if number == 0 else number * self ** (number - 1)
    undefined = (other == 0) & ((self == 0) | (self != self))
    return other * self ** (xp.where(undefined, 1, other) - 1)


def conj_slope_of_base(xp: Any, self: Any, other: Any) -> Any:
    """The conjugate of ``slope_of_base``; ``conj`` skips real numbers, which is faster."""
    return conj(xp, slope_of_base(xp, self, other))


def _number(x: Any) -> Any:
    """A Python number that stands for a tensor, or None."""
    value = x._array if isinstance(x, Tensor) else x
    return value if isinstance(value, int | float | complex) else None


def slope_of_exponent(xp: Any, self: Any, other: Any, result: Any) -> Any:
    """The derivative of a power in its exponent: 0 for the base 0, unless the power is infinite."""
    vanishes = (self == 0) & (xp.real(other) >= 0)
    base = xp.where(vanishes, 1, self)
    if result.dtype.kind == "c" and base.dtype.kind != "c":
        base = xp.astype(base, result.dtype)
    return result * xp.log(base)


def by_exponent(xp: Any, change: Any, base: Any, exponent: Any, result: Any) -> Any:
    """The tangent of a power from that of its exponent.

    The power of a negative number has no slope there, and none is needed where the exponent stays.
    """
    is_complex = base.dtype.kind == "c" if hasattr(base, "dtype") else isinstance(base, complex)
    if not is_complex:
        base = xp.where((change == 0) & (base < 0), 1, base)
    return change * slope_of_exponent(xp, base, exponent, result)


def slope_of_sinc(xp: Any, self: Any) -> Any:
    """The derivative of sin(pi x) / (pi x), by a power series near 0."""
    x = self * math.pi
    is_near = xp.abs(x) < 0.5
    far, near = xp.where(is_near, 1, x), xp.where(is_near, x, 0)
    square = near * near
    series = _SINC_SERIES[-1]
    for coefficient in _SINC_SERIES[-2::-1]:
        series = series * square + coefficient
    exact = (xp.cos(far) - xp.sin(far) / far) / far
    return math.pi * xp.where(is_near, series * near, exact)
