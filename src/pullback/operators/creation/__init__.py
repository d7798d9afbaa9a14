"""Creation of tensors: constants, ranges, matrices."""

from __future__ import annotations

__all__: list[str] = []
