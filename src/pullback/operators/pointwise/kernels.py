"""Element-wise functions that NumPy lacks, or has in a form that a derivative cannot use.

An argument is an array, or a Python number that takes its dtype from the array it meets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.errors import UnsupportedDtypeError
from pullback.kernels.dtypes import of_numbers
from pullback.kernels.layout import copy_in_order

__all__ = [
    "astype",
    "clamp",
    "clone",
    "complex",
    "fmax",
    "fmin",
    "imag",
    "lerp",
    "maximum",
    "minimum",
    "polar",
    "pow",
    "real",
    "sgn",
    "strong",
    "view_as_complex",
    "view_as_real",
]


def clone(x: NDArray[Any]) -> NDArray[Any]:
    """A copy in the same memory layout."""
    return copy_in_order(x)


def astype(x: Any, dtype: DTypeLike) -> NDArray[Any]:
    """A copy with another data type."""
    return of_numbers(copy_in_order(np.asarray(x), dtype))


def pow(x: Any, y: Any) -> Any:
    """A power; Python's operator has fast paths for exponents such as 2 and 0.5."""
    return x**y if isinstance(x, np.ndarray) and x.dtype.kind in "fc" else np.power(x, y)


def lerp(start: Any, end: Any, weight: Any) -> Any:
    """A point between two others, computed from the nearer one so that both ends are exact."""
    way = np.subtract(end, start)
    if isinstance(weight, int | float):  # what optimizers do, and so without a mask
        return start + weight * way if abs(weight) < 0.5 else end - way * (1 - weight)
    return np.where(np.abs(weight) < 0.5, start + weight * way, end - way * (1 - weight))


def strong(*operands: Any) -> list[NDArray[Any]]:
    """Operands as arrays, each Python number with the dtype that it takes from the arrays."""
    dtype = np.result_type(*operands)
    return [x if isinstance(x, np.ndarray) else np.asarray(x, dtype) for x in operands]


def sgn(x: Any) -> Any:
    """The sign, which for NaN is 0."""
    sign = np.sign(x)
    return np.where(np.isnan(sign), sign.dtype.type(0), sign)


def maximum(x: Any, y: Any) -> Any:
    """The larger of two elements; NaN if one is NaN."""
    _check_order("maximum", x, y)
    return np.maximum(x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of two elements; NaN if one is NaN."""
    _check_order("minimum", x, y)
    return np.minimum(x, y)


def fmax(x: Any, y: Any) -> Any:
    """The larger of two elements, and not NaN if one is a number."""
    _check_order("fmax", x, y)
    return np.fmax(x, y)


def fmin(x: Any, y: Any) -> Any:
    """The smaller of two elements, and not NaN if one is a number."""
    _check_order("fmin", x, y)
    return np.fmin(x, y)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Elements moved into a range; if the bounds are the wrong way round the upper one wins."""
    _check_order("clip", x, min, max)
    if min is None and max is None:
        return np.array(x)
    if not hasattr(x, "dtype"):  # np.clip would make float64 of a number of Python
        x = np.asarray(x, np.result_type(x, *(bound for bound in (min, max) if bound is not None)))
    return np.clip(x, min, max)


def _check_order(name: str, *operands: Any) -> None:
    """Refuses complex numbers: what is the larger of two is not defined for them."""
    for x in operands:
        if x.dtype.kind == "c" if isinstance(x, np.ndarray) else np.iscomplexobj(x):
            raise UnsupportedDtypeError(
                f"{name}: not implemented for complex numbers, which have no order; compare their "
                f"real parts or absolute values"
            )


def real(x: Any) -> Any:
    """The real part as a view; a real array is a view of itself."""
    return np.asarray(x).real


def imag(x: Any) -> Any:
    """The imaginary part as a view; zeros for a real array."""
    x = np.asarray(x)
    return x.imag if x.dtype.kind == "c" else np.zeros_like(x)


def complex(re: Any, im: Any) -> NDArray[Any]:
    """Complex numbers from two real parts, which broadcast."""
    for x in (re, im):
        if np.iscomplexobj(x):
            raise UnsupportedDtypeError(
                f"complex: both parts must be real, not {np.result_type(x)}; take real(...) of them"
            )
    dtype = np.result_type(re, im, np.complex64)
    made = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), dtype)
    made.real, made.imag = re, im
    return made


def polar(size: Any, angle: Any) -> NDArray[Any]:
    """Complex numbers from their absolute values and angles."""
    size, angle = strong(size, angle)
    return complex(size * np.cos(angle), size * np.sin(angle))


def view_as_real(x: NDArray[Any]) -> NDArray[Any]:
    """Complex numbers as pairs of real ones along a new last axis."""
    if np.asarray(x).dtype.kind != "c":
        raise UnsupportedDtypeError(
            f"view_as_real: a complex tensor is expected, not {np.result_type(x)}"
        )
    return x[..., None].view(x.real.dtype)


def view_as_complex(x: NDArray[Any]) -> NDArray[Any]:
    """Pairs along the last axis as complex numbers; copied where a pair is torn apart in memory."""
    if np.asarray(x).dtype.kind != "f":
        raise UnsupportedDtypeError(
            f"view_as_complex: a real floating-point tensor is expected, not {np.result_type(x)}"
        )
    if np.shape(x)[-1:] != (2,):
        raise ValueError(
            f"view_as_complex: the last axis must have length 2, but the shape is {np.shape(x)}"
        )
    pairs = x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
    return pairs.view(np.result_type(x, np.complex64))[..., 0]
