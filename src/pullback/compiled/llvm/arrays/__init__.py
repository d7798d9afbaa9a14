"""The emitter for large arrays: fused loops over memory, in chunks that threads share.

A graph without loops and opaque calls goes in, an LLVM function with a pointer for each input and
output comes out.
``columns.py`` turns programs on many short rows into programs on columns; ``plan.py`` groups nodes
into kernels; ``nest.py`` writes the loops of a kernel of element-wise functions and reductions
(``reductions.py``), ``gemm.py`` and ``products.py`` those of a matrix product, all by ``code.py``;
``emitter.py`` gives values their memory, and ``threads.py`` runs the kernels one after the other,
or in several threads.
"""

from __future__ import annotations

from pullback.compiled.llvm.arrays.emitter import can_emit, emit_arrays
from pullback.compiled.llvm.arrays.products import find_blas
from pullback.compiled.llvm.arrays.threads import register_share_chunks

__all__ = ["can_emit", "emit_arrays", "find_blas", "register_share_chunks"]
