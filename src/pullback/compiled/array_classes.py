"""Classes, hashes and texts of arrays, for user code of a function that is traced with tensors.

A function of arrays gets tensors in their place. Its own code gets the answers of arrays from
``isinstance(x, np.ndarray)``, ``hasattr(x, "detach")``, ``table[x[0]]`` and ``str(x)``; inside
transforms, where arguments are tensors without compilation, too, those of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import FrameType, GenericAlias
from typing import Any

import numpy as np

from pullback._cpython import get_frame
from pullback.compiled.watch import FUNCTIONS_OF_TRACES
from pullback.dispatch.modes import NUMBERS, TRANSFORM, get_state
from pullback.fx.dependencies import is_of_arrays
from pullback.fx.refusals import current_tracer, refusal
from pullback.fx.traced_array import TracedArray
from pullback.fx.traced_number import TracedNumber
from pullback.fx.tracer import Tracer
from pullback.interop.callers import ORIGINAL, USER, callers_of
from pullback.interop.replaced import current_session
from pullback.tensor.tensor import CLASS, Tensor, note_read

__all__ = ["FUNCTIONS_OF_CLASSES", "array_classes"]

_lock = Lock()
_users = 0


def _is_array(tensor: Tensor) -> bool:
    """Whether user code in a traced function looks at a tensor that stands for an array."""
    modes = get_state().modes
    tracer = current_tracer()
    if type(tensor) is not Tensor or tracer is None:
        return False
    if not modes & NUMBERS and not tracer.stand_ins:
        return False
    frame: FrameType | None = get_frame(2)
    while frame is not None and frame.f_globals.get("__name__") in ("abc", "functools"):
        frame = frame.f_back  # of isinstance(x, numbers.Real) and of singledispatch
    if frame is None:
        return False
    file = frame.f_code.co_filename
    if not modes & NUMBERS and callers_of((), None)[file] == ORIGINAL:
        return False
    if modes & NUMBERS and current_session.get().callers[file] != USER:
        return False
    held = tensor._array
    if not modes & NUMBERS:
        return _is_array_among_tensors(tensor, tracer)
    if not modes & TRANSFORM:
        return isinstance(held, TracedArray) or id(tensor) in tracer.stand_ins
    if tracer.stand_ins:
        raise refusal("the class of a value that may be computed from captured arrays")
    return False


def _is_array_among_tensors(tensor: Tensor, tracer: Tracer) -> bool:
    """The same in a function of tensors, where tensors stand for large captured arrays."""
    held = tensor._array
    if isinstance(held, TracedArray) and is_of_arrays(held.node, tracer):
        raise refusal("the class of a value that is computed from captured arrays alone")
    return id(tensor) in tracer.stand_ins


def _kind_of(tensor: Tensor) -> Any:
    return np.ndarray if tensor.ndim else tensor.dtype.type


def _class_of(tensor: Tensor) -> Any:
    return _kind_of(tensor) if _is_array(tensor) else type(tensor)


def _isinstance(value: Any, kinds: Any) -> bool:
    if type(value) is Tensor and _is_array(value):
        return issubclass(_kind_of(value), kinds)
    return isinstance(value, kinds)


def _hasattr(value: Any, name: str) -> bool:
    return hasattr(_kind_of(value) if type(value) is Tensor and _is_array(value) else value, name)


def _getattr(value: Any, name: str, *default: Any) -> Any:
    if type(value) is Tensor and _is_array(value) and not hasattr(_kind_of(value), name):
        return getattr(_kind_of(value), name, *default)
    return getattr(value, name, *default)


class _OneArgument(type):
    """The class of what stands for ``type``: a call with one argument gives a class."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if cls is not _Type:
            return super().__call__(*args, **options)
        if len(args) != 1 or options:
            return type(*args, **options)
        (value,) = args
        if type(value) is Tensor and _is_array(value):
            return _kind_of(value)
        return value.__class__ if type(value) is TracedNumber else type(value)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, type) if cls is _Type else super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, type) if cls is _Type else super().__subclasscheck__(kind)


class _Type(type, metaclass=_OneArgument):
    """``type`` for user code of a traced function."""

    __class_getitem__: Any = classmethod(GenericAlias)


FUNCTIONS_OF_CLASSES = {
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "getattr": _getattr,
    "type": _Type,
}
"""Functions in the place of Python's, which do not read ``__class__`` of a tensor."""
FUNCTIONS_OF_TRACES.update(map(id, FUNCTIONS_OF_CLASSES.values()))


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
