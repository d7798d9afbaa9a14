"""Neural networks: their functions, and later their modules."""

from __future__ import annotations

from pullback.nn import functional

__all__ = ["functional"]
