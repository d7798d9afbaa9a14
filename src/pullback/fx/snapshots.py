"""Elements of captured arrays when a graph first read them: writes by NumPy itself are found.

A graph reads a captured array from its own memory whenever it runs. NumPy may write to the same
array while the program is traced, without an operator: ``k = np.arange(3); a = x * k; k += 1``. An
array that the program has made is a constant then, with the elements that the graph has read. One
from outside cannot be recorded, for the write has to happen in each call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.fx.picked import root_of
from pullback.fx.refusals import refusal
from pullback.fx.user_code import user_line
from pullback.tensor.memory import owner_of

__all__ = ["LARGE_ARRAY_BYTES", "WRITES_OUTSIDE", "Snapshots"]

LARGE_ARRAY_BYTES = 1 << 20
"""Arrays above this are copied where nothing else shows whether they change."""

WRITES_OUTSIDE = (
    "NumPy writes to an array from outside, which the graph would not repeat; pass the array as an "
    "argument, or write to a copy"
)
_MOST_COPIED = 1 << 24  # bytes; of larger arrays, hashes are compared


class Snapshots:
    """Copies of the captured arrays of one trace, by the names of their nodes.

    Attributes:
        outside: the ids of arrays from outside, which own their memory.
        compared: those of them whose elements are compared in each call.
        copies: the elements of each array when the graph first read it.
        hashes: the hashes of the elements of large ones.
    """

    def __init__(self) -> None:
        self.outside: Container[int] = frozenset()
        self.compared: list[NDArray[Any]] = []
        self.copies: dict[str, NDArray[Any]] = {}
        self.hashes: dict[str, bytes] = {}

    def note(self, name: str, array: NDArray[Any]) -> None:
        """Notes an array that the graph reads from now on."""
        if array.dtype.hasobject:
            return
        if array.nbytes <= _MOST_COPIED:
            self.copies[name] = array.copy("K")
        else:
            self.hashes[name] = _hash_of(array)

    def require_compared(self, array: Any) -> None:
        """Refuses to let NumPy read a large array from outside that is not compared."""
        owner = owner_of(array)
        if (
            id(owner) in self.outside
            and owner.nbytes > LARGE_ARRAY_BYTES
            and not any(owner is other for other in self.compared)
        ):
            size = f"{LARGE_ARRAY_BYTES >> 20} MB{user_line()}"
            raise refusal(
                f"NumPy reads a captured array of more than {size}; pass it as an argument"
            )

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
            array = captured[name]
            if id(root_of(array)) in written or self._is_same(name, array):
                continue
            if id(owner_of(array)) in self.outside:
                raise refusal(WRITES_OUTSIDE)
            if name not in self.copies:
                raise refusal(
                    f"NumPy writes to an array of more than {_MOST_COPIED >> 20} MB after the "
                    f"program has used it; write to a copy"
                )
            changed.append(name)
        return changed

    def _is_same(self, name: str, array: NDArray[Any]) -> bool:
        """Whether an array has the elements that it had."""
        copy = self.copies.get(name)
        if copy is not None:
            return bool(np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc"))
        return name not in self.hashes or self.hashes[name] == _hash_of(array)


def _hash_of(array: NDArray[Any]) -> bytes:
    content = np.ascontiguousarray(array).view(np.uint8)
    return hashlib.blake2b(content.data, digest_size=16).digest()
