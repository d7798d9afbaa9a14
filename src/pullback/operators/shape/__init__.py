"""Shapes, views, joining and splitting."""

from __future__ import annotations

__all__: list[str] = []
