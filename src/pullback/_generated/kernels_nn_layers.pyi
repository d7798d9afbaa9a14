"""Kernels are called through tables, with arguments checked there."""

from __future__ import annotations

from typing import Any

def __getattr__(name: str) -> Any: ...
