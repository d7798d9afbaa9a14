"""Derivative rules, one module for each subpackage of SciPy, loaded at the first tensor."""

from __future__ import annotations

__all__: list[str] = []
