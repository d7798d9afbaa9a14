"""Formulas of determinants, for singular matrices too.

The derivative of a determinant is the adjugate, which is a polynomial: it has all its derivatives
everywhere. So formulas here do not divide by what may be zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.operators.linalg.formulas import mh, on_matrix
from pullback.operators.pointwise.formulas import zero_gradient
from pullback.tensor.batched import BatchedArray
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["adjugate_grad", "adjugate_jvp", "det_grad"]

_FEW = 6  # rows of matrices that are small
_ALIKE = 100  # how many times larger than another one a value may be, to be of about its size


def det_grad(xp: Any, grad: Any, self: Any) -> Any:
    """The gradient of the determinant: the cofactors, which need no inverse."""
    return on_matrix(xp, grad) * mh(xp, xp._adjugate(self))


def adjugate_grad(xp: Any, grad: Any, self: Any) -> Any:
    """The gradient of the adjugate: the second derivative of the determinant is symmetric."""
    return mh(xp, adjugate_jvp(xp, self, mh(xp, grad)))


def adjugate_jvp(xp: Any, self: Any, tangent: Any) -> Any:
    """The tangent of the adjugate, for singular matrices too.

    With ``self = u s vh``, the adjugate is ``det(u) det(vh) v adj(s) u^H``, and that of a diagonal
    matrix changes by products of all its elements but two. `u` and `vh` may be held fixed, unless
    this is to be differentiated again: then `s` has to be all that ``u^H self v`` can become.
    """
    if not isinstance(self, Tensor):
        u, s, vh = xp.linalg_svd(self)
        inner = _change_of_diagonal(xp, s, mh(xp, u) @ tangent @ mh(xp, vh))
        return _turned(xp, u, inner, vh)
    n = self.shape[-1]
    if n < 2:
        return zero_gradient(xp, tangent)
    groups = _groups(self)
    if groups in ([], [n]):
        return _by_blocks(xp, self, tangent, groups)[1]
    u, _, vh = xp.linalg_svd(self.detach())
    uh, v = mh(xp, u), mh(xp, vh)
    inner = _by_blocks(xp, uh @ self @ v, uh @ tangent @ v, groups)[1]
    return _turned(xp, u, inner, vh)


def _turned(xp: Any, u: Any, adjugate: Any, vh: Any) -> Any:
    """The adjugate of ``u x vh`` from that of x."""
    turn = on_matrix(xp, xp.linalg_det(u) * xp.linalg_det(vh))
    return turn * (mh(xp, vh) @ adjugate @ mh(xp, u))


def _groups(x: Tensor) -> list[int]:
    """The sizes of groups of similar singular values, largest first, without those near zero."""
    n = x.shape[-1]
    array = x._array.array if isinstance(x._array, BatchedArray) else x._array
    if n <= _FEW or isinstance(array, Payload):  # the latter has no values
        return []
    values = np.linalg.svdvals(array).reshape(-1, n)
    near_zero = values[:, :1] * np.finfo(values.dtype).eps ** 0.5
    start, groups = 0, []
    while start < n and (values[:, start, None] > near_zero).all():
        alike = (values[:, start:] * _ALIKE > values[:, start, None]).all(0)
        groups.append(int(alike.cumprod().sum()))
        start += groups[-1]
    return groups


def _by_blocks(xp: Any, x: Any, x_t: Any, groups: list[int]) -> tuple[Any, Any]:
    """The adjugate and its change, of nearly diagonal matrices with elements of different sizes.

    ``[[p, q], [r, s]]`` is ``[[1, 0], [y, 1]] [[p, 0], [0, c]] [[1, w], [0, 1]]`` with ``w = p^-1
    q``, ``y = r p^-1`` and ``c = s - r w``. The first group is `p`, which has an inverse; `c` need
    not have one.
    """
    n = x.shape[-1]
    if not groups or n <= _FEW:
        return _step_by_step(xp, x, x_t)
    m = groups[0]
    if m == n:
        return _by_inverse(xp, x, x_t)
    p, q, r, s = _blocks(x, m)
    p_t, q_t, r_t, s_t = _blocks(x_t, m)
    inverse = xp.linalg_inv(p)
    w, y = inverse @ q, r @ inverse
    w_t, y_t = inverse @ (q_t - p_t @ w), (r_t - y @ p_t) @ inverse
    c, c_t = s - r @ w, s_t - r_t @ w - r @ w_t
    low, low_t = _by_blocks(xp, c, c_t, groups[1:])
    high, high_t = _by_inverse(xp, p, p_t)
    det, det_t = on_matrix(xp, xp.linalg_det(p)), on_matrix(xp, _trace(xp, high @ p_t))
    rest = on_matrix(xp, _trace(xp, c @ low) / (n - m))
    rest_t = on_matrix(xp, _trace(xp, low @ c_t))
    high, high_t = rest * high, rest_t * high + rest * high_t
    low, low_t = det * low, det_t * low + det * low_t
    left, left_t = w @ low, w_t @ low + w @ low_t
    return (
        _joined(xp, high + left @ y, -left, -low @ y, low),
        _joined(xp, high_t + left_t @ y + left @ y_t, -left_t, -low_t @ y - low @ y_t, low_t),
    )


def _joined(xp: Any, p: Any, q: Any, r: Any, s: Any) -> Any:
    return xp.concatenate([xp.concatenate([p, q], -1), xp.concatenate([r, s], -1)], -2)


def _by_inverse(xp: Any, x: Any, x_t: Any) -> tuple[Any, Any]:
    """The adjugate and its change, where all singular values are of about one size."""
    inverse = xp.linalg_inv(x)
    change, det = inverse @ x_t, on_matrix(xp, xp.linalg_det(x))
    along = on_matrix(xp, _trace(xp, change))
    return det * inverse, det * (along * inverse - change @ inverse)


def _blocks(x: Any, m: int) -> tuple[Any, Any, Any, Any]:
    return x[..., :m, :m], x[..., :m, m:], x[..., m:, :m], x[..., m:, m:]


def _step_by_step(xp: Any, x: Any, x_t: Any) -> tuple[Any, Any]:
    """The adjugate and its change from Faddeev and LeVerrier's recurrence: products and sums, but
    few digits of large matrices. Each step is ``m = x m - trace(x m) / k``, starting from one."""
    n = x.shape[-1]
    one = np.eye(n, dtype=x.dtype)
    m, m_t = one, xp.zeros_like(x)
    for k in range(1, n):
        product, product_t = x @ m, x_t @ m + x @ m_t
        m = product - on_matrix(xp, _trace(xp, product) / k) * one
        m_t = product_t - on_matrix(xp, _trace(xp, product_t) / k) * one
    return (m, m_t) if n % 2 else (-m, -m_t)


def _trace(xp: Any, x: Any) -> Any:
    return xp.sum(xp.diagonal(x, 0, -2, -1), -1)


def _change_of_diagonal(xp: Any, s: Any, change: Any) -> Any:
    """The tangent of the adjugate of a diagonal matrix; the map is its own adjoint."""
    n = s.shape[-1]
    one = np.eye(n, dtype=bool)
    factors = xp.where(one[:, None] | one, 1, xp.expand_dims(s, [-3, -2]))
    others = xp.prod(factors, -1) * ~one
    diagonal = others @ xp.expand_dims(xp.diagonal(change, 0, -2, -1), -1)
    return diagonal * one - others * change
