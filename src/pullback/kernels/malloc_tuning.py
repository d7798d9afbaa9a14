"""Tuning of the C library's allocator for large arrays, on request.

glibc returns memory to the system when large blocks are freed, or when more than a threshold is
free at the end of the heap; the threshold is twice the largest block so far. Arrays of a megabyte
that are made again then cost 250 page faults each, several times what multiplying them costs.
`set_allocator_tuning` raises the thresholds for the whole process. ``pullback.kernels`` calls it
at import only if the environment has ``PULLBACK_ALLOCATOR_TUNING=1``: memory that other
parts of the program free is kept, too. Other C libraries are not changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pullback._lazy import lazy_module

if TYPE_CHECKING:
    import ctypes
else:
    ctypes = lazy_module("ctypes")

__all__ = ["set_allocator_tuning"]

# Parameters of glibc's mallopt(3), and its thresholds: in a new process, and the largest possible.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_DEFAULT_THRESHOLD = 128 << 10
_LARGEST_MMAP_THRESHOLD = 32 << 20


def _is_glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (AttributeError, OSError, ValueError):  # Windows has no confstr, others not this name
        return False


def set_allocator_tuning(enabled: bool) -> bool:
    """Makes glibc keep the memory of freed arrays for the next ones, or return it to the system.

    Args:
        enabled: True keeps freed blocks of up to 32 MiB and up to 64 MiB at the end of the heap;
            False sets the thresholds of a new process, 128 KiB.

    Returns:
        Whether the allocator was changed: False where the C library is not glibc.

    ``PULLBACK_ALLOCATOR_TUNING=1`` in the environment does this at import.

    >>> import pullback as pb
    >>> changed = pb.set_allocator_tuning(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"set_allocator_tuning: enabled must be True or False, not {enabled!r}")
    if not _is_glibc():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mmap = _LARGEST_MMAP_THRESHOLD if enabled else _DEFAULT_THRESHOLD
    trim = 2 * mmap if enabled else mmap
    return bool(mallopt(_M_MMAP_THRESHOLD, mmap)) and bool(mallopt(_M_TRIM_THRESHOLD, trim))
