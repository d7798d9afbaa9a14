"""Losses that are made of other operators, in PyTorch's form."""

from __future__ import annotations

from math import log as log_of
from math import nan, pi
from typing import Any

from pullback._generated import functions_nn_loss as private
from pullback._generated.functions_nn_activation import log_softmax, logsigmoid
from pullback._generated.functions_nn_distance import pairwise_distance
from pullback._generated.functions_pointwise import _astype as astype
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_pointwise import exp, log, minimum, negative, sqrt
from pullback._generated.functions_reduction import sum
from pullback._generated.functions_shape import broadcast_to, reshape
from pullback.errors import UnsupportedDtypeError
from pullback.operators.nn.loss.kernels import count
from pullback.tensor.tensor import has_values, is_true

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "nll_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]


def _reduced(name: str, loss: Any, reduction: str) -> Any:
    """The mean or the sum of losses, or the losses themselves."""
    if reduction == "mean":
        if loss.dtype.kind in "biu":
            raise UnsupportedDtypeError(f"{name}: reduction='mean' needs floats, not {loss.dtype}")
        return sum(loss) * _over(loss.size)
    if reduction == "sum":
        return sum(loss)
    if reduction != "none":
        raise ValueError(f"{name}: reduction is {reduction!r}; give 'mean', 'sum' or 'none'")
    return loss


def _over(count: int) -> float:
    """One over a count; the mean of nothing is NaN, which is no reason to warn."""
    return 1 / count if count else nan


def _positive(x: Any) -> Any:
    """The positive part, whose kink belongs to the side with a slope."""
    return where(x < 0, 0, x)


def _in_dtype_of(x: Any, target: Any) -> Any:
    """A target of integers as numbers of the input's dtype, which they must not widen."""
    return astype(target, x.dtype) if target.dtype.kind in "biu" else target


def _weights_of(x: Any, weight: Any) -> Any:
    """Weights of elements in the dtype of the input, which they must not widen."""
    if weight.dtype.kind == "c":
        raise UnsupportedDtypeError(f"weights of a loss have to be real, not {weight.dtype}")
    return weight if weight.dtype == x.dtype else astype(weight, x.dtype)


def _require_shape(name: str, x: Any, target: Any) -> None:
    """Raises for a target that would be broadcast: (n, 1) and (n,) give n * n losses.

    A number may stand for a target of the same values.
    """
    if target.ndim and x.shape != target.shape:
        raise ValueError(
            f"{name}: the target of shape {list(target.shape)} must have the shape "
            f"{list(x.shape)} of the input"
        )


def binary_cross_entropy(
    x: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Any:
    """The cross entropy of probabilities."""
    _require_shape("binary_cross_entropy", x, target)
    loss = private._bce(x, _in_dtype_of(x, target))
    loss = loss if weight is None else loss * _weights_of(x, weight)
    return _reduced("binary_cross_entropy", loss, reduction)


def binary_cross_entropy_with_logits(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """The cross entropy of logistic functions."""
    _require_shape("binary_cross_entropy_with_logits", x, target)
    loss = private._bce_with_logits(x, _in_dtype_of(x, target), pos_weight)
    loss = loss if weight is None else loss * _weights_of(x, weight)
    return _reduced("binary_cross_entropy_with_logits", loss, reduction)


def _class_axis(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def _by_class(weight: Any, x: Any) -> Any:
    """One weight a class, shaped to broadcast."""
    classes = x.shape[_class_axis(x)]
    if weight.shape != (classes,):
        raise ValueError(
            f"the weight of shape {list(weight.shape)} does not fit the input of shape "
            f"{list(x.shape)}, which has {classes} classes"
        )
    return reshape(weight, (classes, *[1] * (x.ndim - 2)))


def _mean_over(loss: Any, counts: Any) -> Any:
    """The sum of losses over how many of them count."""
    if has_values(counts):
        return sum(loss) * _over(sum(counts).item())
    return sum(loss) / sum(counts, dtype=loss.dtype)


def nll_loss(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """The negative log probability of each target's class."""
    if weight is None and reduction == "mean" and has_values(target):
        counting = count(target._array, ignore_index)
        return private._pick_sum(x, target, ignore_index, -_over(counting))
    loss = negative(private._pick(x, target, ignore_index))
    if weight is None:
        if reduction != "mean":
            return _reduced("nll_loss", loss, reduction)
        return _mean_over(loss, target != ignore_index)
    weights = private._pick(broadcast_to(_by_class(weight, x), x.shape), target, ignore_index)
    loss = loss * weights
    return (
        sum(loss) / sum(weights) if reduction == "mean" else _reduced("nll_loss", loss, reduction)
    )


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The cross entropy of softmax with classes, or with probabilities of the input's shape."""
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing is {label_smoothing}, not in [0, 1]")
    axis = _class_axis(x)
    scores = log_softmax(x, axis)
    if target.dtype.kind == "f":
        if ignore_index >= 0:
            raise ValueError(
                f"cross_entropy: ignore_index={ignore_index} is not supported for a target of "
                "probabilities; give classes, or leave it out"
            )
        return _soft_cross_entropy(scores, target, weight, reduction, label_smoothing, axis)
    loss = nll_loss(scores, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    every = scores if weight is None else scores * _by_class(weight, x)
    counts = target != ignore_index
    smooth = where(counts, negative(sum(every, axis)), 0)
    if reduction != "mean":
        smooth = _reduced("cross_entropy", smooth, reduction)
    elif weight is None:
        smooth = _mean_over(smooth, counts)
    else:
        weights = broadcast_to(_by_class(weight, x), x.shape)
        smooth = sum(smooth) / sum(private._pick(weights, target, ignore_index))
    return (1 - label_smoothing) * loss + (label_smoothing / x.shape[axis]) * smooth


def _soft_cross_entropy(
    scores: Any, target: Any, weight: Any, reduction: str, smoothing: float, axis: int
) -> Any:
    if target.shape != scores.shape:
        raise ValueError(
            f"cross_entropy: the target of shape {list(target.shape)} holds probabilities, and so "
            f"needs the shape {list(scores.shape)} of the input"
        )
    if smoothing:
        target = target * (1 - smoothing) + smoothing / scores.shape[axis]
    if weight is not None:
        target = target * _by_class(weight, scores)
    return _reduced("cross_entropy", negative(sum(scores * target, axis)), reduction)


def kl_div(x: Any, target: Any, *, reduction: str = "mean", log_target: bool = False) -> Any:
    """The divergence of log probabilities from target probabilities."""
    if log_target:
        loss = exp(target) * (target - x)
    else:
        present = target > 0
        loss = where(present, target * log(where(present, target, 1)), 0) - target * x
    if reduction == "batchmean":
        return sum(loss) * _over(x.shape[0] if x.ndim else 1)
    return _reduced("kl_div", loss, reduction)


def poisson_nll_loss(
    x: Any,
    target: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """The negative log likelihood of counts; `full` adds Stirling's term for their factorials."""
    target = _in_dtype_of(x, target)
    loss = exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        large = target > 1
        count = where(large, target, 1)
        term = count * log(count) - count + 0.5 * log(2 * pi * count)
        loss = loss + where(large, term, 0)
    return _reduced("poisson_nll_loss", loss, reduction)


def gaussian_nll_loss(
    x: Any,
    target: Any,
    var: Any,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """The negative log likelihood of targets; a variance is at least eps."""
    if var.dtype.kind != "f":
        raise UnsupportedDtypeError(f"gaussian_nll_loss: var has to be of floats, not {var.dtype}")
    if is_true(sum(var < 0) > 0):
        raise ValueError("gaussian_nll_loss: var has negative entries")
    if var.ndim == x.ndim - 1 and var.shape == x.shape[:-1]:
        var = reshape(var, (*var.shape, 1))
    var = where(var < eps, eps, var)
    gap = x - target
    loss = 0.5 * (log(var) + gap * gap / var)
    if full:
        loss = loss + 0.5 * log_of(2 * pi)
    return _reduced("gaussian_nll_loss", loss, reduction)


def hinge_embedding_loss(
    x: Any, target: Any, *, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """The input for target 1, and what it lacks to a margin for target -1."""
    loss = where(target != 1, _positive(margin - x), 0) + where(target != -1, x, 0)
    return _reduced("hinge_embedding_loss", loss, reduction)


def margin_ranking_loss(
    x: Any, other: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """Margin ranking loss: the amount by which the first input is too small."""
    loss = _positive(margin - _in_dtype_of(x, target) * (x - other))
    return _reduced("margin_ranking_loss", loss, reduction)


def cosine_embedding_loss(
    x: Any, other: Any, target: Any, *, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """Cosine embedding loss of vectors along the last axis."""
    sizes = (sum(x * x, -1) + 1e-12) * (sum(other * other, -1) + 1e-12)
    cosine = sum(x * other, -1) / sqrt(sizes)
    loss = where(target == 1, 1 - cosine, 0) + where(target == -1, _positive(cosine - margin), 0)
    return _reduced("cosine_embedding_loss", loss, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    other: Any,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Triplet loss; with `swap`, the negative is also compared with the positive."""
    far = pairwise_distance(anchor, other, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, other, p, eps))
    loss = _positive(margin + pairwise_distance(anchor, positive, p, eps) - far)
    return _reduced("triplet_margin_loss", loss, reduction)


def soft_margin_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """The logistic loss of targets 1 and -1."""
    loss = negative(logsigmoid(_in_dtype_of(x, target) * x))
    return _reduced("soft_margin_loss", loss, reduction)
