"""Activation functions, their slopes and softmax, on arrays.

A function whose name ends in ``slope`` is the derivative of the activation before it; ``pass_...``
lets a gradient through where the activation is a line, and stops it where that is flat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pullback.kernels.broadcasting import max_rows, sum_rows
from pullback.kernels.masked_select import choose, keep, keep_above, refuse_complex
from pullback.operators.nn.activation.kernels_normal import normal_cdf, normal_pdf

__all__ = [
    "SELU_ALPHA",
    "SELU_SCALE",
    "Array",
    "celu",
    "elu",
    "elu_curve",
    "elu_slope",
    "gelu",
    "gelu_slope",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardswish_slope",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "logsigmoid_slope",
    "mish",
    "mish_slope",
    "pass_above",
    "pass_between",
    "pass_leaky",
    "pass_outside",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "silu_slope",
    "softmax",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
_GELU_SCALE = 0.79788456080286535588  # sqrt(2 / pi)
_GELU_CUBE = 0.044715


def softmax(x: Array, axis: int = -1) -> Array:
    """Exponentials that add up to one along an axis."""
    refuse_complex("softmax", x)
    powers = _below_maximum(x, axis)
    np.exp(powers, out=powers)
    powers /= sum_rows(powers, axis)
    return powers


def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithm of softmax, without the detour over small numbers."""
    refuse_complex("log_softmax", x)
    shifted = _below_maximum(x, axis)
    if shifted.size:
        shifted -= np.log(sum_rows(np.exp(shifted), axis))
    return shifted


def _below_maximum(x: Array, axis: int) -> Array:
    """A new floating array, shifted along an axis so that its maximum is 0."""
    if x.dtype.kind not in "fc":
        x = x.astype(np.float64)
    if not x.size:
        normalize_axis_index(axis, x.ndim)  # raises where it is out of range
        return x.copy()
    return np.asarray(x - max_rows(x, axis))


def relu(x: Array) -> Array:
    """The positive part; NaN stays NaN."""
    return np.maximum(x, 0)


def relu6(x: Array) -> Array:
    """The positive part, at most 6."""
    return np.clip(x, 0, 6)


def hardtanh(x: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """The elements, no smaller and no larger than two bounds."""
    return np.clip(x, min_val, max_val)


def pass_above(grad: Array, x: Array, bound: float) -> Array:
    """The gradient where x is above a bound, or NaN; 0 elsewhere."""
    return keep_above(grad, x, bound)


def pass_between(grad: Array, x: Array, low: float, high: float) -> Array:
    """The gradient where x is strictly between two bounds, or NaN; 0 elsewhere."""
    return keep(~((x <= low) | (x >= high)), grad)


def pass_outside(grad: Array, x: Array, low: float, high: float) -> Array:
    """The gradient where x is beyond one of two bounds, or NaN; 0 elsewhere."""
    return keep(~((x >= low) & (x <= high)), grad)


def pass_leaky(grad: Array, x: Array, slope: float) -> Array:
    """The gradient where x is positive, and a fraction of it elsewhere."""
    return choose(x > 0, np.asarray(grad), np.asarray(grad * slope))


def leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    """The elements; negative ones made smaller."""
    return pass_leaky(x, x, negative_slope)


def prelu(x: Array, weight: Array) -> Array:
    """The elements; negative ones times a weight that broadcasts."""
    refuse_complex("prelu", x, weight)
    return np.where(x > 0, x, x * weight)


def elu(x: Array, alpha: float = 1.0) -> Array:
    """The elements; negative ones bent towards -alpha."""
    refuse_complex("elu", x)
    return _elu(x, alpha, 1.0, 1.0)


def selu(x: Array) -> Array:
    """The elu whose constants keep mean 0 and variance 1 from layer to layer."""
    refuse_complex("selu", x)
    return _elu(x, SELU_ALPHA, SELU_SCALE, 1.0)


def celu(x: Array, alpha: float = 1.0) -> Array:
    """The elu that has a continuous derivative for every alpha."""
    refuse_complex("celu", x)
    if alpha == 0:
        raise ZeroDivisionError("celu: alpha is 0, and the function divides by it")
    return _elu(x, alpha, 1.0, 1.0 / alpha)


def _elu(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    # exp(z) - 1 = 2 t / (1 - t) with t = tanh(z / 2): as exact for z <= 0, and faster than expm1.
    t = np.tanh(np.minimum(x, 0) * (0.5 * input_scale))
    bent = t * (2 * alpha * scale) / (1 - t)
    return np.maximum(x, 0) * scale + bent


def elu_slope(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    """The derivative of the elu functions; at 0 that of the bent side."""
    bent = np.exp(np.minimum(x, 0) * input_scale) * (alpha * scale * input_scale)
    straight = x > 0
    return keep(~straight, bent) + straight * np.asarray(scale, bent.dtype)


def elu_curve(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    """The second derivative of the elu functions; at 0 that of the straight side."""
    bent = np.exp(np.minimum(x, 0) * input_scale) * (alpha * scale * input_scale**2)
    return np.where(x >= 0, 0, bent)


def sigmoid(x: Array) -> Array:
    """The logistic function, exact in both tails and without overflow."""
    refuse_complex("the logistic function in glu, silu and logsigmoid", x)
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def silu(x: Array) -> Array:
    """The elements times their logistic function."""
    refuse_complex("silu", x)
    return x * sigmoid(x)


def silu_slope(x: Array) -> Array:
    """The derivative of silu."""
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def mish(x: Array) -> Array:
    """The elements times tanh(softplus(x))."""
    refuse_complex("mish", x)
    return x * np.tanh(softplus(x))


def mish_slope(x: Array) -> Array:
    """The derivative of mish."""
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1 - t * t)


def gelu(x: Array, approximate: str = "none") -> Array:
    """The elements times the probability that a normal variable is smaller."""
    refuse_complex("gelu", x)
    if _is_tanh("gelu", approximate):
        return 0.5 * x * (1 + np.tanh(_GELU_SCALE * x * (1 + _GELU_CUBE * x * x)))
    return x * normal_cdf(x)


def gelu_slope(x: Array, approximate: str = "none") -> Array:
    """The derivative of gelu."""
    if not _is_tanh("gelu", approximate):
        return normal_cdf(x) + x * normal_pdf(x)
    square = x * x
    t = np.tanh(_GELU_SCALE * x * (1 + _GELU_CUBE * square))
    inner = _GELU_SCALE * (1 + 3 * _GELU_CUBE * square)
    return 0.5 * (1 + t + x * (1 - t * t) * inner)


def _is_tanh(name: str, approximate: str) -> bool:
    if approximate not in ("none", "tanh"):
        raise ValueError(f"{name}: approximate is {approximate!r}; give 'none' or 'tanh'")
    return approximate == "tanh"


def hardsigmoid(x: Array) -> Array:
    """A straight line from 0 at -3 to 1 at 3, flat outside."""
    return np.clip(x + 3, 0, 6) / 6


def hardswish(x: Array) -> Array:
    """The elements times their hardsigmoid."""
    refuse_complex("hardswish", x)
    return x * hardsigmoid(x)


def hardswish_slope(x: Array) -> Array:
    """The derivative of hardswish; 0 at -3 and 1 at 3."""
    slope = keep(~((x <= -3) | (x >= 3)), x / 3 + 0.5)
    return slope + (x >= 3)


def softshrink(x: Array, lambd: float = 0.5) -> Array:
    """The elements moved towards 0 by lambd, and 0 where they would pass it."""
    if lambd < 0:
        raise ValueError(f"softshrink: lambd is {lambd}; give a number that is not negative")
    return x - np.clip(x, -lambd, lambd)


def hardshrink(x: Array, lambd: float = 0.5) -> Array:
    """The elements beyond -lambd and lambd; 0 between."""
    return pass_outside(x, x, -lambd, lambd)


def tanhshrink(x: Array) -> Array:
    """The elements minus their hyperbolic tangent."""
    return x - np.tanh(x)


def threshold(x: Array, threshold: float, value: float) -> Array:
    """The elements above a threshold; a fixed value elsewhere."""
    return np.where(x <= threshold, value, x)


def softsign(x: Array) -> Array:
    """The elements divided by one more than their size."""
    refuse_complex("softsign", x)
    return x / (1 + np.abs(x))


def logsigmoid(x: Array) -> Array:
    """The logarithm of the logistic function, exact in both tails."""
    refuse_complex("logsigmoid", x)
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def logsigmoid_slope(x: Array) -> Array:
    """The derivative of logsigmoid: the logistic function of -x."""
    return sigmoid(np.negative(x))
