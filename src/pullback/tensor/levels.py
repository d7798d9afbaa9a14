"""Levels of vmap: the ``vmap`` calls that a thread is inside of.

Every one has a number of its own, from the same sequence as other transforms, so that inner ones
have higher numbers than outer ones; a number is never used again. A level is *active* in the thread
that runs the function, until the function has returned. After that, operations
recorded in it are ordinary operations with a batch dimension.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Self

from pullback.dispatch.modes import MAPPING, StateGuard
from pullback.errors import AutogradError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.tensor import current_level_id

__all__ = [
    "MapLevel",
    "Outside",
    "RowLevel",
    "active_levels",
    "active_numbers",
    "check_alive",
    "is_active",
    "leave_levels",
    "next_serial",
    "running_pass",
]

next_serial = itertools.count(1).__next__
_active: ContextVar[tuple[MapLevel, ...]] = ContextVar("pullback_vmap_levels", default=())
active_levels = _active.get
_numbers: ContextVar[tuple[int, ...]] = ContextVar("pullback_vmap_numbers", default=())
active_numbers = _numbers.get  # of the same levels, in their order
_alive: set[int] = set()  # numbers of levels whose functions have not returned, in all threads
running_pass: ContextVar[Any] = ContextVar("pullback_graph_task", default=None)
"""The backward pass that this thread is in, if any. A pass may run on batched tensors of levels
that have ended, because its graph was recorded before."""


class MapLevel:
    """One ``vmap`` call; a context manager, active inside.

    Attributes:
        number: which one it is.
        size: the length of the batch dimension.
        randomness: what random operators do: ``"error"``, ``"same"`` or ``"different"``.
    """

    __slots__ = ("_outer_level_id", "_guard", "_levels", "_outer", "number", "randomness", "size")

    def __init__(self, size: int, randomness: str):
        self.number = next_serial()
        self.size = size
        self.randomness = randomness
        self._guard = StateGuard(begin=MAPPING)

    def __enter__(self) -> Self:
        self._levels = _active.get()
        self._outer = _numbers.get()
        self._outer_level_id = current_level_id.get()
        self._guard.__enter__()
        try:
            _active.set((*self._levels, self))
            _numbers.set((*self._outer, self.number))
            current_level_id.set(self.number)
            _alive.add(self.number)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        try:
            _alive.discard(self.number)
        finally:
            try:
                current_level_id.set(self._outer_level_id)
            finally:
                try:
                    _numbers.set(self._outer)
                finally:
                    try:
                        _active.set(self._levels)
                    finally:
                        self._guard.__exit__(*exception)

    def begin(self) -> None:
        """Allows operations on batched tensors of this level."""
        _alive.add(self.number)

    @uninterrupted_entry
    def end(self) -> None:
        """Forbids operations on batched tensors of this level, which have escaped."""
        _alive.discard(self.number)


class RowLevel(MapLevel):
    """Level of one backward or forward pass over a batch of gradients or tangents."""

    __slots__ = ()


class Outside:
    """Block in which one level is not active: code in it sees the batch dimension as an axis."""

    __slots__ = ("_levels", "_number", "_outer")

    def __init__(self, number: int):
        self._number = number

    def __enter__(self) -> Self:
        self._levels = levels = _active.get()
        self._outer = _numbers.get()
        try:
            left = tuple(level for level in levels if level.number != self._number)
            _active.set(left)
            _numbers.set(tuple(level.number for level in left))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        try:
            _numbers.set(self._outer)
        finally:
            _active.set(self._levels)


def leave_levels() -> None:
    """Deactivates all levels in this context; the caller must restore them."""
    _active.set(())
    _numbers.set(())
    current_level_id.set(0)


def is_active(number: int) -> bool:
    """Whether this thread is inside the mapped function of that number."""
    return number in _numbers.get()


def check_alive(levels: Iterable[int]) -> None:
    """Raises for batched tensors that have escaped from a mapped function that has returned."""
    if not _alive.issuperset(levels) and running_pass.get() is None:
        raise AutogradError(
            "vmap: a tensor with many samples may have escaped from inside a function being "
            "vmapped, which has returned; only there does it look like one sample. Return it from "
            "the function instead of keeping it in a list or an attribute."
        )
