"""Losses on arrays: how far an input is from a target."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from pullback.errors import UnsupportedDtypeError
from pullback.kernels.errstate import errstate
from pullback.kernels.masked_select import refuse_complex
from pullback.operators.nn.activation.kernels import logsigmoid

__all__ = [
    "Array",
    "bce",
    "bce_with_logits",
    "check_classes",
    "count",
    "huber_loss",
    "l1_loss",
    "mse_loss",
    "pick",
    "pick_sum",
    "place",
    "reduced",
    "smooth_l1_loss",
]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any


def reduced(name: str, loss: Any, reduction: str) -> Any:
    """The mean or the sum of losses, or the losses themselves."""
    if reduction == "mean":
        if loss.dtype.kind in "biu":
            raise UnsupportedDtypeError(f"{name}: reduction='mean' needs floats, not {loss.dtype}")
        return loss.mean() if loss.size else loss.dtype.type(np.nan)
    if reduction == "sum":
        return loss.sum()
    if reduction != "none":
        raise ValueError(f"{name}: reduction is {reduction!r}; give 'mean', 'sum' or 'none'")
    return loss


def _gap(x: Array, target: Array) -> Array:
    """The difference; a target of integers does not widen the input's dtype."""
    refuse_complex("a loss of the difference", x, target)
    floating = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    if floating and isinstance(target, np.ndarray) and target.dtype.kind in "biu":
        target = target.astype(x.dtype)
    return np.asarray(np.subtract(x, target))


def mse_loss(x: Array, target: Array, *, reduction: str = "mean") -> Any:
    """The square of the difference."""
    gap = _gap(x, target)
    return reduced("mse_loss", np.multiply(gap, gap, out=gap), reduction)


def l1_loss(x: Array, target: Array, *, reduction: str = "mean") -> Any:
    """The size of the difference."""
    return reduced("l1_loss", np.asarray(np.abs(_gap(x, target))), reduction)


def smooth_l1_loss(x: Array, target: Array, *, reduction: str = "mean", beta: float = 1.0) -> Any:
    """The size of the difference minus beta / 2, and a parabola below beta."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta is {beta}; it must not be negative")
    size = np.asarray(np.abs(_gap(x, target)))
    if beta:
        size = _rounded(size, beta) / beta
    return reduced("smooth_l1_loss", size, reduction)


def huber_loss(x: Array, target: Array, *, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Half the square of the difference, and a line of slope delta from delta on."""
    if delta <= 0:
        raise ValueError(f"huber_loss: delta is {delta}; it must be positive")
    loss = _rounded(np.abs(_gap(x, target)), delta)
    return reduced("huber_loss", loss, reduction)


def _rounded(size: Array, bound: float) -> Array:
    """Half the square up to a bound, and then a line."""
    near = np.minimum(size, bound)
    return near * (size - 0.5 * near)


def bce(x: Array, target: Array) -> Array:
    """The cross entropy of probabilities; logarithms are no smaller than -100."""
    refuse_complex("binary_cross_entropy", x, target)
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise ValueError(
            "binary_cross_entropy: the input lies between "
            f"{x.min()} and {x.max()}; probabilities are expected, between 0 and 1"
        )
    with errstate(divide="ignore"):
        yes = np.maximum(np.log(x), -100)
        no = np.maximum(np.log1p(-x), -100)
    return (target - 1) * no - target * yes


def bce_with_logits(x: Array, target: Array, pos_weight: Array | None = None) -> Array:
    """The cross entropy of the logistic function of x, without the detour over probabilities."""
    refuse_complex("binary_cross_entropy_with_logits", x, target)
    cost = -logsigmoid(x)
    if pos_weight is not None:
        cost = cost * (1 + (pos_weight - 1) * target)
    return (1 - target) * x + cost


def check_classes(name: str, x: Array, target: Array) -> None:
    """Refuses a target that has not one class for each row of the input."""
    if target.dtype.kind not in "iu":
        raise TypeError(f"{name}: the target has dtype {target.dtype}; classes are integers")
    axis = min(1, x.ndim - 1)
    if x.shape[:axis] + x.shape[axis + 1 :] != target.shape:
        raise ValueError(
            f"{name}: the target of shape {list(target.shape)} does not fit the input of shape "
            f"{list(x.shape)}, whose classes are on axis {axis}"
        )


def _refuse_classes(name: str, numbers: Array, classes: int) -> NoReturn:
    """The error for classes that do not exist."""
    low, high = np.minimum.reduce(numbers, None), np.maximum.reduce(numbers, None)
    raise IndexError(
        f"{name}: the targets lie between {low} and {high}, but there are {classes} classes"
    ) from None


def _counted(target: Array, ignore: int) -> tuple[Array | None, Array]:
    """A mask of the targets that count, and the targets, with class 0 for the others.

    None says at once that all count, and that none of them is negative.
    """
    if ignore < 0 and target.size and np.minimum.reduce(target, None) >= 0:
        return None, target
    counts = target != ignore
    return counts, np.where(counts, target, 0)


def count(target: Array, ignore_index: int) -> int:
    """The number of targets that are not ignored.

    >>> count(np.array([2, -100, 0]), -100)
    2
    """
    counts, _ = _counted(target, ignore_index)
    return int(target.size if counts is None else np.count_nonzero(counts))


def pick_sum(x: Array, target: Array, ignore_index: int, scale: float) -> Any:
    """The sum of what `pick` gives, times a number."""
    return np.add.reduce(pick(x, target, ignore_index), None) * scale


def pick(x: Array, target: Array, ignore_index: int) -> Array:
    """The element of each row at its target's class (axis 1); 0 for targets to ignore."""
    check_classes("nll_loss", x, target)
    axis = min(1, x.ndim - 1)
    counts, numbers = _counted(target, ignore_index)
    if counts is not None and numbers.size and np.minimum.reduce(numbers, None) < 0:
        _refuse_classes("nll_loss", numbers, x.shape[axis])
    try:
        if x.ndim == 2:
            picked = x[np.arange(len(x)), numbers]
        else:
            picked = np.take_along_axis(x, np.expand_dims(numbers, axis), axis).squeeze(axis)
    except IndexError:
        _refuse_classes("nll_loss", numbers, x.shape[axis])
    return picked if counts is None else np.where(counts, picked, 0)


def place(grad: Array, target: Array, classes: int, ignore_index: int) -> Array:
    """Rows of zeros with an element at each target's class; none for targets to ignore."""
    axis = min(1, grad.ndim)
    counts, numbers = _counted(target, ignore_index)
    if counts is not None:
        grad = np.where(counts, grad, 0)
    result = np.zeros((*grad.shape[:axis], classes, *grad.shape[axis:]), grad.dtype)
    if grad.ndim == 1:
        result[np.arange(len(grad)), numbers] = grad
    else:
        numbers, grad = np.expand_dims(numbers, axis), np.expand_dims(grad, axis)
        np.put_along_axis(result, numbers, grad, axis)
    return result
