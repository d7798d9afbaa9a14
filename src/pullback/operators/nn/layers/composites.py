"""Layers that are made of other operators."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pullback._generated import functions_nn_layers as nn
from pullback._generated.functions_indexing import index_add, scatter_reduce
from pullback._generated.functions_pointwise import _astype as astype
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_pointwise import less, logical_or, maximum
from pullback._generated.functions_products import matmul
from pullback._generated.functions_reduction import any, diff, sum
from pullback._generated.functions_shape import (
    broadcast_to,
    expand_dims,
    matrix_transpose,
    permute_dims,
    repeat,
    reshape,
    swapaxes,
)
from pullback._generated.functions_sorting import searchsorted
from pullback.errors import UnsupportedDtypeError
from pullback.tensor.tensor import has_values, is_true, wrap

__all__ = [
    "bilinear",
    "channel_shuffle",
    "dropout",
    "embedding_bag",
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
    if x.shape[:-1] != other.shape[:-1]:
        raise ValueError(
            f"bilinear: inputs of shape {list(x.shape)} and {list(other.shape)} must agree in all "
            "axes but the last"
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
    enable_gqa: bool = False,
    generator: Any = None,
) -> Any:
    """Attention; a mask of truth values says where to look, one of numbers is added."""
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    if scale is None:
        scale = query.shape[-1] ** -0.5
    if enable_gqa:
        key, value = (_repeat_heads(query, part) for part in (key, value))
    scores = matmul(query * scale, matrix_transpose(key))
    if is_causal:
        attn_mask = wrap(np.tri(*scores.shape[-2:], dtype=bool))
    if attn_mask is not None:
        is_bool = attn_mask.dtype == bool
        if not is_bool and attn_mask.dtype not in (query.dtype, np.float32):
            raise UnsupportedDtypeError(
                "scaled_dot_product_attention: attn_mask has to be of truth values, of float32 or "
                f"of the dtype {query.dtype} of query, not of {attn_mask.dtype}"
            )
        scores = (
            where(attn_mask, scores, -np.inf)
            if is_bool
            else scores + astype(attn_mask, scores.dtype)
        )
    weights = nn._safe_softmax(scores, -1)
    if dropout_p:
        weights = nn.dropout(weights, dropout_p, generator=generator)
    return matmul(weights, value)


def _repeat_heads(query: Any, x: Any) -> Any:
    """Keys or values of few heads (axis -3), one after the other for each head of the queries."""
    heads, own = query.shape[-3], x.shape[-3]
    if heads % own:
        raise ValueError(
            f"scaled_dot_product_attention: with enable_gqa the {heads} heads of query (axis -3) "
            f"must be a multiple of those of key and value, not of {own}"
        )
    return x if heads == own else repeat(x, heads // own, x.ndim - 3)


def embedding_bag(
    indices: Any,
    weight: Any,
    offsets: Any = None,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Reduces rows by bags; rows of the padding go to one more bag, which is left out."""
    _check_bags(indices, offsets, mode, per_sample_weights)
    if offsets is None:
        bags, length = indices.shape
        numbers = wrap(np.repeat(np.arange(bags), length))
        indices = reshape(indices, -1)
        if per_sample_weights is not None:
            per_sample_weights = reshape(per_sample_weights, -1)
    else:
        bags = offsets.shape[0] - include_last_offset
        places = wrap(np.arange(indices.shape[0]))
        numbers = searchsorted(offsets, places, side="right") - 1
    if padding_idx is not None:
        numbers = where(indices == padding_idx % weight.shape[0], bags, numbers)
    rows = nn.embedding(indices, weight)
    if per_sample_weights is not None:
        rows = rows * expand_dims(per_sample_weights, -1)
    start = wrap(np.zeros((bags + 1, weight.shape[1]), rows.dtype))
    if mode == "max":
        spread = broadcast_to(expand_dims(numbers, -1), rows.shape)
        return scatter_reduce(start, 0, spread, rows, "amax", include_self=False)[:bags]
    total = index_add(start, 0, numbers, rows)[:bags]
    if mode == "sum":
        return total
    ones = wrap(np.ones(indices.shape[0], rows.dtype))
    counts = index_add(wrap(np.zeros(bags + 1, rows.dtype)), 0, numbers, ones)[:bags]
    return total / expand_dims(maximum(counts, 1), -1)


def _are_no_offsets(offsets: Any, count: int) -> Any:
    """Whether offsets of bags do not start at 0, fall, or end behind so many numbers."""
    is_outside = logical_or(offsets[0] != 0, offsets[-1] > count)
    return logical_or(is_outside, any(less(diff(offsets), 0)))


def _check_bags(indices: Any, offsets: Any, mode: str, per_sample_weights: Any) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', not {mode!r}")
    if indices.ndim != (2 if offsets is None else 1):
        raise ValueError(
            f"embedding_bag: the input has shape {list(indices.shape)}; two axes (bags, numbers) "
            "are expected without offsets, and one with them"
        )
    if offsets is not None and offsets.ndim != 1:
        raise ValueError(f"embedding_bag: offsets has shape {list(offsets.shape)}, not one axis")
    if offsets is not None and offsets.size and is_true(_are_no_offsets(offsets, indices.shape[0])):
        given = f", but they are {offsets.tolist()}" if has_values(offsets) else ""
        raise ValueError(
            "embedding_bag: offsets must start at 0, grow, and end within the input's "
            f"{indices.shape[0]} numbers{given}"
        )
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights needs mode='sum', not {mode!r}"
            )
        if per_sample_weights.shape != indices.shape:
            raise ValueError(
                f"embedding_bag: per_sample_weights has shape {list(per_sample_weights.shape)}, "
                f"the input {list(indices.shape)}; they must be the same"
            )


def channel_shuffle(x: Any, groups: int) -> Any:
    """Channels of all groups in turn."""
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ValueError(
            f"channel_shuffle: {groups} groups do not divide the channels (axis 1) of the input of "
            f"shape {list(x.shape)}"
        )
    split = reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return reshape(swapaxes(split, 1, 2), x.shape)


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
