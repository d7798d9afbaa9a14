"""Sorting, searching, counting and sets."""

from __future__ import annotations

__all__: list[str] = []
