"""Operators that stay as they are: calls of eager kernels in a compiled program.

An ``OpaqueCall`` is the attribute of an ``opaque`` node. It has the arguments of the traced call
with a ``Hole`` for each operand; arrays go in, an array or a tuple of arrays comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.dispatch.modes import get_state, set_state
from pullback.fx.tracer import PLAIN_STATE
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.tensor import Tensor, as_operand, wrap

__all__ = ["Hole", "OnCopy", "OpaqueCall"]

_CPU = KEY_BITS[DispatchKey.CPU]


class Hole(NamedTuple):
    """The place of an operand in the arguments of a call."""

    operand: int
    kind: str  # "tensor", "operand" (a number beside tensors) or "number"


class OnCopy:
    """An in-place operator as a function: it writes to a copy of its first argument."""

    __slots__ = ("__name__", "_function")

    def __init__(self, target: Any):
        self._function = _on_arrays(target)
        self.__name__ = str(getattr(target, "__name__", target))

    def __call__(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The values of `x` after the write."""
        copy = wrap(x._array.copy())
        self._function(copy, *args, **kwargs)
        return copy


def _on_arrays(target: Any) -> Callable[..., Any]:
    """An operator below all transforms, or another function itself."""
    below = getattr(target, "below", None)
    found: Callable[..., Any] = target if below is None else below(_CPU)
    return found


class OpaqueCall:
    """The call of an operator or function, with holes for its operands.

    Attributes:
        name: for messages and ``explain``.
        reason: why it is not compiled.
    """

    __slots__ = ("args", "function", "kwargs", "name", "reason")

    def __init__(self, target: Any, args: Any, kwargs: dict[str, Any], reason: str):
        self.function = _on_arrays(target)
        self.name = str(getattr(target, "__name__", target))
        self.args = args
        self.kwargs = kwargs
        self.reason = reason

    def __call__(self, *operands: Any) -> Any:
        """Runs the call on arrays; returns an array or a tuple of arrays."""
        before, settings = get_state(), get_settings()
        try:
            set_state(PLAIN_STATE)
            set_settings(QUIET)  # the function may have switched warnings off
            args = [_fill_holes(value, operands) for value in self.args]
            kwargs = self.kwargs
            if kwargs:
                kwargs = {name: _fill_holes(value, operands) for name, value in kwargs.items()}
            found = self.function(*args, **kwargs)
        finally:
            try:
                set_settings(settings)
            finally:
                set_state(before)
        if isinstance(found, tuple | list):
            return tuple(map(_as_array, found))
        return _as_array(found)

    def write(self, operands: list[str], name: Callable[[Any], str]) -> str:
        """The call as an expression of Python, inside of the settings that ``__call__`` makes.

        Args:
            operands: the names of arrays.
            name: gives an object a name.
        """

        def write(value: Any) -> str:
            if type(value) is Hole:
                return _HOLES[value.kind].format(operands[value.operand])
            if not _has_holes(value):
                return name(value)
            items = "".join(f"{write(item)}, " for item in value)
            return f"[{items}]" if isinstance(value, list) else f"({items})"

        texts = [write(value) for value in self.args]
        texts += [f"{key}={write(value)}" for key, value in self.kwargs.items()]
        return f"{name(self.function)}({', '.join(texts)})"

    def __str__(self) -> str:
        return self.name


_HOLES = {"tensor": "wrap({})", "operand": "as_operand({}.item())", "number": "{}.item()"}
"""The expressions of an array in a hole."""


def _has_holes(value: Any) -> bool:
    is_plain = isinstance(value, list | tuple) and not hasattr(value, "_fields")
    return type(value) is Hole or (is_plain and any(map(_has_holes, value)))


def _as_array(value: Any) -> Any:
    held = value._array if isinstance(value, Tensor) else value
    return np.asarray(held, order="C")


def _fill_holes(value: Any, operands: tuple[Any, ...]) -> Any:
    if type(value) is Hole:
        array = operands[value.operand]
        if value.kind == "tensor":
            return wrap(array if type(array) is np.ndarray else np.asarray(array))
        number = np.asarray(array).item()
        return as_operand(number) if value.kind == "operand" else number
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_fill_holes(item, operands) for item in value)
    return value
