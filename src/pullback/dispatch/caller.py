"""Where in the user's code something happened: for registrations and warnings.

The innermost frame counts that is neither the dispatcher's own nor a compiled call function.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

__all__ = ["caller_location", "warn_caller"]

_DISPATCH = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OURS = (_DISPATCH, "<operator ")


def _caller() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def caller_location() -> str:
    """``file:line`` of the code that called into the dispatcher."""
    frame = _caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn_caller(message: str) -> None:
    """Warns as if the code that called into the dispatcher had written the warning itself."""
    frame = _caller()
    warnings.warn_explicit(
        message,
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        # The module's own memory of warnings: each line is told as often as the filters say.
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
