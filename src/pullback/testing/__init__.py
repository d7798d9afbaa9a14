"""Checks that operators and their derivatives are right; for our tests and operator authors."""

from __future__ import annotations

__all__: list[str] = []
