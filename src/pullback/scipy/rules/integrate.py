"""Derivative rules of ``scipy.integrate``."""

from __future__ import annotations

from pullback.scipy.rules import (
    integrate_bvp,
    integrate_ivp,
    integrate_quad,
    integrate_samples,
)

__all__ = ["integrate_bvp", "integrate_ivp", "integrate_quad", "integrate_samples"]
