"""``np.emath``: functions that turn to complex numbers where real ones end, as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback.interop.arguments import as_tensor, raw
from pullback.tensor.tensor import Tensor

__all__ = ["SCIMATH"]


def _widened(x: Any, outside: Callable[[Any], Any]) -> Tensor:
    """A tensor, complex if any of its elements is outside of where the real function is defined."""
    tensor = as_tensor(x)
    if tensor.dtype.kind == "c" or not np.any(outside(raw(tensor))):
        return tensor
    return pointwise._astype(tensor, _complex_dtype(tensor.dtype))


def _complex_dtype(dtype: np.dtype[Any]) -> Any:
    """As NumPy chooses it: of float16 and of truth values complex128."""
    return np.complex64 if dtype.char in "bBhHf" else np.complex128


def _negative(values: Any) -> Any:
    return values < 0


def _beyond_one(values: Any) -> Any:
    return np.abs(values) > 1


def _extended(
    function: Callable[..., Any], outside: Callable[[Any], Any]
) -> Callable[[Any], Tensor]:
    def call(x: Any) -> Tensor:
        return function(_widened(x, outside))  # type: ignore[no-any-return]

    return call


_log = _extended(pointwise.log, _negative)


def _logn(n: Any, x: Any) -> Any:
    return _log(x) / _log(n)


def _power(x: Any, p: Any) -> Any:
    exponent = as_tensor(p)
    if np.any(raw(exponent) < 0) and exponent.dtype.kind not in "fc":
        exponent = pointwise._astype(exponent, np.dtype(float))
    return pointwise.power(_widened(x, _negative), exponent)


SCIMATH: dict[str, Callable[..., Any]] = {
    "arccos": _extended(pointwise.acos, _beyond_one),
    "arcsin": _extended(pointwise.asin, _beyond_one),
    "arctanh": _extended(pointwise.atanh, _beyond_one),
    "log": _log,
    "log10": _extended(pointwise.log10, _negative),
    "log2": _extended(pointwise.log2, _negative),
    "logn": _logn,
    "power": _power,
    "sqrt": _extended(pointwise.sqrt, _negative),
}
