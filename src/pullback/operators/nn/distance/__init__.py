"""Norms of vectors and distances between them."""

from __future__ import annotations

__all__: list[str] = []
