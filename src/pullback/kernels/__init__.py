"""What kernels of all families share: broadcasting, threads, memory layout, the error state.

Arrays in, arrays out: these modules import NumPy and the errors only. The kernels of a family of
operators are in ``pullback/operators/<family>/kernels.py``.
"""

from __future__ import annotations

from pullback.kernels import platform as _platform  # noqa: F401 - tunes the allocator

__all__: list[str] = []
