"""Systems of linear equations in ``scipy.linalg``.

Each kind of matrix is a `System`: how SciPy solves with it, and its product with a vector. The
derivative of x in A(a) x = b follows: dx solves A dx = db - dA x, the cotangent of b solves the
adjoint system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
from scipy.linalg.lapack import get_lapack_funcs

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import Known, Primitive, no_tangent
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import rule
from pullback.scipy.rules.linalg_tools import (
    Array,
    adjoint,
    as_matrix,
    hermitian,
    reduce_to,
    require_finite,
    triangle,
)
from pullback.tensor.tensor import Tensor

__all__ = [
    "SOLVE",
    "TRIANGLE_PRODUCT",
    "System",
    "linear_solver",
    "structured",
    "triangular_solve",
    "unpack_lu",
]


class System(NamedTuple):
    """A kind of matrix A(a), with `a` as SciPy stores it."""

    solve: Callable[..., Array]  # (a, b, *constants, is_adjoint, **options) on arrays
    product: Callable[..., Tensor]  # (known, a_t, x): derivative of A(a) along a_t, times x
    adjoint_product: Callable[..., Tensor]  # the same with the adjoint
    gradient: Callable[..., Tensor]  # (known, p, q): gradient of Re <p, A(a) q> by a


def linear_solver(name: str, system: System) -> Primitive:
    """The primitive ``solve(a, b)`` of a kind of matrix."""

    def forward(*arrays: Array, is_adjoint: bool = False, **options: Any) -> Any:
        return system.solve(*arrays, is_adjoint=is_adjoint, **options)

    def again(known: Known, b: Tensor, flip: bool) -> Any:
        options = {**known.options, "check_finite": False}
        options["is_adjoint"] = known.options.get("is_adjoint", False) ^ flip
        return primitive(known.inputs[0], b, *known.inputs[2:], **options)

    def jvp(known: Known, a_t: Tensor | None, b_t: Tensor | None, *_: None) -> Any:
        (x,) = known.outputs
        if a_t is None:
            assert b_t is not None
            return again(known, b_t, False)
        is_adjoint = known.options.get("is_adjoint", False)
        moved = (system.adjoint_product if is_adjoint else system.product)(known, a_t, x)
        return again(known, -moved if b_t is None else b_t - moved, False)

    def vjp(known: Known, g: Tensor) -> Any:
        (a, b, *rest), (x,) = known.inputs, known.outputs
        back = again(known, g, True)
        pair = (x, back) if known.options.get("is_adjoint", False) else (back, x)
        to_a = -reduce_to(system.gradient(known, *pair), a.shape)
        return to_a, reduce_to(back, b.shape), *[None for _ in rest]

    primitive = Primitive(name, forward, jvp, vjp)
    return primitive


# --- dense matrices, by structure ---

_FLIPPED = {"upper triangular": "lower triangular", "lower triangular": "upper triangular"}


def _solve_dense(
    a: Array,
    b: Array,
    is_adjoint: bool,
    assume_a: str | None = None,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    options: dict[str, Any] = {"check_finite": check_finite}
    if is_adjoint:
        if assume_a not in ("her", "pos"):
            a = adjoint(a)
        assume_a = _FLIPPED.get(assume_a or "", assume_a)
    if assume_a is not None:
        options |= {"assume_a": assume_a, "lower": lower}
    return sl.solve(a, b, **options)


SOLVE = linear_solver(
    "solve",
    System(
        _solve_dense,
        lambda _, a_t, x: a_t @ x,
        lambda _, a_t, x: adjoint(a_t) @ x,
        lambda _, p, q: p @ adjoint(q),
    ),
)

_HERMITIAN = ("her", "positive definite", "hermitian", "pos")
_SYMMETRIC = ("sym", "symmetric")


def structured(a: Tensor, assume_a: str | None, lower: bool) -> Any:
    """The matrix that SciPy solves with: what it does not read is replaced."""
    if assume_a in _HERMITIAN:
        return hermitian(a, lower)
    if assume_a in _SYMMETRIC:
        return hermitian(a, lower, conjugate=False)
    if assume_a == "diagonal":
        return a * np.eye(a.shape[-1], dtype=bool)
    if assume_a == "tridiagonal":
        n = a.shape[-1]
        return a * (np.tri(n, k=1, dtype=bool) & np.tri(n, k=1, dtype=bool).T)
    if assume_a in ("upper triangular", "lower triangular"):
        return triangle(a, assume_a == "lower triangular")
    return a


def _solve_any(a: Any, b: Any, **options: Any) -> Any:
    """Solves with a dense matrix; a right-hand side with one axis is a vector."""
    matrix, is_vector = as_matrix(b)
    x: Tensor = SOLVE(a, matrix, **options)
    return x[..., 0] if is_vector else x


@rule("scipy.linalg.solve", tensors="a b")
def _solve(
    a: Any, b: Any, lower: bool, check_finite: bool, assume_a: str | None, transposed: bool
) -> Any:
    """Solves a dense system."""
    a, b = as_tensor(a), as_tensor(b)
    if check_finite:
        require_finite(a, b)
    if not (a.ndim >= 2 and a.shape[-1] == a.shape[-2] and a.shape[-1]):
        return SOLVE(a, b)  # SciPy raises, or has nothing to solve
    a = structured(a, assume_a, lower)
    kind = assume_a
    if transposed:
        a = xp.matrix_transpose(a)
        kind = _FLIPPED.get(assume_a or "", assume_a)
    return _solve_any(a, b, assume_a=kind, lower=lower, check_finite=False)


# --- triangular matrices ---

_BLOCK = 64  # rows that are multiplied at once


def _triangle_product(left: Array, right: Array, lower: bool) -> Any:
    """One triangle of a product; the other half is neither computed nor written."""
    n = left.shape[-2]
    if left.ndim > 2 or right.ndim > 2 or n <= _BLOCK:
        return (np.tril if lower else np.triu)(left @ right)
    result = np.zeros((n, n), np.result_type(left, right))
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        square = left[start:end] @ right[:, start:end]
        result[start:end, start:end] = (np.tril if lower else np.triu)(square)
        rest = slice(0, start) if lower else slice(end, n)
        np.matmul(left[start:end], right[:, rest], out=result[start:end, rest])
    return result


def _triangle_product_jvp(known: Known, left_t: Any, right_t: Any) -> Any:
    (left, right), options = known.inputs, known.options
    if left_t is None or right_t is None:
        pair = (left_t, right) if right_t is None else (left, right_t)
        return TRIANGLE_PRODUCT(*pair, **options)
    first = TRIANGLE_PRODUCT(left_t, right, **options)
    return first + TRIANGLE_PRODUCT(left, right_t, **options)


def _triangle_product_vjp(known: Known, g: Tensor) -> tuple[Any, Any]:
    left, right = known.inputs
    g = triangle(g, known.options["lower"])
    return reduce_to(g @ adjoint(right), left.shape), reduce_to(adjoint(left) @ g, right.shape)


TRIANGLE_PRODUCT = Primitive(
    "triangle_product", _triangle_product, _triangle_product_jvp, _triangle_product_vjp
)


def _solve_triangular(
    a: Array, b: Array, is_adjoint: bool, lower: bool, unit: bool, check_finite: bool = True
) -> Any:
    if not (unit or check_finite):
        return _trtrs(a, b, lower, is_adjoint)
    return sl.solve_triangular(
        a,
        b,
        trans=2 if is_adjoint else 0,
        lower=lower,
        unit_diagonal=unit,
        check_finite=check_finite,
    )


def _read_triangle(known: Known, a: Tensor) -> Any:
    return triangle(a, known.options["lower"], offset=int(known.options["unit"]))


_TRIANGULAR = linear_solver(
    "solve_triangular",
    System(
        _solve_triangular,
        lambda known, a_t, x: _read_triangle(known, a_t) @ x,
        lambda known, a_t, x: adjoint(_read_triangle(known, a_t)) @ x,
        lambda known, p, q: _read_triangle(known, p @ adjoint(q)),
    ),
)


def triangular_solve(a: Any, b: Any, lower: bool, *, is_adjoint: bool = False) -> Any:
    """Solves with a triangular matrix, or its adjoint; `b` is a matrix."""
    result: Tensor = _TRIANGULAR(
        a, b, lower=lower, unit=False, is_adjoint=is_adjoint, check_finite=False
    )
    return result


def _by_transpose(
    primitive: Primitive, a: Any, b: Tensor, trans: Any, *constants: Tensor, **options: Any
) -> Any:
    """Solves with a matrix, its transpose or its adjoint, by SciPy's argument `trans`."""
    matrix, is_vector = as_matrix(b)
    is_complex = np.result_type(as_tensor(a).dtype, matrix.dtype).kind == "c"
    if trans in (1, "T") and is_complex:
        x = xp.conj(primitive(a, xp.conj(matrix), *constants, is_adjoint=True, **options))
    else:
        is_adjoint = trans in (1, 2, "T", "C")
        x = primitive(a, matrix, *constants, is_adjoint=is_adjoint, **options)
    return x[..., 0] if is_vector else x


@rule("scipy.linalg.solve_triangular", tensors="a b")
def _solve_triangular_rule(
    a: Any, b: Any, trans: Any, lower: bool, unit_diagonal: bool, check_finite: bool
) -> Any:
    """Solves a triangular system; one triangle of `a` is read."""
    if trans not in (0, 1, 2, "N", "T", "C"):
        sl.solve_triangular(np.eye(1), np.ones(1), trans=trans)  # raises
    return _by_transpose(
        _TRIANGULAR,
        a,
        as_tensor(b),
        trans,
        lower=bool(lower),
        unit=bool(unit_diagonal),
        check_finite=check_finite,
    )


# --- Cholesky and LU factors ---


def _trtrs(c: Array, b: Array, lower: bool, is_adjoint: bool) -> Any:
    """Solves with a triangle by LAPACK; a matrix in C order is read as its transpose."""
    if c.ndim > 2 or b.ndim > 2 or not b.size:
        return sl.solve_triangular(c, b, 2 if is_adjoint else 0, lower=lower, check_finite=False)
    (trtrs,) = get_lapack_funcs(("trtrs",), (c, b))
    if c.flags.f_contiguous or not (is_adjoint or c.dtype.kind != "c"):
        x, info = trtrs(c, b, lower=lower, trans=2 if is_adjoint else 0)
    elif c.dtype.kind != "c":
        x, info = trtrs(c.T, b, lower=not lower, trans=0 if is_adjoint else 1)
    else:
        x, info = trtrs(c.conj().T, b, lower=not lower, trans=0)
    if info:
        raise sl.LinAlgError(f"singular matrix: resolution failed at diagonal {info - 1}")
    return x


def _solve_cholesky(c: Array, b: Array, lower: bool, check_finite: bool) -> tuple[Any, Any]:
    """The solution x of R^H R x = b, and R x; R is the upper factor."""
    if c.shape[-2:] != (b.shape[-2], b.shape[-2]):
        sl.cho_solve((c, lower), b)  # raises
    if check_finite and not (np.isfinite(c).all() and np.isfinite(b).all()):
        raise ValueError("array must not contain infs or NaNs")
    half = _trtrs(c, b, lower, not lower)
    return _trtrs(c, half, lower, lower), half


def _upper(c: Tensor, lower: bool) -> Any:
    return adjoint(triangle(c, True)) if lower else triangle(c, False)


def _cholesky_jvp(known: Known, c_t: Tensor | None, b_t: Tensor | None) -> tuple[Any, Any]:
    (c, b), (x, half) = known.inputs, known.outputs
    lower = known.options["lower"]
    half_t: Any = xp.zeros_like(b) if b_t is None else b_t
    change = None if c_t is None else _upper(c_t, lower)
    if change is not None:
        half_t = half_t - adjoint(change) @ half
    half_t = triangular_solve(c, half_t, lower, is_adjoint=not lower)
    x_t = half_t if change is None else half_t - change @ x
    return triangular_solve(c, x_t, lower, is_adjoint=lower), half_t


def _cholesky_vjp(known: Known, x_g: Tensor | None, half_g: Tensor | None) -> tuple[Any, Any]:
    (c, b), (x, half) = known.inputs, known.outputs
    lower = known.options["lower"]
    left, right = half, None
    if x_g is not None:
        inner = triangular_solve(c, x_g, lower, is_adjoint=not lower)
        half_g = inner if half_g is None else half_g + inner
        left, right = xp.concatenate([half, inner], -1), x
    to_b = triangular_solve(c, half_g, lower, is_adjoint=lower)
    right = to_b if right is None else xp.concatenate([to_b, right], -1)
    pair = (right, adjoint(left)) if lower else (left, adjoint(right))
    to_c = TRIANGLE_PRODUCT(-pair[0], pair[1], lower=lower)
    return reduce_to(to_c, c.shape), reduce_to(to_b, b.shape)


_CHOLESKY = Primitive("cho_solve", _solve_cholesky, _cholesky_jvp, _cholesky_vjp)


@rule("scipy.linalg.cho_solve", tensors="c_and_lower b")
def _cho_solve(c_and_lower: Any, b: Any, check_finite: bool) -> Any:
    """Solves with a Cholesky factor."""
    c, lower = c_and_lower
    matrix, is_vector = as_matrix(b)
    x, _ = _CHOLESKY(c, matrix, lower=bool(lower), check_finite=check_finite)
    return x[..., 0] if is_vector else x


def _solve_lu(lu: Array, b: Array, piv: Array, is_adjoint: bool, check_finite: bool = True) -> Any:
    trans = 2 if is_adjoint else 0
    return sl.lu_solve((lu, piv), b, trans=trans, check_finite=check_finite)


def _row_order(piv: Array) -> Any:
    order = np.arange(len(piv))
    for i, j in enumerate(piv):
        order[[i, j]] = order[[j, i]]
    return order


_ROW_ORDER = Primitive("row_order", _row_order, no_tangent)


def unpack_lu(lu: Tensor, piv: Tensor) -> Any:
    """Lower and upper factor, and the order of rows after LAPACK's exchanges."""
    unit = np.eye(lu.shape[-1], dtype=lu.dtype)
    return triangle(lu, True, offset=1) + unit, triangle(lu, False), _ROW_ORDER(piv)


def _lu_parts(known: Known) -> Any:
    return unpack_lu(known.inputs[0], known.inputs[2])


def _lu_product(known: Known, lu_t: Tensor, x: Tensor) -> Any:
    low, up, order = _lu_parts(known)
    low_t, up_t = triangle(lu_t, True, offset=1), triangle(lu_t, False)
    return (low_t @ (up @ x) + low @ (up_t @ x))[xp.argsort(order)]


def _lu_adjoint_product(known: Known, lu_t: Tensor, x: Tensor) -> Any:
    low, up, order = _lu_parts(known)
    low_t, up_t = triangle(lu_t, True, offset=1), triangle(lu_t, False)
    x = x[order]
    return adjoint(up) @ (adjoint(low_t) @ x) + adjoint(up_t) @ (adjoint(low) @ x)


def _lu_gradient(known: Known, p: Tensor, q: Tensor) -> Any:
    low, up, order = _lu_parts(known)
    p = p[order]
    to_low = p @ adjoint(up @ q)
    to_up = (adjoint(low) @ p) @ adjoint(q)
    return triangle(to_low, True, offset=1) + triangle(to_up, False)


_LU = linear_solver("lu_solve", System(_solve_lu, _lu_product, _lu_adjoint_product, _lu_gradient))


@rule("scipy.linalg.lu_solve", tensors="lu_and_piv b")
def _lu_solve(lu_and_piv: Any, b: Any, trans: int, check_finite: bool) -> Any:
    """Solves with an LU factorization."""
    lu, piv = lu_and_piv
    return _by_transpose(_LU, lu, as_tensor(b), trans, as_tensor(piv), check_finite=check_finite)
