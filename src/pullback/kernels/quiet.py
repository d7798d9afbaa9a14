"""Array functions without NumPy's floating-point warnings, where a block would cost too much.

Entering and leaving ``np.errstate`` takes three times as long as a function of a short vector. But
NumPy keeps its setting in a context variable, so a call inside a context that was made once does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

__all__ = ["without_warnings"]

_unused: list[Context] = []  # a context is entered by one thread at a time


def without_warnings(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of arrays that may overflow, divide by zero and the like in silence.

    >>> without_warnings(np.exp, np.array([1000.0]))
    array([inf])
    """
    try:
        context = _unused.pop()
    except IndexError:
        context = Context()
        context.run(np.seterr, all="ignore")
    try:
        return context.run(function, *args)
    finally:
        _unused.append(context)
