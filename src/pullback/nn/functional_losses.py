"""Losses and normalizations that are compositions: part of ``nn.functional``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_nn_activation as activation
from pullback._generated import functions_nn_distance as distance
from pullback._generated.functions_pointwise import minimum
from pullback.nn.dtype_rules import require_dtypes, require_kind
from pullback.nn.functional_pooling import avg_pool2d
from pullback.operators.creation.functions import asarray
from pullback.operators.shape.functions_padding import pad
from pullback.tensor import Tensor

__all__ = [
    "local_response_norm",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_with_distance_loss",
]


def _reduced(name: str, losses: Any, reduction: str) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction is {reduction!r}; give 'mean', 'sum' or 'none'")
    made: Tensor = losses if reduction == "none" else getattr(losses, reduction)()
    return made


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of ``max(0, margin - x[target] + x) ** p``.

    Args:
        input: scores of shape (batch, classes) or (classes,).
        target: the right classes.
        p: 1 or 2.
        margin: by how much the right class has to lead.
        weight: one number for each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import numpy as np, pullback as pb
    >>> multi_margin_loss(pb.tensor([[3.0, 1.0]]), np.array([1])).item()
    1.5
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p is {p}; only 1 and 2 are supported")
    x, classes = asarray(input), asarray(target).detach()
    require_dtypes("multi_margin_loss", {"input": x, "weight": weight})
    if x.ndim not in (1, 2) or classes.shape != x.shape[:-1]:
        raise ValueError(
            f"multi_margin_loss: expected scores (batch, classes) and classes (batch,), got shapes "
            f"{tuple(x.shape)} and {tuple(classes.shape)}"
        )
    others = classes[..., None] != np.arange(x.shape[-1])
    right = x[(*np.indices(classes.shape), classes)][..., None]
    gaps = activation.relu(margin - right + x) ** p * others.astype(x.dtype)
    if weight is not None:
        gaps = gaps * asarray(weight)[classes][..., None]
    return _reduced("multi_margin_loss", gaps.sum(-1) / x.shape[-1], reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of logistic functions, averaged over classes, which are the last axis.

    >>> import pullback as pb
    >>> round(multilabel_soft_margin_loss(pb.zeros((1, 2)), pb.ones((1, 2))).item(), 6)
    0.693147
    """
    require_kind("multilabel_soft_margin_loss", "input", input.dtype)
    x = asarray(input)
    losses = -(target * activation.logsigmoid(x) + (1 - target) * activation.logsigmoid(-x))
    losses = losses if weight is None else losses * weight
    return _reduced("multilabel_soft_margin_loss", losses.mean(-1), reduction)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """The lead of the positive example over the negative one that is missing to `margin`.

    >>> import pullback as pb
    >>> x = pb.zeros((1, 2))
    >>> triplet_margin_with_distance_loss(x, x, x + 9.0).item()
    0.0
    """
    measure = distance_function or distance.pairwise_distance
    far = measure(anchor, negative)
    if swap:
        far = minimum(far, measure(positive, negative))
    losses = activation.relu(margin + measure(anchor, positive) - far)
    return _reduced("triplet_margin_with_distance_loss", losses, reduction)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divides each element by the mean square of its neighbours among the channels.

    >>> import pullback as pb
    >>> local_response_norm(pb.ones((1, 4, 2)), 2, alpha=0.0).sum().item()
    8.0
    """
    x = asarray(input)
    require_kind("local_response_norm", "input", x.dtype)
    if x.ndim < 3:
        raise ValueError(
            f"local_response_norm: expected 3 dimensions or more, got shape {tuple(x.shape)}"
        )
    squares = (x * x).reshape((x.shape[0], 1, x.shape[1], -1))
    padded = pad(squares, [(0, 0), (0, 0), (size // 2, (size - 1) // 2), (0, 0)])
    means = avg_pool2d(padded, (size, 1), 1).reshape(x.shape)
    made: Tensor = x / (means * alpha + k) ** beta
    return made
