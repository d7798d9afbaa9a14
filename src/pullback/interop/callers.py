"""The callers of NumPy's functions in `numpy_mode`: user code, library code, NumPy and Pullback.

The mode replaces NumPy's functions for user code: files outside of ``site-packages`` and of the
standard library, and the packages that a mode names. Library code gets NumPy's originals, and a
replacement only where it passes on a tensor that carries a gradient. NumPy's and Pullback's own
code always gets the originals.

A caller is known by the file of its code object (``co_filename``), so that one dictionary lookup
answers; each file is classified once.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.util import find_spec
from inspect import unwrap
from types import ModuleType
from typing import Any

import numpy as np

from pullback import errors
from pullback.dispatch.caller import add_user_folders

__all__ = [
    "LIBRARY",
    "ORIGINAL",
    "OUTSIDE",
    "USER",
    "Callers",
    "callers_of",
    "file_of",
    "package_of",
]

# The kinds of callers, as places in a tuple of (replacement, function for libraries, original).
USER, LIBRARY, ORIGINAL = 0, 1, 2


def _folder(path: str) -> str:
    return os.path.realpath(path) + os.sep


_OWN = tuple(_folder(os.path.dirname(str(file))) for file in (np.__file__, errors.__file__))
_STANDARD = tuple({_folder(sysconfig.get_paths()[key]) for key in ("stdlib", "platstdlib")})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Callers(dict[str, int]):
    """The kind of each file that calls; `folders` are packages that count as user code."""

    def __init__(self, folders: tuple[str, ...]):
        super().__init__()
        self._folders = folders

    def __missing__(self, filename: str) -> int:
        kind = self[filename] = self._classify(filename)
        return kind

    def _classify(self, filename: str) -> int:
        if filename.startswith("<"):
            # Code without a file: a notebook's cell or exec; a compiled module is imported by
            # "<frozen importlib._bootstrap>".
            return LIBRARY if filename.startswith(("<frozen", "<__array_function__")) else USER
        path = os.path.realpath(filename)
        if path.startswith(_OWN):
            return ORIGINAL
        if path.startswith(self._folders):
            return USER
        is_library = path.startswith(_STANDARD) or any(part in path for part in _INSTALLED)
        return LIBRARY if is_library else USER


class _Outside(Callers):
    """The callers of a thread or task that is not in the mode: they all get the originals."""

    def _classify(self, filename: str) -> int:  # noqa: ARG002 - every file alike
        return ORIGINAL


OUTSIDE = _Outside(())


@cache
def _callers_in(folders: tuple[str, ...]) -> Callers:
    add_user_folders(folders)
    return Callers(folders)


def callers_of(packages: Iterable[str | ModuleType], function: Callable[..., Any] | None) -> Any:
    """The callers of a mode: named packages and the package of a function count as user code."""
    if isinstance(packages, str | ModuleType):
        packages = [packages]
    folders = {_folder_of(package) for package in packages}
    if function is not None and (own := package_of(function)) is not None:
        folders.add(own)
    return _callers_in(tuple(sorted(folders)))


def _folder_of(package: str | ModuleType) -> str:
    """The folder of a package; of a single module, its file."""
    if isinstance(package, ModuleType):
        file, name = package.__file__, package.__name__
    else:
        name = package
        loaded = sys.modules.get(package)
        spec = find_spec(package) if loaded is None else None
        file = spec.origin if spec is not None else getattr(loaded, "__file__", None)
    if file is None:
        raise ValueError(
            f"numpy_mode: packages takes names of installed Python packages or modules, and "
            f"{name!r} has no file"
        )
    is_package = os.path.basename(file).startswith("__init__.")
    return _folder(os.path.dirname(file)) if is_package else os.path.realpath(file)


def file_of(function: Callable[..., Any]) -> str | None:
    """The file of a function's code; None for compiled functions."""
    while isinstance(function, partial):
        function = function.func
    function = unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    if code is None:
        method: Any = vars(type(function)).get("__call__")
        code = getattr(method, "__code__", None)
    return None if code is None else code.co_filename


def package_of(function: Callable[..., Any]) -> str | None:
    """The folder of the installed package that a function belongs to; None for other user code."""
    file = file_of(function)
    if file is None or file.startswith("<"):
        return None
    path = os.path.realpath(file)
    for part in _INSTALLED:
        before, found, after = path.rpartition(part)
        if found and not path.startswith(_OWN):
            top = before + found + after.partition(os.sep)[0]
            return top if top.endswith(".py") else top + os.sep
    return None
