"""Rules of scipy.sparse: constant sparse arrays and tensors, and sparse arrays built of tensors.

Sparse arrays with a tensor of values are the classes of `pullback.sparse.arrays`, which define
their own methods. The rules here are for SciPy's own arrays that meet a tensor.
"""

from __future__ import annotations

from typing import Any

import scipy.sparse as theirs

from pullback.autograd.function.array_function import apply_linear
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import class_rule, recorded, rule
from pullback.scipy.rules import sparse_linalg as sparse_linalg
from pullback.sparse import arrays
from pullback.sparse.arrays import SparseTensor
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_BASE = "scipy.sparse._spbase"
_MATRIX = "scipy.sparse.spmatrix"


for _class in arrays.CLASSES:
    class_rule(f"scipy.sparse.{_class.__name__}", tensors="arg1")(arrays.CLASSES[_class])

# They read no values.
for _function in (
    "issparse",
    "isspmatrix",
    *(f"isspmatrix_{name}" for name in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")),
    *(f"_spbase.{name}" for name in ("getnnz", "get_shape", "getformat", "getmaxprint")),
    *(f"{name}.check_format" for name in ("_cs_matrix", "_bsr_base")),
):
    recorded(f"scipy.sparse.{_function}", tensors="self x")


def _is_scalar(other: Any) -> bool:
    return isinstance(other, Tensor) and other.ndim == 0


def _with_tensor(matrix: Any) -> Any:
    """The sparse array with its values as a constant tensor."""
    if isinstance(matrix, SparseTensor):
        return matrix
    made = matrix if matrix.format in ("csr", "csc", "coo", "dia", "bsr") else matrix.tocsr()
    return arrays.class_of(made)(made)


@rule(f"{_BASE}.__matmul__", tensors="self other")
def _matmul(self: Any, other: Any) -> Any:
    if isinstance(self, SparseTensor) or not isinstance(other, Tensor) or other.ndim not in (1, 2):
        return _with_tensor(self) @ other
    return apply_linear(other, lambda v: self @ v, lambda v: self.T @ v)


@rule(f"{_BASE}.__rmatmul__", tensors="self other")
def _rmatmul(self: Any, other: Any) -> Any:
    if isinstance(self, SparseTensor) or not isinstance(other, Tensor) or other.ndim not in (1, 2):
        return other @ _with_tensor(self)
    return apply_linear(other, lambda v: v @ self, lambda v: v @ self.T)


@rule(f"{_BASE}.dot", tensors="self other")
def _dot(self: Any, other: Any) -> Any:
    return _with_tensor(self) * other if _is_scalar(other) else _matmul(self, other)


@rule(f"{_MATRIX}.__mul__", tensors="self other")
def _matrix_mul(self: Any, other: Any) -> Any:
    return _with_tensor(self) * other if _is_scalar(other) else _matmul(self, other)


@rule(f"{_MATRIX}.__rmul__", tensors="self other")
def _matrix_rmul(self: Any, other: Any) -> Any:
    return other * _with_tensor(self) if _is_scalar(other) else _rmatmul(self, other)


@rule(f"{_BASE}.__mul__", tensors="self other")
def _mul(self: Any, other: Any) -> Any:
    return _with_tensor(self) * other


@rule(f"{_BASE}.__rmul__", tensors="self other")
def _rmul(self: Any, other: Any) -> Any:
    return other * _with_tensor(self)


@rule(f"{_BASE}.multiply", tensors="self other")
def _multiply(self: Any, other: Any) -> Any:
    return _with_tensor(self).multiply(other)


@rule(f"{_BASE}.__truediv__", tensors="self other")
def _truediv(self: Any, other: Any) -> Any:
    return _with_tensor(self) / other


@rule(f"{_BASE}.__add__", tensors="self other")
def _add(self: Any, other: Any) -> Any:
    return _with_tensor(self) + other


@rule(f"{_BASE}.__radd__", tensors="self other")
def _radd(self: Any, other: Any) -> Any:
    return _with_tensor(self) + other


@rule(f"{_BASE}.__sub__", tensors="self other")
def _sub(self: Any, other: Any) -> Any:
    return _with_tensor(self) - other


@rule(f"{_BASE}.__rsub__", tensors="self other")
def _rsub(self: Any, other: Any) -> Any:
    return other + (-_with_tensor(self))


# --- functions that build sparse arrays ---------------------------------------------------------


@rule("scipy.sparse.hstack", tensors="blocks")
def _hstack(blocks: Any, format: Any = None, dtype: Any = None) -> Any:
    return _cast(arrays.move_entries(theirs.hstack, list(blocks), format=format), dtype)


@rule("scipy.sparse.vstack", tensors="blocks")
def _vstack(blocks: Any, format: Any = None, dtype: Any = None) -> Any:
    return _cast(arrays.move_entries(theirs.vstack, list(blocks), format=format), dtype)


@rule("scipy.sparse.block_array", tensors="blocks")
def _block_array(blocks: Any, *, format: Any = None, dtype: Any = None) -> Any:
    return _cast(arrays.move_entries(theirs.block_array, blocks, format=format), dtype)


@rule("scipy.sparse.bmat", tensors="blocks")
def _bmat(blocks: Any, format: Any = None, dtype: Any = None) -> Any:
    return _cast(arrays.move_entries(theirs.bmat, blocks, format=format), dtype)


@rule("scipy.sparse.block_diag", tensors="mats")
def _block_diag(mats: Any, format: Any = None, dtype: Any = None) -> Any:
    return _cast(arrays.move_entries(theirs.block_diag, list(mats), format=format), dtype)


@rule("scipy.sparse.tril", tensors="A")
def _tril(A: Any, k: int = 0, format: Any = None) -> Any:  # noqa: N803 - SciPy's names
    return arrays.move_entries(theirs.tril, A, k=k, format=format)


@rule("scipy.sparse.triu", tensors="A")
def _triu(A: Any, k: int = 0, format: Any = None) -> Any:  # noqa: N803 - SciPy's names
    return arrays.move_entries(theirs.triu, A, k=k, format=format)


@rule("scipy.sparse.diags_array", tensors="diagonals")
def _diags_array(
    diagonals: Any,
    /,
    *,
    offsets: Any = 0,
    shape: Any = None,
    format: Any = None,
    dtype: Any = None,
) -> Any:
    def build(numbers: Any) -> Any:
        return theirs.diags_array(numbers, offsets=offsets, shape=shape, format=format)

    return _cast(arrays.move_entries(build, _diagonals(diagonals)), dtype)


@rule("scipy.sparse.diags", tensors="diagonals")
def _diags(
    diagonals: Any,
    offsets: Any = 0,
    shape: Any = None,
    format: Any = None,
    dtype: Any = None,
) -> Any:
    def build(numbers: Any) -> Any:
        return theirs.diags(numbers, offsets=offsets, shape=shape, format=format)

    return _cast(arrays.move_entries(build, _diagonals(diagonals)), dtype)


@rule("scipy.sparse.kron", tensors="A B")
def _kron(A: Any, B: Any, format: Any = None) -> Any:  # noqa: N803 - SciPy's names
    left, right = (m if arrays.is_sparse(m) else arrays.coo_array(m) for m in (A, B))
    return arrays.kron(left, right, format=format)


def _diagonals(diagonals: Any) -> Any:
    """Diagonals as a list of vectors, or one vector; a number stays a diagonal of equal numbers."""
    if isinstance(diagonals, Tensor):
        return diagonals if diagonals.ndim == 1 else [diagonals[i] for i in range(len(diagonals))]
    if isinstance(diagonals, list | tuple):
        return [as_tensor(item).reshape(-1) for item in diagonals]
    return diagonals


def _cast(made: Any, dtype: Any) -> Any:
    return made if dtype is None else made.astype(dtype)
