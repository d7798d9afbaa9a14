"""Callbacks among the arguments of SciPy's functions, and the gradients that they capture.

`hooks.py` and `registry.py` ask here whether a call without tensors among its arguments needs a
derivative nevertheless. The search follows what a function can reach: closures, defaults, global
names, bound arguments, instances with or without ``__dict__``, their classes, and containers. What
it misses raises when SciPy takes a number out of the tensor.
"""

from __future__ import annotations

import enum
import gc
import numbers
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any

import numpy as np

from pullback.interop.arguments import HOLDERS, carries_gradient, holds_gradient
from pullback.tensor.tensor import Tensor

__all__ = ["captures_gradient", "global_names", "is_callback"]

_FUNCTIONS = (FunctionType, MethodType, partial)
_ARRAY_LIBRARIES = frozenset({"numpy", "scipy", "pullback"})
_LIBRARIES = _ARRAY_LIBRARIES | sys.stdlib_module_names
_MAX_OBJECTS_SEARCHED = 1000  # a search of this length takes about 1 ms

# Types whose values are not searched: they refer to no tensor, or to the whole process.
_NEVER = (
    ModuleType,
    np.generic,
    np.ufunc,
    np.dtype,
    numbers.Number,
    str,
    bytes,
    enum.Enum,
    NoneType,
    CodeType,
    FrameType,
    GeneratorType,
    BuiltinFunctionType,
)


def is_callback(value: Any) -> bool:
    """Whether a value can be called and may capture tensors."""
    if isinstance(value, _FUNCTIONS):
        return True
    if isinstance(value, (type, Tensor, *_NEVER)) or not callable(value):
        return False
    kind = type(value)
    return kind in HOLDERS or kind is np.vectorize or _package(kind) not in _ARRAY_LIBRARIES


def captures_gradient(callback: Any) -> bool:
    """Whether a callback can reach a tensor that carries a gradient."""
    seen: set[int] = set()
    waiting: deque[Any] = deque([callback])
    while waiting and len(seen) < _MAX_OBJECTS_SEARCHED:
        value = waiting.popleft()
        if isinstance(value, Tensor):
            if carries_gradient(value):
                return True
            continue
        if isinstance(value, _NEVER) or id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in HOLDERS:
            if holds_gradient(value):
                return True
            continue
        waiting.extend(_reachable(value))
    return False


def _reachable(value: Any) -> Iterable[Any]:
    """The values that an object refers to."""
    if isinstance(value, FunctionType):
        return _reachable_from_function(value)
    if isinstance(value, type):
        return () if _package(value) in _LIBRARIES else list(vars(value).values())
    if isinstance(value, np.ndarray):
        return value.ravel()[:_MAX_OBJECTS_SEARCHED].tolist() if value.dtype == object else ()
    if isinstance(value, dict):
        return list(value.values())
    if _package(type(value)) == "pullback" and "__wrapped__" in getattr(value, "__dict__", ()):
        return [value.__wrapped__]  # a compiled function: not the graphs that it keeps
    return gc.get_referents(value)


def _reachable_from_function(function: FunctionType) -> list[Any]:
    found = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # an empty cell
            continue
    if _package(function) in _LIBRARIES:
        return found
    names, known = set(global_names(function.__code__)), function.__globals__
    for name in names & known.keys():
        value = known[name]
        if isinstance(value, ModuleType) and _package_of(value.__name__) not in _LIBRARIES:
            found += [vars(value)[each] for each in names & vars(value).keys()]
        else:
            found.append(value)
    return found


def global_names(code: CodeType) -> Iterator[str]:
    """The global names and attributes that a function and the functions inside it read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


def _package(value: Any) -> str:
    return _package_of(value.__module__)


def _package_of(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
