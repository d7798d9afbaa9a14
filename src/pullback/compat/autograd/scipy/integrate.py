"""``autograd.scipy.integrate``: ``odeint``, by its derivative rule."""

from __future__ import annotations

from pullback.compat.autograd.scipy.lazy import scipy_function

__all__ = ["odeint"]

odeint = scipy_function("integrate", "odeint")
