"""The Array API's inspection API, and ``Tensor.__array_namespace__``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from pullback.interop import array_api
from pullback.tensor.tensor import Tensor

__all__ = ["VERSION", "ArrayNamespaceInfo", "attach_namespace"]

VERSION = "2024.12"  # the edition of the standard
_EDITIONS = ("2021.12", "2022.12", "2023.12", VERSION)

_KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (array_api.bool,),
    "signed integer": (array_api.int8, array_api.int16, array_api.int32, array_api.int64),
    "unsigned integer": (array_api.uint8, array_api.uint16, array_api.uint32, array_api.uint64),
    "real floating": (array_api.float32, array_api.float64),
    "complex floating": (array_api.complex64, array_api.complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def _check_cpu(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device must be 'cpu' or None, not {device!r}")


class ArrayNamespaceInfo:
    """The inspection API: what the namespace can do.

    >>> info = ArrayNamespaceInfo()
    >>> info.default_device(), sorted(info.dtypes(kind="complex floating"))
    ('cpu', ['complex128', 'complex64'])
    """

    def capabilities(self) -> dict[str, Any]:
        """Optional features of the standard that are available."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of new tensors."""
        return "cpu"

    def devices(self) -> list[str]:
        """Every device."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """The types of results when no dtype is given."""
        _check_cpu(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int_),
            "indexing": np.dtype(np.intp),
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The supported types, all or those of some kinds."""
        _check_cpu(device)
        kinds = kind if isinstance(kind, tuple) else [kind] if kind is not None else list(_KINDS)
        for name in kinds:
            if name not in _KINDS:
                raise ValueError(f"kind must be one of {sorted(_KINDS)}, not {name!r}")
        kept = (np.dtype(kind) for name in kinds for kind in _KINDS[name])
        return {dtype.name: dtype for dtype in kept}


def _array_namespace(self: Tensor, /, *, api_version: str | None = None) -> ModuleType:  # noqa: ARG001
    """The module whose functions take tensors: ``pullback``."""
    if api_version is not None and api_version not in _EDITIONS:
        raise ValueError(f"api_version must be one of {_EDITIONS}, not {api_version!r}")
    return sys.modules[__name__.partition(".")[0]]


def attach_namespace() -> None:
    """Gives tensors ``__array_namespace__``."""
    setattr(Tensor, "__array_namespace__", _array_namespace)  # noqa: B010 - no such attribute yet
