"""Activation functions that are made of other operators."""

from __future__ import annotations

from typing import Any

from pullback._generated.functions_nn_activation import (
    _logsigmoid_slope,
    _prelu,
    leaky_relu,
    softmax,
)
from pullback._generated.functions_nn_layers import _uniform_like
from pullback._generated.functions_pointwise import negative
from pullback._generated.functions_shape import reshape

__all__ = ["glu", "prelu", "rrelu", "softmin"]


def softmin(x: Any, axis: int = -1) -> Any:
    """The softmax of the negative elements."""
    return softmax(negative(x), axis)


def prelu(x: Any, weight: Any) -> Any:
    """A leaky relu with a learned slope for all elements, or one for each channel."""
    if weight.size == 1:
        return _prelu(x, reshape(weight, ()) if weight.ndim else weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.shape != (channels,):
        raise ValueError(
            f"prelu: the weight of shape {list(weight.shape)} does not fit the input of shape "
            f"{list(x.shape)}: expected one slope, or {channels} for the channels of axis 1"
        )
    return _prelu(x, reshape(weight, (channels, *[1] * (x.ndim - 2))))


def rrelu(
    x: Any,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    *,
    generator: Any = None,
) -> Any:
    """A leaky relu whose slope is random while training, and the mean one afterwards."""
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return _prelu(x, _uniform_like(x, lower, upper, generator))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along an axis, gated by the second half."""
    if not x.ndim or x.shape[axis] % 2:
        raise ValueError(
            f"glu: the axis {axis} of the input of shape {list(x.shape)} must have an even "
            "length, to be halved"
        )
    half = x.shape[axis] // 2
    before = (slice(None),) * (axis % x.ndim)
    gate = x[(*before, slice(half, None))]
    return x[(*before, slice(half))] * _logsigmoid_slope(negative(gate))
