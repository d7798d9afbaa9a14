"""Shapes of linear algebra. Matrices are the last two axes, all axes before them a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from pullback.kernels.shape_spec import Shape, Shaped, Spec

__all__ = [
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "lstsq",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "square",
    "svd",
    "svdvals",
]


def _called(name: str) -> str:
    return f"linalg.{name}" if name else "linalg"


def _matrix(name: str, a: Shaped) -> tuple[Shape, int, int]:
    if a.ndim < 2:
        raise LinAlgError(
            f"{_called(name)}: {a.ndim}-dimensional array given. Array must be at least "
            f"two-dimensional (shape {a.shape} given)"
        )
    return a.shape[:-2], a.shape[-2], a.shape[-1]


def _square(name: str, a: Shaped) -> tuple[Shape, int]:
    batch, rows, columns = _matrix(name, a)
    if rows != columns:
        raise LinAlgError(
            f"{_called(name)}: Last 2 dimensions of the array must be square (shape {a.shape} "
            f"given)"
        )
    return batch, rows


def square(a: Shaped, **_: Any) -> Spec:
    """A square matrix of the same size: of inverses, Cholesky factors, exponentials."""
    _square("", a)
    return Spec(a.shape)


def det(a: Shaped) -> Spec:
    """One number a matrix."""
    return Spec(_square("det", a)[0])


def slogdet(a: Shaped) -> tuple[Spec, Spec]:
    """Two numbers a matrix."""
    batch, _ = _square("slogdet", a)
    return Spec(batch), Spec(batch)


def solve(a: Shaped, b: Shaped) -> Spec:
    """As many unknowns as columns; `b` is a vector only if it has one axis."""
    batch, n = _square("solve", a)
    if b.ndim < 1:
        raise LinAlgError(f"linalg.solve: shapes {a.shape} and {b.shape} do not match")
    rows, right = (b.shape[0], ()) if b.ndim == 1 else (b.shape[-2], b.shape[-1:])
    if rows != n:
        raise ValueError(
            f"linalg.solve: shapes {a.shape} and {b.shape} do not match: {n} rows are needed"
        )
    return Spec((*np.broadcast_shapes(batch, b.shape[:-2]), n, *right))


def lstsq(a: Shaped, b: Shaped, rcond: float | None = None) -> tuple[Spec, ...]:  # noqa: ARG001
    """The solution, the residuals of a matrix of full rank, the rank and the singular values."""
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise LinAlgError(
            f"linalg.lstsq: shapes {a.shape} and {b.shape} given. Arrays must be two-dimensional"
        )
    rows, columns = a.shape
    if b.shape[0] != rows:
        raise LinAlgError(f"linalg.lstsq: Incompatible dimensions, shapes {a.shape} and {b.shape}")
    right = b.shape[1:]
    residuals = (right or (1,)) if rows > columns else (0,)
    return Spec((columns, *right)), Spec(residuals), Spec(()), Spec((min(rows, columns),))


def pinv(
    a: Shaped,
    rcond: float | None = None,
    hermitian: bool = False,  # noqa: ARG001 - how it is computed
    *,
    rtol: float | None = None,
) -> Spec:
    """Rows and columns exchanged."""
    if rcond is not None and rtol is not None:
        raise ValueError("linalg.pinv: rcond and rtol mean the same; give only one of them")
    batch, rows, columns = _matrix("pinv", a)
    return Spec((*batch, columns, rows))


def qr(a: Shaped, mode: str = "reduced") -> tuple[Spec, Spec]:
    """The orthogonal and the triangular factor."""
    batch, rows, columns = _matrix("qr", a)
    inner = rows if mode == "complete" else min(rows, columns)
    return Spec((*batch, rows, inner)), Spec((*batch, inner, columns))


def svd(a: Shaped, full_matrices: bool = True, hermitian: bool = False) -> tuple[Spec, Spec, Spec]:
    """Two square or narrow matrices, and the singular values."""
    if hermitian:
        _square("svd", a)
    batch, rows, columns = _matrix("svd", a)
    least = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (least, least)
    return Spec((*batch, rows, left)), Spec((*batch, least)), Spec((*batch, right, columns))


def svdvals(a: Shaped) -> Spec:
    """As many numbers as the shorter side."""
    batch, rows, columns = _matrix("svdvals", a)
    return Spec((*batch, min(rows, columns)))


def eigh(a: Shaped, UPLO: str = "L") -> tuple[Spec, Spec]:  # noqa: ARG001, N803 - NumPy's name
    """Eigenvalues and eigenvectors."""
    batch, n = _square("eigh", a)
    return Spec((*batch, n)), Spec(a.shape)


def eigvalsh(a: Shaped, UPLO: str = "L") -> Spec:  # noqa: ARG001, N803 - NumPy's name
    """Eigenvalues."""
    return eigh(a)[0]


def _complex(a: Shaped) -> np.dtype[Any]:
    """The dtype of eigenvalues."""
    return np.result_type(np.linalg.eigvals(np.eye(1, dtype=a.dtype)).dtype, np.complex64)


def eig(a: Shaped) -> tuple[Spec, Spec]:
    """Complex eigenvalues and eigenvectors."""
    batch, n = _square("eig", a)
    return Spec((*batch, n), _complex(a)), Spec(a.shape, _complex(a))


def eigvals(a: Shaped) -> Spec:
    """Complex eigenvalues."""
    return eig(a)[0]


def matrix_rank(
    a: Shaped,
    tol: float | None = None,  # noqa: ARG001 - which values count
    hermitian: bool = False,  # noqa: ARG001 - how it is computed
    *,
    rtol: float | None = None,  # noqa: ARG001 - which values count
) -> Spec:
    """One number a matrix."""
    return Spec(a.shape[:-2])
