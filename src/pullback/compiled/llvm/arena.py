"""``Arena``: places of values in the one block of memory that each call brings along."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ALIGNMENT", "Arena", "Block"]

ALIGNMENT = 64
"""Bytes to which places are aligned."""

_LARGE = 1 << 18  # bytes of a block


class Block(NamedTuple):
    """A part of the memory."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + self.size


class Arena:
    """Blocks of one memory; what is released is used again, the smallest that fits.

    >>> arena = Arena()
    >>> first = arena.take(100)
    >>> arena.release(first)
    >>> first, arena.take(64), arena.extend(8), arena.size
    (Block(offset=0, size=128), Block(offset=0, size=64), 128, 192)
    """

    def __init__(self) -> None:
        self.size = 0
        self._free: list[Block] = []

    def extend(self, size: int) -> int:
        """The offset of memory that nothing else uses."""
        start = self.size
        self.size += -(-size // ALIGNMENT) * ALIGNMENT
        return start

    def take(self, size: int) -> Block:
        """Memory that nothing uses now.

        Large blocks are rounded up by at most a 32nd, to pages that nothing touches: so a value
        takes the place of one that was a little smaller (an array and its padded form).
        """
        unit = max(ALIGNMENT, 1 << max(0, size.bit_length() - 6) if size >= _LARGE else 0)
        size = -(-max(size, 1) // unit) * unit
        return self.find(size) or Block(self.extend(size), size)

    def find(self, size: int) -> Block | None:
        """Memory that nothing uses now, if there is some; `size` is a multiple of `ALIGNMENT`."""
        fitting = [block for block in self._free if block.size >= size]
        if not fitting:
            return None
        block = min(fitting, key=lambda block: block.size)
        self._free.remove(block)
        if block.size > size:
            self._free.append(Block(block.offset + size, block.size - size))
        return Block(block.offset, size)

    def release(self, block: Block) -> None:
        """Gives a block back, and joins it with free ones beside it."""
        first, *others = sorted([*self._free, block])
        self._free = [first]
        for other in others:
            last = self._free[-1]
            if last.end == other.offset:
                self._free[-1] = Block(last.offset, last.size + other.size)
            else:
                self._free.append(other)
