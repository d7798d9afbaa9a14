"""Formulas of special functions."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["logit_vjp", "slope_of_erf", "slope_of_i1"]


def slope_of_erf(xp: Any, x: Any) -> Any:
    """The derivative of the error function, a bell curve."""
    return 2 / math.sqrt(math.pi) * xp.exp(-x * x)


def logit_vjp(xp: Any, grad: Any, self: Any, eps: float | None) -> Any:
    """The gradient of log(x / (1 - x)), 0 where x is moved to a bound."""
    if eps is None:
        return grad / (self * (1 - self))
    is_inside = (self >= eps) & (self <= 1 - eps)
    inside = xp.where(is_inside, self, 0.5)
    return xp.where(is_inside, grad / (inside * (1 - inside)), 0)


def slope_of_i1(xp: Any, self: Any, result: Any) -> Any:
    """The derivative of the Bessel function of order 1, which is 1/2 at 0."""
    is_zero = self == 0
    quotient = result / xp.where(is_zero, 1, self)
    return xp.i0(self) - xp.where(is_zero, 0.5, quotient)
