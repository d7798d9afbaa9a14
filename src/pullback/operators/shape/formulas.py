"""Formulas of operators that reshape, move, join and cut."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.operators.shape.kernels import split_bound, split_bounds

__all__ = [
    "as_strided_backward",
    "concatenate_backward",
    "pad_with_zeros",
    "permute_back",
    "repeat_backward",
    "roll_back",
    "split_backward",
    "split_part",
    "stack_backward",
    "tile_backward",
    "unbind_part",
    "unpad",
]

Shape = tuple[int, ...]


def permute_back(xp: Any, grad: Any, axes: Any) -> Any:
    """Undoes a permutation of axes."""
    if axes is None:
        return xp.permute_dims(grad)
    inverse = [0] * len(axes)
    for place, axis in enumerate(axes):
        inverse[axis % len(axes)] = place
    return xp.permute_dims(grad, inverse)


def as_strided_backward(
    xp: Any,
    grad: Any,
    shape: Shape,
    taken: Sequence[int],
    strides: Sequence[int],
    storage_offset: int,
) -> Any:
    """Adds each gradient to the element that was read there, however often it was."""
    places = np.asarray(storage_offset)
    for n, step in zip(taken, strides, strict=True):
        places = places[..., None] + step * np.arange(n)
    flat = xp.index_put(xp.zeros_for(grad, [prod(shape)]), [places], grad, True)
    return xp.reshape(flat, shape)


def concatenate_backward(
    xp: Any, grad: Any, shapes: Sequence[Shape], axis: int | None
) -> list[Any]:
    """Cuts a gradient into the parts that belong to the joined tensors."""
    parts, start = [], 0
    if axis == 0:
        for shape in shapes:
            stop = start + shape[0]
            parts.append(grad[start:stop])
            start = stop
        return parts
    before = () if axis is None else (slice(None),) * (axis % grad.ndim)
    for shape in shapes:
        stop = start + (prod(shape) if axis is None else shape[len(before)])
        part = grad[(*before, slice(start, stop))]
        parts.append(xp.reshape(part, shape) if axis is None else part)
        start = stop
    return parts


def stack_backward(
    xp: Any,  # noqa: ARG001 - called as a formula
    grad: Any,
    count: int,
    axis: int,
) -> list[Any]:
    """Cuts a gradient into the slices that belong to the stacked tensors."""
    before = (slice(None),) * (axis % grad.ndim)
    return [grad[(*before, number, ...)] for number in range(count)]


def unbind_part(xp: Any, base: Any, axis: int, number: int) -> Any:
    """One of the slices along an axis."""
    return xp.getitem(base, (*[slice(None)] * (axis % len(base.shape)), number))


def split_part(xp: Any, base: Any, cuts: Any, axis: int, number: int) -> Any:
    """One of the parts of an axis."""
    axis %= len(base.shape)
    bound = split_bound(base.shape[axis], cuts, number)
    return xp.getitem(base, (*[slice(None)] * axis, slice(*bound)))


def split_backward(xp: Any, grads: Sequence[Any], shape: Shape, cuts: Any, axis: int) -> Any:
    """Joins the gradients of parts; where cuts go back and parts overlap, their sum."""
    axis %= len(shape)
    bounds = split_bounds(shape[axis], cuts)
    follows = [0, *(stop for _, stop in bounds)]
    if all(start == last for (start, _), last in zip(bounds, follows, strict=False)):
        return xp.concatenate(grads, axis)
    total = xp.zeros_for(grads[0], shape)
    for grad, (start, stop) in zip(grads, bounds, strict=True):
        place = (slice(None),) * axis + (slice(start, stop),)
        total = total + xp.getitem_backward(grad, shape, place)
    return total


def roll_back(xp: Any, grad: Any, shift: Any, axis: Any) -> Any:
    """Moves elements back to where they came from."""
    return xp.roll(grad, (-np.asarray(shift)).tolist(), axis)


def tile_backward(xp: Any, grad: Any, shape: Shape, reps: Any) -> Any:
    """Adds up the gradients of all copies."""
    counts = np.atleast_1d(reps).tolist()
    ndim = max(len(counts), len(shape))
    counts = [1] * (ndim - len(counts)) + counts
    lengths = (1,) * (ndim - len(shape)) + shape
    apart = [n for pair in zip(counts, lengths, strict=True) for n in pair]
    total = xp.sum(xp.reshape(grad, apart), list(range(0, 2 * ndim, 2)))
    return xp.reshape(total, shape)


def repeat_backward(xp: Any, grad: Any, shape: Shape, repeats: Any, axis: int | None) -> Any:
    """Adds up the gradients of an element's copies."""
    counts = np.asarray(repeats)
    lengths = shape
    if axis is None or not shape:
        lengths, axis = (prod(shape),), 0
    before, (n, *after) = _around(lengths, axis)
    if counts.size == 1:
        apart = xp.reshape(grad, [*before, n, int(counts.reshape(())), *after])
        return xp.reshape(xp.sum(apart, [len(before) + 1]), shape)
    sources = np.repeat(np.arange(n), counts)
    total = xp.zeros_for(grad, [*before, n, *after])
    total = xp.index_put(total, [*[None] * len(before), sources], grad, True)
    return xp.reshape(total, shape)


def _around(shape: Shape, axis: int) -> tuple[Shape, Shape]:
    axis %= len(shape)
    return shape[:axis], shape[axis:]


def unpad(xp: Any, grad: Any, shape: Shape, widths: Sequence[int]) -> Any:
    """Drops what was put around a tensor."""
    spans = zip(widths[::2], shape, strict=True)
    return xp.getitem(grad, tuple(slice(before, before + n) for before, n in spans))


def pad_with_zeros(xp: Any, tangent: Any, widths: Sequence[int]) -> Any:
    """The tangent of a padded tensor: zeros around that of the tensor."""
    return xp.constant_pad(tangent, widths, [0] * len(widths))
