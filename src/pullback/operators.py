"""Python's operators on tensors: ``x + y``, ``2 * x``, ``x += y``, ``x < y``.

Each is the public function of an operator; an assignment such as ``+=`` is its in-place variant,
which writes to the tensor's own memory.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._generated.functions_products import matmul
from pullback.tensor.tensor import Tensor

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
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_EQUALITIES = {"eq": "equal", "ne": "not_equal"}
_OPERANDS = (Tensor, np.ndarray, np.generic, numbers.Number, list, tuple)
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: function(other, self)


def _equality(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Element-wise with whatever can be a tensor; anything else is simply not equal."""
    return lambda self, other: (
        function(self, other) if isinstance(other, _OPERANDS) else NotImplemented
    )


def _methods() -> dict[str, Any]:
    """Every special method, by name."""
    methods: dict[str, Any] = {}
    for name, (public, inplace) in _BINARY.items():
        function = getattr(pointwise, public)
        methods[f"__{name}__"] = function
        methods[f"__r{name}__"] = _reflected(function)
        if inplace is not None:
            methods[f"__i{name}__"] = getattr(pointwise, inplace)
    for name, public in {**_COMPARISONS, **_UNARY}.items():
        methods[f"__{name}__"] = getattr(pointwise, public)
    for name, public in _EQUALITIES.items():
        methods[f"__{name}__"] = _equality(getattr(pointwise, public))
    methods["__matmul__"] = matmul
    methods["__rmatmul__"] = _reflected(matmul)
    methods["real"] = property(pointwise.real)
    methods["imag"] = property(pointwise.imag)
    return methods


for _name, _method in _methods().items():
    setattr(Tensor, _name, _method)
