"""The emitter of groups of nodes on large values."""

from __future__ import annotations

from pullback.compiled.registers import EmitGroup

__all__ = ["EMIT_GROUP"]

EMIT_GROUP: EmitGroup | None = None
