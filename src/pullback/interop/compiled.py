"""NumPy for compiled modules, which must get arrays while `numpy_mode` lasts.

Compiled code has no frame, so its calls look like its caller's: ``np.random`` would be given the
tensors that are meant for the user, and read their memory as if it were an array's. Each such
module looks NumPy up under a name of its own. While the mode lasts, it finds a copy of NumPy there
in which nothing is replaced.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["compiled_users"]

_SUFFIXES = tuple(EXTENSION_SUFFIXES)
_known: list[tuple[ModuleType, str]] = []
_modules_seen = 0


def compiled_users() -> list[tuple[Any, str, Any]]:
    """Returns each compiled module that uses NumPy, its name for NumPy, and a copy of NumPy.

    Must be called before NumPy's functions are replaced.
    """
    copy = _copied(np)
    copy.__dict__.update(linalg=_copied(np.linalg), fft=_copied(np.fft))
    return [(module, name, copy) for module, name in _users()]


def _copied(module: ModuleType) -> ModuleType:
    copy = ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__)
    return copy


def _users() -> list[tuple[ModuleType, str]]:
    global _modules_seen
    import_module("numpy.random")  # else its first use, perhaps in the mode, imports it
    if len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        _known[:] = [
            (module, name)
            for module in list(sys.modules.values())
            if str(getattr(module, "__file__", None)).endswith(_SUFFIXES)
            for name in ("np", "numpy")
            if module.__dict__.get(name) is np
        ]
    return _known
