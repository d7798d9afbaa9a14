"""Classes, hashes and texts of arrays, for user code of a function that is traced with tensors.

A function of arrays gets tensors in their place. Its own code gets the answers of arrays from
``isinstance(x, np.ndarray)``, ``isinstance(x[0], float)``, ``table[x[0]]`` and ``str(x)``; inside
transforms, where arguments are tensors without compilation, too, those of tensors.
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
from pullback.tensor.tensor import CLASS, Tensor, note_read

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


def _values_of(tensor: Tensor) -> Any:
    """The array or number that a tensor stands for, which the graph then depends on."""
    note_read(tensor, "its text")
    held = tensor._array
    array = held.tracer.read(held, "its text") if isinstance(held, TracedArray) else held
    return array if array.ndim else array[()]


def _text_of(tensor: Tensor) -> str:
    return str(_values_of(tensor)) if _is_array(tensor) else _repr(tensor)


def _repr_of(tensor: Tensor) -> str:
    return repr(_values_of(tensor)) if _is_array(tensor) else _repr(tensor)


def _formatted(tensor: Tensor, spec: str) -> str:
    return format(_values_of(tensor), spec) if _is_array(tensor) else _format(tensor, spec)


_repr, _format = Tensor.__repr__, Tensor.__format__
_AS_ARRAYS = {
    "__hash__": _hash_of,
    "__str__": _text_of,
    "__repr__": _repr_of,
    "__format__": _formatted,
}
_AS_TENSORS = {
    "__hash__": object.__hash__,
    "__str__": object.__str__,
    "__repr__": _repr,
    "__format__": _format,
}


def _use(getter: Any, methods: dict[str, Any]) -> None:
    _set_getter(getter)
    for name, method in methods.items():
        setattr(Tensor, name, method)


def _set_getter(getter: Any) -> None:
    CLASS.__init__(getter, CLASS.fset)  # type: ignore[misc]


@contextmanager
def array_classes() -> Iterator[None]:
    """A block in which tensors of a traced function of arrays have the classes of arrays."""
    global _users
    with _lock:
        _users += 1
        _use(_class_of, _AS_ARRAYS)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _use(type, _AS_TENSORS)
