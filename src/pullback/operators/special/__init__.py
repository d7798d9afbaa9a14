"""Special functions that do not need SciPy."""

from __future__ import annotations

__all__: list[str] = []
