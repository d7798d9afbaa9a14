"""Eigenvalues, singular values and Schur form of ``scipy.linalg``.

SciPy computes the decomposition. Vectors are determined up to a sign or phase: derivatives are
those with the phase held fixed, right for functions that do not depend on it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sl

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import Known, Primitive
from pullback.interop.arguments import as_tensor, refusal
from pullback.operators.linalg.formulas import quiet
from pullback.operators.linalg.formulas_decompositions import svd_grad, svd_jvp
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.linalg_tools import (
    Array,
    adjoint,
    band_to_matrix,
    diagonal,
    from_diagonal,
    hermitian,
    pad_zeros,
    require_finite,
    triangle,
)
from pullback.tensor.tensor import Tensor

__all__ = ["eig"]

# --- singular values ---


_SVD = Primitive(
    "svd",
    sl.svd,
    lambda known, a_t: svd_jvp(xp, a_t, *known.outputs),
    lambda known, *grads: svd_grad(xp, grads, *known.outputs),
)


@rule("scipy.linalg.svd", tensors="a")
def _svd(
    a: Any, full_matrices: bool, compute_uv: bool, check_finite: bool, lapack_driver: str
) -> Any:
    """The singular value decomposition."""
    u, s, vh = _SVD(
        a,
        full_matrices=full_matrices and compute_uv,
        check_finite=check_finite,
        lapack_driver=lapack_driver,
    )
    return (u, s, vh) if compute_uv else s


@rule("scipy.linalg.svdvals", tensors="a")
def _svdvals(a: Any, check_finite: bool) -> Any:
    """The singular values."""
    return _SVD(a, full_matrices=False, check_finite=check_finite)[1]


@rule("scipy.linalg.diagsvd", tensors="s")
def _diagsvd(s: Any, M: int, N: int) -> Any:
    """The matrix with the singular values on its diagonal."""
    middle, n = from_diagonal(as_tensor(s)), as_tensor(s).shape[0]
    if n not in (M, N):
        raise ValueError("Length of s must be M or N.")
    return pad_zeros(pad_zeros(middle, 0, N - n, 1), 0, M - n, 0)


# --- Hermitian matrices ---


def _align(all_vectors: Array, part: Array, first: int) -> Any:
    """Vectors of all eigenvalues, with those of the selected ones as SciPy returned them."""
    vectors = np.array(all_vectors)
    vectors[..., first : first + part.shape[-1]] = part
    return vectors


def _eigh(a: Array, b: Array | None = None, *, selection: Any, **options: Any) -> Any:
    """All eigenvalues and vectors; the selected ones as SciPy computes them."""
    if not a.size:
        return sl.eigh(a, b, **options)
    values, vectors = sl.eigh(a, b, lower=options["lower"], type=options["type"])
    chosen = sl.eigh(a, b, **options, **selection)
    if not chosen[0].size:
        return values, vectors, np.array([0, 0])
    first = int(np.argmin(np.abs(values[..., :] - chosen[0][..., :1]), -1).flat[0])
    values = np.array(values)
    values[..., first : first + chosen[0].shape[-1]] = chosen[0]
    vectors = _align(vectors, chosen[1], first)
    return values, vectors, np.array([first, first + chosen[0].shape[-1]])


def _gaps(x: Tensor) -> Any:
    """``x_j - x_i``, with infinity on the diagonal."""
    gaps = xp.expand_dims(x, -2) - xp.expand_dims(x, -1)
    return xp.where(np.eye(x.shape[-1], dtype=bool), np.inf, gaps)


@quiet
def _eigh_jvp(known: Known, a_t: Tensor | None, b_t: Tensor | None = None) -> tuple[Any, ...]:
    """Tangents for A v = w B v with v^H B v = 1; the other types are reduced to this one."""
    (a, *b), (values, vectors, _) = known.inputs, known.outputs
    kind = known.options["type"]
    a_t = xp.zeros_like(a) if a_t is None else a_t
    if b and kind == 2:  # A B v = w v: B A B in the place of A
        (matrix,) = b
        b_t = xp.zeros_like(matrix) if b_t is None else b_t
        half = b_t @ a @ matrix
        a_t = half + adjoint(half) + matrix @ a_t @ matrix
    elif b and b_t is not None and kind == 3:  # B A v = w v: the inverse of B in the place of B
        (matrix,) = b
        b_t = -xp.linalg_solve(matrix, adjoint(xp.linalg_solve(matrix, adjoint(b_t))))
    inner = adjoint(vectors) @ a_t @ vectors
    if b_t is not None:
        weight = adjoint(vectors) @ b_t @ vectors
        inner = inner - weight * xp.expand_dims(values, -2)
        turn = inner / _gaps(values) - from_diagonal(diagonal(weight)) / 2
    else:
        turn = inner / _gaps(values)
    return xp.real(diagonal(inner)), vectors @ turn, None


@quiet
def _eigh_vjp(known: Known, values_g: Tensor | None, vectors_g: Tensor | None, _: None) -> Any:
    """The VJP of the ordinary problem."""
    (_a,), (values, vectors, _range) = known.inputs, known.outputs
    if vectors_g is None:
        assert values_g is not None
        return ((vectors * xp.expand_dims(values_g, -2)) @ adjoint(vectors),)
    inner = (adjoint(vectors) @ vectors_g) / _gaps(values)
    inner = (inner + adjoint(inner)) / 2
    if values_g is not None:
        inner = inner + from_diagonal(values_g)
    return (vectors @ inner @ adjoint(vectors),)


_EIGH = Primitive("eigh", _eigh, _eigh_jvp, _eigh_vjp)
_EIGH_GENERALIZED = Primitive("eigh", _eigh, _eigh_jvp)


def _selected(found: tuple[Tensor, ...], selection: dict[str, Any]) -> Any:
    values, vectors, chosen = found
    if not selection:
        return values, vectors
    if "subset_by_index" in selection:
        low, high = selection["subset_by_index"]
        high += 1
    else:
        low, high = (int(i) for i in chosen.detach().numpy())
    return values[..., low:high], vectors[..., low:high]


@rule("scipy.linalg.eigh", tensors="a b")
def _eigh_rule(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Eigenvalues and vectors of a Hermitian matrix, or pair; one triangle of each is read."""
    subsets = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
    selection = {key: value for key, value in subsets.items() if value is not None}
    options = {"lower": lower, "type": type, "check_finite": check_finite, "driver": driver}
    a = as_tensor(a)
    if check_finite:
        require_finite(a, *(() if b is None else (as_tensor(b),)))
    a = hermitian(a, lower)
    if b is None:
        found = _EIGH(a, selection=selection, **options)
    else:
        b = hermitian(as_tensor(b), lower)
        found = _EIGH_GENERALIZED(a, b, selection=selection, **options)
    values, vectors = _selected(found, selection)
    return values if eigvals_only else (values, vectors)


@rule("scipy.linalg.eigvalsh", tensors="a b")
def _eigvalsh(a: Any, b: Any, **options: Any) -> Any:
    """Eigenvalues of a Hermitian matrix, or pair."""
    return _eigh_rule(a, b, eigvals_only=True, **options)


def _eigh_of(name: str, matrix: Tensor, select: Any, select_range: Any, eigvals_only: bool) -> Any:
    """Eigenvalues of a matrix with few diagonals; its vectors are those of the dense matrix."""
    if select in ("a", "all", 0):
        return _eigh_rule(matrix, eigvals_only=eigvals_only)
    if select in ("i", "index", 2):
        return _eigh_rule(matrix, eigvals_only=eigvals_only, subset_by_index=list(select_range))
    if select in ("v", "value", 1):
        return _eigh_rule(matrix, eigvals_only=eigvals_only, subset_by_value=list(select_range))
    raise option_without_rule(f"scipy.linalg.{name}", "select", select)


def _of_diagonals(d: Tensor, e: Tensor) -> Any:
    n = d.shape[0]
    shift = np.arange(n)[:, None] - np.arange(n)
    below = xp.concatenate([e, xp.zeros_like(d[:1])], 0) * (shift == 1)
    return from_diagonal(d) + below


@rule("scipy.linalg.eigh_tridiagonal", tensors="d e")
def _eigh_tridiagonal(
    d: Any, e: Any, eigvals_only: bool, select: Any, select_range: Any, **_: Any
) -> Any:
    """Eigenvalues and vectors of a symmetric tridiagonal matrix; signs are those of ``eigh``."""
    matrix = _of_diagonals(as_tensor(d), as_tensor(e))
    return _eigh_of("eigh_tridiagonal", matrix, select, select_range, eigvals_only)


@rule("scipy.linalg.eigvalsh_tridiagonal", tensors="d e")
def _eigvalsh_tridiagonal(d: Any, e: Any, select: Any, select_range: Any, **_: Any) -> Any:
    """Eigenvalues of a symmetric tridiagonal matrix."""
    return _eigh_tridiagonal(d, e, True, select, select_range)


@rule("scipy.linalg.eig_banded", tensors="a_band")
def _eig_banded(
    a_band: Any, lower: bool, eigvals_only: bool, select: Any, select_range: Any, **_: Any
) -> Any:
    """Eigenvalues and vectors of a Hermitian band matrix; signs are those of ``eigh``."""
    matrix = hermitian(band_to_matrix(as_tensor(a_band), lower), lower)
    return _eigh_of("eig_banded", matrix, select, select_range, eigvals_only)


@rule("scipy.linalg.eigvals_banded", tensors="a_band")
def _eigvals_banded(a_band: Any, lower: bool, select: Any, select_range: Any) -> Any:
    """Eigenvalues of a Hermitian band matrix."""
    return _eig_banded(a_band, lower, True, select, select_range)


# --- general matrices ---


def _eig(a: Array, b: Array | None = None, *, check_finite: bool) -> Any:
    return sl.eig(a, b, left=True, right=True, check_finite=check_finite)


def _unit_change(vectors: Tensor, change: Tensor) -> Any:
    """Removes the change along the vectors, whose length stays one."""
    length = xp.real(diagonal(adjoint(vectors) @ change))
    return change - vectors * xp.expand_dims(length, -2)


@quiet
def _eig_jvp(known: Known, a_t: Tensor | None, b_t: Tensor | None = None) -> tuple[Any, ...]:
    """Tangents of A v = w B v; u^H A = w u^H B for the left vectors u. All have length one."""
    (a, *b), (values, left, right) = known.inputs, known.outputs
    a_t = xp.zeros_like(a) if a_t is None else a_t
    row = xp.expand_dims(values, -2)
    moved = a_t @ right
    moved_left = adjoint(a_t) @ left
    if b_t is not None:
        moved = moved - (b_t @ right) * row
        moved_left = moved_left - (adjoint(b_t) @ left) * xp.conj(row)
    basis = b[0] @ right if b else right
    basis_left = adjoint(b[0]) @ left if b else left
    inner = xp.linalg_solve(basis + 0j, moved + 0j)
    inner_left = xp.linalg_solve(basis_left + 0j, moved_left + 0j)
    gaps = _gaps(values)
    right_t = _unit_change(right, right @ (inner / gaps))
    left_t = _unit_change(left, left @ (inner_left / xp.conj(gaps)))
    return diagonal(inner), left_t, right_t


_EIG = Primitive("eig", _eig, _eig_jvp)


@rule("scipy.linalg.eig", tensors="a b")
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Eigenvalues and vectors of a general matrix, or pair."""
    inputs = (a,) if b is None else (a, b)
    if homogeneous_eigvals and b is not None:
        raise option_without_rule("scipy.linalg.eig", "homogeneous_eigvals", homogeneous_eigvals)
    values, left_vectors, right_vectors = _EIG(*inputs, check_finite=check_finite)
    if homogeneous_eigvals:
        values = xp.stack([values, xp.ones_like(values)], 0)
    found = [values]
    found += [left_vectors] if left else []
    found += [right_vectors] if right else []
    return found[0] if len(found) == 1 else tuple(found)


@rule("scipy.linalg.eigvals", tensors="a b")
def _eigvals(a: Any, b: Any, check_finite: bool, homogeneous_eigvals: bool) -> Any:
    """Eigenvalues of a general matrix, or pair."""
    return eig(a, b, False, False, check_finite, homogeneous_eigvals)


# --- Schur and Hessenberg form: A = Z T Z^H, and dZ = Z X with a skew-Hermitian X ---


def _schur(a: Array, output: str, check_finite: bool) -> Any:
    t, z = sl.schur(a, output=output, check_finite=check_finite)
    if np.tril(t, -1).any():
        raise refusal(
            "scipy.linalg.schur",
            "it has no derivative with complex pairs in the real Schur form",
            "Choose output='complex'.",
        )
    return t, z


def _schur_jvp(known: Known, a_t: Tensor) -> Any:
    """Below the diagonal X T - T X is Z^H dA Z; columns of X follow one after another."""
    t, z = known.outputs
    n = t.shape[-1]
    moved = adjoint(z) @ a_t @ z
    below = xp.zeros_like(moved)
    for j in range(n - 1):
        right = moved[j + 1 :, j] - below[j + 1 :, :j] @ t[:j, j]
        system = t[j, j] * np.eye(n - 1 - j) - t[j + 1 :, j + 1 :]
        column = pad_zeros(xp.linalg_solve(system, right), j + 1, 0, 0)
        below = below + xp.expand_dims(column, -1) * (np.arange(n) == j)
    turn = below - adjoint(below)
    return triangle(moved - turn @ t + t @ turn, False), z @ turn


_SCHUR = Primitive("schur", _schur, _schur_jvp)


@rule("scipy.linalg.schur", tensors="a")
def _schur_rule(a: Any, output: str, check_finite: bool) -> Any:
    """The Schur form with a triangular matrix."""
    return _SCHUR(a, output=output, check_finite=check_finite)


def _hessenberg_jvp(known: Known, a_t: Tensor) -> Any:
    """The first column of Q is fixed; a column of X follows from the one before."""
    h, q = known.outputs
    n = h.shape[-1]
    moved = adjoint(q) @ a_t @ q
    turn = xp.zeros_like(moved)
    for j in range(n - 2):
        wanted = moved[:, j] + h @ turn[:, j] - turn[:, : j + 1] @ h[: j + 1, j]
        column = wanted / h[j + 1, j] * (np.arange(n) > j + 1)
        step = xp.expand_dims(column, -1) * (np.arange(n) == j + 1)
        turn = turn + step - adjoint(step)
    return triangle(moved - turn @ h + h @ turn, False, offset=-1), q @ turn


_HESSENBERG = Primitive("hessenberg", partial(sl.hessenberg, calc_q=True), _hessenberg_jvp)


@rule("scipy.linalg.hessenberg", tensors="a")
def _hessenberg(a: Any, calc_q: bool, check_finite: bool) -> Any:
    """The Hessenberg form."""
    h, q = _HESSENBERG(a, check_finite=check_finite)
    return (h, q) if calc_q else h
