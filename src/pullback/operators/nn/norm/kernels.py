"""Normalisation over axes: by mean and variance, or by the mean square alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.kernels.masked_select import refuse_complex

__all__ = ["Array", "norm", "rms_norm"]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any


def norm(
    x: Array, weight: Array | None, bias: Array | None, axis: Sequence[int], eps: float
) -> tuple[Array, Array, Array]:
    """The elements with mean 0 and variance 1 over axes, times a weight plus a bias.

    Mean and variance are results too, with the axes kept, because derivatives flow through them.
    """
    refuse_complex("normalization by mean and variance", x)
    axes = tuple(axis)
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    var = np.mean(centred * centred, axis=axes, keepdims=True)
    return _scaled(centred, 1 / np.sqrt(var + eps), weight, bias), mean, var


def rms_norm(
    x: Array, weight: Array | None, axis: Sequence[int], eps: float
) -> tuple[Array, Array]:
    """The elements with mean square 1 over axes, times a weight; and the mean square before."""
    refuse_complex("rms_norm", x)
    square = np.mean(x * x, axis=tuple(axis), keepdims=True)
    return _scaled(np.array(x, dtype=square.dtype), 1 / np.sqrt(square + eps), weight, None), square


def _scaled(own: Array, scale: Array, weight: Array | None, bias: Array | None) -> Array:
    """An array of ours times numbers plus a bias, in its own memory where the dtype allows."""
    if weight is not None and np.broadcast(scale, weight).size == scale.size:
        scale, weight = scale * weight, None  # both are small: one pass over the array
    own = _into(np.multiply, own, scale)
    if weight is not None:
        own = _into(np.multiply, own, weight)
    return own if bias is None else _into(np.add, own, bias)


def _into(function: np.ufunc, own: Array, other: Array) -> Array:
    same = np.result_type(own, other) == own.dtype
    return function(own, other, out=own if same else None)
