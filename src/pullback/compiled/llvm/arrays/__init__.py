"""The emitter for large arrays: fused loops over memory, in chunks that threads share."""

from __future__ import annotations

from pullback.compiled.llvm.arrays.emitter import Emitted, can_emit, emit_arrays

__all__ = ["Emitted", "can_emit", "emit_arrays"]
