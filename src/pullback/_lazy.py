"""Lazy imports: names of a package, and whole modules, that are imported at their first use.

``import pullback`` takes little longer than importing NumPy, so everything that the first gradient
does not need is imported later. There are two ways, both declared at the top of a module beside an
ordinary import for type checkers (a test compares the two):

- a package lists exported names and the modules that define them (`lazy_names`);
- a module refers to another one by its name (`lazy_module`).

What is to be done to modules of an optional package is done when they are loaded (`after_import`).
Python's import system does the import, so the first use is safe in several threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__all__ = ["after_import", "lazy_module", "lazy_names"]


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
        try:
            module = import_module(self._name)
        except ModuleNotFoundError:
            if attribute.startswith("__"):  # inspect and doctest look for __wrapped__
                raise AttributeError(attribute) from None
            raise
        value = getattr(module, attribute)
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


def after_import(names: Collection[str], act: Callable[[ModuleType], None]) -> None:
    """Calls a function with each of the named modules: at once if loaded, or after its import.

    >>> after_import(["math"], lambda module: print(module.tau))
    6.283185307179586
    """
    sys.meta_path.insert(0, _Finder(names, act))
    for name in sorted(set(names) & sys.modules.keys()):
        act(sys.modules[name])


class _Finder:
    """Finds what the other finders of ``sys.meta_path`` find; its loader acts afterwards."""

    def __init__(self, names: Collection[str], act: Callable[[ModuleType], None]):
        self._names, self._act = frozenset(names), act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                loader: Any = _ActingLoader(spec.loader, self._act)
                spec.loader = loader
                return spec
        return None


class _ActingLoader:
    """Runs a module by its own loader, which the module keeps, and acts."""

    def __init__(self, loader: Any, act: Callable[[ModuleType], None]):
        self._loader, self._act = loader, act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._act(module)
