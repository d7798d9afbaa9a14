"""SciPy's special functions on tensors, found when the first of them meets a tensor.

They are universal functions like NumPy's, so they arrive at ``__array_ufunc__``. Their operators
are those of ``operators/scipy_special/table.yaml``, whose generated source imports SciPy: it is
loaded here, when SciPy is loaded already and a tensor meets a function that NumPy does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback.autograd.namespaces import arrays
from pullback.dispatch.table import LOCK
from pullback.interop.ufuncs import UFUNCS

__all__ = ["find_function", "load_functions"]

_SPECIAL = "scipy.special"
_UFUNCS = "scipy.special._ufuncs"  # the public names are Python functions in SCIPY_ARRAY_API=1
_TABLE = "pullback._generated.scipy_special"
# SciPy's own copies of what NumPy has.
_AS_IN_NUMPY = {"cbrt": "cbrt", "exp2": "exp2", "expm1": "expm1", "log1p": "log1p", "round": "rint"}
_loaded: list[bool] = []


def find_function(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Our function for one of SciPy's; None if there is none, or if SciPy is not in use."""
    if not _loaded:
        if _SPECIAL not in sys.modules:
            return None
        load_functions()
    return UFUNCS.get(ufunc)


def load_functions() -> None:
    """Registers the operators of the table, and links SciPy's functions to theirs."""
    with LOCK:  # a table is loaded under the lock of all tables
        if _loaded:
            return
        special = import_module(_UFUNCS)
        import_module(f"{_TABLE}.register")
        functions = import_module(f"{_TABLE}.functions_scipy_special")
        linked = {getattr(arrays, name): getattr(functions, name) for name in functions.__all__}
        for theirs, ours in _AS_IN_NUMPY.items():
            linked[getattr(special, theirs)] = getattr(pointwise, ours)
        UFUNCS.update(linked)
        _loaded.append(True)
