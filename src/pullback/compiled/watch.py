"""Places outside of a function that its graph depends on, and that have to stay as they are.

Arrays and tensors that operators read may change in place: a graph reads them when it runs. All
else that a function reaches has to be compared: a ``Watch`` is one place, such as a cell of a
closure, a global, an attribute or an item of a container, with the object that it had. The places
are found by ``reach.py``.
"""

from __future__ import annotations

import operator
from array import array as buffer_array
from collections.abc import Callable, Iterable
from itertools import islice
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from pullback._cpython import find_cached
from pullback.errors import AutogradError
from pullback.tensor.memory import owner_of

__all__ = [
    "EMPTY",
    "FUNCTIONS_OF_TRACES",
    "OF_TENSOR",
    "PLAIN",
    "SETTABLE",
    "Watch",
    "find_change",
    "is_flag",
    "is_same_constant",
    "merge_watches",
    "owners_of_arrays",
    "read_class",
    "read_place",
    "require_unchanged",
    "restore_buffer",
]

EMPTY: Any = type("Empty", (), {"__repr__": lambda _: "nothing"})()
"""The value of a place that does not exist."""

OF_TENSOR = "tensor"
"""The name of a ``"content"`` of an array that is reached as that of a tensor only."""

_MOST_ENTRIES = 64  # of a cache, that are compared

PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
"""Types whose values are compared by value, and hold nothing that can change."""


FUNCTIONS_OF_TRACES: set[int] = set()
"""The ids of functions that modules have in the place of Python's while a function is traced."""

SETTABLE = frozenset(["cell", "item", "element", "slot", "class", "defaults", "context"])
"""Kinds of places that can hold another object for a time."""


class Watch(NamedTuple):
    """One place, and the object that it had.

    `kind` is ``"cell"``, ``"item"`` of a dict, ``"element"`` of a list, ``"length"`` of a list,
    ``"keys"`` of a dict in their order, ``"class"`` (an attribute of a class), ``"slot"`` (of an
    object), ``"type"`` of an object, ``"code"`` and ``"defaults"`` of a function, ``"items"`` (a
    copy of a long list, a deque or a set), ``"mapping"`` (of a read-only view of a dict),
    ``"buffer"`` (bytes), ``"context"`` (the value of a context variable), ``"attribute"`` of a
    thread's values, ``"referent"`` of a weak reference, ``"cache"`` of a function (see
    ``_read_cache``), ``"layout"``, ``"content"`` of an array (None for a large one that has not
    been copied), ``"objects"`` of an array of objects.
    """

    kind: str
    owner: Any
    name: Any
    value: Any

    @property
    def place(self) -> tuple[str, int, Any]:
        """The key of the place: no other one has it."""
        return self.kind, id(self.owner), self.name

    def now(self) -> Any:
        """The object that the place has now."""
        return read_place(self.kind, self.owner, self.name)

    def has_changed(self) -> bool:
        """Whether the place has another object or content than it had."""
        now = self.now()
        if self.value is EMPTY and id(now) in FUNCTIONS_OF_TRACES:
            return False  # another thread traces a function of this module
        if self.kind == "content":
            return bool(now.nbytes != self.value.nbytes or now.tobytes() != self.value.tobytes())
        if self.kind in ("items", "objects"):
            return not _are_same(now, self.value)
        return now is not self.value and not _is_same(now, self.value)

    def __str__(self) -> str:
        """The place as messages name it."""
        what = {
            "content": "an array",
            "objects": "an array of objects",
            "layout": "an array",
            "items": "a container",
            "length": "a container",
            "keys": "a container",
            "mapping": "a container",
            "buffer": "a container of bytes",
            "cache": "the cache of a function",
            "context": "a context variable",
            "referent": "a weak reference",
            "type": "the class of an object",
            "code": "the code of a function",
        }
        return what.get(self.kind) or f"{self.kind} {self.name!r}"


def find_change(watches: Iterable[Watch]) -> Watch | None:
    """The first place that has changed.

    Most places have the same object still: the most frequent kinds are read in line (a training
    step of 113 places takes 11 us instead of 33).
    """
    for watch in watches:
        kind, owner, name, value = watch
        if kind == "item":
            if owner.get(name, EMPTY) is value:
                continue
        elif kind == "length":
            if len(owner) == value:
                continue
        elif kind == "keys":
            if len(owner) == len(value) and all(map(operator.is_, owner, value)):
                continue
        elif kind == "slot" and name == "_array" and owner._array is value:
            continue
        if watch.has_changed():
            return watch
    return None


def is_flag(change: Watch) -> bool:
    """Whether a place has another number or text, which it may have had before."""
    return isinstance(change.value, PLAIN) and isinstance(change.now(), PLAIN)


def require_unchanged(watches: Iterable[Watch]) -> None:
    """Refuses to call a function again for a derivative where it would read something else."""
    change = find_change(watches)
    if change is not None:
        raise AutogradError(
            f"compile: a derivative with create_graph=True calls the function again, and {change} "
            f"from outside has changed since the call. Differentiate before the change."
        )


def merge_watches(first: Iterable[Watch], second: Iterable[Watch]) -> list[Watch]:
    """All places of both."""
    return list({watch.place: watch for watch in (*first, *second)}.values())


def owners_of_arrays(watches: Iterable[Watch]) -> set[int]:
    """The ids of the arrays that own the memory of all arrays that are watched."""
    return {id(owner_of(watch.owner)) for watch in watches if watch.kind == "layout"}


# --- places ---------------------------------------------------------------------------------------


def _read_cell(cell: CellType, _: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def read_class(kind: type, name: str) -> Any:
    """The object that a class has under a name, or inherits; EMPTY if there is none."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return EMPTY


def _read_slot(owner: Any, name: str) -> Any:
    try:
        return read_class(type(owner), name).__get__(owner)
    except AttributeError:
        return EMPTY


def _read_cache(function: Any) -> tuple[Any, ...]:
    """The number of computations of a function with ``lru_cache``, and its first entries.

    Entries are objects, or links of a list, that a function which was cleared has not got again.
    """
    return function.cache_info().misses, *islice(find_cached(function), _MOST_ENTRIES)


def _layout(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """All of an array but its elements: setting its shape or flag `writeable` changes it."""
    return array.__array_interface__["data"], array.dtype, array.shape, array.strides


_READ: dict[str, Callable[[Any, Any], Any]] = {
    "cell": _read_cell,
    "item": lambda owner, name: owner.get(name, EMPTY),
    "element": lambda owner, name: owner[name] if name < len(owner) else EMPTY,
    "length": lambda owner, _: len(owner),
    "keys": lambda owner, _: tuple(owner),
    "class": read_class,
    "slot": _read_slot,
    "type": lambda owner, _: type(owner),
    "code": getattr,
    "defaults": getattr,
    "attribute": lambda owner, name: getattr(owner, name, EMPTY),
    "items": lambda owner, _: tuple(owner),
    "objects": lambda owner, _: tuple(owner.ravel().tolist()),
    "mapping": lambda owner, _: tuple(owner.items()),
    "buffer": lambda owner, _: memoryview(owner).tobytes(),
    "context": lambda owner, _: owner.get(EMPTY),
    "referent": lambda owner, _: owner(),
    "cache": lambda owner, _: _read_cache(owner),
    "content": lambda owner, _: owner,
    "layout": lambda owner, _: _layout(owner),
}


def read_place(kind: str, owner: Any, name: Any) -> Any:
    """The object that a place has now."""
    return _READ[kind](owner, name)


def restore_buffer(owner: Any, value: bytes) -> None:
    """Gives a container of bytes its content again."""
    if isinstance(owner, buffer_array):
        del owner[:]
        owner.frombytes(value)
    elif isinstance(owner, bytearray):
        owner[:] = value
    else:
        memoryview(owner).cast("B")[:] = value


def _is_same(now: Any, before: Any) -> bool:
    """Whether two objects are one, or the same number or text."""
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, np.dtype):
        return bool(now == before)
    if isinstance(now, np.generic):
        return bool(now.dtype == before.dtype) and now.tobytes() == before.tobytes()
    if isinstance(now, PLAIN):
        return bool(now == before) and (now != 0 or repr(now) == repr(before))  # 0.0 is not -0.0
    return type(now) is tuple and _are_same(now, before)


def is_same_constant(x: Any, y: Any) -> bool:
    """Whether two constants are equal and of the same types, ``(1,)`` and ``(1.0,)`` not.

    >>> is_same_constant((1, "a"), (1, "a")), is_same_constant((1,), (1.0,))
    (True, False)
    """
    if isinstance(x, (tuple, *PLAIN)):
        return _is_same(x, y)
    return x is y or (type(x) is type(y) and bool(x == y))


def _are_same(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and all(map(_is_same, now, before))
