"""Anomaly mode, ``why_no_grad`` and the printed form of tensors inside transforms."""

from __future__ import annotations

__all__: list[str] = []
