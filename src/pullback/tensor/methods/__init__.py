"""Methods of tensors that no table entry makes: operators, indexing, shapes, creation, devices."""

from __future__ import annotations

__all__: list[str] = []
