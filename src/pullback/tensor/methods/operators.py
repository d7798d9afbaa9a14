"""Python's operators on tensors: ``x + y``, ``2 * x``, ``x += y``, ``x < y``.

Each is an operator's call without its options; an assignment such as ``+=`` is its in-place
variant, which writes to the tensor's own memory. For an object of another library
with the reflected operator they return NotImplemented: ``x * data_array`` is a DataArray.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import operators
from pullback.dispatch.modes import NUMBER_MODES, get_state
from pullback.kernels.error_context import ERRORS, named_error
from pullback.tensor.constants import factor_beside, operand_beside, repeats
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor, as_operand, has_numbers

__all__: list[str] = []

_BINARY = {
    "add": ("add", "add_"),
    "sub": ("subtract", "sub_"),
    "mul": ("multiply", "mul_"),
    "truediv": ("divide", "div_"),
    "floordiv": ("floor_divide", "floor_divide_"),
    "mod": ("remainder", "remainder_"),
    "pow": ("power", "pow_"),
    "and": ("bitwise_and", "bitwise_and_"),
    "or": ("bitwise_or", "bitwise_or_"),
    "xor": ("bitwise_xor", "bitwise_xor_"),
    "lshift": ("bitwise_left_shift", "bitwise_left_shift_"),
    "rshift": ("bitwise_right_shift", "bitwise_right_shift_"),
    "divmod": ("divmod", None),
}
_COMPARISONS = {  # each with its reflection
    "lt": ("less", "gt"),
    "le": ("less_equal", "ge"),
    "gt": ("greater", "lt"),
    "ge": ("greater_equal", "le"),
}
_EQUALITIES = {"eq": "equal", "ne": "not_equal"}
_OPERANDS = (Tensor, np.ndarray, np.generic, numbers.Number, list, tuple)
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
_Kernel = Callable[..., Tensor]


def _is_for_other(value: Any, reflected: str) -> bool:
    """Returns whether an operand is of another library and has the reflected operator."""
    kind = type(value)
    if isinstance(value, _OPERANDS) or kind.__module__ == "builtins":
        return False
    return hasattr(kind, reflected) and not hasattr(kind, "__torch_function__")


def _binary(operator: Any, public: str, name: str, reflected: str) -> _Kernel:
    """The operator with the tensor on the left; as quick as the public function."""
    calls, link = operator.calls, operator.link_call
    as_operand = _operand_maker(public)

    def method(self: Tensor, other: Any) -> Tensor:
        try:
            if type(other) is not Tensor:
                other = as_operand(self, other)
            flags = self._flags | other._flags
            try:
                kernel: _Kernel = calls[get_state()][flags]
            except KeyError:
                kernel = link(flags)
            return kernel(self, other)
        except ERRORS as error:
            if _is_for_other(other, reflected) or _is_repeated(public, self, other):
                return NotImplemented  # type: ignore[no-any-return]
            raise named_error(error, public, self, other) from None

    return _named(method, name)


def _is_repeated(public: str, tensor: Tensor, other: Any) -> bool:
    """Whether Python repeats a list: for ``[0.0] * n`` both operands return NotImplemented."""
    return public == "multiply" and repeats(tensor, other)


def _reflected(operator: Any, public: str, name: str) -> _Kernel:
    """The operator with the tensor on the right, for numbers, arrays and lists."""
    calls, link = operator.calls, operator.link_call
    as_operand = _operand_maker(public) if public != "power" else _base

    def method(self: Tensor, other: Any) -> Tensor:
        try:
            other = as_operand(self, other)
            flags = self._flags | other._flags
            try:
                kernel: _Kernel = calls[get_state()][flags]
            except KeyError:
                kernel = link(flags)
            return kernel(other, self)
        except ERRORS as error:
            if _is_repeated(public, self, other):
                return NotImplemented  # type: ignore[no-any-return]
            raise named_error(error, public, other, self) from None

    return _named(method, name)


def _inplace(public: str, binary: _Kernel, name: str) -> _Kernel:
    """The operator that writes to its left side; a NumPy scalar there is replaced, not written to.

    Elsewhere than in `numpy_mode` and in traced programs of arrays, every left side is written to.
    """
    operator = getattr(operators, public)
    calls, link = operator.calls, operator.link_call

    def method(self: Tensor, other: Any) -> Tensor:
        state = get_state()
        if state.modes & NUMBER_MODES and not self.ndim and _is_number(self, state.modes):
            return binary(self, other)
        try:
            if type(other) is not Tensor:
                other = as_operand(other)
            flags = self._flags | other._flags
            try:
                kernel: _Kernel = calls[state][flags]
            except KeyError:
                kernel = link(flags)
            return kernel(self, other)
        except ERRORS as error:
            raise named_error(error, public, self, other) from None

    return _named(method, name)


def _is_number(tensor: Tensor, modes: int) -> bool:
    """Whether a tensor without axes is a number for the program, and not an array that it has."""
    if type(tensor._meta) is View or not has_numbers(tensor, modes):
        return False
    held: Any = tensor._array
    return type(held) is np.ndarray or held.is_made_here


def _named(method: _Kernel, name: str) -> _Kernel:
    """A special method under its name, with code of its own.

    CPython specializes each code object for the types that it calls; a shared one would not be.
    """
    method.__name__ = name
    method.__qualname__ = qualified = f"Tensor.{name}"
    method.__code__ = method.__code__.replace(co_name=name, co_qualname=qualified)
    return method


def _operand_maker(public: str) -> Callable[[Tensor, Any], Tensor]:
    """Returns the function that converts operands; two operators do not cache numbers."""
    if public == "power":
        return _exponent
    if public == "matmul":
        return lambda _, other: as_operand(other)
    return factor_beside if public == "multiply" else operand_beside


def _exponent(base: Tensor, exponent: Any) -> Tensor:
    """The right side of ``**``. NumPy squares truth values, in int8, where the exponent is 2."""
    if base.dtype.kind == "b" and base.ndim and exponent.__class__ is int and exponent == 2:
        exponent = np.int8(2)
    return as_operand(exponent)


def _base(_: Tensor, base: Any) -> Tensor:
    return as_operand(base)


def _equality(function: _Kernel) -> _Kernel:
    """Element-wise with whatever can be a tensor; anything else is simply not equal."""
    return lambda self, other: (
        function(self, other) if isinstance(other, _OPERANDS) else NotImplemented
    )


def _methods() -> dict[str, Any]:
    """Every special method, by name."""
    methods: dict[str, Any] = {}
    for name, (public, inplace) in _BINARY.items():
        operator = getattr(operators, public if inplace is None else inplace.removesuffix("_"))
        methods[f"__{name}__"] = _binary(operator, public, f"__{name}__", f"__r{name}__")
        methods[f"__r{name}__"] = _reflected(operator, public, f"__r{name}__")
        if inplace is not None:
            binary = methods[f"__{name}__"]
            methods[f"__i{name}__"] = _inplace(inplace, binary, f"__i{name}__")
    for name, (public, reflection) in _COMPARISONS.items():
        operator = getattr(operators, name)
        methods[f"__{name}__"] = _binary(operator, public, f"__{name}__", f"__{reflection}__")
    for name, public in _UNARY.items():
        methods[f"__{name}__"] = getattr(pointwise, public)
    for name, public in _EQUALITIES.items():
        methods[f"__{name}__"] = _equality(getattr(pointwise, public))
    methods["__matmul__"] = _binary(operators.matmul, "matmul", "__matmul__", "__rmatmul__")
    methods["__rmatmul__"] = _reflected(operators.matmul, "matmul", "__rmatmul__")
    methods["real"] = property(pointwise.real)
    methods["imag"] = property(pointwise.imag)
    return methods


for _name, _method in _methods().items():
    setattr(Tensor, _name, _method)
