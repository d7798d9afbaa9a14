"""Factorizations of ``scipy.linalg``: Cholesky, LU, QR, RQ, LDL, least squares, inverses.

SciPy computes the factors; where they are determined only up to a choice (columns of q beyond the
rank), derivatives are right for functions that do not depend on it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sl

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import Known, Primitive
from pullback.interop.arguments import as_tensor, refusal
from pullback.operators.linalg.formulas import (
    inv_grad,
    lstsq_grad,
    lstsq_jvp,
    pinv_grad,
    pinv_jvp,
)
from pullback.operators.linalg.formulas_decompositions import qr_grad, qr_jvp
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.linalg_solve import structured, triangular_solve, unpack_lu
from pullback.scipy.rules.linalg_tools import (
    Array,
    adjoint,
    as_matrix,
    band_to_matrix,
    diagonal,
    from_diagonal,
    hermitian,
    require_finite,
    triangle,
)
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["cholesky"]

# --- Cholesky ---


def _cholesky(a: Array, lower: bool, check_finite: bool, clean: bool) -> Any:
    if clean:
        return sl.cholesky(a, lower=lower, check_finite=check_finite)
    return sl.cho_factor(a, lower=lower, check_finite=check_finite)[0]


# Since SciPy 1.18 cho_factor clears the other triangle; before, it is that of the argument.
_IS_CLEARED = not sl.cho_factor(np.array([[1.0, 0.0], [0.5, 2.0]]))[0][1, 0]


def _is_clean(known: Known) -> bool:
    return _IS_CLEARED or known.options["clean"]


def _half(x: Tensor) -> Any:
    """The lower triangle with half of the diagonal."""
    return triangle(x, True) - from_diagonal(diagonal(x)) / 2


def _cholesky_jvp(known: Known, a_t: Tensor) -> Any:
    (c,), lower = known.outputs, known.options["lower"]
    factor = triangle(c, lower)
    factor = factor if lower else adjoint(factor)
    left = triangular_solve(factor, hermitian(a_t, lower), True)
    both = adjoint(triangular_solve(factor, adjoint(left), True))
    change = factor @ _half(both)
    change = change if lower else adjoint(change)
    return change if _is_clean(known) else change + triangle(a_t, not lower, offset=1)


def _cholesky_vjp(known: Known, g: Tensor) -> Any:
    (c,), lower = known.outputs, known.options["lower"]
    read = triangle(g, lower)
    factor, down = (
        (triangle(c, True), read) if lower else (adjoint(triangle(c, False)), adjoint(read))
    )
    inner = _half(adjoint(factor) @ down)
    left = triangular_solve(factor, inner, True, is_adjoint=True)
    both = triangular_solve(factor, adjoint(left), True, is_adjoint=True)
    both = both + adjoint(both)  # twice the Hermitian gradient: two elements for each that is read
    result = triangle(both, lower) - from_diagonal(diagonal(both)) / 2
    return result if _is_clean(known) else result + triangle(g, not lower, offset=1)


_CHOLESKY = Primitive("cholesky", _cholesky, _cholesky_jvp, _cholesky_vjp)


@rule("scipy.linalg.cholesky", tensors="a")
def cholesky(a: Any, lower: bool, check_finite: bool = True) -> Any:
    """The Cholesky factor; one triangle of `a` is read."""
    return _CHOLESKY(a, lower=bool(lower), check_finite=check_finite, clean=True)


@rule("scipy.linalg.cho_factor", tensors="a")
def _cho_factor(a: Any, lower: bool, check_finite: bool) -> Any:
    """The Cholesky factor for ``cho_solve``; the other triangle is as in SciPy."""
    return _CHOLESKY(a, lower=bool(lower), check_finite=check_finite, clean=False), lower


def _band_positions(width: int, n: int, lower: bool) -> Any:
    """Row and column in the matrix of each stored element, and whether it exists."""
    column = np.broadcast_to(np.arange(n), (width, n))
    row = column + (np.arange(width)[:, None] if lower else np.arange(1 - width, 1)[:, None])
    inside = (row >= 0) & (row < n)
    return np.clip(row, 0, n - 1), column, inside


def _cholesky_banded_jvp(known: Known, ab_t: Tensor) -> Any:
    lower = known.options["lower"]
    (ab,), (factor,) = known.inputs, known.outputs
    whole = band_to_matrix(factor, lower)
    inner = Known((), (whole,), {"lower": lower, "clean": True})
    row, column, inside = _band_positions(ab.shape[0], ab.shape[1], lower)
    change = _cholesky_jvp(inner, band_to_matrix(ab_t, lower))[row, column] * inside
    return change + ab_t * ~inside  # corners outside of the matrix are passed on


_CHOLESKY_BANDED = Primitive("cholesky_banded", sl.cholesky_banded, _cholesky_banded_jvp)


@rule("scipy.linalg.cholesky_banded", tensors="ab")
def _cholesky_banded(ab: Any, lower: bool, check_finite: bool) -> Any:
    """The Cholesky factor of a band matrix; its derivatives are computed with dense matrices."""
    return _CHOLESKY_BANDED(ab, lower=bool(lower), check_finite=check_finite)


# --- LU ---


def _lu(a: Array, check_finite: bool) -> Any:
    p, low, up = sl.lu(a, p_indices=True, check_finite=check_finite)
    return low, up, p


def _rows(x: Tensor, order: Tensor) -> Any:
    """Rows in another order, one order for each matrix."""
    places = xp.expand_dims(order, -1) + np.zeros(x.shape[-1], dtype=np.int64)
    return xp.take_along_axis(x, places, -2)


def _lu_change(rows_t: Tensor, low: Tensor, up: Tensor) -> Any:
    """Tangents of the factors of L U, from the tangent of the product."""
    k = low.shape[-1]
    low_1, up_1 = low[..., :k, :], up[..., :k]
    left = xp.linalg_solve(low_1, rows_t[..., :k, :k])
    inner = adjoint(xp.linalg_solve(adjoint(up_1), adjoint(left)))
    low_t, up_t = low_1 @ triangle(inner, True, offset=1), triangle(inner, False) @ up_1
    if low.shape[-2] > k:
        rest = rows_t[..., k:, :k] - low[..., k:, :] @ up_t
        below = adjoint(xp.linalg_solve(adjoint(up_1), adjoint(rest)))
        low_t = xp.concatenate([low_t, below], -2)
    if up.shape[-1] > k:
        beyond = xp.linalg_solve(low_1, rows_t[..., :k, k:] - low_t[..., :k, :] @ up[..., k:])
        up_t = xp.concatenate([up_t, beyond], -1)
    return low_t, up_t


def _lu_jvp(known: Known, a_t: Tensor) -> Any:
    low, up, p = known.outputs
    return *_lu_change(_rows(a_t, xp.argsort(p, -1)), low, up), None


_LU = Primitive("lu", _lu, _lu_jvp)


@rule("scipy.linalg.lu", tensors="a")
def _lu_rule(a: Any, permute_l: bool, check_finite: bool, p_indices: bool) -> Any:
    """The LU factorization with exchanges of rows, which are constant."""
    low, up, p = _LU(a, check_finite=check_finite)
    if permute_l:
        return _rows(low, p), up
    if p_indices:
        return p, low, up
    kind = np.dtype(low.dtype.char.lower())
    order = xp.expand_dims(p, -1) == np.arange(p.shape[-1])
    return xp.astype(order, kind), low, up


def _lu_factor_jvp(known: Known, a_t: Tensor) -> Any:
    low, up, order = unpack_lu(*known.outputs)
    low_t, up_t = _lu_change(_rows(a_t, order), low, up)
    return low_t + up_t, None


_LU_FACTOR = Primitive("lu_factor", sl.lu_factor, _lu_factor_jvp)


@rule("scipy.linalg.lu_factor", tensors="a")
def _lu_factor(a: Any, check_finite: bool) -> Any:
    """Both factors in one matrix, and the exchanges of rows, which are constant."""
    a = as_tensor(a)
    if a.ndim == 2 and a.shape[0] != a.shape[1]:
        raise option_without_rule("scipy.linalg.lu_factor", "a.shape", a.shape)
    lu, piv = _LU_FACTOR(a, check_finite=check_finite)
    return lu, piv


def _ldl(a: Array, lower: bool, hermitian: bool, check_finite: bool) -> Any:
    found: tuple[Array, ...] = sl.ldl(
        a, lower=lower, hermitian=hermitian, check_finite=check_finite
    )
    if np.count_nonzero(found[1] - np.diag(np.diag(found[1]))):
        raise refusal("scipy.linalg.ldl", "it has no derivative with blocks in d", "Use cholesky.")
    return found


def _ldl_jvp(known: Known, a_t: Tensor) -> Any:
    low, d, _ = known.outputs
    is_lower, is_hermitian = known.options["lower"], known.options["hermitian"]
    a_t = hermitian(a_t, is_lower, conjugate=is_hermitian)
    left = xp.linalg_solve(low, a_t)
    inner = xp.matrix_transpose(xp.linalg_solve(low, xp.matrix_transpose(left)))
    if is_hermitian:
        inner = adjoint(xp.linalg_solve(low, adjoint(left)))
    scaled = inner / xp.expand_dims(diagonal(d), -2)
    return low @ triangle(scaled, is_lower, offset=1), from_diagonal(diagonal(inner)), None


_LDL = Primitive("ldl", _ldl, _ldl_jvp)


@rule("scipy.linalg.ldl", tensors="A")
def _ldl_rule(A: Any, lower: bool, hermitian: bool, check_finite: bool) -> Any:
    """The LDL factorization, if d is diagonal."""
    return _LDL(A, lower=bool(lower), hermitian=hermitian, check_finite=check_finite)


# --- QR and RQ ---


def _columns(x: Tensor, order: Tensor) -> Any:
    places = xp.expand_dims(order, -2) + np.zeros((x.shape[-2], 1), dtype=np.int64)
    return xp.take_along_axis(x, places, -1)


def _qr_jvp(known: Known, a_t: Tensor) -> Any:
    q, r, *order = known.outputs
    if order:
        a_t = _columns(a_t, order[0])
    return *qr_jvp(xp, a_t, q, r), *[None for _ in order]


def _qr_vjp(known: Known, q_g: Tensor | None, r_g: Tensor | None, *_: None) -> Any:
    q, r, *order = known.outputs
    result: Tensor = qr_grad(xp, q_g, r_g, q, r)
    return _columns(result, xp.argsort(order[0], -1)) if order else result


_QR = Primitive("qr", sl.qr, _qr_jvp, _qr_vjp)


@rule("scipy.linalg.qr", tensors="a")
def _qr(a: Any, mode: str, pivoting: bool, check_finite: bool) -> Any:
    """The QR factorization, also with exchanges of columns."""
    if mode == "raw":
        raise option_without_rule("scipy.linalg.qr", "mode", mode)
    found: tuple[Tensor, ...] = _QR(
        a, mode="full" if mode == "r" else mode, pivoting=pivoting, check_finite=check_finite
    )
    return found[1:] if mode == "r" else found


def _rq_jvp(known: Known, a_t: Tensor) -> Any:
    """By the QR factorization of the adjoint with reversed rows."""
    r, q = known.outputs
    flipped = xp.flip(adjoint(q), -1), xp.flip(adjoint(r), [-1, -2])
    q_t, r_t = qr_jvp(xp, xp.flip(adjoint(a_t), -1), *flipped)
    return adjoint(xp.flip(r_t, [-1, -2])), adjoint(xp.flip(q_t, -1))


_RQ = Primitive("rq", sl.rq, _rq_jvp)


@rule("scipy.linalg.rq", tensors="a")
def _rq(a: Any, mode: str, check_finite: bool) -> Any:
    """The RQ factorization."""
    a = as_tensor(a)
    if mode == "full" and a.ndim == 2 and a.shape[0] != a.shape[1]:
        raise option_without_rule("scipy.linalg.rq", "mode", mode)
    r, q = _RQ(a, mode="economic" if mode == "r" else mode, check_finite=check_finite)
    return r if mode == "r" else (r, q)


# --- inverses and least squares ---


_INV = Primitive(
    "inv",
    sl.inv,
    lambda known, a_t: -(known.outputs[0] @ a_t @ known.outputs[0]),
    lambda known, g: inv_grad(xp, g, known.outputs[0]),
)


@rule("scipy.linalg.inv", tensors="a")
def _inv(a: Any, check_finite: bool, assume_a: str | None = None, lower: bool = False) -> Any:
    """The inverse."""
    a = as_tensor(a)
    options: dict[str, Any] = {"check_finite": check_finite}
    if assume_a is not None:
        options |= {"assume_a": assume_a, "lower": lower}
        if check_finite:
            require_finite(a)
        a = structured(a, assume_a, lower)
    return _INV(a, **options)


_PINV = Primitive(
    "pinv",
    partial(sl.pinv, return_rank=True),
    lambda known, a_t: (pinv_jvp(xp, known.inputs[0], a_t, known.outputs[0]), None),
    lambda known, g, _: pinv_grad(xp, g, known.inputs[0], known.outputs[0]),
)


def _rank(rank: Tensor) -> Any:
    return rank if isinstance(rank._array, Payload) else rank.item() if not rank.ndim else rank


@rule("scipy.linalg.pinv", tensors="a")
def _pinv(
    a: Any, atol: float | None, rtol: float | None, return_rank: bool, check_finite: bool
) -> Any:
    """The pseudo-inverse, while the rank stays as it is."""
    result, rank = _PINV(a, atol=atol, rtol=rtol, check_finite=check_finite)
    return (result, _rank(rank)) if return_rank else result


_PINVH = Primitive(
    "pinvh",
    partial(sl.pinvh, return_rank=True),
    lambda known, a_t: (pinv_jvp(xp, known.inputs[0], a_t, known.outputs[0]), None),
)


@rule("scipy.linalg.pinvh", tensors="a")
def _pinvh(
    a: Any,
    atol: float | None,
    rtol: float | None,
    lower: bool,
    return_rank: bool,
    check_finite: bool,
) -> Any:
    """The pseudo-inverse of a Hermitian matrix, of which one triangle is read."""
    a = as_tensor(a)
    if check_finite:
        require_finite(a)
    a = hermitian(a, bool(lower))
    result, rank = _PINVH(a, atol=atol, rtol=rtol, lower=lower, check_finite=check_finite)
    return (result, _rank(rank)) if return_rank else result


def _lstsq(a: Array, b: Array, **options: Any) -> Any:
    x, residuals, rank, s = sl.lstsq(a, b, **options)
    return x, residuals, np.asarray(rank), np.zeros(0, x.real.dtype) if s is None else s


def _require_full_rank(known: Known) -> None:
    (a, _), rank = known.inputs, known.outputs[2]
    if not isinstance(rank._array, Payload) and rank.item() < min(a.shape):
        raise refusal(
            "scipy.linalg.lstsq",
            f"the matrix of shape {a.shape} has rank {rank.item()}, where the solution is not "
            f"differentiable",
            "Remove dependent columns, or add a regularization.",
        )


def _lstsq_jvp(known: Known, a_t: Tensor | None, b_t: Tensor | None) -> Any:
    _require_full_rank(known)
    (a, b), (x, residuals, _, s) = known.inputs, known.outputs
    a_t = xp.zeros_like(a) if a_t is None else a_t
    b_t = xp.zeros_like(b) if b_t is None else b_t
    found: tuple[Any, ...] = lstsq_jvp(xp, a, a_t, b, b_t, x, residuals)
    return *found[:3], found[3] if s.shape[0] else xp.zeros_like(s)


def _lstsq_vjp(known: Known, *grads: Tensor | None) -> Any:
    _require_full_rank(known)
    (a, b), (x, _, _, s) = known.inputs, known.outputs
    given = [*grads[:3], grads[3] if s.shape[0] else None]
    return lstsq_grad(xp, given, a, b, x, (True, True))


_LSTSQ = Primitive("lstsq", _lstsq, _lstsq_jvp, _lstsq_vjp)


@rule("scipy.linalg.lstsq", tensors="a b")
def _lstsq_rule(
    a: Any, b: Any, cond: float | None, check_finite: bool, lapack_driver: str | None
) -> tuple[Any, ...]:
    """Solution, residuals, rank and singular values of a least-squares problem of full rank."""
    matrix, is_vector = as_matrix(b)
    options = {"cond": cond, "check_finite": check_finite, "lapack_driver": lapack_driver}
    x, residuals, rank, s = _LSTSQ(a, matrix, **options)
    if is_vector:
        x = x[..., 0]
        residuals = residuals[0] if residuals.shape[-1] else residuals
    return x, residuals, _rank(rank), s if s.shape[-1] else None
