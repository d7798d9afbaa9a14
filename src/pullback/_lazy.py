"""What is loaded when it is first used: the names of a package, and modules behind their users.

``import pullback`` shall take little longer than importing NumPy, so what the first gradient does
not need is left for later. There are two ways, both declared at the top of a module beside an
ordinary import for type checkers, which a test compares with them:

- a package lists names that it offers and does not load (`lazy_names`);
- a module names another one whose attributes its functions will want (`lazy_module`).

Whatever they load is imported once, by Python's own machinery, whose locks make the first use from
several threads safe.
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
    """The functions ``__getattr__`` and ``__dir__`` of a package that loads names on demand.

    `places` tells the names of each module, as import statements would; those of the package
    itself are its modules.

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
            return import_module(f"{package}.{name}")  # which makes it an attribute, too
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    def list_all() -> list[str]:
        return sorted({*vars(sys.modules[package]), *found})

    return get, list_all


class _LazyModule:
    """Stands for a module; asking it for anything imports that."""

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
    """A module that is imported when one of its attributes is first read.

    >>> lazy_module("math").tau
    6.283185307179586
    """
    return _LazyModule(name)
