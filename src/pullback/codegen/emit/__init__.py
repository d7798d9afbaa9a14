"""Writes the Python source of operators from their tables."""

from __future__ import annotations

from pullback.codegen.emit.files import generate

__all__ = ["generate"]
