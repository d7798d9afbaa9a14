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
from pullback.interop.arguments import as_tensor
from pullback.scipy.primitive import Known, Primitive
from pullback.scipy.registry import option_without_rule, rule
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
    "System",
    "band_adjoint_product",
    "band_gradient",
    "band_product",
    "cho_solve",
    "cho_solve_banded",
    "flip_band",
    "lu_solve",
    "matmul_toeplitz",
    "solve",
    "solve_any",
    "solve_banded",
    "solve_circulant",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
    "structured",
    "toeplitz_product",
    "toeplitz_values",
    "triangular_solve",
    "unpack_lu",
    "whole_band",
]


class System(NamedTuple):
    """A kind of matrix A(a), with `a` as SciPy stores it."""

    solve: Callable[..., Array]  # (a, b, *constants, is_adjoint, **options) on arrays
    product: Callable[..., Tensor]  # (known, a_t, x): derivative of A(a) along a_t, times x
    adjoint_product: Callable[..., Tensor]  # the same with the adjoint
    gradient: Callable[..., Tensor]  # (known, p, q): gradient of Re <p, A(a) q> by a


def _solver(name: str, system: System) -> Primitive:
    def forward(*arrays: Array, is_adjoint: bool = False, **options: Any) -> Any:
        return system.solve(*arrays, is_adjoint=is_adjoint, **options)

    def again(known: Known, b: Tensor, flip: bool) -> Any:
        options = {**known.options, "check_finite": False}
        options["is_adjoint"] = known.options.get("is_adjoint", False) ^ flip
        result: Tensor = solve(known.inputs[0], b, *known.inputs[2:], **options)
        return result

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

    solve = Primitive(name, forward, jvp, vjp)
    return solve


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


SOLVE = _solver(
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


def solve_any(a: Any, b: Any, **options: Any) -> Any:
    """Solves with a dense matrix; a right-hand side with one axis is a vector."""
    matrix, is_vector = as_matrix(b)
    x: Tensor = SOLVE(a, matrix, **options)
    return x[..., 0] if is_vector else x


@rule("scipy.linalg.solve", tensors="a b")
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """Solves a dense system."""
    del overwrite_a, overwrite_b
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
    return solve_any(a, b, assume_a=kind, lower=lower, check_finite=False)


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


_TRIANGULAR = _solver(
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
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solves a triangular system; one triangle of `a` is read."""
    del overwrite_b
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
def cho_solve(
    c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solves with a Cholesky factor."""
    del overwrite_b
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


def _no_tangent(known: Known, *_: Any) -> None:
    del known


_ROW_ORDER = Primitive("row_order", _row_order, _no_tangent)


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


_LU = _solver("lu_solve", System(_solve_lu, _lu_product, _lu_adjoint_product, _lu_gradient))


@rule("scipy.linalg.lu_solve", tensors="lu_and_piv b")
def lu_solve(
    lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solves with an LU factorization."""
    del overwrite_b
    lu, piv = lu_and_piv
    return _by_transpose(_LU, lu, as_tensor(b), trans, as_tensor(piv), check_finite=check_finite)


# --- band matrices: ab[u + i - j, j] is A[i, j] ---


def _shifted(n: int, low: int, up: int) -> Any:
    """For each diagonal and column, the row in the matrix, and whether it exists."""
    row = np.arange(n) + np.arange(-up, low + 1)[:, None]
    return np.clip(row, 0, n - 1), (row >= 0) & (row < n)


def band_product(ab: Tensor, x: Tensor, low: int, up: int) -> Any:
    """The product of a band matrix and a matrix."""
    n = x.shape[-2]
    column = np.arange(n) - np.arange(-up, low + 1)[:, None]
    inside, column = (column >= 0) & (column < n), np.clip(column, 0, n - 1)
    entries = ab[np.arange(low + up + 1)[:, None], column] * inside
    return xp.sum(xp.expand_dims(entries, -1) * x[column], 0)


def band_adjoint_product(ab: Tensor, x: Tensor, low: int, up: int) -> Any:
    """The product of the adjoint of a band matrix and a matrix."""
    row, inside = _shifted(x.shape[-2], low, up)
    return xp.sum(xp.expand_dims(xp.conj(ab) * inside, -1) * x[row], 0)


def band_gradient(p: Tensor, q: Tensor, low: int, up: int) -> Any:
    """The gradient of Re <p, A q> by the stored diagonals of A."""
    row, inside = _shifted(p.shape[-2], low, up)
    return xp.sum(p[row] * xp.conj(q), -1) * inside


def flip_band(ab: Array, low: int, up: int) -> Any:
    """The adjoint of a band matrix, with `up` diagonals below and `low` above."""
    row, inside = _shifted(ab.shape[1], low, up)
    flipped = np.zeros_like(ab)
    for d in range(low + up + 1):
        flipped[low + up - d, row[d][inside[d]]] = ab[d, inside[d]].conj()
    return flipped


def _solve_band(
    ab: Array,
    b: Array,
    is_adjoint: bool,
    low: int,
    up: int,
    definite: bool = False,
    check_finite: bool = True,
) -> Any:
    if definite:
        return sl.solveh_banded(ab[: up + 1], b, check_finite=check_finite)
    if is_adjoint:
        ab, low, up = flip_band(ab, low, up), up, low
    return sl.solve_banded((low, up), ab, b, check_finite=check_finite)


def _sizes(known: Known) -> tuple[int, int]:
    return known.options["low"], known.options["up"]


_BAND = _solver(
    "solve_banded",
    System(
        _solve_band,
        lambda known, ab_t, x: band_product(ab_t, x, *_sizes(known)),
        lambda known, ab_t, x: band_adjoint_product(ab_t, x, *_sizes(known)),
        lambda known, p, q: band_gradient(p, q, *_sizes(known)),
    ),
)


@rule("scipy.linalg.solve_banded", tensors="ab b")
def solve_banded(
    l_and_u: Any,
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solves with a band matrix."""
    del overwrite_ab, overwrite_b
    low, up = map(int, l_and_u)
    matrix, is_vector = as_matrix(b)
    x: Tensor = _BAND(ab, matrix, low=low, up=up, check_finite=check_finite)
    return x[..., 0] if is_vector else x


def whole_band(ab: Tensor, lower: bool) -> Any:
    """All diagonals of a Hermitian band matrix, of which the upper or lower ones are stored."""
    width, n = ab.shape[0] - 1, ab.shape[1]
    d = np.arange(1, width + 1)[:, None]
    column = np.arange(n) + (-d if lower else d)
    inside, column = (column >= 0) & (column < n), np.clip(column, 0, n - 1)
    rows = d if lower else width - d
    other = xp.conj(ab[rows, column]) * inside
    middle = ab[0 if lower else width][None]
    middle = xp.real(middle) if ab.dtype.kind == "c" else middle
    if lower:
        return xp.concatenate([xp.flip(other, 0), middle, ab[1:]], 0)
    return xp.concatenate([ab[:width], middle, other], 0)


@rule("scipy.linalg.solveh_banded", tensors="ab b")
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solves with a positive definite band matrix."""
    del overwrite_ab, overwrite_b
    ab, width = as_tensor(ab), as_tensor(ab).shape[0] - 1
    if check_finite:
        require_finite(ab)
    matrix, is_vector = as_matrix(b)
    whole = whole_band(ab, lower)
    x: Tensor = _BAND(whole, matrix, low=width, up=width, definite=True, check_finite=check_finite)
    return x[..., 0] if is_vector else x


def _solve_band_factor(
    cb: Array, b: Array, is_adjoint: bool, lower: bool, check_finite: bool = True
) -> Any:
    del is_adjoint  # the matrix is Hermitian
    return sl.cho_solve_banded((cb, lower), b, check_finite=check_finite)


def _band_factor_product(known: Known, cb_t: Tensor, x: Tensor) -> Any:
    cb, width = known.inputs[0], known.inputs[0].shape[0] - 1
    if known.options["lower"]:
        inner = band_adjoint_product(cb, x, width, 0), band_adjoint_product(cb_t, x, width, 0)
        return band_product(cb_t, inner[0], width, 0) + band_product(cb, inner[1], width, 0)
    inner = band_product(cb, x, 0, width), band_product(cb_t, x, 0, width)
    outer = band_adjoint_product(cb_t, inner[0], 0, width)
    return outer + band_adjoint_product(cb, inner[1], 0, width)


def _band_factor_gradient(known: Known, p: Tensor, q: Tensor) -> Any:
    cb, width = known.inputs[0], known.inputs[0].shape[0] - 1
    if known.options["lower"]:
        to_q = band_gradient(p, band_adjoint_product(cb, q, width, 0), width, 0)
        return to_q + band_gradient(q, band_adjoint_product(cb, p, width, 0), width, 0)
    to_q = band_gradient(band_product(cb, p, 0, width), q, 0, width)
    return to_q + band_gradient(band_product(cb, q, 0, width), p, 0, width)


_BAND_FACTOR = _solver(
    "cho_solve_banded",
    System(_solve_band_factor, _band_factor_product, _band_factor_product, _band_factor_gradient),
)


@rule("scipy.linalg.cho_solve_banded", tensors="cb_and_lower b")
def cho_solve_banded(
    cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solves with the Cholesky factor of a band matrix."""
    del overwrite_b
    cb, lower = cb_and_lower
    matrix, is_vector = as_matrix(b)
    x: Tensor = _BAND_FACTOR(cb, matrix, lower=bool(lower), check_finite=check_finite)
    return x[..., 0] if is_vector else x


# --- Toeplitz and circulant matrices: values[n - 1 + i - j] is A[i, j] ---


def _convolve(a: Tensor, b: Tensor) -> Any:
    """The full convolution along the first axis."""
    size = a.shape[0] + b.shape[0] - 1
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        return xp.fft_ifft(xp.fft_fft(a, size, 0) * xp.fft_fft(b, size, 0), size, 0)
    return xp.fft_irfft(xp.fft_rfft(a, size, 0) * xp.fft_rfft(b, size, 0), size, 0)


def toeplitz_product(values: Tensor, x: Tensor) -> Any:
    """The product of a Toeplitz matrix and a matrix."""
    n, rows = x.shape[0], values.shape[0] - x.shape[0] + 1
    return _convolve(xp.expand_dims(values, -1), x)[n - 1 : n - 1 + rows]


def _toeplitz_gradient(known: Known, p: Tensor, q: Tensor) -> Any:
    del known
    return xp.sum(_convolve(p, xp.conj(xp.flip(q, 0))), -1)


def _solve_toeplitz(values: Array, b: Array, is_adjoint: bool, check_finite: bool = True) -> Any:
    if is_adjoint:
        values = values[::-1].conj()
    n = (len(values) + 1) // 2
    pair = values[n - 1 :], values[n - 1 :: -1]
    return sl.solve_toeplitz(pair, b, check_finite=check_finite)


_TOEPLITZ = _solver(
    "solve_toeplitz",
    System(
        _solve_toeplitz,
        lambda _, values_t, x: toeplitz_product(values_t, x),
        lambda _, values_t, x: toeplitz_product(xp.conj(xp.flip(values_t, 0)), x),
        _toeplitz_gradient,
    ),
)


def toeplitz_values(c: Any, r: Any) -> Any:
    """The diagonals of a Toeplitz matrix, from its first column and row."""
    c = as_tensor(c)
    r = xp.conj(c) if r is None else as_tensor(r)
    return xp.concatenate([xp.flip(r[1:], 0), c], 0)


def _column_and_row(c_or_cr: Any) -> Any:
    return c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)


@rule("scipy.linalg.solve_toeplitz", tensors="c_or_cr b")
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """Solves with a Toeplitz matrix."""
    matrix, is_vector = as_matrix(b)
    values = toeplitz_values(*_column_and_row(c_or_cr))
    x: Tensor = _TOEPLITZ(values, matrix, check_finite=check_finite)
    return x[..., 0] if is_vector else x


@rule("scipy.linalg.matmul_toeplitz", tensors="c_or_cr x")
def matmul_toeplitz(
    c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None
) -> Any:
    """The product of a Toeplitz matrix and a vector or matrix."""
    del workers
    matrix, is_vector = as_matrix(x)
    values = toeplitz_values(*_column_and_row(c_or_cr))
    if check_finite:
        require_finite(values, matrix)
    product = toeplitz_product(values, matrix)
    return product[..., 0] if is_vector else product


def _solve_circulant(
    c: Array, b: Array, is_adjoint: bool, singular: str, tol: Any, check_finite: bool = True
) -> Any:
    del check_finite
    if is_adjoint:
        c = np.roll(c[::-1], 1).conj()
    return sl.solve_circulant(c, b, singular=singular, tol=tol)


def _circulant_values(c: Tensor) -> Any:
    return xp.concatenate([c[1:], c], 0)


def _circulant_gradient(known: Known, p: Tensor, q: Tensor) -> Any:
    values, n = _toeplitz_gradient(known, p, q), p.shape[0]
    return values[n - 1 :] + xp.concatenate([xp.zeros_like(values[:1]), values[: n - 1]], 0)


_CIRCULANT = _solver(
    "solve_circulant",
    System(
        _solve_circulant,
        lambda _, c_t, x: toeplitz_product(_circulant_values(c_t), x),
        lambda _, c_t, x: toeplitz_product(xp.conj(xp.flip(_circulant_values(c_t), 0)), x),
        _circulant_gradient,
    ),
)


@rule("scipy.linalg.solve_circulant", tensors="c b")
def solve_circulant(
    c: Any,
    b: Any,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Any:
    """Solves with a circulant matrix, which its first column gives."""
    if (caxis, baxis, outaxis) != (-1, 0, 0):
        raise option_without_rule(
            "scipy.linalg.solve_circulant", "caxis, baxis, outaxis", (caxis, baxis, outaxis)
        )
    if singular != "raise":
        raise option_without_rule("scipy.linalg.solve_circulant", "singular", singular)
    matrix, is_vector = as_matrix(b)
    x: Tensor = _CIRCULANT(c, matrix, singular=singular, tol=tol)
    return x[..., 0] if is_vector else x
