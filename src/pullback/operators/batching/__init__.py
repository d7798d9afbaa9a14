"""Operators that add, remove and expand the batch dimensions of vmap."""

from __future__ import annotations

__all__: list[str] = []
