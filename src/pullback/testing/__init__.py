"""Checks of operators under the names of ``torch.testing``, for operator authors."""

from __future__ import annotations

__all__: list[str] = []
