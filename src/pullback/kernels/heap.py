"""Lets the C library keep the memory of freed arrays, instead of asking the system for it again.

glibc returns blocks above a threshold to the system as soon as they are freed. The threshold is
128 kB in a new process, so that every array of a megabyte costs 250 page faults, which is several
times what multiplying it costs. It rises when a larger block is freed, up to 32 MB, and memory that
is free at the end of the heap is then kept up to twice as much. One such block is allocated and
freed here, when the kernels are imported; nothing is written to it, so it costs no memory. Other
C libraries do nothing of the kind, and thresholds that the user has set (``MALLOC_TRIM_THRESHOLD_``
and its like) stay as they are.
"""

from __future__ import annotations

import numpy as np

__all__ = ["KEPT", "keep_freed_memory"]

KEPT = (32 << 20) - (1 << 16)  # bytes: just below the largest threshold that glibc chooses itself


def keep_freed_memory() -> None:
    """Raises the thresholds of glibc to their largest.

    >>> keep_freed_memory()
    """
    np.empty(KEPT, np.uint8)


keep_freed_memory()
