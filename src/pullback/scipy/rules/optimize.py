"""Derivative rules of ``scipy.optimize``."""

from __future__ import annotations

from pullback.scipy.rules import optimize_fits, optimize_minima, optimize_roots

__all__ = ["optimize_fits", "optimize_minima", "optimize_roots"]
