"""NumPy's functions under names of user modules: ``from numpy import zeros``.

While `numpy_mode` lasts, such names refer to the replacements. The modules are searched when some
were imported since the last search, and when ``__main__`` has got new names.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any, NamedTuple

from pullback.interop.callers import USER, Callers
from pullback.interop.compiled import give_originals
from pullback.interop.replaced import Replacement, replacements

__all__ = ["ImportedNames", "find_names"]


class _Place(NamedTuple):
    names: dict[str, Any]  # the namespace of a module
    name: str
    original: Any
    replacement: Any


def find_names(names: dict[str, Any]) -> list[_Place]:
    """The names of a namespace that refer to functions of NumPy, or to their replacements."""
    known = replacements()
    found = []
    for name, value in list(names.items()):
        if id(value) in known:
            found.append(_Place(names, name, value, known[id(value)]))
        elif type(value) is Replacement:  # imported in the mode
            found.append(_Place(names, name, value.__wrapped__, value))
    return found


class ImportedNames:
    """The imported names of all user modules."""

    def __init__(self, callers: Callers) -> None:
        self.places: list[_Place] = []
        self._callers = callers
        self.main = sys.modules["__main__"].__dict__
        self.modules = self.main_names = -1  # how many there were at the last search
        self._lock = threading.RLock()

    def is_up_to_date(self) -> bool:
        """Whether no module, and no name of ``__main__``, is new since the last search."""
        return self.modules == len(sys.modules) and self.main_names == len(self.main)

    def search(self) -> None:
        """Finds the imported names; gives compiled modules their NumPy."""
        with self._lock:
            modules_seen, main_seen = len(sys.modules), len(self.main)
            modules = [m for m in list(sys.modules.values()) if isinstance(m, ModuleType)]
            give_originals(modules)
            places = []
            for module in modules:
                file = module.__dict__.get("__file__")
                if module.__name__ == "__main__" or (
                    isinstance(file, str) and self._callers[file] == USER
                ):
                    places += find_names(module.__dict__)
            self.places = places
            self.modules, self.main_names = modules_seen, main_seen

    def bind(self, places: list[_Place], in_mode: bool) -> None:
        """Makes names refer to the replacements, or to the originals; others' values stay."""
        with self._lock:
            for names, name, original, replacement in places:
                old, new = (original, replacement) if in_mode else (replacement, original)
                if names.get(name) is old:
                    names[name] = new
