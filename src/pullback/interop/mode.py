"""`numpy_mode` and `differentiable`: NumPy's functions give tensors for a while.

``a = np.zeros(n)`` followed by ``a[i] = x`` cannot be recorded, because ``np.zeros``
is called without a tensor and makes an array. So the mode replaces NumPy's functions in NumPy's own
namespaces (and, for a decorated function, where its module imported them by name). In a thread or
task that is not in the mode, and for callers inside NumPy or Pullback, the replacements call the
originals. The last mode to end restores them.

Only arrays of floating-point and complex numbers become tensors; integers, booleans and text have
no gradients, and stay arrays.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, update_wrapper, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pullback import errors
from pullback._cpython import get_frame
from pullback.autograd.graph.saved_mutation import keep_saved_values
from pullback.interop import table, vectorize
from pullback.interop.arguments import tensors_in
from pullback.interop.compiled import compiled_users
from pullback.interop.math_functions import MATH
from pullback.interop.protocols import handler
from pullback.tensor.tensor import adopt, fresh

__all__ = ["differentiable", "in_numpy_mode", "numpy_mode"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_depth: ContextVar[int] = ContextVar("numpy_mode", default=0)
_lock = threading.RLock()
# Where the code lies whose own calls are never changed; a compiled module is imported by the last.
_INSIDE = (
    *(os.path.dirname(file) + os.sep for file in (np.__file__, errors.__file__)),
    "<frozen importlib",
)
_TAKE_AN_ITERATOR = (np.fromiter, math.fsum, math.prod)  # whose tensors cannot be seen beforehand
_SPACES = {"": np, "linalg": np.linalg, "fft": np.fft}


def in_numpy_mode() -> bool:
    """Whether the calling thread or task is in the mode.

    >>> in_numpy_mode()
    False
    """
    return _depth.get() > 0


# --- replacements --------------------------------------------------------------------------------


def _concerns(frame: Any) -> bool:
    """Whether a caller is a user's code in the mode."""
    if not _depth.get():
        return False
    return not frame.f_code.co_filename.startswith(_INSIDE)


def _has_tensor(*values: Any) -> bool:
    return next(tensors_in(values), None) is not None


def _as_tensors(value: Any, given: Any = ()) -> Any:
    """Arrays of numbers that can have gradients, as tensors of the same memory."""
    if type(value) is np.ndarray and value.dtype.kind in "fc":
        own = value.flags.owndata and not any(value is argument for argument in given)
        return fresh(value.view()) if own else adopt(value.view())
    if type(value) in (tuple, list):
        return type(value)(_as_tensors(item, given) for item in value)
    return value


def _replaced(original: Callable[..., Any], ours: Callable[..., Any]) -> Any:
    """A function that in the mode calls ours if tensors are given, and wraps what NumPy makes."""
    eager = original in _TAKE_AN_ITERATOR

    def call(*args: Any, **kwargs: Any) -> Any:
        if not _concerns(get_frame(1)):
            return original(*args, **kwargs)
        if eager or _has_tensor(args, kwargs):
            kwargs.pop("like", None)
            return ours(*args, **kwargs)
        return _as_tensors(original(*args, **kwargs), args)

    return update_wrapper(call, original)


def _replaced_getitem(original: Callable[..., Any], ours: Callable[..., Any] | None) -> Any:
    """The same for ``np.r_[...]``, ``np.mgrid[...]`` and their kin."""

    def getitem(self: Any, key: Any) -> Any:
        if not _concerns(get_frame(1)):
            return original(self, key)
        bounds = [(k.start, k.stop, k.step) if isinstance(k, slice) else k for k in _listed(key)]
        if ours is not None and _has_tensor(bounds):
            return ours(original, self, key)
        return _as_tensors(original(self, key))

    return getitem


def _listed(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]


def _vectorize_call(original: Callable[..., Any]) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _concerns(get_frame(1)):
            return original(self, *args, **kwargs)
        if _has_tensor(args, kwargs):
            return vectorize.vectorized(self, args, kwargs)
        return _as_tensors(original(self, *args, **kwargs))

    return call


def _ours(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Our function, found when it is first called."""
    return table.IN_MODE.get(name) or (lambda *args, **kwargs: handler(original)(*args, **kwargs))


def _all_replacements() -> list[tuple[Any, str, Any]]:
    """Every place to change: whose attribute, its name, what stands there in the mode."""
    return [*compiled_users(), *_numpys_replacements()]


@cache
def _numpys_replacements() -> list[tuple[Any, str, Any]]:
    found: list[tuple[Any, str, Any]] = []
    for name in [*table.IN_MODE, *table.names()]:
        space, _, short = name.rpartition(".")
        original = getattr(_SPACES[space], short, None)
        if original is not None:
            found.append((_SPACES[space], short, _replaced(original, _ours(name, original))))
    for name, ours in MATH.items():
        found.append((math, name, _replaced(getattr(math, name), ours)))
    found.append((np, "ndenumerate", _replaced(np.ndenumerate, vectorize.enumerated)))
    found.append((np.vectorize, "__call__", _vectorize_call(np.vectorize.__call__)))
    for name in ("r_", "c_"):
        found.append((np, name, _replaced_object(getattr(np, name), vectorize.joined)))
    for name in ("mgrid", "ogrid"):
        found.append((np, name, _replaced_object(getattr(np, name), None)))
    return found


def _replaced_object(original: Any, ours: Callable[..., Any] | None) -> Any:
    """An object like ``np.r_`` whose ``__getitem__`` gives tensors in the mode.

    The class of the original stays as it is: Python 3.13 goes on calling an old ``__getitem__``
    of a class that was changed a thousand times.
    """
    kind = type(original)
    getitem = _replaced_getitem(kind.__getitem__, ours)
    return type(kind.__name__, (kind,), {"__getitem__": getitem})()


# --- installing them ----------------------------------------------------------------------------


class _Patch:
    """Attributes that are replaced while at least one block uses them (reference-counted)."""

    def __init__(self, places: Callable[[], list[tuple[Any, str, Any]]]):
        self._places = places
        self._changed: list[tuple[Any, str, Any]] = []
        self._users = 0

    def enter(self) -> None:
        with _lock:
            self._users += 1
            if self._users > 1:
                return
            for owner, name, new in self._places():
                self._changed.append((owner, name, _get(owner, name)))
                _set(owner, name, new)

    def leave(self) -> None:
        with _lock:
            self._users -= 1
            while not self._users and self._changed:
                _set(*self._changed.pop())


def _get(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, dict) else vars(owner)[name]


def _set(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)


_NUMPY = _Patch(_all_replacements)


def _imported_names(names: dict[str, Any]) -> _Patch:
    """The names under which a module has imported functions that the mode replaces."""

    def places() -> list[tuple[Any, str, Any]]:
        changed = [place for place in _NUMPY._changed if place[2] is not np]
        known = {id(old): getattr(owner, name) for owner, name, old in changed}
        return [(names, key, known[id(v)]) for key, v in list(names.items()) if id(v) in known]

    return _Patch(places)


@contextmanager
def _entered(*patches: _Patch) -> Iterator[None]:
    entered: list[_Patch] = []
    token = _depth.set(_depth.get() + 1)
    try:
        for patch in patches:
            patch.enter()
            entered.append(patch)
        with keep_saved_values():
            yield
    finally:
        for patch in reversed(entered):
            patch.leave()
        _depth.reset(token)


@contextmanager
def numpy_mode() -> Iterator[None]:
    """While it lasts, NumPy's functions give tensors, so that writes into their results record.

    Holds for the calling thread or task, and for the functions that it calls. Names that a module
    imported by ``from numpy import zeros`` are not seen; ``@differentiable`` sees those of the
    decorated function's module.

    >>> import numpy as np, pullback as pb
    >>> x = pb.tensor(3.0, requires_grad=True)
    >>> with pb.numpy_mode():
    ...     powers = np.zeros(3)
    ...     powers[0] = x
    ...     for i in range(1, 3):
    ...         powers[i] = powers[i - 1] * x
    >>> powers.sum().backward()
    >>> x.grad.item()
    34.0
    """
    with _entered(_NUMPY):
        yield


def differentiable(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Runs a function that was written for NumPy in `numpy_mode`, so that tensors pass through it.

    >>> import numpy as np, pullback as pb
    >>> @pb.differentiable
    ... def running_total(values):
    ...     total = np.zeros(len(values))
    ...     for i, value in enumerate(values):
    ...         total[i] = total[i - 1] + value if i else value
    ...     return total
    >>> x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> running_total(x).sum().backward()
    >>> x.grad.tolist()
    [3.0, 2.0, 1.0]
    """
    if not callable(function):
        raise TypeError(f"differentiable takes a function, not {type(function).__name__}")
    imported = _imported_names(getattr(function, "__globals__", {}))

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _entered(_NUMPY, imported):
            return function(*args, **kwargs)

    return call
