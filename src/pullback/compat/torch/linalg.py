"""``torch.linalg``: linear algebra under PyTorch's names."""

from __future__ import annotations

from typing import Any, NamedTuple

import pullback as pb
from pullback.compat.torch.spelling import spell

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_own = pb.linalg
LinAlgError = _own.LinAlgError
cholesky = spell(_own.cholesky, first=("A",))
cond = spell(_own.cond, first=("A",))
det = spell(_own.det, first=("A",))
eig = spell(_own.eig, first=("A",))
eigh = spell(_own.eigh, first=("A",))
eigvals = spell(_own.eigvals, first=("A",))
eigvalsh = spell(_own.eigvalsh, first=("A",))
inv = spell(_own.inv, first=("A",))
matmul = spell(_own.matmul)
matrix_exp = spell(_own.expm, first=("A",))
matrix_power = spell(_own.matrix_power, first=("A", "n"))
multi_dot = spell(_own.multi_dot, first=("tensors",))
qr = spell(_own.qr, first=("A",))
slogdet = spell(_own.slogdet, first=("A",))
svdvals = spell(_own.svdvals, first=("A",))
tensorinv = spell(_own.tensorinv, first=("A",))
tensorsolve = spell(_own.tensorsolve, first=("A", "B"), dims="axes")
vecdot = spell(_own.vecdot, first=("x", "y"))
vander = spell(lambda x, N=None: pb.vander(x, N, True), first=("x",))


class _LeastSquares(NamedTuple):
    """The solution of a least-squares problem, and what describes its matrix."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def _cast(value: Any, dtype: Any) -> Any:
    return value if dtype is None else pb.astype(value, dtype)


def svd(A: Any, full_matrices: bool = True) -> Any:
    """Singular values and vectors: ``U, S, Vh``."""
    return _own.svd(A, full_matrices=full_matrices)


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product along an axis of length 3."""
    return _own.cross(input, other, axis=dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of two axes."""
    return pb.diagonal(A, offset, dim1, dim2)


def norm(
    A: Any,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """A norm of vectors or matrices.

    >>> import pullback.compat.torch as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0])).item()
    5.0
    """
    given = _cast(A, dtype)
    if ord is None:
        return _own.vector_norm(
            given, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim
        )
    return _own.norm(given, ord, tuple(dim) if isinstance(dim, list) else dim, keepdim)


def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """A norm of the elements along axes."""
    axes = tuple(dim) if isinstance(dim, list) else dim
    return _own.vector_norm(_cast(x, dtype), axis=axes, keepdims=keepdim, ord=ord)


def matrix_norm(
    A: Any,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """A norm of matrices."""
    return _own.norm(_cast(A, dtype), ord, tuple(dim), keepdim)


def matrix_rank(
    A: Any,
    *,
    atol: Any = None,
    rtol: Any = None,
    hermitian: bool = False,
) -> Any:
    """The number of singular values above a tolerance."""
    return _own.matrix_rank(A, atol, hermitian, rtol=rtol)


def pinv(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudo-inverse."""
    if atol is not None:
        raise NotImplementedError("linalg.pinv: atol is not supported; pass rtol")
    return _own.pinv(A, None, hermitian, rtol=rtol)


def _is_vector(A: Any, B: Any) -> bool:
    return bool(B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]))


def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """The solution of ``A @ X = B``, or of ``X @ A = B``."""
    if not left:
        flipped = solve(pb.matrix_transpose(A), pb.matrix_transpose(B))
        return pb.matrix_transpose(flipped)
    if B.ndim > 1 and _is_vector(A, B):
        return pb.squeeze(_own.solve(A, pb.expand_dims(B, -1)), -1)
    return _own.solve(A, B)


def solve_triangular(
    A: Any,
    B: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    """The solution of a system with a triangular matrix; the other triangle is not read."""
    triangle = pb.triu(A, int(unitriangular)) if upper else pb.tril(A, -int(unitriangular))
    if unitriangular:
        triangle = triangle + pb.eye(A.shape[-1], dtype=A.dtype)
    return solve(triangle, B, left=left)


def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: Any = None) -> Any:
    """The solution with the least sum of squares of ``A @ X - B``."""
    del driver
    return _LeastSquares(*_own.lstsq(A, B, rcond))
