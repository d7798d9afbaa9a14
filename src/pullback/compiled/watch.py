"""Names that a function reads from outside: its graph is right while they are the same objects.

Arrays and tensors may change in place, which a graph reads each time it runs; but a name that is
given another object, or another number, has to be found. A ``Watch`` is one name: a cell of a
closure, a global, or an attribute of an object that the function reaches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from pullback.tensor.tensor import Tensor

__all__ = ["Watch", "find_watches", "have_changed"]

_VALUES = (bool, int, float, complex, str, np.ndarray, np.generic, Tensor, type(None))
_MOST = 1000  # watches of one function
_EMPTY = object()


class Watch(NamedTuple):
    """One name, and the object that it had."""

    owner: Any  # a cell, or a dict
    name: str | None
    value: Any

    def now(self) -> Any:
        """The object that the name has now."""
        if self.name is None:
            try:
                return self.owner.cell_contents
            except ValueError:  # the cell is empty
                return _EMPTY
        return self.owner.get(self.name, _EMPTY)


def find_watches(function: Callable[..., Any]) -> list[Watch]:
    """The names that a function, and the functions and objects that it reaches, read."""
    found: list[Watch] = []
    _visit(function, frozenset(), found, set())
    return found


def have_changed(watches: list[Watch]) -> bool:
    """Whether a name has another object than it had."""
    for watch in watches:
        now = watch.now()
        if now is not watch.value and not (
            type(now) is type(watch.value) is not np.ndarray
            and not isinstance(now, Tensor)
            and now == watch.value
        ):
            return True
    return False


def _visit(value: Any, names: frozenset[str], found: list[Watch], seen: set[int]) -> None:
    if id(value) in seen or len(found) > _MOST:
        return
    seen.add(id(value))
    if isinstance(value, FunctionType):
        _visit_function(value, found, seen)
    elif isinstance(value, MethodType):
        _visit(value.__func__, names, found, seen)
        _visit_attributes(value.__self__, frozenset(value.__func__.__code__.co_names), found, seen)
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            _visit(part, names, found, seen)
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _visit(item, names, found, seen)
    elif not isinstance(value, (type, ModuleType, *_VALUES)):
        _visit_attributes(value, names, found, seen)


def _visit_function(function: FunctionType, found: list[Watch], seen: set[int]) -> None:
    package = str(function.__globals__.get("__name__")).partition(".")[0]
    if package in ("numpy", "scipy"):
        return
    names = frozenset(function.__code__.co_names)
    for cell in function.__closure__ or ():
        _note(Watch(cell, None, _contents(cell)), names, found, seen)
    if package != "pullback":
        space = function.__globals__
        for name in names & space.keys():
            _note(Watch(space, name, space[name]), names, found, seen)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _visit_attributes(
    value: Any, names: frozenset[str], found: list[Watch], seen: set[int]
) -> None:
    space = getattr(value, "__dict__", None)
    if not isinstance(space, dict) or type(value).__module__.partition(".")[0] == "pullback":
        return
    call = getattr(type(value), "__call__", None)  # noqa: B004 - the function, for its names
    if isinstance(call, FunctionType):
        _visit_function(call, found, seen)
        names = names | frozenset(call.__code__.co_names)
    for name in names & space.keys():
        _note(Watch(space, name, space[name]), names, found, seen)


def _note(watch: Watch, names: frozenset[str], found: list[Watch], seen: set[int]) -> None:
    if isinstance(watch.value, _VALUES):
        found.append(watch)
    elif watch.value is not _EMPTY:
        if not isinstance(watch.value, type | ModuleType):
            found.append(watch)
        _visit(watch.value, names, found, seen)
