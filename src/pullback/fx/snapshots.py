"""Elements of captured arrays when a graph first read them: writes by NumPy itself are found.

A graph reads a captured array from its own memory whenever it runs. NumPy may write to the same
array while the program is traced, without an operator: ``k = np.arange(3); a = x * k; k += 1``. An
array that the program has made is a constant then, with the elements that the graph has read. One
from outside cannot be recorded, for the write has to happen in each call.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.fx.picked import root_of
from pullback.fx.refusals import refusal
from pullback.tensor.memory import owner_of

__all__ = ["WRITES_OUTSIDE", "Snapshots"]

WRITES_OUTSIDE = (
    "NumPy writes to an array from outside, which the graph would not repeat; pass the array as an "
    "argument, or write to a copy"
)
_MOST_BYTES = 1 << 24


class Snapshots:
    """Copies of the captured arrays of one trace, by the names of their nodes.

    Attributes:
        outside: the ids of arrays from outside, which own their memory.
        copies: the elements of each array when the graph first read it.
    """

    def __init__(self) -> None:
        self.outside: Container[int] = frozenset()
        self.copies: dict[str, NDArray[Any]] = {}

    def note(self, name: str, array: NDArray[Any]) -> None:
        """Notes an array that the graph reads from now on."""
        if array.nbytes <= _MOST_BYTES and not array.dtype.hasobject:
            self.copies[name] = array.copy("K")

    def find_changed(
        self, names: Iterable[str], captured: dict[str, Any], written: set[int]
    ) -> list[str]:
        """The names of arrays that the program has made, and NumPy has written to since.

        Args:
            names: the arrays to look at.
            captured: all captured arrays by name.
            written: the ids of roots that the graph itself writes to.
        """
        changed = []
        for name in names:
            array, copy = captured[name], self.copies.get(name)
            if copy is None or id(root_of(array)) in written or _is_same(array, copy):
                continue
            if id(owner_of(array)) in self.outside:
                raise refusal(WRITES_OUTSIDE)
            changed.append(name)
        return changed


def _is_same(array: NDArray[Any], copy: NDArray[Any]) -> bool:
    """Whether two arrays have the same bits, or are both NaN."""
    return bool(np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc"))
