"""Formulas of activation functions: mostly second derivatives, which need not be fast."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.kernels.broadcasting import sum_rows

__all__ = ["gelu_curve", "log_softmax_vjp", "mish_curve", "silu_curve", "softmax_vjp"]

_GELU_SCALE = 0.79788456080286535588  # sqrt(2 / pi)
_GELU_CUBE = 0.044715


def softmax_vjp(xp: Any, grad: Any, result: Any, axis: int) -> Any:
    """The Jacobian of softmax, which is symmetric, times a vector."""
    weighted = grad * result
    return weighted - result * xp.sum(weighted, axis, True)


def log_softmax_vjp(xp: Any, grad: Any, result: Any, axis: int) -> Any:
    """The transposed Jacobian of the logarithm of softmax times a vector."""
    are_arrays = type(grad) is type(result) is np.ndarray and grad.dtype is result.dtype
    if not are_arrays or not result.ndim:
        return grad - xp.exp(result) * xp.sum(grad, axis, True)
    shares = np.exp(result)
    shares *= sum_rows(grad, axis)
    return np.subtract(grad, shares, out=shares)


def _logistic(xp: Any, x: Any) -> Any:
    return 0.5 + 0.5 * xp.tanh(0.5 * x)


def silu_curve(xp: Any, x: Any) -> Any:
    """The second derivative of silu."""
    s = _logistic(xp, x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def mish_curve(xp: Any, x: Any) -> Any:
    """The second derivative of mish: with t = tanh(softplus(x)), t' = s * (1 - t**2)."""
    s = _logistic(xp, x)
    t = xp.tanh(-xp.logsigmoid(-x))
    step = s * (1 - t * t)
    return step * (2 + x * (1 - s - 2 * t * s))


def gelu_curve(xp: Any, x: Any, approximate: str) -> Any:
    """The second derivative of gelu."""
    square = x * x
    if approximate == "none":
        return xp.exp(-0.5 * square) * (2 - square) * (_GELU_SCALE / 2)
    t = xp.tanh(_GELU_SCALE * x * (1 + _GELU_CUBE * square))
    inner = _GELU_SCALE * (1 + 3 * _GELU_CUBE * square)
    bend = 3 * _GELU_SCALE * _GELU_CUBE * square
    return (1 - t * t) * (inner + bend - x * t * inner * inner)
