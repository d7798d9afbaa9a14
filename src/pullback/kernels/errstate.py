"""NumPy's error state and buffer size, changed faster than by ``np.errstate``.

Entering and leaving ``np.errstate`` takes three times as long as a function of a short vector.
NumPy reads its settings from a context variable, so the settings of ``errstate(all="ignore")`` are
made once, as `QUIET`, and assigned to it. Backward passes do so (anomaly mode finds bad numbers),
and kernels in which an intermediate value may overflow. Buffer sizes are set in the same way:

    before = get_settings()
    try:
        set_settings(QUIET)
        ...
    finally:
        set_settings(before)

An interrupt at any moment leaves the settings as they were (``pullback.interrupts``), which
``np.errstate`` does not promise; ``errstate`` of this module does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._cpython import numpy_settings
from pullback.interrupts import uninterrupted_entry

__all__ = [
    "QUIET",
    "errstate",
    "get_settings",
    "make_settings",
    "set_settings",
    "without_warnings",
]


def _read() -> Any:
    return np.geterr(), np.getbufsize()


def _write(settings: Any) -> None:
    np.seterr(**settings[0])
    np.setbufsize(settings[1])


def _make(*, bufsize: int | None = None, **changes: Any) -> Any:
    everywhere = changes.pop("all", None)
    errors = dict.fromkeys(np.geterr(), everywhere) if everywhere else np.geterr()
    return errors | changes, np.getbufsize() if bufsize is None else bufsize


# The current settings; the current ones with some changes; and a function that assigns settings.
get_settings: Callable[[], Any] = _read
make_settings: Callable[..., Any] = _make
set_settings: Callable[[Any], Any] = _write

_fast = numpy_settings()
if _fast is not None:
    get_settings, make_settings, set_settings = _fast

QUIET = make_settings(all="ignore")


def without_warnings(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of arrays without warnings about overflow, division by zero and the like.

    >>> without_warnings(np.exp, np.array([1000.0]))
    array([inf])
    """
    before = get_settings()
    try:
        set_settings(QUIET)
        return function(*args)
    finally:
        set_settings(before)


class errstate:  # noqa: N801 - NumPy's name
    """``np.errstate`` that restores the settings even if it is interrupted; a decorator, too.

    >>> with errstate(divide="ignore"):
    ...     np.log(np.array([0.0]))
    array([-inf])
    """

    def __init__(self, **changes: str):
        self._changes = changes

    def __enter__(self) -> None:
        self._before = before = get_settings()
        try:
            set_settings(make_settings(**self._changes))
        except BaseException:
            set_settings(before)
            raise

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        set_settings(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called with these settings."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with errstate(**self._changes):
                return function(*args, **kwargs)

        return run
