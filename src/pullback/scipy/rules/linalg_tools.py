"""Helpers of the rules of ``scipy.linalg``: triangles, adjoints, shapes, checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor
from pullback.operators.linalg.formulas import mh as _mh
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = [
    "Array",
    "adjoint",
    "as_matrix",
    "band_to_matrix",
    "diagonal",
    "from_diagonal",
    "hermitian",
    "pad_zeros",
    "reduce_to",
    "require_finite",
    "triangle",
]

Array = NDArray[Any]


def adjoint(x: Any) -> Any:
    """The conjugate transpose of matrices, tensors or arrays."""
    return _mh(xp, x) if isinstance(x, Tensor) else np.conj(np.swapaxes(x, -1, -2))


def triangle(x: Tensor, lower: bool, *, offset: int = 0) -> Any:
    """One triangle; `offset` diagonals nearest to the main one are left out."""
    return xp.tril(x, -offset) if lower else xp.triu(x, offset)


def hermitian(x: Tensor, lower: bool, *, conjugate: bool = True) -> Any:
    """The Hermitian (or symmetric) matrix of which SciPy reads one triangle.

    The gradient is that of the function as SciPy computes it: the other triangle is not read, so it
    is zero there.
    """
    half = triangle(x, lower, offset=1)
    if not conjugate:
        return half + xp.matrix_transpose(half) + from_diagonal(diagonal(x))
    middle = diagonal(x)
    middle = xp.real(middle) if x.dtype.kind == "c" else middle
    return half + adjoint(half) + from_diagonal(middle)


def diagonal(x: Tensor) -> Any:
    """The main diagonal of matrices."""
    result: Tensor = xp.diagonal(x, 0, -2, -1)
    return result


def from_diagonal(x: Tensor) -> Any:
    """Diagonal matrices."""
    return xp.expand_dims(x, -1) * np.eye(x.shape[-1], dtype=bool)


def band_to_matrix(ab: Tensor, lower: bool) -> Any:
    """The triangle of a matrix of which SciPy stores the diagonals as rows."""
    width, n = ab.shape
    shift = np.arange(n)[:, None] - np.arange(n)
    place = shift if lower else shift + width - 1
    inside = (place >= 0) & (place < width)
    return ab[np.clip(place, 0, width - 1), np.arange(n)[None]] * inside


def as_matrix(b: Any) -> Any:
    """A right-hand side as a matrix, and whether it was a vector."""
    b = as_tensor(b)
    return (xp.expand_dims(b, -1), True) if b.ndim == 1 else (b, False)


def reduce_to(x: Tensor, shape: Sequence[int]) -> Any:
    """Undoes broadcasting of the leading axes."""
    if x.shape == tuple(shape):
        return x
    extra = x.ndim - len(shape)
    axes = [*range(extra)]
    axes += [extra + i for i, n in enumerate(shape) if n == 1 != x.shape[extra + i]]
    return xp.reshape(xp.sum(x, axes), list(shape)) if axes else x


def pad_zeros(x: Tensor, before: int, after: int, axis: int) -> Any:
    """Adds zeros at both ends of an axis."""
    shape = list(x.shape)
    parts = []
    for count in (before, after):
        shape[axis] = count
        parts.append(as_tensor(np.zeros(shape, x.dtype)))
    return xp.concatenate([parts[0], x, parts[1]], axis)


def require_finite(*values: Any) -> None:
    """Raises SciPy's error for NaN and infinities; under vmap values cannot be read."""
    for value in values:
        array = value._array if isinstance(value, Tensor) else value
        if not isinstance(array, Payload) and not np.isfinite(array).all():
            raise ValueError("array must not contain infs or NaNs")
