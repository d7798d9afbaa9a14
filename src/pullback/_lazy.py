"""Lazy imports: names of a package, and whole modules, that are imported at their first use.

``import pullback`` takes little longer than importing NumPy, so everything that the first gradient
does not need is imported later. There are two ways, both declared at the top of a module beside an
ordinary import for type checkers (a test compares the two):

- a package lists exported names and the modules that define them (`lazy_names`);
- a module refers to another one by its name (`lazy_module`).

Python's import system does the import, so the first use is safe in several threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["lazy_module", "lazy_names"]


def lazy_names(
    package: str, places: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` for a package that loads names on demand.

    `places` maps each module to the names to import from it; names listed for the package itself
    are its modules.

    >>> get, list_all = lazy_names("pullback._lazy", {"math": ["tau"]})
    >>> get("tau"), "tau" in list_all()
    (6.283185307179586, True)
    """
    found = {name: module for module, names in places.items() for name in names}

    def get(name: str) -> Any:
        module = found.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module == package:
            return import_module(f"{package}.{name}")  # the import sets the attribute
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)  # later uses skip __getattr__
        return value

    def list_all() -> list[str]:
        return sorted({*vars(sys.modules[package]), *found})

    return get, list_all


class _LazyModule:
    """Placeholder for a module; reading an attribute imports it."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        if not attribute.startswith("__"):
            setattr(self, attribute, value)
        return value

    def __repr__(self) -> str:
        return f"<module {self._name!r}, loaded when it is used>"


def lazy_module(name: str) -> Any:
    """Returns a placeholder for a module, imported when one of its attributes is first read.

    >>> lazy_module("math").tau
    6.283185307179586
    """
    return _LazyModule(name)
