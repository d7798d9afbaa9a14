"""User code: its lines, for messages, and the names of its parameters."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from pullback._cpython import get_frame

__all__ = ["is_called_by_user", "parameter_names", "user_line", "warn_user"]

_OWN = ("pullback", "numpy")


def _frames() -> Iterator[tuple[int, FrameType]]:
    """The frames of neither NumPy nor the library, each with its ``stacklevel`` for the caller."""
    frame: FrameType | None = get_frame(2)
    level = 2
    while frame is not None:
        if not _is_own(frame):
            yield level, frame
        frame = frame.f_back
        level += 1


def is_called_by_user(names: tuple[str, ...]) -> bool:
    """Whether the innermost frame outside of the modules `names` is user code."""
    frame: FrameType | None = get_frame(2)
    while frame is not None and frame.f_globals.get("__name__") in names:
        frame = frame.f_back
    return frame is not None and not _is_own(frame)


def _is_own(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in _OWN


def user_line() -> str:
    """``(file:line)`` of the innermost frame that is neither NumPy's nor the library's own."""
    for _, frame in _frames():
        if not frame.f_code.co_filename.startswith("<"):
            return f" ({frame.f_code.co_filename}:{frame.f_lineno})"
    return ""


def warn_user(message: str) -> None:
    """Warns, at the line of user code that has called the library."""
    level, _ = next(_frames(), (2, None))
    warnings.warn(message, stacklevel=level)


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Names for positional arguments of a function: those of its parameters, or ``arg0``."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        parameters = []
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in named]
    return [names[n] if n < len(names) else f"arg{n}" for n in range(count)]
