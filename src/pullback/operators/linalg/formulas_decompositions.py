"""Formulas of matrix decompositions.

Factors that are determined only up to a sign, a phase or a rotation have derivatives only together:
the formulas are right for functions that do not depend on that choice. Gradients of unused
results are None. Repeated eigenvalues or singular values give NaN where vectors are used, and
do no harm where only values are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.operators.linalg.formulas import mh, quiet
from pullback.operators.pointwise.formulas import conj

__all__ = [
    "cholesky_grad",
    "cholesky_jvp",
    "eig_grad",
    "eig_jvp",
    "eigh_grad",
    "eigh_jvp",
    "eigvals_grad",
    "eigvals_jvp",
    "eigvalsh_grad",
    "eigvalsh_jvp",
    "qr_grad",
    "qr_jvp",
    "svd_grad",
    "svd_jvp",
    "svdvals_grad",
    "svdvals_jvp",
]


def _half_triangle(x: Any, lower: bool) -> Any:
    """Ones in one triangle and halves on the diagonal: what makes x + x^H out of it."""
    n = x.shape[-1]
    real = np.dtype(x.dtype.char.lower())
    weights = np.tri(n, dtype=real) - np.eye(n, dtype=real) / 2
    return weights if lower else weights.T


def _diagonal(xp: Any, x: Any) -> Any:
    return xp.diagonal(x, 0, -2, -1)


def _from_diagonal(xp: Any, x: Any) -> Any:
    return xp.expand_dims(x, -1) * np.eye(x.shape[-1], dtype=bool)


def _differences(xp: Any, x: Any) -> Any:
    """``x_j - x_i``, with ones on the diagonal."""
    gaps = xp.expand_dims(x, -2) - xp.expand_dims(x, -1)
    return gaps + np.eye(x.shape[-1], dtype=bool)


def _off_diagonal(x: Any) -> Any:
    return x * ~np.eye(x.shape[-1], dtype=bool)


# --- Cholesky ---


def cholesky_grad(xp: Any, grad: Any, result: Any, upper: bool) -> Any:
    """The gradient of the Cholesky factor, made Hermitian."""
    if upper:
        grad, result = mh(xp, grad), mh(xp, result)
    adjoint = mh(xp, result)
    inner = (adjoint @ grad) * _half_triangle(grad, lower=True)
    left = xp.linalg_solve(adjoint, inner)
    both = xp.linalg_solve(adjoint, mh(xp, left))
    return (both + mh(xp, both)) / 2


def cholesky_jvp(xp: Any, tangent: Any, result: Any, upper: bool) -> Any:
    """The tangent of the Cholesky factor."""
    factor = mh(xp, result) if upper else result
    left = xp.linalg_solve(factor, tangent)
    both = mh(xp, xp.linalg_solve(factor, mh(xp, left)))
    change = factor @ (both * _half_triangle(both, lower=True))
    return mh(xp, change) if upper else change


# --- QR ---


def qr_grad(xp: Any, grad_q: Any, grad_r: Any, q: Any, r: Any) -> Any:
    """The gradient of QR; columns of q beyond the matrix count as a basis of what is left."""
    m, n = q.shape[-2], r.shape[-1]
    if m >= n:
        thin, square = q[..., :n], r[..., :n, :]
        part_q = None if grad_q is None else grad_q[..., :n]
        part_r = None if grad_r is None else grad_r[..., :n, :]
        inner = _qr_inner(xp, part_q, part_r, thin, square)
        if grad_q is not None and q.shape[-1] > n:
            inner = inner - q[..., n:] @ (mh(xp, grad_q[..., n:]) @ thin)
        return mh(xp, xp.linalg_solve(square, mh(xp, inner)))
    if grad_r is None:
        left, rest = _qr_inner(xp, grad_q, None, q, r[..., :m]), xp.zeros_like(r[..., m:])
    else:
        # The columns beyond the square are q @ r there, so their gradient goes to both.
        rest = q @ grad_r[..., m:]
        through = q @ (r[..., m:] @ mh(xp, grad_r[..., m:]))
        through = through if grad_q is None else grad_q + through
        left = _qr_inner(xp, through, grad_r[..., :m], q, r[..., :m])
    left = mh(xp, xp.linalg_solve(r[..., :m], mh(xp, left)))
    return xp.concatenate([left, rest], -1)


def _qr_inner(xp: Any, grad_q: Any, grad_r: Any, q: Any, r: Any) -> Any:
    """The gradient of QR with as many columns as rows of r, times r^H."""
    inner = None if grad_r is None else grad_r @ mh(xp, r)
    if grad_q is not None:
        part = mh(xp, q) @ grad_q
        inner = -part if inner is None else inner - part
    inner = inner * _half_triangle(inner, lower=False)
    result = q @ (inner + mh(xp, inner))
    return result if grad_q is None else result + grad_q


def qr_jvp(xp: Any, tangent: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """The tangents of QR."""
    m, n = q.shape[-2], r.shape[-1]
    k = min(m, n)
    thin, square = q[..., :k], r[..., :k, :k]
    # x @ square^-1, by the transposed system
    right = mh(xp, xp.linalg_solve(mh(xp, square), mh(xp, tangent[..., :k])))
    inner = mh(xp, thin) @ right
    upper = (inner + mh(xp, inner)) * _half_triangle(inner, lower=False)
    q_t, r_t = right - thin @ upper, upper @ square
    if n > m:
        beyond = mh(xp, q_t) @ (q @ r[..., m:]) + mh(xp, q) @ tangent[..., m:]
        return q_t, xp.concatenate([r_t, beyond], -1)
    if q.shape[-1] > n:
        rest = q[..., n:]
        q_t = xp.concatenate([q_t, -thin @ (mh(xp, q_t) @ rest)], -1)
        r_t = xp.concatenate([r_t, xp.zeros_like(r[..., n:, :])], -2)
    return q_t, r_t


# --- singular values ---


@quiet
def svd_grad(xp: Any, grads: Any, u: Any, s: Any, vh: Any) -> Any:
    """The gradient of the singular value decomposition; full matrices need not be square."""
    k = s.shape[-1]
    grad_u, grad_s, grad_vh = grads
    thin, thin_h = u[..., :k], vh[..., :k, :]
    if grad_u is None and grad_vh is None:
        return (thin * xp.expand_dims(grad_s, -2)) @ thin_h
    inner, outer = [], []
    if grad_s is not None:
        inner.append(_from_diagonal(xp, grad_s))
    row, column = xp.expand_dims(s, -2), xp.expand_dims(s, -1)
    gaps = _differences(xp, s) * (row + column)
    if grad_u is not None:
        part = grad_u[..., :k]
        along = mh(xp, thin) @ part
        skew = along - mh(xp, along)
        inner.append(_off_diagonal(skew / gaps) * row)
        if along.dtype.kind == "c":
            inner.append(_from_diagonal(xp, _diagonal(xp, skew) / (2 * s)))
        if u.shape[-2] > k:
            across = (part - thin @ along) / row
            across = _with_rest(xp, across, u, grad_u, thin / row)
            outer.append(across @ thin_h)
    if grad_vh is not None:
        part = mh(xp, grad_vh[..., :k, :])
        along = thin_h @ part
        skew = along - mh(xp, along)
        inner.append(column * _off_diagonal(skew / gaps))
        if vh.shape[-1] > k:
            v = mh(xp, thin_h)
            across = (part - v @ along) / row
            across = _with_rest(xp, across, mh(xp, vh), mh(xp, grad_vh), v / row)
            outer.append(thin @ mh(xp, across))
    return sum(outer, thin @ sum(inner[1:], inner[0]) @ thin_h)


def _with_rest(xp: Any, across: Any, vectors: Any, grad: Any, scaled: Any) -> Any:
    """Adds what the columns beyond the singular values pass on: they turn against the others."""
    k = across.shape[-1]
    if vectors.shape[-1] == k:
        return across
    return across - vectors[..., k:] @ (mh(xp, grad[..., k:]) @ scaled)


@quiet
def svd_jvp(xp: Any, tangent: Any, u: Any, s: Any, vh: Any) -> tuple[Any, Any, Any]:
    """The tangents of the singular value decomposition."""
    k = s.shape[-1]
    thin, v = u[..., :k], mh(xp, vh[..., :k, :])
    inner = mh(xp, thin) @ tangent @ v
    row, column = xp.expand_dims(s, -2), xp.expand_dims(s, -1)
    gaps = _differences(xp, s) * (row + column)
    turn_u = _off_diagonal((inner * row + column * mh(xp, inner)) / gaps)
    turn_v = _off_diagonal((column * inner + mh(xp, inner) * row) / gaps)
    if inner.dtype.kind == "c":
        turn_u = turn_u + _from_diagonal(xp, 1j * xp.imag(_diagonal(xp, inner)) / s)
    u_t = thin @ turn_u
    if u.shape[-2] > k:
        u_t = u_t + (tangent @ v - thin @ inner) / row
    v_t = v @ turn_v
    if vh.shape[-1] > k:
        v_t = v_t + (mh(xp, tangent) @ thin - v @ mh(xp, inner)) / row
    u_t, v_t = _complete(xp, u, thin, u_t), _complete(xp, mh(xp, vh), v, v_t)
    return u_t, xp.real(_diagonal(xp, inner)), mh(xp, v_t)


def _complete(xp: Any, vectors: Any, thin: Any, change: Any) -> Any:
    """Adds the changes of the columns beyond the singular values."""
    k = thin.shape[-1]
    if vectors.shape[-1] == k:
        return change
    return xp.concatenate([change, -thin @ (mh(xp, change) @ vectors[..., k:])], -1)


def svdvals_grad(xp: Any, grad: Any, self: Any) -> Any:
    """The gradient of the singular values alone."""
    u, _, vh = xp.linalg_svd(self, False)
    return (u * xp.expand_dims(grad, -2)) @ vh


def svdvals_jvp(xp: Any, self: Any, tangent: Any) -> Any:
    """The tangents of the singular values."""
    u, _, vh = xp.linalg_svd(self, False)
    return xp.real(_diagonal(xp, mh(xp, u) @ tangent @ mh(xp, vh)))


# --- eigenvalues ---


@quiet
def eigh_grad(xp: Any, grad_values: Any, grad_vectors: Any, values: Any, vectors: Any) -> Any:
    """The gradient of the eigenvalues and eigenvectors of a Hermitian matrix; Hermitian too."""
    adjoint = mh(xp, vectors)
    if grad_vectors is None:
        return (vectors * xp.expand_dims(grad_values, -2)) @ adjoint
    inner = _off_diagonal((adjoint @ grad_vectors) / _differences(xp, values))
    inner = (inner + mh(xp, inner)) / 2
    if grad_values is not None:
        inner = inner + _from_diagonal(xp, grad_values)
    return vectors @ inner @ adjoint


@quiet
def eigh_jvp(xp: Any, tangent: Any, values: Any, vectors: Any) -> tuple[Any, Any]:
    """The tangents of the eigenvalues and eigenvectors of a Hermitian matrix."""
    inner = mh(xp, vectors) @ tangent @ vectors
    turn = _off_diagonal(inner / _differences(xp, values))
    return xp.real(_diagonal(xp, inner)), vectors @ turn


def eigvalsh_grad(xp: Any, grad: Any, self: Any, uplo: str) -> Any:
    """The gradient of the eigenvalues of a Hermitian matrix alone."""
    values, vectors = xp.linalg_eigh(self, uplo)
    return eigh_grad(xp, grad, None, values, vectors)


def eigvalsh_jvp(xp: Any, self: Any, tangent: Any, uplo: str) -> Any:
    """The tangents of the eigenvalues of a Hermitian matrix."""
    _, vectors = xp.linalg_eigh(self, uplo)
    return xp.real(_diagonal(xp, mh(xp, vectors) @ tangent @ vectors))


@quiet
def eig_grad(xp: Any, grad_values: Any, grad_vectors: Any, values: Any, vectors: Any) -> Any:
    """The gradient of eigenvalues and eigenvectors, whose length is one."""
    adjoint = mh(xp, vectors)
    if grad_vectors is None:
        return xp.linalg_solve(adjoint, xp.expand_dims(grad_values, -1) * adjoint)
    along = adjoint @ grad_vectors
    length = xp.real(_diagonal(xp, along))
    along = along - (adjoint @ vectors) * xp.expand_dims(length, -2)
    inner = _off_diagonal(along / conj(xp, _differences(xp, values)))
    if grad_values is not None:
        inner = inner + _from_diagonal(xp, grad_values)
    return xp.linalg_solve(adjoint, inner @ adjoint)


@quiet
def eig_jvp(xp: Any, tangent: Any, values: Any, vectors: Any) -> tuple[Any, Any]:
    """The tangents of eigenvalues and eigenvectors, whose length stays one."""
    inner = xp.linalg_solve(vectors, tangent @ vectors)
    change = vectors @ _off_diagonal(inner / _differences(xp, values))
    length = xp.real(_diagonal(xp, mh(xp, vectors) @ change))
    return _diagonal(xp, inner), change - vectors * xp.expand_dims(length, -2)


def eigvals_grad(xp: Any, grad: Any, self: Any) -> Any:
    """The gradient of eigenvalues alone."""
    values, vectors = xp.linalg_eig(self)
    return eig_grad(xp, grad, None, values, vectors)


def eigvals_jvp(xp: Any, self: Any, tangent: Any) -> Any:
    """The tangents of eigenvalues."""
    _, vectors = xp.linalg_eig(self)
    return _diagonal(xp, xp.linalg_solve(vectors, tangent @ vectors))
