"""Classes and hashes of arrays, for user code of a function that is traced with tensors.

A function of arrays gets tensors in their place. Its own code gets the answers of arrays from
``isinstance(x, np.ndarray)``, ``isinstance(x[0], float)`` and ``table[x[0]]``; inside transforms,
where arguments are tensors without compilation, too, those of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import FrameType
from typing import Any

import numpy as np

from pullback._cpython import get_frame
from pullback.dispatch.modes import NUMBERS, TRANSFORM, get_state
from pullback.fx.refusals import current_tracer, refusal
from pullback.fx.traced_array import TracedArray
from pullback.interop.callers import USER
from pullback.interop.replaced import current_session
from pullback.tensor.tensor import CLASS, Tensor

__all__ = ["array_classes"]

_lock = Lock()
_users = 0


def _is_array(tensor: Tensor) -> bool:
    """Whether user code in a traced function looks at a tensor that stands for an array."""
    modes = get_state().modes
    tracer = current_tracer()
    if type(tensor) is not Tensor or not modes & NUMBERS or tracer is None:
        return False
    frame: FrameType | None = get_frame(2)
    while frame is not None and frame.f_globals.get("__name__") in ("abc", "functools"):
        frame = frame.f_back  # of isinstance(x, numbers.Real) and of singledispatch
    if frame is None or current_session.get().callers[frame.f_code.co_filename] != USER:
        return False
    held = tensor._array
    if not modes & TRANSFORM:
        return isinstance(held, TracedArray) or id(tensor) in tracer.stand_ins
    if tracer.stand_ins:
        raise refusal("the class of a value that may be computed from captured arrays")
    return False


def _class_of(tensor: Tensor) -> Any:
    if not _is_array(tensor):
        return type(tensor)
    return np.ndarray if tensor.ndim else tensor.dtype.type


def _hash_of(tensor: Tensor) -> int:
    if not _is_array(tensor):
        return object.__hash__(tensor)
    if tensor.ndim:
        raise TypeError("unhashable type: 'numpy.ndarray'")
    return hash(tensor.item())


def _set_getter(getter: Any) -> None:
    CLASS.__init__(getter, CLASS.fset)  # type: ignore[misc]


@contextmanager
def array_classes() -> Iterator[None]:
    """A block in which tensors of a traced function of arrays have the classes of arrays."""
    global _users
    with _lock:
        _users += 1
        _set_getter(_class_of)
        Tensor.__hash__ = _hash_of  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _set_getter(type)
                Tensor.__hash__ = object.__hash__  # type: ignore[assignment, method-assign]
