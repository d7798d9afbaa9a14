"""What depends on the installed NumPy and on the C library.

`NUMPY` is the version of NumPy, for the few places where versions differ: ``NUMPY < (2, 1)``. A
comment beside each comparison names the difference, so that it can be removed when the lowest
supported version is raised.

`keep_freed_memory` makes glibc reuse the memory of freed arrays, instead of returning it to the
system. glibc returns blocks above a threshold as soon as they are freed. The threshold is 128 kB in
a new process, so that every array of a megabyte costs 250 page faults, which is several times what
multiplying it costs. It rises when a larger block is freed, up to 32 MB, and memory that is free at
the end of the heap is then kept up to twice as much. One such block is allocated and freed here,
when the kernels are imported; nothing is written to it, so it costs no memory. With other C
libraries nothing is done, and thresholds that the user has set (``MALLOC_TRIM_THRESHOLD_`` and its
like) stay as they are.
"""

from __future__ import annotations

import os

import numpy as np

__all__ = ["KEPT", "NUMPY", "keep_freed_memory"]

NUMPY: tuple[int, int] = (int(np.__version__.split(".")[0]), int(np.__version__.split(".")[1]))

KEPT = (32 << 20) - (1 << 16)  # bytes: just below the largest threshold that glibc chooses itself


def _is_glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (AttributeError, OSError, ValueError):  # Windows has no confstr, others not this name
        return False


def keep_freed_memory() -> None:
    """Raises the thresholds of glibc to their largest; elsewhere, does nothing.

    >>> keep_freed_memory()
    """
    if not _is_glibc():
        return
    try:
        np.empty(KEPT, np.uint8)
    except MemoryError:  # a process with a lower limit of memory never reaches the thresholds
        return


keep_freed_memory()
