"""SciPy's special functions, loaded on demand."""

from __future__ import annotations

__all__: list[str] = []
