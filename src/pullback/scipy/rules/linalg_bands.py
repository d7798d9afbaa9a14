"""Systems with band, Toeplitz and circulant matrices in ``scipy.linalg``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as sl

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import Known
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.linalg_solve import System, linear_solver
from pullback.scipy.rules.linalg_tools import Array, as_matrix, require_finite
from pullback.tensor.tensor import Tensor

__all__ = ["toeplitz_values"]

# --- band matrices: ab[u + i - j, j] is A[i, j] ---


def _shifted(n: int, low: int, up: int) -> Any:
    """For each diagonal and column, the row in the matrix, and whether it exists."""
    row = np.arange(n) + np.arange(-up, low + 1)[:, None]
    return np.clip(row, 0, n - 1), (row >= 0) & (row < n)


def _band_product(ab: Tensor, x: Tensor, low: int, up: int) -> Any:
    """The product of a band matrix and a matrix."""
    n = x.shape[-2]
    column = np.arange(n) - np.arange(-up, low + 1)[:, None]
    inside, column = (column >= 0) & (column < n), np.clip(column, 0, n - 1)
    entries = ab[np.arange(low + up + 1)[:, None], column] * inside
    return xp.sum(xp.expand_dims(entries, -1) * x[column], 0)


def _band_adjoint_product(ab: Tensor, x: Tensor, low: int, up: int) -> Any:
    """The product of the adjoint of a band matrix and a matrix."""
    row, inside = _shifted(x.shape[-2], low, up)
    return xp.sum(xp.expand_dims(xp.conj(ab) * inside, -1) * x[row], 0)


def _band_gradient(p: Tensor, q: Tensor, low: int, up: int) -> Any:
    """The gradient of Re <p, A q> by the stored diagonals of A."""
    row, inside = _shifted(p.shape[-2], low, up)
    return xp.sum(p[row] * xp.conj(q), -1) * inside


def _flip_band(ab: Array, low: int, up: int) -> Any:
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
        ab, low, up = _flip_band(ab, low, up), up, low
    return sl.solve_banded((low, up), ab, b, check_finite=check_finite)


def _sizes(known: Known) -> tuple[int, int]:
    return known.options["low"], known.options["up"]


_BAND = linear_solver(
    "solve_banded",
    System(
        _solve_band,
        lambda known, ab_t, x: _band_product(ab_t, x, *_sizes(known)),
        lambda known, ab_t, x: _band_adjoint_product(ab_t, x, *_sizes(known)),
        lambda known, p, q: _band_gradient(p, q, *_sizes(known)),
    ),
)


@rule("scipy.linalg.solve_banded", tensors="ab b")
def _solve_banded(l_and_u: Any, ab: Any, b: Any, check_finite: bool) -> Any:
    """Solves with a band matrix."""
    low, up = map(int, l_and_u)
    matrix, is_vector = as_matrix(b)
    x: Tensor = _BAND(ab, matrix, low=low, up=up, check_finite=check_finite)
    return x[..., 0] if is_vector else x


def _whole_band(ab: Tensor, lower: bool) -> Any:
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
def _solveh_banded(ab: Any, b: Any, lower: bool, check_finite: bool) -> Any:
    """Solves with a positive definite band matrix."""
    ab, width = as_tensor(ab), as_tensor(ab).shape[0] - 1
    if check_finite:
        require_finite(ab)
    matrix, is_vector = as_matrix(b)
    whole = _whole_band(ab, lower)
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
        inner = _band_adjoint_product(cb, x, width, 0), _band_adjoint_product(cb_t, x, width, 0)
        return _band_product(cb_t, inner[0], width, 0) + _band_product(cb, inner[1], width, 0)
    inner = _band_product(cb, x, 0, width), _band_product(cb_t, x, 0, width)
    outer = _band_adjoint_product(cb_t, inner[0], 0, width)
    return outer + _band_adjoint_product(cb, inner[1], 0, width)


def _band_factor_gradient(known: Known, p: Tensor, q: Tensor) -> Any:
    cb, width = known.inputs[0], known.inputs[0].shape[0] - 1
    if known.options["lower"]:
        to_q = _band_gradient(p, _band_adjoint_product(cb, q, width, 0), width, 0)
        return to_q + _band_gradient(q, _band_adjoint_product(cb, p, width, 0), width, 0)
    to_q = _band_gradient(_band_product(cb, p, 0, width), q, 0, width)
    return to_q + _band_gradient(_band_product(cb, q, 0, width), p, 0, width)


_BAND_FACTOR = linear_solver(
    "cho_solve_banded",
    System(_solve_band_factor, _band_factor_product, _band_factor_product, _band_factor_gradient),
)


@rule("scipy.linalg.cho_solve_banded", tensors="cb_and_lower b")
def _cho_solve_banded(cb_and_lower: Any, b: Any, check_finite: bool) -> Any:
    """Solves with the Cholesky factor of a band matrix."""
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


def _toeplitz_product(values: Tensor, x: Tensor) -> Any:
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


_TOEPLITZ = linear_solver(
    "solve_toeplitz",
    System(
        _solve_toeplitz,
        lambda _, values_t, x: _toeplitz_product(values_t, x),
        lambda _, values_t, x: _toeplitz_product(xp.conj(xp.flip(values_t, 0)), x),
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
def _solve_toeplitz_rule(c_or_cr: Any, b: Any, check_finite: bool) -> Any:
    """Solves with a Toeplitz matrix."""
    matrix, is_vector = as_matrix(b)
    values = toeplitz_values(*_column_and_row(c_or_cr))
    x: Tensor = _TOEPLITZ(values, matrix, check_finite=check_finite)
    return x[..., 0] if is_vector else x


@rule("scipy.linalg.matmul_toeplitz", tensors="c_or_cr x")
def _matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool) -> Any:
    """The product of a Toeplitz matrix and a vector or matrix."""
    matrix, is_vector = as_matrix(x)
    values = toeplitz_values(*_column_and_row(c_or_cr))
    if check_finite:
        require_finite(values, matrix)
    product = _toeplitz_product(values, matrix)
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


_CIRCULANT = linear_solver(
    "solve_circulant",
    System(
        _solve_circulant,
        lambda _, c_t, x: _toeplitz_product(_circulant_values(c_t), x),
        lambda _, c_t, x: _toeplitz_product(xp.conj(xp.flip(_circulant_values(c_t), 0)), x),
        _circulant_gradient,
    ),
)


@rule("scipy.linalg.solve_circulant", tensors="c b")
def _solve_circulant_rule(
    c: Any, b: Any, singular: str, tol: float | None, caxis: int, baxis: int, outaxis: int
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
