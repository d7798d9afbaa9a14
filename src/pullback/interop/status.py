"""Behaviour of each public NumPy function on tensors, as one word and a remark.

For the page that lists them, and for the test that keeps it true.
"""

from __future__ import annotations

import types
from typing import Any, NamedTuple

import numpy as np

from pullback.interop import table
from pullback.interop.ufuncs import NOT_DIFFERENTIABLE, UFUNCS, is_discrete

__all__ = ["KINDS", "Status", "public_functions", "status"]

KINDS = {
    "differentiable": "gradients pass; the arguments are NumPy's",
    "values": "the result is integers, booleans, a shape, a type or text: computed from the values",
    "in numpy_mode": "differentiable inside `numpy_mode` or `@differentiable`, and with `like=` "
    "where NumPy has it; elsewhere a tensor that carries a gradient raises",
    "raises": "a tensor that carries a gradient raises, with the way out in the message",
    "no arrays": "takes no arrays of numbers",
}
_SPACES: dict[str, Any] = {"": np, "linalg.": np.linalg, "fft.": np.fft}


class Status(NamedTuple):
    """Behaviour of a NumPy function on tensors: a key of `KINDS`, and a remark."""

    kind: str
    remark: str = ""


def _is_function(value: Any) -> bool:
    """Whether a public name stands for something that could be called on an array."""
    if isinstance(value, type):
        return not issubclass(value, np.generic | Exception | Warning)
    constant = isinstance(value, types.ModuleType | str | int | float | dict | tuple | np.generic)
    return not constant and value is not None


def public_functions() -> list[str]:
    """The functions and classes of ``numpy``, ``numpy.linalg`` and ``numpy.fft``, as installed.

    >>> {"sin", "linalg.solve", "fft.fft"} <= set(public_functions())
    True
    """
    return [
        prefix + name
        for prefix, space in _SPACES.items()
        for name in sorted(space.__all__)
        # NumPy 2.0 lists some private names, too.
        if not (name.startswith("_") and not name.startswith("__"))
        if _is_function(getattr(space, name))
    ]


def status(name: str) -> Status:
    """The behaviour of a NumPy function on tensors.

    >>> status("sin").kind, status("argmax").kind, status("zeros").kind
    ('differentiable', 'values', 'in numpy_mode')
    """
    prefix = name[: name.rfind(".") + 1]
    function = getattr(_SPACES[prefix], name[len(prefix) :])
    if isinstance(function, np.ufunc):
        return _ufunc_status(function)
    if name in table.names() or name in table.BY_OTHERS:
        return Status("differentiable")
    if name in table.VALUES:
        return Status("values")
    if name in table.IN_MODE or name in table.IN_MODE_OBJECTS:
        return Status("in numpy_mode")
    if name in table.REFUSED:
        return Status("raises", table.REFUSED[name])
    if name in table.WITHOUT_ARRAYS:
        return Status("no arrays")
    raise KeyError(f"{name} is in no table of pullback.interop.table")


def _ufunc_status(ufunc: np.ufunc) -> Status:
    if is_discrete(ufunc):
        return Status("values")
    if ufunc.__name__ in NOT_DIFFERENTIABLE:
        return Status("raises", "In the backward pass. " + NOT_DIFFERENTIABLE[ufunc.__name__])
    if ufunc in UFUNCS:
        return Status("differentiable")
    raise KeyError(f"the ufunc {ufunc.__name__} is not in pullback.interop.ufuncs")
