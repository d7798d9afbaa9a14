"""Conversion of tensors to Python numbers and arrays, unless a gradient is lost silently.

``float(x)`` of a tensor that requires grad warns, as in PyTorch. NumPy's compiled code converts in
the same way, and leaves no frame of its own: the caller's current instruction distinguishes a
conversion for an ndarray, which raises, from a call of ``float``. A number that library code takes
out of a tensor (``scipy.integrate.quad`` of the result of its integrand) raises as well, since the
library would compute on without gradient.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback._cpython import (
    CAN_READ_BYTECODE,
    called_name,
    get_frame,
    is_formatting,
    is_item_assignment,
)
from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.graph.views import requires_grad
from pullback.dispatch.caller import OWN_PACKAGE, is_library_file, library_call
from pullback.dispatch.modes import is_grad_enabled
from pullback.errors import AutogradError, GradientLostError
from pullback.tensor.tensor import TRACES, Tensor, note_read

__all__ = ["COMPILED_HINTS", "CONVERSIONS", "check_nothing_lost", "item", "tolist"]

_INSTEAD = (
    "To join tensors, use np.stack or pb.asarray([...]); to write into an array, make it a tensor "
    "first:\n"
    "    array = pb.asarray(array)      # or make it by np.zeros_like(x), np.zeros(n, like=x)\n"
    "    array[...] = x\n"
    "or run the function under @pb.differentiable or with pb.numpy_mode(), where NumPy's creation "
    "functions give tensors. If no gradient is wanted, use x.detach().numpy()."
)
_GENERATORS = (
    "A generator of random numbers takes tensors if it is made in numpy_mode: call "
    "np.random.default_rng(rng.bit_generator) in the function, which goes on with its stream. "
)
# Why a compiled function, which no rule can replace, takes no tensors, and what to call instead:
# by its name. Packages that know such functions add to it.
COMPILED_HINTS: dict[str, str] = {}
_UNTESTED = (
    f"(On this interpreter, {sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}, "
    "it cannot be told whether NumPy or your program asks for the number; say x.item() if it is "
    "your program.) "
)
_NUMPY = os.path.dirname(np.__file__) + os.sep
_PRINTING = "arrayprint.py"
# Compiled functions that put a number into an array, or make a NumPy number of it.
_INTO_ARRAYS = frozenset(
    {"__setitem__", "double", "fill", "float64", "fromiter", "reduce", "setitem", "type"}
)
# The functions of math and cmath.
_FUNCTIONS_OF_NUMBERS = {*vars(math), "phase", "polar", "rect"} - {"isfinite", "isinf", "isnan"}


def check_nothing_lost(tensor: Tensor, frame: FrameType | None = None) -> None:
    """Raises for a tensor whose derivative would be lost in an array; `frame` requests it."""
    if requires_grad(tensor) and is_grad_enabled():
        raise AutogradError(
            f"{_calling_function(frame)}Can't call numpy() on Tensor that requires grad: the "
            f"result would be no part of the graph. {_INSTEAD}"
        )
    if tangents_of(tensor):
        raise AutogradError(
            f"{_calling_function(frame)}a tensor with a tangent cannot become an ndarray: the "
            f"tangent would be lost. {_INSTEAD}"
        )


def _calling_function(frame: FrameType | None) -> str:
    """The library's function that requests an array, for the head of a message."""
    if frame is None or frame.f_code.co_filename.startswith((OWN_PACKAGE, _NUMPY)):
        return ""
    if is_library_file(frame.f_code.co_filename):
        function, line = library_call(frame)
    else:
        name = called_name(frame) if CAN_READ_BYTECODE else None
        if not name or hasattr(np, name):
            return ""
        function, line = name, f"{frame.f_code.co_filename}:{frame.f_lineno}"
    of_generator = _GENERATORS if function in vars(np.random.Generator) else ""
    hint = COMPILED_HINTS.get(function, of_generator)
    return f"{function} takes an array out of a tensor (called at {line}). {hint}"


def __array__(  # noqa: N807 - NumPy's name
    self: Tensor, dtype: DTypeLike | None = None, copy: bool | None = None
) -> NDArray[Any]:
    if requires_grad(self) or tangents_of(self):
        check_nothing_lost(self, get_frame(1))
    if TRACES:
        note_read(self, "numpy()", shares=True)
    array = np.asarray(self._array)
    if copy is False and dtype is not None and array.dtype != dtype:
        raise ValueError(f"a tensor of dtype {array.dtype} cannot become {dtype} without a copy")
    return np.array(array.view(), dtype=dtype, copy=copy)  # never the tensor's own array object


def _number(self: Tensor, kind: Callable[[Any], Any]) -> Any:
    """The only element as a Python number, unless it is about to vanish in an ndarray."""
    is_dual = bool(tangents_of(self))  # of a level that has not ended
    if requires_grad(self) or is_dual:
        if is_grad_enabled() or is_dual:
            frame = get_frame(2)
            if kind is not int:
                _check_not_taken(frame)
            if _is_for_array(frame, kind):
                raise AutogradError(
                    "a tensor that requires grad cannot be an element of an ndarray, which keeps "
                    "no gradients. " + ("" if CAN_READ_BYTECODE else _UNTESTED) + _INSTEAD
                )
        if kind is not int:
            warnings.warn(
                f"{kind.__name__}() of a tensor with requires_grad=True gives a number that is no "
                "part of the graph; say x.detach() or x.item() if that is meant.",
                stacklevel=3,
            )
    return kind(self._only_element())


def _check_not_taken(frame: FrameType) -> None:
    """Raises if library code, or a function of ``math``, takes a number out of a tensor."""
    file = frame.f_code.co_filename
    if CAN_READ_BYTECODE and is_formatting(frame):
        return
    if is_library_file(file):
        if file.startswith((OWN_PACKAGE, _NUMPY)):
            return
        function, line = library_call(frame)
        raise GradientLostError(
            f"{function} takes a number out of a tensor that carries a gradient, which would be "
            f"lost (called at {line}). It has no derivative here: give it x.detach().numpy() if "
            f"no gradient is wanted, or write a rule with pb.library.custom_op."
        )
    name = called_name(frame) if CAN_READ_BYTECODE else None
    if name in _FUNCTIONS_OF_NUMBERS:
        raise GradientLostError(
            f"math.{name} takes a number out of a tensor that carries a gradient, which would be "
            f"lost ({file}:{frame.f_lineno}). Call the function of numpy or pullback instead, or "
            f"run the code under @pb.differentiable or with pb.numpy_mode(), where math's "
            f"functions take tensors."
        )


def _is_for_array(frame: FrameType, kind: Callable[[Any], Any]) -> bool:
    """Whether NumPy converts, to store the number: in ``array[i] = x`` and the like."""
    file = frame.f_code.co_filename
    if CAN_READ_BYTECODE and is_item_assignment(frame):
        return True
    if file.startswith(_NUMPY):
        return kind is not int and not file.endswith(_PRINTING)
    # Without bytecode, array[i] = x looks like float(x), and raises too: no gradient may get lost.
    # What becomes an integer has none.
    return called_name(frame) in _INTO_ARRAYS if CAN_READ_BYTECODE else kind is not int


def __float__(self: Tensor) -> float:  # noqa: N807 - Python's name
    return float(_number(self, float))


def __complex__(self: Tensor) -> complex:  # noqa: N807 - Python's name
    return complex(_number(self, complex))


def __int__(self: Tensor) -> int:  # noqa: N807 - Python's name
    return int(_number(self, int))


def __floor__(self: Tensor) -> int:  # noqa: N807 - Python's name
    found: int = math.floor(self._only_element())
    return found


def __ceil__(self: Tensor) -> int:  # noqa: N807 - Python's name
    found: int = math.ceil(self._only_element())
    return found


def __trunc__(self: Tensor) -> int:  # noqa: N807 - Python's name
    found: int = math.trunc(self._only_element())
    return found


def __round__(self: Tensor, digits: int | None = None) -> Any:  # noqa: N807 - Python's name
    return round(self._only_element()) if digits is None else self.round(digits)


_item, _tolist = Tensor.item, Tensor.tolist


def item(self: Tensor, *place: Any) -> Any:
    """The only element, or the one at a place, as a Python number."""
    if requires_grad(self) or tangents_of(self):
        _check_read(self)
    return _item(self, *place)


def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers."""
    if requires_grad(self) or tangents_of(self):
        _check_read(self)
    return _tolist(self)


def _check_read(tensor: Tensor) -> None:
    if is_grad_enabled() or tangents_of(tensor):
        frame = get_frame(2)
        if is_library_file(frame.f_code.co_filename):
            _check_not_taken(frame)


CONVERSIONS: dict[str, Any] = {
    "__array__": __array__,
    "__ceil__": __ceil__,
    "__complex__": __complex__,
    "__float__": __float__,
    "__floor__": __floor__,
    "__int__": __int__,
    "__round__": __round__,
    "__trunc__": __trunc__,
    "item": item,
    "tolist": tolist,
}
