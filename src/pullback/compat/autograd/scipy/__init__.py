"""``autograd.scipy``: SciPy's functions with derivatives. SciPy is loaded when one is called."""

from __future__ import annotations

from pullback.compat.autograd.scipy import linalg, signal, special, stats

__all__ = ["linalg", "signal", "special", "stats"]
