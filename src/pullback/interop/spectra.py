"""``numpy.linalg.eig`` and ``eigvals``: real results where the eigenvalues of a real matrix are.

Our operators, like the Array API's and PyTorch's, always give complex numbers, so that the dtype
of a result never depends on values. NumPy's functions look at the values; these do as well.
"""

from __future__ import annotations

from typing import Any

from pullback import linalg
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback.interop.arguments import as_tensor
from pullback.linalg import EigResult
from pullback.tensor.tensor import Tensor, is_true

__all__ = ["eig", "eigvals"]


def eig(a: Any) -> EigResult:
    """``numpy.linalg.eig``."""
    matrix = as_tensor(a)
    values, vectors = linalg.eig(matrix)
    if _is_real(matrix, values):
        return EigResult(pointwise.real(values), pointwise.real(vectors))
    return EigResult(values, vectors)


def eigvals(a: Any) -> Tensor:
    """``numpy.linalg.eigvals``."""
    matrix = as_tensor(a)
    values = linalg.eigvals(matrix)
    return pointwise.real(values) if _is_real(matrix, values) else values


def _is_real(matrix: Tensor, values: Tensor) -> bool:
    """Whether NumPy's result would be real; False for batched tensors, whose values may differ."""
    return matrix.dtype.kind != "c" and is_true(reduction.any(pointwise.imag(values))) is False
