"""Data types, the default data type, sizes and devices under PyTorch's names.

``torch.float32`` is NumPy's ``dtype("float32")``: ``x.dtype == torch.float32`` holds, and every
function that takes a dtype takes it. Its text is NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import UnsupportedDtypeError

__all__ = [
    "DTYPE_NAMES",
    "Size",
    "bool",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "device",
    "double",
    "dtype",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_device",
    "get_default_dtype",
    "half",
    "iinfo",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_complex",
    "is_floating_point",
    "long",
    "promote_types",
    "set_default_device",
    "set_default_dtype",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

dtype = np.dtype
finfo, iinfo = np.finfo, np.iinfo
float16 = half = np.dtype(np.float16)
float32 = float = np.dtype(np.float32)
float64 = double = np.dtype(np.float64)
complex64 = cfloat = np.dtype(np.complex64)
complex128 = cdouble = np.dtype(np.complex128)
int8, int16, int32, int64 = map(np.dtype, (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64))
short, int, long = int16, int32, int64
bool = np.dtype(np.bool_)

DTYPE_NAMES = {  # conversions that are methods of tensors: x.double()
    "bool": bool,
    "byte": uint8,
    "cdouble": complex128,
    "cfloat": complex64,
    "char": int8,
    "double": float64,
    "float": float32,
    "half": float16,
    "int": int32,
    "long": int64,
    "short": int16,
}
_default = [float32]


def get_default_dtype() -> np.dtype[Any]:
    """The dtype of tensors that are made of Python's floating-point numbers.

    >>> get_default_dtype()
    dtype('float32')
    """
    return _default[0]


def set_default_dtype(d: Any, /) -> None:
    """Sets what `get_default_dtype` returns.

    >>> set_default_dtype(float64)
    >>> set_default_dtype(float32)
    """
    wanted = np.dtype(d)
    if wanted.kind != "f":
        raise TypeError(
            f"set_default_dtype: only floating-point types are supported as the default type, not "
            f"{wanted}"
        )
    _default[0] = wanted


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The dtype to which two dtypes promote, by PyTorch's rules.

    >>> promote_types(int64, float32)
    dtype('float32')
    """
    one, other = np.dtype(type1), np.dtype(type2)
    if (one.kind in "biu") != (other.kind in "biu"):
        wider: np.dtype[Any] = one if one.kind in "fc" else other
        return wider
    if (
        one.kind in "biu"
        and uint64 in (one, other)
        and one != other
        and "i" in (one.kind, other.kind)
    ):
        raise UnsupportedDtypeError(f"promote_types: {one} and {other} have no common type")
    return np.promote_types(one, other)


class Size(tuple[Any, ...]):
    """The shape of a tensor.

    >>> Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> Any:
        """The number of elements."""
        total = 1
        for length in self:
            total *= length
        return total

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, place: Any) -> Any:
        found = tuple.__getitem__(self, place)
        return Size(found) if isinstance(place, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


class device(str):
    """The place of data: ``"cpu"``, or ``"meta"`` for shapes without data.

    >>> device("cpu").type
    'cpu'
    """

    __slots__ = ()

    def __new__(cls, type: Any = "cpu", index: Any = None) -> device:  # noqa: ARG004 - one CPU
        """Checks the name."""
        name = str(type).partition(":")[0]
        if name not in ("cpu", "meta"):
            raise RuntimeError(
                f"torch.device: {type!r} is not available: this library computes with NumPy, on "
                f"the devices 'cpu' and 'meta'"
            )
        return str.__new__(cls, name)

    @property
    def type(self) -> str:
        """The kind of device."""
        return str(self)

    @property
    def index(self) -> None:  # type: ignore[override]
        """The number among devices of one kind; there is one of each."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"device(type={str(self)!r})"

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: object) -> None:
        """Devices of new tensors are not chosen by a block; there is one."""


def get_default_device() -> device:
    """The device of new tensors.

    >>> get_default_device()
    device(type='cpu')
    """
    return device("cpu")


def set_default_device(device: Any) -> None:
    """Accepts the CPU, where all data is."""
    if device is not None and globals()["device"](device).type != "cpu":
        raise RuntimeError(f"set_default_device: tensors are made on 'cpu', not on {device!r}")


def is_floating_point(input: Any) -> Any:
    """Whether a tensor has a floating-point dtype."""
    return input.dtype.kind == "f"


def is_complex(input: Any) -> Any:
    """Whether a tensor has a complex dtype."""
    return input.dtype.kind == "c"
