"""Rules of layers and losses: linear maps, embeddings, normalization, distances.

Operators on rows (N, C, ...) take the batch as more rows.
"""

from __future__ import annotations

from collections.abc import Callable
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
    padded,
    shifted_all,
)
from pullback.kernels.batch_classes import elementwise
from pullback.operators.indexing.batching import data_dependent
from pullback.operators.nn.activation import kernels as nn_activation
from pullback.operators.nn.distance import kernels as nn_distance
from pullback.operators.nn.layers import kernels as nn
from pullback.operators.nn.loss import kernels as nn_loss
from pullback.operators.nn.norm import kernels as nn_norm
from pullback.operators.products.batching import matmul

__all__ = ["RULES"]


def _linear(k: int, x: Array, weight: Array, bias: Array = None) -> Array:
    if is_constant(weight, k):
        own = None if bias is None or not is_constant(bias, k) else bias.reshape(bias.shape[k:])
        result = nn.linear(x, weight.reshape(weight.shape[k:]), own)
        if own is bias is None or own is not None:
            return result
    else:
        rows = x if x.ndim - k < 3 else x.reshape(*x.shape[:k], prod(x.shape[k:-1]), x.shape[-1])
        result = matmul(k, rows, weight.swapaxes(-1, -2))
        result = result.reshape(*result.shape[:k], *x.shape[k:-1], weight.shape[-2])
        if bias is None:
            return result
    result, bias = padded(k, result, bias)
    return result + bias


def _embedding(k: int, indices: Array, weight: Array, padding_idx: int | None = None) -> Array:
    if is_constant(weight, k):
        return nn.embedding(indices, weight.reshape(weight.shape[k:]), padding_idx)
    indices, weight = full(k, indices, weight)
    rows = weight.shape[k]
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        raise IndexError(
            f"embedding: the numbers of rows lie between {indices.min()} and {indices.max()}, but "
            f"the weight of shape {list(weight.shape[k:])} has rows 0 to {rows - 1}"
        )
    return np.take(merged(k, weight), _offset(k, indices, rows), axis=0)


def _offset(k: int, indices: Array, rows: int) -> Array:
    """Offsets row numbers by the batch element, for a batch merged into the rows."""
    batch = indices.shape[:k]
    first = np.arange(prod(batch)).reshape(*batch, *[1] * (indices.ndim - k)) * rows
    return indices + first


def _embedding_backward(
    k: int, grad: Array, indices: Array, rows: int, padding_idx: int | None = None
) -> Array:
    grad, indices = full(k, grad, indices)
    batch = grad.shape[:k]
    found = nn.embedding_backward(grad, _offset(k, indices, rows), prod(batch) * rows)
    found = found.reshape(*batch, rows, *found.shape[1:])
    if padding_idx is not None:
        found[(slice(None),) * k + (padding_idx,)] = 0
    return found


def _one_hot(k: int, indices: Array, num_classes: int = -1) -> Array:  # noqa: ARG001
    if num_classes < 0:
        raise data_dependent("one_hot without num_classes")
    return nn.one_hot(indices, num_classes)


def _norm(k: int, x: Array, weight: Array, bias: Array, axis: Any, eps: float) -> Any:
    given = [value for value in (weight, bias) if value is not None]
    x, *fitted = padded(k, x, *given)
    rest = iter(fitted)
    scale = None if weight is None else next(rest)
    offset = None if bias is None else next(rest)
    axes = shifted_all(k, x.ndim - k, axis)
    batch = batch_of(k, x, *fitted)
    return nn_norm.norm(np.broadcast_to(x, batch + x.shape[k:]), scale, offset, axes, eps)


def _rms_norm(k: int, x: Array, weight: Array, axis: Any, eps: float) -> Any:
    if weight is not None:
        x, weight = padded(k, x, weight)
        x = np.broadcast_to(x, batch_of(k, x, weight) + x.shape[k:])
    return nn_norm.rms_norm(x, weight, shifted_all(k, x.ndim - k, axis), eps)


def _loss(name: str, function: Callable[..., Any]) -> Rule:
    def rule(k: int, x: Array, target: Array, *, reduction: str = "mean", **kwargs: Any) -> Any:
        x, target = padded(k, x, target)
        losses = function(x, target, reduction="none", **kwargs)
        if reduction == "none":
            return losses
        if reduction not in ("mean", "sum"):
            return nn_loss.reduced(name, losses, reduction)  # says what is wrong
        axes = tuple(range(k, losses.ndim))
        if reduction == "sum":
            return losses.sum(axis=axes)
        if not prod(losses.shape[k:]):
            return np.full(losses.shape[:k], np.nan, losses.dtype)
        return losses.mean(axis=axes)

    return rule


def _pick(k: int, x: Array, target: Array, ignore_index: int) -> Array:
    x, target = full(k, x, target)
    batch, rest = x.shape[:k], target.shape[k:]
    rows = x.reshape(prod(batch), x.shape[-1]) if x.ndim == k + 1 else merged(k, x)
    numbers = target.reshape(prod(batch)) if target.ndim == k else merged(k, target)
    return nn_loss.pick(rows, numbers, ignore_index).reshape(*batch, *rest)


def _pick_sum(k: int, x: Array, target: Array, ignore_index: int, scale: float) -> Array:
    picked = _pick(k, x, target, ignore_index)
    return picked.sum(axis=tuple(range(k, picked.ndim))) * scale


def _place(k: int, grad: Array, target: Array, classes: int, ignore_index: int) -> Array:
    grad, target = full(k, grad, target)
    batch, rest = grad.shape[:k], grad.shape[k:]
    rows, numbers = (
        x.reshape(prod(batch)) if x.ndim == k else merged(k, x) for x in (grad, target)
    )
    found = nn_loss.place(rows, numbers, classes, ignore_index)
    return found.reshape(*batch, *rest[:1], classes, *rest[1:])


RULES: dict[str, Rule] = {
    "linear": _linear,
    "embedding": _embedding,
    "_embedding_backward": _embedding_backward,
    "one_hot": _one_hot,
    "_masked_scale": elementwise(nn.masked_scale),
    "_safe_softmax": along(nn.safe_softmax),
    "softmax": along(nn_activation.softmax),
    "log_softmax": along(nn_activation.log_softmax),
    "_norm": _norm,
    "_rms_norm": _rms_norm,
    "_length": along(nn_distance.length, place=2),
    "_euclidean": elementwise(nn_distance.euclidean),
    "mse_loss": _loss("mse_loss", nn_loss.mse_loss),
    "l1_loss": _loss("l1_loss", nn_loss.l1_loss),
    "smooth_l1_loss": _loss("smooth_l1_loss", nn_loss.smooth_l1_loss),
    "huber_loss": _loss("huber_loss", nn_loss.huber_loss),
    "_bce": elementwise(nn_loss.bce),
    "_bce_with_logits": elementwise(nn_loss.bce_with_logits),
    "_pick": _pick,
    "_pick_sum": _pick_sum,
    "_place": _place,
}
