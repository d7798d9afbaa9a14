"""Levels of mapping: the calls of mapped functions that a thread is inside of.

Every one has a number of its own, from the same sequence as other transforms, so that inner ones
have higher numbers than outer ones; a number is never used again. A level is *active* in the thread
that runs the function, until the function has returned. What belongs to a level that has ended is
what the function did to all samples at once.
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from pullback.dispatch.modes import MAPPING, StateGuard
from pullback.tensor.tensor import birthplace

__all__ = ["MapLevel", "Outside", "active_levels", "is_active", "next_serial"]

next_serial = itertools.count(1).__next__
_active: ContextVar[tuple[MapLevel, ...]] = ContextVar("pullback_vmap_levels", default=())
active_levels = _active.get


class MapLevel:
    """One call of a mapped function; a context manager, active inside.

    Attributes:
        number: which one it is.
        size: the number of samples.
        randomness: what random operators do: ``"error"``, ``"same"`` or ``"different"``.
    """

    __slots__ = ("_birthplace", "_guard", "_token", "number", "randomness", "size")

    def __init__(self, size: int, randomness: str):
        self.number = next_serial()
        self.size = size
        self.randomness = randomness
        self._guard = StateGuard(begin=MAPPING)

    def __enter__(self) -> Self:
        self._guard.__enter__()
        self._token = _active.set((*_active.get(), self))
        self._birthplace = birthplace.set(self.number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        birthplace.reset(self._birthplace)
        _active.reset(self._token)
        self._guard.__exit__(kind, error, trace)


class Outside:
    """A block in which one level is not active: what runs there works on all its samples."""

    __slots__ = ("_number", "_token")

    def __init__(self, number: int):
        self._number = number

    def __enter__(self) -> Self:
        left = tuple(level for level in _active.get() if level.number != self._number)
        self._token = _active.set(left)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _active.reset(self._token)


def is_active(number: int) -> bool:
    """Whether this thread is inside the mapped function of that number."""
    return any(level.number == number for level in _active.get())
