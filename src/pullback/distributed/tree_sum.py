"""Sums over partitions in a fixed order: the same bits, whatever computed the parts.

Floating-point addition is not associative. `TreeSum` therefore adds terms along one binary tree
that depends on their number only: a tree of n terms is the tree of the first 2**k < n terms plus
the tree of the rest. A block of terms that begins at a multiple of its size 2**j is a subtree, so a
task that has summed such a block gives the driver one term, and the total has the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["TreeSum", "block_size"]

_Terms = list[Any]  # arrays, tensors and numbers, added element by element of the list


class TreeSum:
    """Adds lists of arrays and numbers in the order of a binary tree, with log2(n) lists in memory.

    >>> total = TreeSum()
    >>> for value in (1.0, 2.0, 3.0):
    ...     total.add([value])
    >>> total.result()
    [6.0]
    """

    def __init__(self) -> None:
        self._subtrees: list[tuple[int, _Terms]] = []  # level and sum, from left to right

    def add(self, terms: _Terms) -> None:
        """Adds the next terms of the sum."""
        level = 0
        while self._subtrees and self._subtrees[-1][0] == level:
            below = self._subtrees.pop()[1]
            terms = _added(below, terms, owns=level > 0)
            level += 1
        self._subtrees.append((level, terms))

    def result(self) -> _Terms:
        """The sum of all terms."""
        if not self._subtrees:
            raise ValueError("TreeSum.result: nothing was added")
        total = self._subtrees[-1][1]
        for _, terms in reversed(self._subtrees[:-1]):
            total = _added(terms, total, owns=False)
        return total


def block_size(terms: int, blocks: int) -> int:
    """The largest power of two that divides `terms` into at least `blocks` blocks, at least 1.

    >>> block_size(1000, 8), block_size(3, 8)
    (64, 1)
    """
    size = 1
    while terms // (2 * size) >= blocks:
        size *= 2
    return size


def _added(left: _Terms, right: _Terms, owns: bool) -> _Terms:
    """The sums of two lists; `owns` says that the arrays of the left one are sums already."""
    found = []
    for a, b in zip(left, right, strict=True):
        if owns and isinstance(a, np.ndarray) and a.ndim:
            found.append(np.add(a, b, out=a))
        else:
            # arrays without axes stay arrays
            found.append(np.asarray(a + b) if isinstance(a, np.ndarray) else a + b)
    return found
