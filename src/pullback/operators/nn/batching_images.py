"""Rules of convolutions and pooling, which take images of shape (N, C, *space).

The batch is merged into the images. If the weight is batched too, it becomes groups of channels,
each with a weight of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.kernels.batch_axes import (
    Array,
    Rule,
    along,
    batch_of,
    full,
    is_constant,
    merged,
    split,
)
from pullback.operators.nn.conv import kernels as nn_conv
from pullback.operators.nn.pool import kernels as nn_pool
from pullback.operators.nn.pool import kernels_resize as nn_resize

__all__ = ["RULES", "Ints"]

Ints = Sequence[int]


def _as_images(function: Callable[..., Any]) -> Rule:
    """The rule of a function of images in which every array has the batch as more images."""

    def rule(k: int, *args: Any) -> Any:
        places = [i for i, value in enumerate(args) if isinstance(value, np.ndarray)]
        values = list(args)
        arrays = full(k, *(values[i] for i in places))
        for place, array in zip(places, arrays, strict=True):
            values[place] = merged(k, array)
        batch = arrays[0].shape[:k]
        found = function(*values)
        if isinstance(found, tuple):
            return tuple(split(batch, part) for part in found)
        return split(batch, found)

    return rule


def _as_channels(k: int, x: Array) -> Array:
    """Merges the batch into groups of channels: (N, batch * C, *space)."""
    single = x.reshape(prod(x.shape[:k]), *x.shape[k:]).swapaxes(0, 1)
    return single.reshape(single.shape[0], single.shape[1] * single.shape[2], *single.shape[3:])


def _from_channels(batch: Ints, x: Array) -> Array:
    channels = x.shape[1] // max(1, prod(batch))
    parts = x.reshape(x.shape[0], prod(batch), channels, *x.shape[2:]).swapaxes(0, 1)
    return parts.reshape(*batch, *parts.shape[1:])


def _conv(
    k: int,
    x: Array,
    w: Array,
    bias: Array,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    options = (stride, padding, dilation)
    own = None if bias is None or not is_constant(bias, k) else bias.reshape(bias.shape[k:])
    if is_constant(w, k):
        found = nn_conv.conv(merged(k, x), w.reshape(w.shape[k:]), own, *options, groups)
        result = split(x.shape[:k], found)
        if own is bias is None or own is not None:
            return result
    else:
        if groups == 1 and is_constant(x, k):  # all weights see the same images
            found = nn_conv.conv(x.reshape(x.shape[k:]), merged(k, w), None, *options, 1)
        else:
            x, w = full(k, x, w)
            many = groups * prod(w.shape[:k])
            found = nn_conv.conv(_as_channels(k, x), merged(k, w), None, *options, many)
        result = _from_channels(w.shape[:k], found)
        if bias is None:
            return result
    return result + bias.reshape(*bias.shape[:k], 1, -1, *[1] * (result.ndim - k - 2))


def _conv_input(
    k: int,
    g: Array,
    w: Array,
    space: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    options = (space, stride, padding, dilation)
    if is_constant(w, k):
        found = nn_conv.conv_input(merged(k, g), w.reshape(w.shape[k:]), *options, groups)
        return split(g.shape[:k], found)
    g, w = full(k, g, w)
    batch = g.shape[:k]
    if not prod(batch):
        return np.empty((*batch, g.shape[k], w.shape[k + 1] * groups, *space), np.result_type(g, w))
    many = groups * prod(batch)
    found = nn_conv.conv_input(_as_channels(k, g), merged(k, w), *options, many)
    return _from_channels(batch, found)


def _conv_weight(
    k: int,
    x: Array,
    g: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    batch = batch_of(k, x, g)
    options = (kernel, stride, padding, dilation)
    if not prod(batch):
        shape = (g.shape[k + 1], x.shape[k + 1] // groups, *kernel)
        return np.empty((*batch, *shape), np.result_type(x, g))
    if groups == 1 and is_constant(x, k):
        found = nn_conv.conv_weight(x.reshape(x.shape[k:]), _as_channels(k, g), *options, 1)
    else:
        x, g = full(k, x, g)
        many = groups * prod(batch)
        found = nn_conv.conv_weight(_as_channels(k, x), _as_channels(k, g), *options, many)
    return split(batch, found)


def _plane_scatter(k: int, grad: Array, indices: Array, shape: Ints) -> Array:
    grad, indices = full(k, grad, indices)
    batch = grad.shape[:k]
    whole = (prod(batch) * shape[0], *shape[1:])
    found = nn_pool.plane_scatter(merged(k, grad), merged(k, indices), whole)
    return found.reshape(*batch, *shape)


RULES: dict[str, Rule] = {
    "_conv": _conv,
    "_conv_input": _conv_input,
    "_conv_weight": _conv_weight,
    "_im2col": _as_images(nn_conv.im2col),
    "_col2im": _as_images(nn_conv.col2im),
    "_max_pool": _as_images(nn_pool.max_pool),
    "_adaptive_max_pool": _as_images(nn_pool.adaptive_max_pool),
    "_plane_scatter": _plane_scatter,
    "_plane_gather": _as_images(nn_pool.plane_gather),
    "_avg_pool": _as_images(nn_pool.avg_pool),
    "_avg_pool_backward": _as_images(nn_pool.avg_pool_backward),
    "_adaptive_avg": along(nn_pool.adaptive_avg),
    "_adaptive_avg_backward": along(nn_pool.adaptive_avg_backward),
    "_resize": along(nn_resize.resize),
    "_resize_backward": along(nn_resize.resize_backward),
}
