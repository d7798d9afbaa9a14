"""Errors with the name of the operator and the shapes of its arguments.

NumPy's own errors name neither the function nor, often, the shapes. Public functions, which are
generated, pass them through `named_error`; an operator made of others puts its name before theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

__all__ = ["ERRORS", "AxisError", "named_error"]

ERRORS = (ValueError, IndexError, TypeError, OverflowError)
_PLAIN = {*ERRORS, np.linalg.LinAlgError}  # their message is their only argument
_OURS = ("pullback", "numpy")


class AxisError(np.exceptions.AxisError):
    """NumPy's error for an axis that does not exist, which would compose its message itself."""

    def __init__(self, message: str, axis: int | None, ndim: int | None):
        super().__init__(message)
        self.message, self.axis, self.ndim = message, axis, ndim

    def __str__(self) -> str:
        return self.message


def named_error(error: Exception, name: str, *values: Any) -> Exception:
    """The error to raise instead of one that NumPy or a kernel raised.

    Errors of user code, in a hook or a kernel, are returned unchanged; so are Pullback's own
    classes, which have complete messages.
    """
    kind: type[Exception] = type(error)
    is_numpys = kind.__module__.partition(".")[0] == "numpy"
    if not (kind in _PLAIN or kind is AxisError or is_numpys) or not _is_ours(error.__traceback__):
        return error
    text = getattr(error, "unnamed", None) or str(error).rstrip(". ")
    before = "" if _has_name(text, name) else f"{name}: "
    message = before + text + _given(text, values, isinstance(error, TypeError))
    if isinstance(error, np.exceptions.AxisError):
        new: Exception = AxisError(message, error.axis, error.ndim)
    else:  # a TypeError of NumPy's own is made of a ufunc and dtypes, not of a text
        new = (TypeError if is_numpys and isinstance(error, TypeError) else kind)(message)
    new.unnamed = text  # type: ignore[attr-defined]  # for the operator that this one is a part of
    return new.with_traceback(error.__traceback__)


def _is_ours(traceback: TracebackType | None) -> bool:
    """Whether nothing but Pullback and NumPy ran below the function that caught an error."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
        if traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _OURS:
            return False
    return True


def _has_name(text: str, name: str) -> bool:
    """Whether a message begins with the name of its operator, in a namespace or not."""
    first = text.partition(":")[0]
    return first == name or first.endswith(f".{name}") or name.endswith(f".{first}")


def _arrays(values: Any) -> Iterator[Any]:
    """The tensors and arrays among some values, those in lists too."""
    for value in values:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            yield value
        elif isinstance(value, list | tuple):
            yield from _arrays(value)


def _given(text: str, values: Any, with_dtypes: bool) -> str:
    """The shapes of an operator's arguments in words, unless the message has them."""
    found = list(_arrays(values))
    shapes = [str(tuple(value.shape)) for value in found]
    compact = text.replace("[", "(").replace("]", ")").replace(" ", "")
    if not found or (not with_dtypes and all(s.replace(" ", "") in compact for s in shapes)):
        return ""
    if with_dtypes:
        kinds = [f"{v.dtype} of shape {s}" for v, s in zip(found, shapes, strict=True)]
        return f" ({' and '.join(kinds)} given)"
    return f" (shape{'s' if len(shapes) > 1 else ''} {' and '.join(shapes)} given)"
