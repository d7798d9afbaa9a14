"""Arguments of SciPy's functions as tensors of the dtypes in which SciPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import all_values
from pullback.interop.arguments import as_tensor
from pullback.tensor.tensor import Tensor

__all__ = ["as_double", "as_float", "as_floating", "first_sample"]


def _as_type(tensor: Tensor, dtype: DTypeLike) -> Tensor:
    return tensor if tensor.dtype == dtype else xp.astype(tensor, dtype)


def as_double(value: Any) -> Any:
    """A tensor of float64."""
    return _as_type(as_tensor(value), np.float64)


def as_float(value: Any) -> Tensor:
    """A tensor of float64 or complex128."""
    tensor = as_tensor(value)
    return _as_type(tensor, np.complex128 if tensor.dtype.kind == "c" else np.float64)


def as_floating(value: Any) -> Tensor:
    """A tensor of floating-point numbers: integers become float64, others stay as they are."""
    tensor = as_tensor(value)
    return tensor if tensor.dtype.kind in "fc" else _as_type(tensor, np.float64)


def first_sample(value: Any) -> NDArray[Any]:
    """The values of an argument; inside ``vmap`` those of the first sample, for SciPy's checks."""
    tensor = as_tensor(value)
    return np.asarray(all_values(tensor).reshape(-1, *tensor.shape)[0])
