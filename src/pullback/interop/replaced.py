"""Replacements of NumPy's functions in `numpy_mode`, and the classes of its modules.

``a = np.zeros(n)`` followed by ``a[i] = x`` cannot be recorded, because ``np.zeros`` is called
without a tensor and makes an array. So the modules ``numpy``, ``numpy.linalg``, ``numpy.fft``,
``numpy.random`` and ``math`` get another class for a while: a subclass of ``ModuleType`` with a
property for each name that is replaced. Their namespaces stay as they are. The property looks at
the caller (`callers.py`): user code gets the replacement, other threads, NumPy and libraries get
the original; for the few functions that NumPy cannot dispatch by a protocol (``np.asarray``),
library code gets a function that looks for tensors that carry gradients.

Only arrays of floating-point and complex numbers become tensors; integers, booleans and text have
no gradients, and stay arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from pullback._cpython import get_frame
from pullback.dispatch.modes import TRACE, get_state
from pullback.interop import random_numbers, table, vectorize
from pullback.interop.arguments import holds_gradient, tensors_in, words
from pullback.interop.callers import OUTSIDE, USER, Callers
from pullback.interop.math_functions import MATH
from pullback.interop.protocols import HANDLERS, handler
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import TRACES, Tensor, adopt, fresh, note_literal

__all__ = ["OUTER", "Replacement", "Session", "current_session", "keeps_constants"]
__all__ += ["module_classes", "replacements"]

_TAKE_AN_ITERATOR = (np.fromiter, math.fsum, math.prod)  # whose tensors cannot be seen beforehand
_SPACES = {"": np, "linalg": np.linalg, "fft": np.fft}
# Functions that make arrays of their arguments, and that NumPy dispatches by no protocol.
_CONVERSIONS = frozenset(
    words("""
    arange array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray fromiter full
    require
    """)
)
_OF_ELEMENTS = frozenset({np.array, np.asarray, np.asanyarray, np.full, np.full_like})
_WEAK = frozenset(
    {np.where, np.clip, np.select, np.result_type, np.can_cast, np.isscalar, np.real, np.imag}
)
"""Functions for which a Python number is another argument than an array without axes."""
_ndarray = np.ndarray
_LISTS = frozenset({list, tuple, dict})
# Types of arguments that hold no tensor, and need no search.
_PLAIN = frozenset({np.ndarray, int, float, complex, bool, str, type, type(None), np.dtype})


class Session:
    """One use of the mode, from entry to exit.

    A task that was started in the mode and outlives it still has the session in its context;
    `callers` is `OUTSIDE` from the exit on.
    """

    __slots__ = ("callers",)

    callers: Callers


OUTER = Session()
OUTER.callers = OUTSIDE
# Whether tensors without a gradient stay tensors in library code, too: of a traced program.
keeps_constants: ContextVar[bool] = ContextVar("pullback_keeps_constants", default=False)
current_session: ContextVar[Session] = ContextVar("pullback_numpy_mode", default=OUTER)
_session = current_session.get


def _restore(space: str, name: str) -> Any:
    """The object that a pickled replacement stands for."""
    module = _SPACES.get(space) or _modules()[space]
    return vars(module)[name]


class Replacement(partial):  # type: ignore[type-arg]  # of functions of any kind
    """A function in the place of one of NumPy's; equal to it, and pickled as it.

    A ``partial``, because its calls are compiled code, and Python functions are pickled by a lookup
    in NumPy's namespace, where libraries find the original.
    """

    place: tuple[str, str]  # the namespace and the name
    __wrapped__: Any

    def __eq__(self, other: object) -> bool:
        return other is self or self.__wrapped__ is other

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce__(self) -> Any:
        return _restore, self.place

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _replacement(call: Callable[..., Any], original: Any, ours: Any, space: str, name: str) -> Any:
    made = Replacement(call, original, ours)
    made.__wrapped__ = original
    made.place = (space, name)
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(made, attribute, getattr(original, attribute, None))
    return made


def _has_tensor(value: Any) -> bool:
    return next(tensors_in(value), None) is not None


def _as_tensors(value: Any, given: Any = ()) -> Any:
    """Arrays of numbers that can have gradients, as tensors of the same memory."""
    if type(value) is _ndarray:
        if value.dtype.kind not in "fc":
            return value
        if value.base is None and value.flags.owndata:
            for argument in given:
                if argument is value:
                    break
            else:
                return fresh(value)  # new: no other object holds it
        elif _is_new(value, given):  # a view, as np.linspace returns one
            return fresh(value)
        # In a trace, what others may hold stays an array: a graph reads and compares it as one.
        return value if get_state().modes & TRACE else adopt(value.view())
    if type(value) in (tuple, list):
        return type(value)(_as_tensors(item, given) for item in value)
    return value


def _is_new(value: Any, given: Any) -> bool:
    """Whether an array lies in memory that a function has made, and not in what it was given."""
    owner = owner_of(value)
    return bool(owner.flags.owndata) and not any(_may_hold(item, owner) for item in given)


def _may_hold(value: Any, owner: Any) -> bool:
    """Whether an argument is an array in the memory of `owner`, or an object that may have one."""
    if isinstance(value, np.ndarray):
        return owner_of(value) is owner
    if isinstance(value, list | tuple):
        return any(_may_hold(item, owner) for item in value)
    return type(value) not in _PLAIN


def _holds_number(value: Any) -> bool:
    """Whether an argument is a number of a program that is traced, or a list with one."""
    if type(value) in (list, tuple):
        return any(map(_holds_number, value))
    return hasattr(type(value), "__pullback_tensor__")


def _numbers_as_tensors(value: Any) -> Any:
    """Numbers of a program that is traced, but integers, which may be lengths or axes."""
    if type(value) in (list, tuple):
        return type(value)(map(_numbers_as_tensors, value))
    if isinstance(value, float | complex):
        make: Callable[[], Tensor] | None = getattr(value, "__pullback_tensor__", None)
        return value if make is None else make()
    return value


def _takes_numbers(original: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call without tensors has numbers of a program that is traced for elements."""
    given = (args, *kwargs.values())
    if original in _WEAK or not _holds_number(given):
        return False
    return original in _OF_ELEMENTS or _has_tensor(_numbers_as_tensors(given))


def _for_users(original: Any, ours: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls ours if tensors are given; else NumPy's function, whose arrays become tensors."""
    callers = _session().callers
    if callers is OUTSIDE:  # kept in a variable after the mode
        return original(*args, **kwargs)
    for value in args:
        kind = type(value)
        if kind is Tensor or (kind not in _PLAIN and _has_tensor(value)):
            break
    else:
        if TRACES and _takes_numbers(original, args, kwargs):
            if original not in _OF_ELEMENTS:
                args = _numbers_as_tensors(args)
                kwargs = {name: _numbers_as_tensors(value) for name, value in kwargs.items()}
        elif not kwargs or not _has_tensor(kwargs):
            made = original(*args, **kwargs)
            kind = type(made)
            if (kind is _ndarray or kind in _LISTS) and (
                # Not where user code has passed the function to a library, which wants arrays.
                callers[get_frame(1).f_code.co_filename] == USER
            ):
                if TRACES and kind is _ndarray:
                    note_literal(made, (args, kwargs))
                return _as_tensors(made, (*args, *kwargs.values()) if kwargs else args)
            return made
    if kwargs:
        kwargs.pop("like", None)
    return (ours or HANDLERS.get(original) or handler(original))(*args, **kwargs)


def _for_math(original: Any, ours: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls ours if tensors are given, or numbers of a program that is traced."""
    if _session().callers is not OUTSIDE:
        for value in args:
            kind = type(value)
            if kind is Tensor or (
                kind not in _PLAIN and (hasattr(kind, "__pullback_call__") or _has_tensor(value))
            ):
                return ours(*args, **kwargs)
        if kwargs and _has_tensor(kwargs):
            return ours(*args, **kwargs)
    return original(*args, **kwargs)


def _for_users_eagerly(original: Any, ours: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The same for functions that take an iterator, whose tensors are seen by taking them out."""
    if _session().callers is OUTSIDE:
        return original(*args, **kwargs)
    return ours(*args, **kwargs)


def _for_random(original: Any, ours: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls ours for a generator, and if tensors are given; numbers that are drawn stay arrays."""
    if _session().callers is OUTSIDE:
        return original(*args, **kwargs)
    if original.__name__ == "default_rng" or _has_tensor(args) or _has_tensor(kwargs):
        return ours(*args, **kwargs)
    return original(*args, **kwargs)


def _holds_tensor(value: Any) -> bool:
    return next(tensors_in(value), None) is not None


def _for_libraries(original: Any, ours: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls ours if a tensor that carries a gradient is given, else NumPy's function."""
    is_kept = _holds_tensor if keeps_constants.get() else holds_gradient
    for value in args:
        kind = type(value)
        if (kind is Tensor or kind not in _PLAIN) and is_kept(value):
            break
    else:
        if not kwargs or not is_kept(kwargs):
            return original(*args, **kwargs)
    kwargs.pop("like", None)
    return ours(*args, **kwargs)


# --- objects that are indexed or called -----------------------------------------------------------


def _replaced_object(original: Any, ours: Callable[..., Any] | None) -> Any:
    """An object like ``np.r_`` whose ``__getitem__`` gives tensors in the mode."""
    kind = type(original)
    theirs = kind.__getitem__

    def getitem(self: Any, key: Any) -> Any:
        if _session().callers is OUTSIDE:
            return theirs(self, key)
        listed = list(key) if isinstance(key, tuple) else [key]
        bounds = [(k.start, k.stop, k.step) if isinstance(k, slice) else k for k in listed]
        if ours is not None and _has_tensor(bounds):
            return ours(theirs, self, key)
        return _as_tensors(theirs(self, key))

    return type(kind.__name__, (kind,), {"__getitem__": getitem})()


@cache
def _replace_vectorize() -> None:
    """Lets the objects of ``np.vectorize`` take tensors, in the mode only; for good.

    They are made at any time, often before the mode. A class that were changed at every entry would
    slow down every lookup in it, and Python 3.13 goes on calling an old special method of a class
    that was changed a thousand times. The check takes 0.1 of 10 microseconds of a call.
    """
    original = np.vectorize.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        callers = _session().callers
        if callers is OUTSIDE:
            return original(self, *args, **kwargs)
        if _has_tensor(args) or _has_tensor(kwargs):
            return vectorize.vectorized(self, args, kwargs)
        made = original(self, *args, **kwargs)
        return _as_tensors(made) if callers[get_frame(1).f_code.co_filename] == USER else made

    call.__doc__, call.__name__ = original.__doc__, "__call__"
    np.vectorize.__call__ = call  # type: ignore[method-assign]


# --- module classes ------------------------------------------------------------------------------


def _modules() -> dict[str, ModuleType]:
    return {**_SPACES, "math": math, "random": import_module("numpy.random")}


@cache
def _entries() -> list[tuple[str, str, Any, Any, Any]]:
    """Each replaced object: its namespace and name, it itself, what users and libraries get."""
    found: list[tuple[str, str, Any, Any, Any]] = []

    def add(space: str, name: str, ours: Any, is_dispatched: bool = True) -> None:
        original = vars(_modules()[space]).get(name)
        if original is None:
            return
        call = _for_math if space == "math" else _for_users
        if original in _TAKE_AN_ITERATOR:
            call = _for_users_eagerly
        user = _replacement(call, original, ours, space, name)
        library = original
        if not is_dispatched:
            library = _replacement(_for_libraries, original, ours, space, name)
        found.append((space, name, original, user, library))

    for full in [*table.IN_MODE, *table.names()]:
        space, _, name = full.rpartition(".")
        # None: the function of ``__array_function__``, which is found when it is first called.
        add(space, name, table.IN_MODE.get(full), full not in _CONVERSIONS)
    for name, ours in MATH.items():
        add("math", name, ours)
    add("", "ndenumerate", vectorize.enumerated)
    _add_random(found)
    for name in ("r_", "c_", "mgrid", "ogrid"):
        original = getattr(np, name)
        joined = vectorize.joined if name in ("r_", "c_") else None
        found.append(("", name, original, _replaced_object(original, joined), original))
    return found


def _add_random(found: list[tuple[str, str, Any, Any, Any]]) -> None:
    """Adds the functions and classes of ``numpy.random`` that take parameters."""
    names = vars(_modules()["random"])
    for name, kind in random_numbers.CLASSES.items():
        found.append(("random", name, names[name], kind, names[name]))
    original = names["default_rng"]
    made = _replacement(
        _for_random, original, random_numbers.default_rng(original), "random", "default_rng"
    )
    found.append(("random", "default_rng", original, made, original))
    for name in [*random_numbers.DISTRIBUTIONS, *random_numbers.REFUSED]:
        original = names.get(name)
        if original is not None:
            ours = random_numbers.module_function(name, original)
            made = _replacement(_for_random, original, ours, "random", name)
            found.append(("random", name, original, made, original))


@cache
def replacements() -> dict[int, Any]:
    """The replacement of each function, by the identity of the original."""
    return {id(original): user for _, _, original, user, _ in _entries()}


def _property(names: dict[str, Any], name: str, choices: tuple[Any, Any, Any]) -> property:
    """The attribute of a module that is chosen by the caller; an assignment takes its place."""
    user, _, original = choices

    def get(_: Any) -> Any:
        try:
            if names[name] is not original:  # the program itself has set the attribute
                return names[name]
        except KeyError:
            raise AttributeError(f"module has no attribute {name!r}") from None
        return choices[_session().callers[get_frame(1).f_code.co_filename]]

    def put(_: Any, value: Any) -> None:
        is_ours = value is user or (type(value) is Replacement and value.__wrapped__ is original)
        names[name] = original if is_ours else value

    def delete(_: Any) -> None:
        del names[name]

    return property(get, put, delete)


@cache
def module_classes() -> tuple[type[ModuleType], ...]:
    """The classes in the mode, in the order of `_modules`: NumPy, its linalg, fft, math, random."""
    _replace_vectorize()
    made = []
    for space, module in _modules().items():
        names = vars(module)
        body = {
            name: _property(names, name, (user, library, original))
            for place, name, original, user, library in _entries()
            if place == space
        }
        made.append(type("module", (ModuleType,), body))
    return tuple(made)
