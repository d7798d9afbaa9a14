"""The emitter for large arrays: fused loops over memory, in chunks that threads share."""

from __future__ import annotations

from pullback.compiled.llvm.arrays.emitter import Emitted, can_emit, emit_arrays
from pullback.compiled.llvm.arrays.products import find_blas
from pullback.compiled.llvm.arrays.threads import register_share_chunks

__all__ = ["Emitted", "can_emit", "emit_arrays", "find_blas", "register_share_chunks"]
