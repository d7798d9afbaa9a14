"""Tangents of gradients from one forward run: Hessians and Hessian products."""

from __future__ import annotations

__all__: list[str] = []
