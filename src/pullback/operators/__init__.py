"""Operators by family: table, kernels, shapes, batching rules, formulas and functions of each."""

from __future__ import annotations

__all__: list[str] = []
