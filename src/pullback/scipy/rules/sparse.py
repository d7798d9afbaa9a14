"""Rules of scipy.sparse: constant sparse arrays and tensors, and sparse arrays built of tensors.

Sparse arrays with a tensor of values are the classes of `pullback.sparse.arrays`, which define
their own methods. The rules here are for SciPy's own arrays that meet a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.sparse as theirs

from pullback.func.primitive import apply_linear
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


def _declare_operator(method: str, run: Callable[[Any, Any], Any]) -> None:
    @rule(f"{_BASE}.{method}", tensors="self other")
    def apply(self: Any, other: Any) -> Any:
        return run(_with_tensor(self), other)


_declare_operator("__mul__", lambda matrix, other: matrix * other)
_declare_operator("__rmul__", lambda matrix, other: other * matrix)
_declare_operator("multiply", lambda matrix, other: matrix.multiply(other))
_declare_operator("__truediv__", lambda matrix, other: matrix / other)
_declare_operator("__add__", lambda matrix, other: matrix + other)
_declare_operator("__radd__", lambda matrix, other: matrix + other)
_declare_operator("__sub__", lambda matrix, other: matrix - other)
_declare_operator("__rsub__", lambda matrix, other: other + (-matrix))

# --- functions that build sparse arrays ---------------------------------------------------------


def _diagonals(diagonals: Any) -> Any:
    """Diagonals as a list of vectors, or one vector; a number stays a diagonal of equal numbers."""
    if isinstance(diagonals, Tensor):
        return diagonals if diagonals.ndim == 1 else [diagonals[i] for i in range(len(diagonals))]
    if isinstance(diagonals, list | tuple):
        return [as_tensor(item).reshape(-1) for item in diagonals]
    return diagonals


def _declare_builder(name: str, argument: str, prepare: Callable[[Any], Any]) -> None:
    """Declares a function that moves the entries of one argument to places of a new array."""

    @rule(f"scipy.sparse.{name}", tensors=argument)
    def apply(dtype: Any = None, **options: Any) -> Any:
        given = prepare(options.pop(argument))
        made = arrays.move_entries(getattr(theirs, name), given, **options)
        return made if dtype is None else made.astype(dtype)


for _name in ("block_array", "bmat", "hstack", "vstack"):
    _declare_builder(_name, "blocks", list)
_declare_builder("block_diag", "mats", list)
for _name in ("diags", "diags_array"):
    _declare_builder(_name, "diagonals", _diagonals)
for _name in ("tril", "triu"):
    _declare_builder(_name, "A", lambda matrix: matrix)


@rule("scipy.sparse.kron", tensors="A B")
def _kron(A: Any, B: Any, format: Any) -> Any:
    left, right = (m if arrays.is_sparse(m) else arrays.coo_array(m) for m in (A, B))
    return arrays.kron(left, right, format=format)
