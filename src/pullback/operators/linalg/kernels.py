"""Linear algebra on arrays: NumPy's functions with errors that name operator and shapes.

What NumPy lacks is here in full: the adjugate, the inverse of what has none, and the exponential of
a matrix. Called through the table ``operators/linalg/table.yaml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from pullback.kernels.errstate import errstate

__all__ = [
    "Array",
    "adjugate",
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "inv_or_inf",
    "lstsq",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vector_norm",
]

Array = NDArray[Any]


def inv(a: Array) -> Array:
    """The inverse."""
    return np.linalg.inv(a)


def solve(a: Array, b: Array) -> Array:
    """The solution x of ``a @ x = b``; `b` is a vector only if it has one axis."""
    return np.linalg.solve(a, b)


def lstsq(a: Array, b: Array, rcond: float | None = None) -> tuple[Any, ...]:
    """The least-squares solution, its residuals, the rank and the singular values of `a`."""
    return np.linalg.lstsq(a, b, rcond)


def pinv(
    a: Array,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    rtol: float | None = None,
) -> Array:
    """The pseudo-inverse."""
    if rcond is not None and rtol is not None:
        raise ValueError("rcond and rtol mean the same; give only one of them")
    if rcond is None and rtol is None:
        return np.linalg.pinv(a, hermitian=hermitian)
    return np.linalg.pinv(a, rcond if rtol is None else rtol, hermitian)


def det(a: Array) -> Any:
    """The determinant."""
    return np.linalg.det(a)


def slogdet(a: Array) -> tuple[Any, Any]:
    """The sign of the determinant, and the logarithm of its absolute value."""
    return np.linalg.slogdet(a)


def cholesky(a: Array, *, upper: bool = False) -> Array:
    """The triangular factor of a positive definite matrix."""
    return np.linalg.cholesky(a, upper=upper)


def qr(a: Array, mode: str = "reduced") -> tuple[Array, Array]:
    """The orthogonal and the triangular factor."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode is {mode!r}; it must be 'reduced', 'complete' or 'r'")
    return np.linalg.qr(a, mode)  # type: ignore[call-overload,no-any-return]


def svd(
    a: Array, full_matrices: bool = True, hermitian: bool = False
) -> tuple[Array, Array, Array]:
    """The singular value decomposition."""
    return np.linalg.svd(a, full_matrices, True, hermitian)


def svdvals(a: Array) -> Array:
    """The singular values, largest first."""
    return np.linalg.svdvals(a)


def eig(a: Array) -> tuple[Array, Array]:
    """The eigenvalues and right eigenvectors of a square matrix, always complex."""
    values, vectors = np.linalg.eig(a)
    kind = np.result_type(values, np.complex64)
    return values.astype(kind, copy=False), vectors.astype(kind, copy=False)


def eigvals(a: Array) -> Array:
    """The eigenvalues of a square matrix, always complex."""
    values = np.linalg.eigvals(a)
    return values.astype(np.result_type(values, np.complex64), copy=False)


def eigh(a: Array, UPLO: Any = "L") -> tuple[Array, Array]:  # noqa: N803 - NumPy's name
    """The eigenvalues, smallest first, and eigenvectors of a Hermitian matrix."""
    return np.linalg.eigh(a, UPLO)


def eigvalsh(a: Array, UPLO: Any = "L") -> Array:  # noqa: N803 - NumPy's name
    """The eigenvalues of a Hermitian matrix, smallest first."""
    return np.linalg.eigvalsh(a, UPLO)


def matrix_rank(
    a: Array,
    tol: float | None = None,
    hermitian: bool = False,
    *,
    rtol: float | None = None,
) -> Any:
    """The number of singular values above a tolerance."""
    return np.linalg.matrix_rank(a, tol, hermitian, rtol=rtol)


def vector_norm(
    x: Array,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Any:
    """The norm of vectors, which lie along one axis, or several, or all."""
    axes: Any = axis if axis is None or isinstance(axis, int) else tuple(axis)
    # A power of zero with a negative exponent is an honest infinity here.
    with errstate(divide="ignore"):
        return np.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)


def adjugate(a: Array) -> Array:
    """The transposed matrix of cofactors, which singular matrices have too.

    The inverse times the determinant, unless that would lose half of the digits: then from the
    singular value decomposition, as ``det(u) det(vh) v adj(s) u^H``.
    """
    try:
        inverse = np.linalg.inv(a)
    except LinAlgError:
        return _adjugate_by_svd(a)
    digits = np.sqrt(np.finfo(inverse.dtype).eps)
    size = np.abs(a).sum(-1).max(-1, initial=0) * np.abs(inverse).sum(-1).max(-1, initial=0)
    if not (size * digits < 1).all():
        return _adjugate_by_svd(a)
    return np.asarray(np.linalg.det(a)[..., None, None] * inverse)


def _adjugate_by_svd(a: Array) -> Array:
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    v, uh = np.conj(np.swapaxes(vh, -1, -2)), np.conj(np.swapaxes(u, -1, -2))
    turn = np.linalg.det(u) * np.linalg.det(vh)
    return np.asarray((turn[..., None, None] * v * others[..., None, :]) @ uh)


def inv_or_inf(a: Array) -> Array:
    """The inverse; of a singular matrix, the infinities that elimination comes to."""
    try:
        return np.linalg.inv(a)
    except LinAlgError:
        if a.ndim == 2:
            return _eliminated(a)
    flat = a.reshape(-1, *a.shape[-2:])
    return np.stack([inv_or_inf(x) for x in flat]).reshape(a.shape)


def _eliminated(a: Array) -> Array:
    """Gauss-Jordan elimination with row exchanges, which divides by zero if it must."""
    n = a.shape[0]
    both = np.concatenate([a, np.eye(n, dtype=a.dtype)], axis=1)
    with errstate(all="ignore"):
        for i in range(n):
            pivot = i + int(np.abs(both[i:, i]).argmax())
            both[[i, pivot]] = both[[pivot, i]]
            if both[i, i] != 0:
                both[i + 1 :] -= np.outer(both[i + 1 :, i] / both[i, i], both[i])
        result = both[:, n:]
        for i in reversed(range(n)):
            result[i] = (result[i] - both[i, i + 1 : n] @ result[i + 1 :]) / both[i, i]
    return result


# The Padé approximation of degree 13, and up to which norm it is exact in double precision.
_PADE = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
]
_PADE_RADIUS = 5.371920351148152


def expm(a: Array) -> Array:
    """The exponential of a matrix: halved until it is small, approximated, squared as often."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    if a.dtype.kind not in "fc":
        a = a.astype(np.float64)
    norm = np.abs(a).sum(-2).max(-1, initial=0)
    with errstate(divide="ignore", invalid="ignore"):
        halvings = np.ceil(np.log2(norm / _PADE_RADIUS))
    halvings = np.where(np.isfinite(halvings), np.maximum(halvings, 0), 0).astype(int)
    scaled = a * np.exp2(-halvings)[..., None, None].astype(a.real.dtype)
    result = _pade(scaled)
    for step in range(halvings.max(initial=0)):
        left = halvings > step
        result[left] = result[left] @ result[left]
    return result


def _pade(a: Array) -> Array:
    """The quotient of two polynomials that agrees with the exponential near zero."""
    one = np.eye(a.shape[-1], dtype=a.dtype)
    b = [a.dtype.type(c / _PADE[0]) for c in _PADE]
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2
    odd = a @ (odd + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    return np.linalg.solve(even - odd, even + odd)
