"""Recording: how calls of operators become nodes."""

from __future__ import annotations

__all__: list[str] = []
