"""Shapes of layers, norms, distances and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DataDependentError
from pullback.kernels.shape_spec import Shaped, Spec, broadcast, promoted, reduced
from pullback.operators.nn.layers.kernels import check_linear
from pullback.operators.nn.loss.kernels import check_classes

__all__ = [
    "dropout",
    "embedding",
    "embedding_backward",
    "euclidean",
    "length",
    "linear",
    "loss",
    "norm",
    "one_hot",
    "pick",
    "pick_sum",
    "place",
    "random_like",
    "rms_norm",
    "uniform_like",
]


def linear(x: Shaped, weight: Shaped, bias: Shaped | None = None) -> Spec:
    """As many outputs as the weight has rows."""
    check_linear(x, weight)
    shape = (*x.shape[:-1], weight.shape[0])
    if bias is not None and np.broadcast_shapes(shape, bias.shape) != shape:
        raise ValueError(f"linear: the bias of shape {bias.shape} does not fit outputs of {shape}")
    return Spec(shape)


def embedding(indices: Shaped, weight: Shaped, padding_idx: int | None = None) -> Spec:  # noqa: ARG001
    """One row for each index."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"embedding: the numbers of rows have dtype {indices.dtype}, not integers")
    return Spec((*indices.shape, *weight.shape[1:]), weight.dtype)


def embedding_backward(
    grad: Shaped,
    indices: Shaped,
    rows: int,
    padding_idx: int | None = None,  # noqa: ARG001 - values
) -> Spec:
    """The whole weight."""
    return Spec((rows, *grad.shape[indices.ndim :]), grad.dtype)


def one_hot(indices: Shaped, num_classes: int = -1) -> Spec:
    """A new last axis as long as there are classes."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"one_hot: the classes have dtype {indices.dtype}, not integers")
    if num_classes < 0:
        raise DataDependentError(
            "one_hot: the number of classes depends on values, and a meta tensor has none; give "
            "num_classes"
        )
    return Spec((*indices.shape, num_classes), np.dtype(np.int64))


def dropout(x: Shaped, p: float, generator: Any = None) -> tuple[Spec, Spec]:  # noqa: ARG001
    """The same shape twice; no random numbers are drawn."""
    return Spec(x.shape, promoted(x, 1.0)), Spec(x.shape, np.dtype(bool))


def uniform_like(x: Shaped, low: float, high: float, generator: Any = None) -> Spec:  # noqa: ARG001
    """The same shape; no random numbers are drawn."""
    return Spec(x.shape, x.dtype)


def random_like(x: Shaped, kind: str, low: int = 0, high: int = 0, generator: Any = None) -> Spec:  # noqa: ARG001
    """The same shape; no random numbers are drawn."""
    return Spec(x.shape, x.dtype)


def norm(
    x: Shaped,
    weight: Shaped | None,
    bias: Shaped | None,
    axis: Sequence[int],
    eps: float,  # noqa: ARG001 - values
) -> tuple[Spec, Spec, Spec]:
    """The same shape, and mean and variance with the axes kept."""
    small = Spec(reduced(x.shape, tuple(axis), True))
    return Spec(broadcast(x, weight, bias)), small, small


def rms_norm(
    x: Shaped,
    weight: Shaped | None,
    axis: Sequence[int],
    eps: float,  # noqa: ARG001 - values
) -> tuple[Spec, Spec]:
    """The same shape, and the mean square with the axes kept."""
    return Spec(broadcast(x, weight)), Spec(reduced(x.shape, tuple(axis), True))


def length(x: Shaped, ord: float, axis: int) -> Spec:  # noqa: ARG001 - values
    """The axis kept."""
    return Spec(reduced(x.shape, axis, True))


def euclidean(x: Shaped, y: Shaped) -> Spec:
    """Each row of one with each row of the other."""
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"cdist: shapes {x.shape} and {y.shape} differ in the last axis")
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return Spec((*lead, x.shape[-2], y.shape[-2]))


def loss(x: Any, target: Any, *, reduction: str = "mean", **_: float) -> Spec:
    """One number, or one for each element."""
    shape = broadcast(x, target)
    return Spec(shape if reduction == "none" else ())


def pick(x: Shaped, target: Shaped, ignore_index: int) -> Spec:  # noqa: ARG001 - values
    """One element a target."""
    check_classes("nll_loss", x, target)
    return Spec(target.shape, x.dtype)


def pick_sum(x: Shaped, target: Shaped, ignore_index: int, scale: float) -> Spec:  # noqa: ARG001
    """One number."""
    check_classes("nll_loss", x, target)
    return Spec((), x.dtype)


def place(grad: Shaped, target: Shaped, classes: int, ignore_index: int) -> Spec:  # noqa: ARG001
    """A new axis of classes."""
    axis = min(1, grad.ndim)
    return Spec((*grad.shape[:axis], classes, *grad.shape[axis:]), grad.dtype)
