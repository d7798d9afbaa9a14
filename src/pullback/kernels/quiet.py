"""NumPy's settings changed for a moment, where ``np.errstate`` would cost too much: no warnings.

Entering and leaving ``np.errstate`` takes three times as long as a function of a short vector.
NumPy reads its settings from a context variable, so the settings of ``errstate(all="ignore")`` are
made once and put there. Backward passes do so, since anomaly mode finds bad numbers, and kernels
that overflow on their way to a right result. Short buffers are set in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy._core import umath

__all__ = ["begin_quiet", "begin_short", "end_quiet", "without_warnings"]


def _enter() -> Any:
    guard = np.errstate(all="ignore")
    guard.__enter__()
    return guard


def _enter_short(size: int) -> Any:
    guard = np.errstate()  # which gives the buffers back, too
    guard.__enter__()
    np.setbufsize(size)
    return guard


def _set_short(size: int) -> Any:
    return _settings.set(umath._make_extobj(bufsize=size))


def _leave(guard: Any) -> None:
    guard.__exit__(None, None, None)


# ``end_quiet(begin_quiet())``: the first returns what the second needs to put the settings back.
begin_quiet: Callable[[], Any] = _enter
end_quiet: Callable[[Any], None] = _leave

# ``end_quiet(begin_short(size))`` likewise, for buffers of so many elements.
begin_short: Callable[[int], Any] = _enter_short

_settings: Any = getattr(umath, "_extobj_contextvar", None)
if _settings is not None:  # else a NumPy that keeps them elsewhere
    begin_quiet = partial(_settings.set, umath._make_extobj(all="ignore"))
    end_quiet = _settings.reset
    begin_short = _set_short


def without_warnings(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of arrays that may overflow, divide by zero and the like in silence.

    >>> without_warnings(np.exp, np.array([1000.0]))
    array([inf])
    """
    quiet = begin_quiet()
    try:
        return function(*args)
    finally:
        end_quiet(quiet)
