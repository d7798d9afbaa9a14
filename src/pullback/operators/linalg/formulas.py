"""Formulas of linear algebra: inverses, determinants, norms, the exponential.

`mh` is the conjugate transpose. A formula divides by zero only where the derivative does not exist;
then it gives infinity or NaN, without a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.kernels.errstate import errstate
from pullback.operators.pointwise.formulas import conj, zero_gradient
from pullback.operators.products.formulas import matmul_to_first
from pullback.tensor.tensor import Tensor

__all__ = [
    "expm_frechet",
    "inv_grad",
    "lstsq_grad",
    "lstsq_jvp",
    "mh",
    "on_matrix",
    "pinv_grad",
    "pinv_jvp",
    "slogdet_grad",
    "slogdet_jvp",
    "solve_grad",
    "solve_jvp",
    "vector_norm_grad",
    "vector_norm_jvp",
]

Shape = tuple[int, ...]


# Where a derivative does not exist, dividing by zero gives the infinity or NaN that is meant.
quiet = errstate(divide="ignore", over="ignore", invalid="ignore")


def mh(xp: Any, x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return conj(xp, xp.matrix_transpose(x))


def on_matrix(xp: Any, x: Any) -> Any:
    """A number for each matrix, so that it multiplies the matrix."""
    return xp.expand_dims(x, [-2, -1])


def inv_grad(xp: Any, grad: Any, result: Any) -> Any:
    """The gradient of the inverse."""
    inverse = mh(xp, result)
    return -(inverse @ grad @ inverse)


def solve_grad(
    xp: Any, grad: Any, self: Any, result: Any, is_vector: bool, mask: Sequence[bool]
) -> tuple[Any, Any]:
    """The gradients of ``solve(self, other)``: another system, with the transposed matrix."""
    if is_vector:
        grad, result = xp.expand_dims(grad, -1), xp.expand_dims(result, -1)
    right = xp.linalg_solve(mh(xp, self), grad)
    to_self = matmul_to_first(xp, -right, self.shape, result) if mask[0] else None
    return to_self, right[..., 0] if is_vector else right


def solve_jvp(xp: Any, a: Any, a_t: Any, b_t: Any, result: Any) -> Any:
    """The tangent of a solution."""
    if b_t.ndim == 1:
        change = xp.expand_dims(b_t, -1) - a_t @ xp.expand_dims(result, -1)
        return xp.linalg_solve(a, change)[..., 0]
    return xp.linalg_solve(a, b_t - a_t @ result)


def pinv_grad(xp: Any, grad: Any, self: Any, result: Any) -> Any:
    """The gradient of the pseudo-inverse, while the rank stays as it is.

    The last two terms are for what is outside the range and the row space; a square matrix of full
    rank has nothing there.
    """
    p, ph, gh = result, mh(xp, result), mh(xp, grad)
    outside = gh @ p @ ph
    within = ph @ p @ gh
    return outside - self @ (p @ outside) + within - (within @ p) @ self - ph @ grad @ ph


def pinv_jvp(xp: Any, self: Any, tangent: Any, result: Any) -> Any:
    """The tangent of the pseudo-inverse, while the rank stays as it is."""
    p, ph, th = result, mh(xp, result), mh(xp, tangent)
    outside = p @ ph @ th
    within = th @ ph @ p
    return outside - (outside @ self) @ p + within - p @ (self @ within) - p @ tangent @ p


def lstsq_grad(
    xp: Any, grads: Sequence[Any], a: Any, b: Any, x: Any, mask: Sequence[bool]
) -> tuple[Any, Any]:
    """The gradients of a least-squares solution, its residuals and the singular values."""
    grad_x, grad_residuals, _, grad_s = grads
    to_a: list[Any] = []
    to_b: list[Any] = []
    if b.ndim == 1:
        b, x = xp.expand_dims(b, -1), xp.expand_dims(x, -1)
        grad_x = None if grad_x is None else xp.expand_dims(grad_x, -1)
        add = lstsq_grad(xp, [grad_x, *grads[1:]], a, b, x, mask)
        return add[0], None if add[1] is None else add[1][..., 0]
    rest = b - a @ x
    if grad_x is not None:
        p = xp.linalg_pinv(a)
        ph = mh(xp, p)
        through = ph @ grad_x
        to_b.append(through)
        to_a.append(rest @ mh(xp, p @ through) - through @ mh(xp, x))
        to_a.append(ph @ x @ mh(xp, grad_x - p @ (a @ grad_x)))
    if grad_residuals is not None and grad_residuals.shape[0]:
        weighted = rest * (2 * grad_residuals)
        to_b.append(weighted)
        to_a.append(-weighted @ mh(xp, x))
    if grad_s is not None:
        u, _, vh = xp.linalg_svd(a, False)
        to_a.append((u * grad_s) @ vh)
    return _total(to_a) if mask[0] else None, _total(to_b) if mask[1] else None


def _total(terms: list[Any]) -> Any:
    """The sum of gradients, None if there are none."""
    return sum(terms[1:], terms[0]) if terms else None


def lstsq_jvp(xp: Any, a: Any, a_t: Any, b: Any, b_t: Any, x: Any, residuals: Any) -> Any:
    """The tangents of a least-squares solution, its residuals and the singular values."""
    if b.ndim == 1:
        b, b_t, x = (xp.expand_dims(value, -1) for value in (b, b_t, x))
        x_t, residuals_t, _, s_t = lstsq_jvp(xp, a, a_t, b, b_t, x, residuals)
        return x_t[..., 0], residuals_t, None, s_t
    p = xp.linalg_pinv(a)
    rest, change = b - a @ x, b_t - a_t @ x
    inside = mh(xp, a_t) @ (mh(xp, p) @ x)
    x_t = p @ change + p @ (mh(xp, p) @ (mh(xp, a_t) @ rest)) + inside - p @ (a @ inside)
    size = residuals.shape[0]
    residuals_t = xp.sum(xp.real(2 * conj(xp, rest) * change), -2)[:size]
    u, _, vh = xp.linalg_svd(a, False)
    s_t = xp.real(xp.diagonal(mh(xp, u) @ a_t @ mh(xp, vh), 0, -2, -1))
    return x_t, residuals_t, None, s_t


@quiet
def slogdet_grad(xp: Any, grad_sign: Any, grad_log: Any, self: Any, sign: Any) -> Any:
    """The gradient of the logarithm of a determinant, and of its sign, which only turns."""
    parts = [] if grad_log is None else [grad_log]
    if grad_sign is not None and sign.dtype.kind == "c":
        parts.append(-1j * xp.imag(conj(xp, grad_sign) * sign))
    if not parts:
        return zero_gradient(xp, self)
    return on_matrix(xp, _total(parts)) * mh(xp, xp._inv_or_inf(self))


def slogdet_jvp(xp: Any, self: Any, tangent: Any, sign: Any) -> tuple[Any, Any]:
    """The tangents of the sign and of the logarithm of a determinant."""
    change = xp.trace(xp.linalg_solve(self, tangent), 0, -2, -1)
    if sign.dtype.kind != "c":
        return zero_gradient(xp, sign), change
    return sign * (1j * xp.imag(change)), xp.real(change)


def expm_frechet(xp: Any, a: Any, direction: Any) -> Any:
    """The derivative of the exponential of a matrix in a direction.

    It stands in the upper right corner of the exponential of ``[[a, direction], [0, a]]``. It is
    linear in the direction, which is scaled so that it does not outweigh `a`.
    """
    n = a.shape[-1]
    if not n:
        return direction
    raw = direction.detach() if isinstance(direction, Tensor) else direction
    size = xp.maximum(xp.max(xp.sum(xp.abs(raw), -2), -1), 1)[..., None, None]
    upper = xp.concatenate([a, direction / size], -1)
    lower = xp.concatenate([xp.zeros_like(a), a], -1)
    return xp.linalg_expm(xp.concatenate([upper, lower], -2))[..., :n, n:] * size


def _unreduced(xp: Any, x: Any, shape: Shape, axis: Any, keepdims: bool) -> Any:
    """Gives a reduction back the axes that it lost, with length one."""
    if keepdims:
        return x
    if axis is None:
        return xp.reshape(x, [1] * len(shape))
    axes = [axis] if isinstance(axis, int) else list(axis)
    return xp.expand_dims(x, sorted(a % len(shape) for a in axes))


@quiet
def vector_norm_grad(
    xp: Any, grad: Any, self: Any, result: Any, axis: Any, keepdims: bool, ord: float
) -> Any:
    """The gradient of a norm; 0 at the zero vector, and shared by equal extremes."""
    if ord == 0:
        return None
    shape = self.shape
    grad = _unreduced(xp, grad, shape, axis, keepdims)
    if 0 in shape:
        return grad * self
    norm = _unreduced(xp, result, shape, axis, keepdims)
    if ord == 1:
        return grad * xp._sgn(self)
    if ord == 2:
        return xp.where(norm == 0, 0, self * (grad / norm))
    size = xp.abs(self)
    if abs(ord) == np.inf:
        extreme = xp.astype(size == norm, result.dtype)
        return grad * xp._sgn(self) * (extreme / xp.sum(extreme, axis, True))
    nothing = (size == 0) | (norm == 0)
    ratio = xp.where(nothing, 1, size) / xp.where(norm == 0, 1, norm)
    return grad * xp._sgn(self) * xp.where(nothing, 0, ratio ** (ord - 1))


def vector_norm_jvp(
    xp: Any, tangent: Any, self: Any, result: Any, axis: Any, keepdims: bool, ord: float
) -> Any:
    """The tangent of a norm: the gradient's product with the tangent."""
    slope = vector_norm_grad(xp, xp.ones_like(result), self, result, axis, keepdims, ord)
    if slope is None:
        return zero_gradient(xp, result)
    return xp.sum(xp.real(conj(xp, slope) * tangent), axis, keepdims)
