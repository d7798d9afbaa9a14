"""Operators made of other operators: special."""

from __future__ import annotations

__all__: list[str] = []
