"""``autograd.scipy``: SciPy's functions with derivatives. SciPy is loaded when one is called."""

from __future__ import annotations

from pullback.compat.autograd.scipy import integrate, linalg, signal, special, stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
