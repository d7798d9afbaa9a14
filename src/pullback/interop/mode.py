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
from functools import partial, update_wrapper, wraps
from types import FunctionType, MethodType, ModuleType
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from pullback.dispatch.modes import NUMPY, State, get_state, set_state, state_of
from pullback.errors import AutogradError, AutogradValueError
from pullback.interop.callers import ORIGINAL, OUTSIDE, callers_of, file_of
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
_linalg, _fft, _random = np.linalg, np.fft, np.random  # once: in the mode a lookup is a call


def in_numpy_mode() -> bool:
    """Whether the calling thread or task is in the mode.

    >>> in_numpy_mode()
    False
    """
    return _session().callers is not OUTSIDE


_imported = ImportedNames(callers_of((), None))
_modules, _main = sys.modules, _imported.main
_NUMPY_CLASS, _LINALG_CLASS, _FFT_CLASS, _MATH_CLASS, _RANDOM_CLASS = module_classes()
_inside: dict[State, State] = {}  # states with the mode, by those without


class _Entry(Session):
    """One entry to the mode, and its session.

    Attributes:
        names: a namespace to search for imported names, if it is not that of a module.
    """

    __slots__ = ("_before", "_outer", "_places", "_state", "names")

    names: dict[str, Any] | None

    def __enter__(self) -> None:
        self._before = before = get_state()
        self._outer = _session()
        # The condition of ``is_up_to_date``, here without a call.
        if len(_modules) != _imported.modules or len(_main) != _imported.main_names:
            _imported.search()
        self._places = _imported.places
        if self.names is not None:
            self._places = [*self._places, *find_names(self.names)]
        try:
            self._state = _inside.get(before) or _state_inside(before)
            _users[self] = None
            np.__class__ = _NUMPY_CLASS
            _linalg.__class__ = _LINALG_CLASS
            _fft.__class__ = _FFT_CLASS
            math.__class__ = _MATH_CLASS
            _random.__class__ = _RANDOM_CLASS
            if self._places:
                _imported.bind(self._places, True)
            _set_session(self)
            set_state(self._state)
        except BaseException:
            self._state = before
            self.__exit__()
            raise

    @uninterrupted_entry
    def __exit__(self, *error: object) -> None:
        self.callers = OUTSIDE
        _users[self] = None  # an interrupt may have come before it was there
        del _users[self]
        if not _users:
            np.__class__ = ModuleType
            _linalg.__class__ = ModuleType
            _fft.__class__ = ModuleType
            math.__class__ = ModuleType
            _random.__class__ = ModuleType
        after = self._before
        try:
            if self._places or len(_modules) != _imported.modules:
                run_to_end(self._unbind)
            now = get_state()
            if now is not self._state:
                after = _without_mode(now, after)
        finally:
            try:
                if _session() is self:  # else a generator is closed in another context
                    _set_session(self._outer)
            finally:
                set_state(after)

    def _unbind(self) -> None:
        """Restores names of user modules, also of those that were imported in the mode."""
        if not _imported.is_up_to_date():
            _imported.search()
        _imported.bind([*self._places, *_imported.places], bool(_users))


def _state_inside(before: State) -> State:
    """The state in the mode."""
    found = _inside[before] = state_of(before.include, before.keep, before.modes | NUMPY)
    return found


def _without_mode(now: State, before: State) -> State:
    """A state that the program has changed in the mode, without the mode if it began it."""
    return now if before.modes & NUMPY else state_of(now.include, now.keep, now.modes & ~NUMPY)


class numpy_mode:  # noqa: N801 - a block
    """A block in which NumPy's functions give tensors, so that writes into their results record.

    Holds for the calling thread or task, and for the functions that it calls: for user code, which
    is everything outside of ``site-packages`` and of the standard library. Calls that libraries
    make are NumPy's own, unless they pass on a tensor that carries a gradient.

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
        entry = _Entry()
        entry.callers, entry.names = self._callers, None
        entry.__enter__()
        self._entered = (entry, self._entered)
        return self

    @uninterrupted_entry
    def __exit__(self, *error: object) -> None:
        entry, self._entered = self._entered
        entry.__exit__()


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
        entry = _Entry()
        entry.callers, entry.names = callers, names  # without __init__: a call less
        with entry:
            try:
                return function(*args, **kwargs)
            except ValueError as error:
                if isinstance(error.__cause__, AutogradError):  # NumPy's error hides ours
                    raise _lost_in_element(error) from None
                raise

    return _InMode(call)


class _InMode(partial[Any]):
    """A function that runs in the mode: pickled as the function itself, bound as a method.

    A ``partial``, because its calls are compiled code; a plain function could not be pickled, since
    it belongs to one process.
    """

    __slots__ = ()

    def __init__(self, call: Callable[..., Any]):
        update_wrapper(self, call)

    def __reduce__(self) -> tuple[Any, ...]:
        return run_in_mode, (self.__wrapped__.__wrapped__,)  # type: ignore[attr-defined]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


def _lost_in_element(error: ValueError) -> AutogradValueError:
    """The error of a tensor that is written to an element of a plain array."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f" at {frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
    return AutogradValueError(
        f"a tensor that carries a gradient is written to an element of a plain ndarray{place}, "
        f"which keeps no gradients. The array was made outside of the function that is "
        f"differentiated, or in another thread. Make it inside (np.zeros and its kin give arrays "
        f"that record there), or make it a tensor first: array = pb.asarray(array)."
    )


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
