"""Rules of linear algebra and of Fourier transforms.

NumPy's functions take matrices with any axes in front, so most of them need nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.kernels.batch_axes import Array, Rule, along, padded, shifted_all
from pullback.kernels.batch_classes import native
from pullback.operators.fft import kernels as fft
from pullback.operators.linalg import kernels as linalg

__all__ = ["RULES"]


def _matrices(function: Any) -> Rule:
    """The rule of a function of square or other matrices, which are the last two axes."""

    def rule(k: int, x: Array, *args: Any, **kwargs: Any) -> Any:
        if x.ndim - k < 2:
            return function(np.empty(x.shape[k:], x.dtype), *args, **kwargs)  # says what is wrong
        return function(x, *args, **kwargs)

    return rule


def _solve(k: int, a: Array, b: Array) -> Array:
    is_vector = b.ndim - k == 1
    a, b = padded(k, a, b[..., np.newaxis] if is_vector else b)
    found = linalg.solve(a, b)
    return found[..., 0] if is_vector else found


def _vector_norm(
    k: int, x: Array, *, axis: Any = None, keepdims: bool = False, ord: float = 2
) -> Array:
    if x.ndim == k:
        return linalg.vector_norm(x[..., np.newaxis], axis=-1, ord=ord)
    axes = shifted_all(k, x.ndim - k, axis)
    return linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)


def _shift(function: Any) -> Rule:
    def rule(k: int, x: Array, axes: Any = None) -> Array:
        return function(x, shifted_all(k, x.ndim - k, axes))

    return rule


RULES: dict[str, Rule] = {
    "linalg_inv": _matrices(linalg.inv),
    "_inv_or_inf": native(linalg.inv_or_inf),
    "linalg_solve": _solve,
    "linalg_pinv": _matrices(linalg.pinv),
    "linalg_det": _matrices(linalg.det),
    "_adjugate": _matrices(linalg.adjugate),
    "linalg_slogdet": _matrices(linalg.slogdet),
    "linalg_cholesky": _matrices(linalg.cholesky),
    "linalg_qr": _matrices(linalg.qr),
    "linalg_svd": _matrices(linalg.svd),
    "linalg_svdvals": _matrices(linalg.svdvals),
    "linalg_eigh": _matrices(linalg.eigh),
    "linalg_eigvalsh": _matrices(linalg.eigvalsh),
    "linalg_eig": _matrices(linalg.eig),
    "linalg_eigvals": _matrices(linalg.eigvals),
    "linalg_matrix_rank": _matrices(linalg.matrix_rank),
    "linalg_expm": _matrices(linalg.expm),
    "linalg_vector_norm": _vector_norm,
    "fft_fft": along(fft.fft, place=2),
    "fft_ifft": along(fft.ifft, place=2),
    "fft_rfft": along(fft.rfft, place=2),
    "fft_irfft": along(fft.irfft, place=2),
    "fft_fftshift": _shift(fft.fftshift),
    "fft_ifftshift": _shift(fft.ifftshift),
}
