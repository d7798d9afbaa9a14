"""Linear layers, embeddings, dropout, attention."""

from __future__ import annotations

__all__: list[str] = []
