"""``Arena``: places of values in the one block of memory that each call brings along."""

from __future__ import annotations

__all__ = ["ALIGNMENT", "Arena"]

ALIGNMENT = 64
"""Bytes to which places are aligned."""


class Arena:
    """Places in one block of memory; what is released is used again, the smallest that fits.

    >>> arena = Arena()
    >>> first = arena.take(100)
    >>> arena.release(*first)
    >>> first, arena.take(64), arena.extend(8), arena.size
    ((0, 128), (0, 64), 128, 192)
    """

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # offset and size

    def extend(self, size: int) -> int:
        """The offset of memory that nothing else uses."""
        start = self.size
        self.size += -(-size // ALIGNMENT) * ALIGNMENT
        return start

    def take(self, size: int) -> tuple[int, int]:
        """The offset and size of a block."""
        size = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        fitting = [block for block in self._free if block[1] >= size]
        if not fitting:
            return self.extend(size), size
        offset, available = min(fitting, key=lambda block: block[1])
        self._free.remove((offset, available))
        if available > size:
            self._free.append((offset + size, available - size))
        return offset, size

    def release(self, offset: int, size: int) -> None:
        """Gives a block back."""
        self._free.append((offset, size))
        self._free.sort()
        joined = [self._free[0]]
        for low, length in self._free[1:]:
            before, its = joined[-1]
            if before + its == low:
                joined[-1] = (before, its + length)
            else:
                joined.append((low, length))
        self._free = joined
