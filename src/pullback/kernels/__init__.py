"""Shared parts of kernels: broadcasting, threads, memory layout, NumPy's error state.

Arrays in, arrays out: these modules import NumPy and the errors only. The kernels of a family of
operators are in ``pullback/operators/<family>/kernels.py``.
"""

from __future__ import annotations

import os as _os

__all__: list[str] = []

if _os.environ.get("PULLBACK_ALLOCATOR_TUNING", "") not in ("", "0"):
    from pullback.kernels.malloc_tuning import set_allocator_tuning as _set_allocator_tuning

    _set_allocator_tuning(True)
