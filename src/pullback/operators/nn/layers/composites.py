"""Layers that are made of other operators."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pullback._generated import functions_nn_layers as nn
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_products import matmul
from pullback._generated.functions_reduction import sum
from pullback._generated.functions_shape import (
    expand_dims,
    matrix_transpose,
    permute_dims,
    reshape,
    swapaxes,
)
from pullback.tensor.tensor import wrap

__all__ = [
    "bilinear",
    "dropout",
    "pixel_shuffle",
    "pixel_unshuffle",
    "scaled_dot_product_attention",
]


def bilinear(x: Any, other: Any, weight: Any, bias: Any = None) -> Any:
    """``x_i W_oij other_j``: a linear map of x for each element of the other, then products."""
    if weight.ndim != 3 or (x.shape[-1], other.shape[-1]) != weight.shape[1:]:
        raise ValueError(
            f"bilinear: inputs of shape {list(x.shape)} and {list(other.shape)} do not fit the "
            f"weight of shape {list(weight.shape)}, which has to be (outputs, inputs 1, inputs 2)"
        )
    outputs, _, inputs = weight.shape
    matrix = reshape(swapaxes(weight, 1, 2), (outputs * inputs, weight.shape[1]))
    mapped = reshape(nn.linear(x, matrix), (*x.shape[:-1], outputs, inputs))
    result = sum(mapped * expand_dims(other, -2), -1)
    return result if bias is None else result + bias


def dropout(x: Any, p: float = 0.5, training: bool = True, *, generator: Any = None) -> Any:
    """Zeroes elements at random while training; afterwards nothing."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}; a probability is expected, between 0 and 1")
    return nn._dropout(x, p, generator)[0] if training and p else x


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    generator: Any = None,
) -> Any:
    """Attention; a mask of truth values says where to look, one of numbers is added."""
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    if scale is None:
        scale = query.shape[-1] ** -0.5
    scores = matmul(query * scale, matrix_transpose(key))
    if is_causal:
        attn_mask = wrap(np.tri(*scores.shape[-2:], dtype=bool))
    if attn_mask is not None:
        is_bool = attn_mask.dtype == bool
        scores = where(attn_mask, scores, -np.inf) if is_bool else scores + attn_mask
    weights = nn._safe_softmax(scores, -1)
    if dropout_p:
        weights = nn.dropout(weights, dropout_p, generator=generator)
    return matmul(weights, value)


def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    """Lays groups of channels out as squares of pixels."""
    r, lead = upscale_factor, x.shape[:-3]
    if x.ndim < 3 or r < 1 or x.shape[-3] % (r * r):
        raise ValueError(
            f"pixel_shuffle: the channels (axis -3) of the input of shape {list(x.shape)} must be "
            f"divisible by the square of the factor {r}"
        )
    height, width = x.shape[-2:]
    channels = x.shape[-3] // (r * r)
    blocks = reshape(x, (prod(lead), channels, r, r, height, width))
    moved = permute_dims(blocks, (0, 1, 4, 2, 5, 3))
    return reshape(moved, (*lead, channels, height * r, width * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    """Stacks squares of pixels as groups of channels."""
    r, lead = downscale_factor, x.shape[:-3]
    if x.ndim < 3 or r < 1 or x.shape[-2] % r or x.shape[-1] % r:
        raise ValueError(
            f"pixel_unshuffle: the last two axes of the input of shape {list(x.shape)} must be "
            f"divisible by the factor {r}"
        )
    channels, height, width = x.shape[-3], x.shape[-2] // r, x.shape[-1] // r
    blocks = reshape(x, (prod(lead), channels, height, r, width, r))
    moved = permute_dims(blocks, (0, 1, 3, 5, 2, 4))
    return reshape(moved, (*lead, channels * r * r, height, width))
