"""The functions and methods of SciPy's public modules that are intercepted.

A function is intercepted once, whatever modules offer it; its name is that of the subpackage that
was imported first. Methods are those of public classes, of the classes of public objects (``norm``
is a ``norm_gen``), and of the bases of both, as far as they are written in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

__all__ = ["Target", "targets"]

# Functions that a public object of another kind calls: those of scipy.fft are multimethods.
_BACKENDS = {
    "scipy.fft": (
        "scipy.fft._basic_backend",
        "scipy.fft._realtransforms_backend",
        "scipy.fft._fftlog_backend",
    )
}
# Classes whose instances public functions return.
_RETURNED_CLASSES = {
    "scipy.sparse": ("scipy.sparse._base:_spbase",),
    "scipy.sparse.linalg": ("scipy.sparse.linalg._interface:_CustomLinearOperator",),
    "scipy.stats": (
        "scipy.stats._distn_infrastructure:rv_frozen",
        "scipy.stats._multivariate:*_frozen",
        "scipy.stats._multivariate:multi_rv_frozen",
    ),
}
_OPERATORS = frozenset(
    f"__{name}__"
    for operator in ("add", "sub", "mul", "truediv", "matmul", "pow")
    for name in (operator, f"r{operator}")
)
_GENERATORS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_METHODS = _OPERATORS | {"__call__", "__getitem__", "__init__", "__setitem__"}


class Target(NamedTuple):
    """A Python function to intercept."""

    name: str  # "scipy.linalg.cho_solve", "scipy.stats.rv_continuous.logpdf"
    function: Any  # a FunctionType
    owner: type | None  # the class that defines a method
    has_self: bool  # whether the first argument is an instance or a class


def targets(module: ModuleType) -> Iterator[Target]:
    """Every function and method of a public module of SciPy that is written in Python."""
    package = module.__name__
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    classes: dict[type, None] = {}
    for name in sorted(names):
        value = getattr(module, name, None)
        if isinstance(value, FunctionType):
            if _can_be_replaced(value):
                yield Target(f"{package}.{name}", value, None, has_self=False)
        elif isinstance(value, type):
            classes[value] = None
        elif value is not None and not isinstance(value, ModuleType):
            classes[type(value)] = None
    for backend in _BACKENDS.get(package, ()):
        offered = vars(import_module(backend))
        for name in names:
            if _can_be_replaced(offered.get(name)):
                yield Target(f"{package}.{name}", offered[name], None, has_self=False)
    for place in _RETURNED_CLASSES.get(package, ()):
        classes.update(dict.fromkeys(_classes_at(place)))
    for kind in classes:
        for base in kind.__mro__:
            yield from _methods(package, base)


def _is_scipys(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("scipy.")


def _can_be_replaced(value: Any) -> bool:
    """Whether a value is a Python function of SciPy; the code of generators must stay such."""
    is_function = isinstance(value, FunctionType) and _is_scipys(value)
    return is_function and not value.__code__.co_flags & _GENERATORS


def _classes_at(place: str) -> list[type]:
    module, _, pattern = place.partition(":")
    suffix = pattern.removeprefix("*")
    found = vars(import_module(module)).items()
    return [
        value
        for name, value in found
        if isinstance(value, type)
        and (name.endswith(suffix) if pattern.startswith("*") else name == suffix)
    ]


def _methods(package: str, kind: type) -> Iterator[Target]:
    if not _is_scipys(kind) or issubclass(kind, BaseException):
        return
    for name, value in vars(kind).items():
        if name.startswith("_") and name not in _METHODS:
            continue
        is_static = isinstance(value, staticmethod)
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if _can_be_replaced(function):
            full = f"{package}.{kind.__name__}.{name}"
            yield Target(full, function, kind, has_self=not is_static)
