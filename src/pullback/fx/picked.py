"""Picked values, as those of ``x[i]`` with a traced integer: a view of `x`, but a copy in a graph.

The graph has an ``index`` there. It is right as long as neither side is written while the other is
still in use, or where the write is followed by ``x[i] = picked``, as in ``x[i] += y``. Anything
else raises, so that the program is traced in another way or called as it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.dispatch.modes import NUMPY, get_state
from pullback.errors import TraceError
from pullback.fx.node import Node
from pullback.fx.refusals import refusal

__all__ = ["Picks", "root_of"]


def root_of(array: Any) -> Any:
    """The array or object that has the memory of an array."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


class _Base:
    """Memory that something was picked from.

    Attributes:
        find: returns the root of the memory, or None when it is gone.
        version: the number of writes to it.
        pending: what was picked and written, and is still to be written here.
        picked_from: what this is itself picked from.
    """

    __slots__ = ("find", "pending", "picked_from", "version")

    def __init__(self, root: Any, picked_from: _Pick | None):
        self.find = _finder(root)
        self.version = 0
        self.pending: _Pick | None = None
        self.picked_from = picked_from


class _Pick:
    """Picked values: where they lie, and those that they were picked from."""

    __slots__ = ("base", "find", "index", "source", "version")

    def __init__(self, root: Any, base: _Base, source: NDArray[Any], index: list[Any]):
        self.find = _finder(root)
        self.base = base
        self.version = base.version
        self.source = _place(source)
        self.index = index

    @property
    def is_current(self) -> bool:
        """Whether the memory that it was picked from has had no other write since."""
        outer = self.base.picked_from
        return self.version == self.base.version and (outer is None or outer.is_current)


class Picks:
    """The picked values of one trace."""

    def __init__(self) -> None:
        self._picks: dict[int, _Pick] = {}  # by the id of the root
        self._bases: dict[int, _Base] = {}
        self._frozen: dict[int, Callable[[], Any]] = {}  # by the id of the root

    def freeze(self, arrays: list[NDArray[Any]]) -> None:
        """Notes arrays of a trace that share memory outside of it, so that a write raises."""
        for array in arrays:
            root = root_of(array)
            self._frozen[id(root)] = _finder(root)

    def note_pick(self, picked: NDArray[Any], source: NDArray[Any], index: list[Any]) -> None:
        """Notes values that are a view outside of a trace."""
        if get_state().modes & NUMPY and not picked.ndim:
            return  # an element, which is a number in NumPy
        root = root_of(source)
        base = _known(self._bases, root)
        if base is None:
            base = self._bases[id(root)] = _Base(root, _known(self._picks, root))
        own = root_of(picked)
        self._picks[id(own)] = _Pick(own, base, source, index)

    def check_read(self, array: Any) -> None:
        """Raises for an array whose values in the graph are not those of the program."""
        if not self._picks:
            return
        root = root_of(array)
        pick, base = _known(self._picks, root), _known(self._bases, root)
        if (pick is not None and not pick.is_current) or (base is not None and base.pending):
            raise _error()

    def note_write(self, array: Any) -> None:
        """Notes a write to an array, which `check_read` was called with."""
        if self._picks or self._frozen:
            self._wrote(root_of(array))

    def _wrote(self, root: Any) -> None:
        if id(root) in self._frozen and self._frozen[id(root)]() is root:
            raise _error()
        base, pick = _known(self._bases, root), _known(self._picks, root)
        if base is not None:
            base.version += 1
        if pick is None:
            return
        own = pick.base
        if not pick.is_current or own.pending not in (None, pick):
            raise _error()
        own.pending = pick
        whole = own.find()
        if whole is not None:
            self._wrote(whole)
        pick.version = own.version

    def puts_back(self, target: Any, index: Any, value: Any) -> bool:
        """Whether this writes picked values where they are from; notes the write then."""
        pick = _known(self._picks, root_of(value)) if self._picks else None
        base = _known(self._bases, root_of(target))
        if pick is None or base is None or base is not pick.base or base.pending is not pick:
            return False
        if not pick.is_current or pick.source != _place(target) or not _same(pick.index, index):
            return False
        base.pending = None
        self._wrote(root_of(target))
        pick.version = base.version
        return True

    def check_end(self) -> None:
        """Raises if a write has not arrived where it belongs, and something can still read it."""
        if any(b.pending is not None and b.find() is not None for b in self._bases.values()):
            raise _error()


def _error() -> TraceError:
    return refusal(
        "x[i] with an integer tensor i, or a result of a loop that shares memory, is written, or "
        "used after the other was written: it is a view, but a copy in a graph. Write by "
        "x[i] = value, and use clone() for the old values."
    )


def _finder(root: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(root)
    except TypeError:  # a buffer that is no array
        return lambda: root


def _known(table: dict[int, Any], root: Any) -> Any:
    found = table.get(id(root))
    return found if found is not None and found.find() is root else None


def _place(array: NDArray[Any]) -> Any:
    return array.__array_interface__["data"][0], array.shape, array.strides


def _same(index: list[Any], other: Any) -> bool:
    """Whether two lists of indices are the same nodes, or equal integers."""
    if len(index) != len(other):
        return False
    for (node, value), (node2, value2) in zip(index, other, strict=True):
        constant = isinstance(node, Node) and node.op == "get_attr" == getattr(node2, "op", None)
        if node is not node2 and not (constant and value == value2):
            return False
    return True
