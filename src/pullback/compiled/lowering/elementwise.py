"""The element-wise functions of the intermediate representation, under NumPy's names.

All operands of a function have one dtype (the lowering casts them), with these exceptions:
``where`` has a bool first, ``cast`` converts to the node's dtype, ``complex`` makes complex numbers
of two real ones. The dtype of the result is the operands', or as ``RESULTS`` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.kernels.errstate import errstate
from pullback.operators.special.kernels import erf, erfc

__all__ = ["ARRAY_FUNCTIONS", "COMBINERS", "FUNCTIONS", "REAL_FUNCTIONS", "result_dtype"]

_ARITHMETIC = (
    "add subtract multiply divide negative reciprocal square power floor_divide remainder fmod"
)
_EXPONENTIAL = "sqrt cbrt exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2"
_TRIGONOMETRIC = "sin cos tan arcsin arccos arctan arctan2 hypot"
_HYPERBOLIC = "sinh cosh tanh arcsinh arccosh arctanh"
_SIGNS = "sign copysign absolute conjugate maximum minimum fmax fmin heaviside"
_ROUNDING = "floor ceil trunc rint"
_COMPARISONS = "equal not_equal less less_equal greater greater_equal"
_PREDICATES = "isnan isinf isfinite signbit"
_LOGICAL = "logical_not logical_and logical_or logical_xor"
_BITS = "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift"
_UFUNCS = " ".join((_ARITHMETIC, _EXPONENTIAL, _TRIGONOMETRIC, _HYPERBOLIC, _SIGNS, _ROUNDING))
_BOOL = frozenset(" ".join((_COMPARISONS, _PREDICATES, _LOGICAL)).split())
REAL_FUNCTIONS = frozenset(["erf", "erfc", "sigmoid"])
"""Functions of real numbers that NumPy has not."""
_REAL = frozenset(["absolute", "real", "imag"])

FUNCTIONS = frozenset(
    (*_UFUNCS.split(), *_BOOL, *_BITS.split(), "where", "cast", "real", "imag", "complex")
).union(REAL_FUNCTIONS)
"""The names of all functions."""

COMBINERS = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "all": "logical_and",
    "any": "logical_or",
}
"""The function by which each kind of ``reduce`` combines two elements."""


def _complex(real: Any, imag: Any) -> Any:
    found = np.empty(np.shape(real), np.result_type(real.dtype, np.complex64))
    found.real = real
    found.imag = imag
    return found


def _sigmoid(x: Any) -> Any:
    with errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


_OWN: dict[str, Callable[..., Any]] = {
    "where": np.where,
    "complex": _complex,
    "erf": erf,
    "erfc": erfc,
    "sigmoid": _sigmoid,
}
ARRAY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _OWN.get(name) or getattr(np, name) for name in FUNCTIONS - {"cast"}
}
"""The functions on arrays, but ``cast``."""


def result_dtype(function: str, operands: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    """The dtype of a function's result.

    >>> result_dtype("less", (np.dtype(float), np.dtype(float)))
    dtype('bool')
    """
    if function in _BOOL:
        return np.dtype(bool)
    last = operands[-1]
    if function == "complex":
        return np.result_type(last, np.complex64)
    if function in _REAL and last.kind == "c":
        return np.dtype(last.char.lower())
    return last
