"""Matrix products, einsum, convolutions of sequences."""

from __future__ import annotations

__all__: list[str] = []
