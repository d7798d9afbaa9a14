"""Distances and directions, made of lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback._generated import functions_nn_distance as private
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_pointwise import abs
from pullback._generated.functions_reduction import sum
from pullback._generated.functions_shape import broadcast_to, expand_dims, squeeze

__all__ = ["cdist", "cosine_similarity", "normalize", "pairwise_distance", "pdist"]


def _length(x: Any, p: float, axis: int) -> Any:
    """The norm along an axis, which is kept; that of complex numbers is the norm of their sizes."""
    return private._length(abs(x) if x.dtype.kind == "c" else x, p, axis)


def _at_least(x: Any, bound: float) -> Any:
    """The larger of both; on the bound it still counts as the element."""
    return where(x < bound, bound, x)


def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Any:
    """Vectors of length one."""
    return x / _at_least(_length(x, p, axis), eps)


def cosine_similarity(x: Any, other: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    """The product of vectors of length one."""
    if x.shape != other.shape:
        shape = np.broadcast_shapes(x.shape, other.shape)
        x, other = broadcast_to(x, shape), broadcast_to(other, shape)
    x = x / _at_least(private._length(x, 2, axis), eps)
    other = other / _at_least(private._length(other, 2, axis), eps)
    return sum(x * other, axis)


def pairwise_distance(
    x: Any, other: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Any:
    """The length of differences; eps keeps it away from the point without a derivative."""
    length = _length(x - other + eps, p, -1)
    return length if keepdims else squeeze(length, -1)


def cdist(x: Any, other: Any, p: float = 2.0) -> Any:
    """Distances between all rows."""
    if x.ndim < 2 or other.ndim < 2 or x.shape[-1] != other.shape[-1]:
        raise ValueError(
            f"cdist: inputs of shape {list(x.shape)} and {list(other.shape)} need two axes or more "
            "and a last axis of the same length"
        )
    if p < 0:
        raise ValueError(f"cdist: p is {p}; it must not be negative")
    if p == 2:
        return private._euclidean(x, other)
    gaps = expand_dims(x, -2) - expand_dims(other, -3)
    return squeeze(private._length(gaps, p, -1), -1)


def pdist(x: Any, p: float = 2.0) -> Any:
    """Distances between the rows of a matrix, each pair once."""
    if x.ndim != 2:
        raise ValueError(f"pdist: the input of shape {list(x.shape)} has to be a matrix")
    first, second = np.triu_indices(x.shape[0], 1)
    return cdist(x, x, p)[first, second]
