"""The Array API standard's data types and constants, and its functions on types."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from pullback.tensor.tensor import Tensor

__all__ = [
    "FloatInfo",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "e",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

# NumPy's own scalar types, which stand for their data types everywhere.
bool = np.bool
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float32, float64 = np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi


def _type_of(value: Any) -> Any:
    """A data type, or that of a tensor; a Python number stays, because it is weakly typed."""
    if isinstance(value, Tensor):
        return value.dtype
    return value


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The data type that a computation with all of these has.

    >>> import pullback as pb
    >>> result_type(pb.float32, pb.zeros(1, dtype="int8"), 2.0)
    dtype('float32')
    """
    return np.result_type(*map(_type_of, arrays_and_dtypes))


def can_cast(from_: Any, to: DTypeLike, /) -> Any:
    """Whether values of one type keep their meaning in another.

    >>> can_cast(int8, float64), can_cast(float64, int8)
    (True, False)
    """
    return np.can_cast(_type_of(from_), to)


def isdtype(dtype: DTypeLike, kind: Any) -> Any:
    """Whether a data type is of a kind: a name of the standard, a type, or a tuple of these.

    >>> isdtype(float32, "real floating"), isdtype(float32, ("integral", "bool"))
    (True, False)
    """
    return np.isdtype(dtype, kind)  # type: ignore[arg-type]


class FloatInfo(NamedTuple):
    """The limits of a floating-point type, as Python numbers.

    >>> import pullback as pb
    >>> pb.finfo(pb.float64).bits
    64
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point type, or of a tensor's; for complex types, of their parts.

    >>> finfo(float32).bits, finfo(complex64).dtype
    (32, dtype('float32'))
    """
    found = np.finfo(_type_of(type))
    return FloatInfo(
        found.bits,
        float(found.eps),
        float(found.max),
        float(found.min),
        float(found.smallest_normal),
        np.dtype(found.dtype),
    )


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """The limits of an integer type, or of a tensor's.

    >>> iinfo(int8).max
    127
    """
    return np.iinfo(_type_of(type))
