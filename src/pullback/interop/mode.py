"""`numpy_mode` and `differentiable`: NumPy's functions give tensors for a while.

Entering swaps the classes of NumPy's modules (`replaced.py`), binds names that user modules have
imported from NumPy (`imported.py`), and sets a bit of the dispatch state and the session, both of
which belong to the thread or task. The last exit restores classes and names.

A Ctrl-C at any moment leaves nothing behind (`pullback/interrupts.py` has the rules): users are the
keys of a dictionary and not a count, so that leaving twice is harmless, and classes are restored by
assignments, after which no signal is handled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from types import FunctionType, ModuleType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from pullback.dispatch.modes import NUMPY, State, get_state, set_state, state_of
from pullback.interop.callers import ORIGINAL, OUTSIDE, Callers, callers_of, file_of
from pullback.interop.imported import ImportedNames, find_names
from pullback.interop.replaced import (
    Session,
    current_session,
    module_classes,
    replacements,
)
from pullback.interrupts import run_to_end, uninterrupted_entry

__all__ = ["differentiable", "in_numpy_mode", "numpy_mode", "run_in_mode"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_session, _set_session = current_session.get, current_session.set
_users: dict[Session, None] = {}  # those in the mode now, in all threads
_linalg, _fft = np.linalg, np.fft  # read here: in the mode, each lookup is a call


def in_numpy_mode() -> bool:
    """Whether the calling thread or task is in the mode.

    >>> in_numpy_mode()
    False
    """
    return _session().callers is not OUTSIDE


@cache
def _imported() -> ImportedNames:
    return ImportedNames(callers_of((), None))


class _Entry:
    """One entry to the mode.

    `names` is a namespace to search for imported names, if it is not that of a module.
    """

    __slots__ = ("_before", "_callers", "_inside", "_names", "_outer", "_places", "_session")

    def __init__(self, callers: Callers, names: dict[str, Any] | None):
        self._callers = callers
        self._names = names

    def __enter__(self) -> None:
        imported = _imported()
        numpy, linalg, fft, mathematics = module_classes()
        if not imported.is_up_to_date():
            imported.search()
        self._places = imported.places
        if self._names is not None:
            self._places = [*self._places, *find_names(self._names)]
        self._outer = _session()
        self._before = before = get_state()
        session = self._session = Session(self._callers)
        try:
            _users[session] = None
            np.__class__ = numpy
            _linalg.__class__ = linalg
            _fft.__class__ = fft
            math.__class__ = mathematics
            if self._places:
                imported.bind(self._places, True)
            _set_session(session)
            self._inside = state_of(before.include, before.keep, before.modes | NUMPY)
            set_state(self._inside)
        except BaseException:
            self._inside = before
            self._restore()
            set_state(before)
            raise

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        before = self._before
        try:
            self._restore()
            now = get_state()
            after = before if now is self._inside else _without_mode(now, before)
        except BaseException:  # an interrupt
            set_state(before)
            raise
        set_state(after)

    @uninterrupted_entry
    def _restore(self) -> None:
        session = self._session
        session.callers = OUTSIDE
        _users[session] = None  # an interrupt may have come before it was there
        del _users[session]
        if not _users:
            np.__class__ = ModuleType
            _linalg.__class__ = ModuleType
            _fft.__class__ = ModuleType
            math.__class__ = ModuleType
        try:
            if self._places or not _imported().is_up_to_date():
                run_to_end(self._unbind)
        finally:
            if _session() is session:  # else a generator is closed in another context
                _set_session(self._outer)

    def _unbind(self) -> None:
        """Restores names of user modules, also of those that were imported in the mode."""
        imported = _imported()
        if not imported.is_up_to_date():
            imported.search()
        imported.bind([*self._places, *imported.places], bool(_users))


def _without_mode(now: State, before: State) -> State:
    """A state that the program has changed in the mode, without the mode if it began it."""
    return now if before.modes & NUMPY else state_of(now.include, now.keep, now.modes & ~NUMPY)


class numpy_mode:  # noqa: N801 - a block
    """A block in which NumPy's functions give tensors, so that writes into their results record.

    Holds for the calling thread or task, and for the functions that it calls: for user code, which
    is everything outside of ``site-packages`` and of the standard library. Calls that libraries
    make are as ever, unless they pass on a tensor that carries a gradient.

    Args:
        packages: names of installed packages whose code counts as user code, too.

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

    def __init__(self, packages: Iterable[str | ModuleType] = ()):
        self._callers = callers_of(packages, None)
        self._entered: tuple[Any, ...] = ()  # each entry with the tuple of those before it

    def __enter__(self) -> Self:
        entry = _Entry(self._callers, None)
        entry.__enter__()
        self._entered = (entry, self._entered)
        return self

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entry, self._entered = self._entered
        entry.__exit__(kind, error, trace)


def run_in_mode(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, run in the mode at every call; one that is no user code, as it is."""
    file = file_of(function)
    callers = callers_of((), function)
    if isinstance(function, FunctionType) and file is not None and callers[file] == ORIGINAL:
        return function
    function = replacements().get(id(function), function)  # pb.grad(math.exp)
    names: dict[str, Any] | None = getattr(function, "__globals__", {})
    module = sys.modules.get(names.get("__name__", ""))  # type: ignore[union-attr]
    if module is not None and module.__dict__ is names:
        names = None  # found with those of all modules

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _session().callers is callers:
            return function(*args, **kwargs)
        with _Entry(callers, names):
            return function(*args, **kwargs)

    return call


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
    return run_in_mode(function)
