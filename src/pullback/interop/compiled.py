"""NumPy for compiled modules, which must get arrays while `numpy_mode` lasts.

Compiled code has no frame, so its calls look like its caller's: ``np.random`` would be given the
tensors that are meant for the user, and read their memory as if it were an array's. Each such
module looks NumPy up under a name of its own. There it gets a copy of NumPy in which nothing is
ever replaced, for good: nothing else differs from NumPy itself.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

import numpy as np

__all__ = ["give_originals", "originals"]

_SUFFIXES = tuple(EXTENSION_SUFFIXES)


@cache
def originals() -> ModuleType:
    """A copy of NumPy for compiled modules; must first be called outside of the mode."""
    import_module("numpy.random")  # else its first use, perhaps in the mode, imports it
    copy = _copied(np)
    for name in ("linalg", "fft", "random"):
        setattr(copy, name, _copied(getattr(np, name)))
    return copy


def _copied(module: ModuleType) -> ModuleType:
    copy = ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__)
    return copy


def give_originals(modules: list[ModuleType]) -> None:
    """Gives the compiled ones among some modules the copy of NumPy."""
    copy = originals()
    for module in modules:
        names = module.__dict__
        if str(names.get("__file__")).endswith(_SUFFIXES):
            for name in ("np", "numpy"):
                if names.get(name) is np:
                    names[name] = copy
