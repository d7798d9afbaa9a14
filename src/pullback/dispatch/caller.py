"""Locations in user code, for registrations and warnings.

For registrations the innermost frame counts that is neither of the dispatcher, nor of the package
for custom operators, nor a compiled call function; for warnings the innermost frame outside of
Pullback counts. User code is what lies outside of ``site-packages`` and of the standard library.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable
from functools import cache
from types import FrameType

from pullback._cpython import CAN_READ_BYTECODE, called_name, get_frame

__all__ = [
    "OWN_PACKAGE",
    "add_user_folders",
    "caller_location",
    "is_library_file",
    "library_call",
    "log_replaced",
    "log_warning",
    "same_place",
    "user_frame",
    "user_location",
    "warn_caller",
]

# Cells of notebooks and lines of a console have names that change from run to run.
_INTERACTIVE = re.compile(r"<ipython-input-|<stdin>|<console>|.*[/\\]ipykernel_\d+[/\\]")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = (
    os.path.join(_PACKAGE, "dispatch", ""),
    os.path.join(_PACKAGE, "library", ""),
    "<operator ",
)
OWN_PACKAGE = os.path.join(_PACKAGE, "")
_WHOLE = (OWN_PACKAGE, "<operator ")
_STANDARD = (os.path.join(os.path.dirname(os.path.realpath(os.__file__)), ""), *_WHOLE)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_user_folders: set[str] = set()  # of installed packages that count as user code


def add_user_folders(folders: Iterable[str]) -> None:
    """Declares installed packages as user code."""
    _user_folders.update(folders)
    is_library_file.cache_clear()


@cache
def is_library_file(filename: str) -> bool:
    """Whether code of a file is no user code: of an installed package or the standard library."""
    if filename.startswith("<"):  # a notebook's cell and a console's line are user code
        return filename.startswith(("<frozen", "<operator ", "<__array_function__"))
    path = os.path.realpath(filename)
    if path.startswith(tuple(_user_folders)):
        return False
    return path.startswith(_STANDARD) or any(part in path for part in _INSTALLED)


def user_frame() -> FrameType | None:
    """The innermost frame of user code."""
    frame: FrameType | None = get_frame(1)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def library_call(frame: FrameType) -> tuple[str, str]:
    """The public name of the library function that user code called, and the user's line.

    `frame` is a frame of the library; private parts of the name are left out, so that
    ``scipy.integrate._quadpack_py.quad`` is ``scipy.integrate.quad``.
    """
    while frame.f_back is not None and is_library_file(frame.f_back.f_code.co_filename):
        frame = frame.f_back
    name, line, caller = frame.f_code.co_qualname, "unknown", frame.f_back
    if caller is not None:
        line = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        if "<" in name or name.startswith("_"):  # a decorator's function
            called = (called_name(caller) if CAN_READ_BYTECODE else None) or name
            bound = caller.f_locals.get(called, caller.f_globals.get(called))
            name = getattr(bound, "__name__", called)
    parts = f"{frame.f_globals.get('__name__', '?')}.{name}".split(".")
    return ".".join(part for part in parts if not part.startswith("_")), line


def user_location() -> str:
    """``file:line`` of the innermost frame of user code."""
    frame = user_frame()
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _caller(ours: tuple[str, ...]) -> FrameType:
    frame = get_frame(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame = frame.f_back
    return frame


def caller_location() -> str:
    """``file:line`` of the code that called into the dispatcher."""
    frame = _caller(_OURS)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn_caller(message: str) -> None:
    """Warns with the location of the innermost frame of user code."""
    frame = _caller(_WHOLE)
    warnings.warn_explicit(
        message,
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        # The module's own registry: warning filters such as "once per line" apply to user code.
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def same_place(first: str, second: str) -> bool:
    """Whether two locations are the same line, or both are from an interactive session."""
    return first == second or bool(_INTERACTIVE.match(first) and _INTERACTIVE.match(second))


def log_replaced(what: str, location: str) -> None:
    """Logs that a definition was replaced because its code was run again."""
    log_warning("%s is defined again at %s, which replaces the older definition", what, location)


def log_warning(message: str, *args: object) -> None:
    """Writes to the log ``pullback.library``."""
    import logging  # imported here: rarely needed, and slow to import

    logging.getLogger("pullback.library").warning(message, *args)
