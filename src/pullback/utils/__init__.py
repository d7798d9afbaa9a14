"""Helpers of the library that are useful by themselves.

This file imports nothing: its modules belong to different layers, and low ones use ``pytree``.
"""

from __future__ import annotations

__all__: list[str] = []
