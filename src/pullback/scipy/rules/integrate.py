"""Derivative rules of ``scipy.integrate``."""

from __future__ import annotations

from pullback.scipy.rules import integrate_ivp

__all__ = ["integrate_ivp"]
