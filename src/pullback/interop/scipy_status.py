"""Behaviour of each ufunc of ``scipy.special`` on tensors.

For the page that lists them, and for the test that keeps it true.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.namespaces import arrays
from pullback.interop.scipy_special import load_functions
from pullback.interop.ufuncs import UFUNCS

__all__ = ["SpecialStatus", "by_functions", "special_functions", "special_status"]

_CATALOGUE = Path(__file__).resolve().parents[1] / "_generated/scipy_special/catalogue.json"


class SpecialStatus(NamedTuple):
    """The arguments that a gradient passes to, and those that refuse it."""

    differentiable: tuple[str, ...]
    refused: tuple[str, ...]


def special_functions() -> dict[str, np.ufunc]:
    """The public universal functions of the SciPy that is installed, by name."""
    special = import_module("scipy.special")
    found = {name: getattr(special, name) for name in sorted(special.__all__)}
    return {name: value for name, value in found.items() if isinstance(value, np.ufunc)}


def by_functions() -> dict[str, np.ufunc]:
    """The hidden universal functions that functions like ``lambertw`` are made of."""
    load_functions()
    public = set(special_functions().values())
    linked = ((record["function"], getattr(arrays, record["function"])) for record in _records())
    return {name.removeprefix("special_"): u for name, u in linked if u not in public}


def special_status(ufunc: np.ufunc) -> SpecialStatus | None:
    """The differentiable arguments; None if a tensor that carries a gradient raises."""
    load_functions()
    for record in _records():
        if getattr(arrays, record["function"]) is ufunc:
            formulas = record["derivatives"].items()
            known = tuple(name for name, text in formulas if "not_implemented" not in text)
            return SpecialStatus(known, tuple(n for n, _ in formulas if n not in known))
    return SpecialStatus(("x",), ()) if ufunc in UFUNCS else None


@cache
def _records() -> list[dict[str, Any]]:
    return json.loads(_CATALOGUE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
