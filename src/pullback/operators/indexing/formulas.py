"""Formulas of operators that pick elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.operators.creation.formulas import zeros_for
from pullback.operators.indexing.kernels import (
    last_writes,
    picked_sums,
    put_grid,
    reach,
    scatter_grid,
)
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "gather_last",
    "index_backward",
    "index_of_last",
    "scatter_reduce_backward",
    "scatter_reduce_jvp",
    "take_last",
    "take_slices",
]


def index_backward(xp: Any, grad: Any, shape: tuple[int, ...], indices: list[Any]) -> Any:
    """Gradients of picked elements added up where these were picked."""
    sums = picked_sums(grad, shape, indices) if type(grad) is np.ndarray else None
    return xp.index_put(zeros_for(xp, grad, shape), indices, grad, True) if sums is None else sums


# --- assignments ---------------------------------------------------------------------------------
#
# Where an assignment names an element twice, its last value remains, so the gradients of the values
# before it are zero.


def index_of_last(xp: Any, grad: Any, indices: list[Any]) -> Any:
    """The gradients of values that were written to an index."""
    return _of_last(
        xp,
        xp.index(grad, indices),
        indices,
        lambda arrays: last_writes(grad.shape, arrays),
        lambda numbers: xp.index(
            xp.index_put(xp.zeros(list(grad.shape), np.int64), indices, numbers), indices
        ),
    )


def take_last(xp: Any, grad: Any, indices: Any, axis: int | None) -> Any:
    """The gradients of values that were written along an axis by `put_along_axis`."""
    lengths = grad.shape if axis is not None else (grad.size,)
    return _of_last(
        xp,
        xp.take_along_axis(grad, indices, axis),
        [indices],
        lambda arrays: last_writes(lengths, put_grid(lengths, arrays[0], axis)),
        lambda numbers: xp.take_along_axis(
            xp.put_along_axis(xp.zeros(list(grad.shape), np.int64), indices, numbers, axis),
            indices,
            axis,
        ),
    )


def gather_last(xp: Any, grad: Any, axis: int, index: Any) -> Any:
    """The gradients of values that were written along an axis by `scatter`."""
    return _of_last(
        xp,
        xp.gather(grad, axis, index),
        [index],
        lambda arrays: last_writes(
            grad.shape or (1,), scatter_grid("scatter", grad, axis, arrays[0])
        ),
        lambda numbers: xp.gather(
            xp.scatter(xp.zeros(list(grad.shape), np.int64), axis, index, numbers), axis, index
        ),
    )


def _of_last(
    xp: Any,
    picked: Any,
    indices: list[Any],
    find_last: Callable[[list[Any]], Any],
    write_and_read: Callable[[Any], Any],
) -> Any:
    """Picked gradients, with zeros for the values that others overwrote.

    `find_last` takes the indices as arrays. Where they are batched, or not known yet, all values
    are numbered, and `write_and_read` returns the numbers that remain.
    """
    arrays = [i._array if isinstance(i, Tensor) else i for i in indices]
    if all(i is None or isinstance(i, np.ndarray) for i in arrays):
        remain = find_last(arrays)
        if remain is None:
            return picked
        remain = wrap(remain) if isinstance(picked, Tensor) else remain
    else:
        numbers = wrap(np.arange(picked.size).reshape(picked.shape))
        remain = write_and_read(numbers) == numbers
    return xp.where(remain, picked, xp.zeros([], picked.dtype))


def take_slices(xp: Any, grad: Any, axis: int, index: Any) -> Any:
    """The slices of an axis at an array of integers."""
    return xp.index(grad, [*[None] * (axis % grad.ndim), index])


# --- scatter_reduce ------------------------------------------------------------------------------
#
# Every element of a group, the tensor's own or one of the source, has a slope: how fast the group's
# result grows with it. Gradients and tangents are products with slopes, whatever the reduction.


def scatter_reduce_backward(
    xp: Any,
    grad: Any,
    x: Any,
    axis: int,
    index: Any,
    src: Any,
    result: Any,
    reduce: str,
    include_self: bool,
) -> tuple[Any, Any]:
    """The gradients of the tensor and of the source."""
    given = src.shape
    src = _used(xp, src, index)
    own, others = _slopes(xp, x, axis, index, src, result, reduce, include_self)
    grad_x = grad * xp.conj(own)
    if not include_self:
        grad_x = xp.scatter(grad_x, axis, index, xp.zeros([], grad.dtype))
    grad_src = xp.gather(grad, axis, index) * xp.conj(others)
    cut = reach(given, index.shape)
    if any(part.stop is not None for part in cut):  # the rest of the source was not used
        lengths = [max(n, m) for n, m in zip(given, index.shape, strict=True)]
        grad_src = xp.getitem_backward(grad_src, lengths, cut)
    return grad_x, grad_src


def scatter_reduce_jvp(
    xp: Any,
    x_t: Any,
    src_t: Any,
    x: Any,
    axis: int,
    index: Any,
    src: Any,
    result: Any,
    reduce: str,
    include_self: bool,
) -> Any:
    """The tangent of the result."""
    own, others = _slopes(xp, x, axis, index, _used(xp, src, index), result, reduce, include_self)
    change = x_t * own
    if not include_self:
        change = xp.scatter(change, axis, index, xp.zeros([], change.dtype))
    return xp.scatter_add(change, axis, index, _used(xp, src_t, index) * others)


def _used(xp: Any, src: Any, index: Any) -> Any:
    """The part of a source that an index reaches, in the index's shape."""
    return xp.broadcast_to(xp.getitem(src, reach(src.shape, index.shape)), list(index.shape))


def _slopes(
    xp: Any,
    x: Any,
    axis: int,
    index: Any,
    src: Any,
    result: Any,
    reduce: str,
    include_self: bool,
) -> tuple[Any, Any]:
    """The slope of each element of a tensor, and that of each element of the source."""
    if reduce == "sum":
        return 1, 1
    if reduce == "prod":
        if not include_self:
            x = xp.scatter(x, axis, index, xp.ones([], x.dtype))
        return _other_factors(xp, x, axis, index, src)
    if reduce == "mean":
        own = from_src = 1
        count = xp.ones_like(x, np.int64) * int(include_self)
    else:  # elements that tie share, as those of a maximum do
        own = xp.astype(_equal(xp, x, result), np.int64)
        from_src = xp.astype(_equal(xp, src, xp.gather(result, axis, index)), np.int64)
        count = own if include_self else xp.scatter(own, axis, index, xp.zeros([], np.int64))
    count = xp.scatter_add(count, axis, index, xp.astype(xp.ones_like(index) * from_src, np.int64))
    share = xp.astype(1 / xp.maximum(count, 1), x.dtype)
    return own * share, from_src * xp.gather(share, axis, index)


def _equal(xp: Any, x: Any, y: Any) -> Any:
    """Mask of equal values; NaN equals NaN."""
    return xp.logical_or(x == y, xp.logical_and(xp.isnan(x), xp.isnan(y)))


def _other_factors(xp: Any, x: Any, axis: int, index: Any, src: Any) -> tuple[Any, Any]:
    """For each element the product of all others of its group, without a division."""
    if not x.ndim or not index.ndim:  # as vectors of one element
        lists = (xp.reshape(value, list(value.shape) or [1]) for value in (x, index, src))
        flat, places, given = lists
        mine, theirs = _other_factors(xp, flat, 0, places, given)
        return xp.reshape(mine, list(x.shape)), xp.reshape(theirs, list(src.shape))
    axis %= x.ndim
    length = x.shape[axis]
    part = xp.getitem(x, tuple(slice(None if a == axis else n) for a, n in enumerate(index.shape)))
    own = xp.cumsum(xp.ones_like(part, np.int64), axis) - 1
    places = xp.astype(xp.where(index < 0, index + length, index), np.int64)
    groups = xp.concatenate([own, places], axis)
    order = xp.argsort(groups, axis, stable=True)
    groups = xp.take_along_axis(groups, order, axis)
    line = xp.take_along_axis(xp.concatenate([part, src], axis), order, axis)
    products = _earlier(xp, line, groups, axis, 1) * _earlier(xp, line, groups, axis, -1)
    products = xp.take_along_axis(products, xp.argsort(order, axis), axis)
    before = (slice(None),) * axis
    mine = xp.getitem(products, (*before, slice(length)))
    theirs = xp.getitem(products, (*before, slice(length, None)))
    return xp.scatter(xp.ones_like(x), axis, own, mine), theirs


def _earlier(xp: Any, line: Any, groups: Any, axis: int, step: int) -> Any:
    """The product of all earlier elements of each one's group, in lines that are sorted by group.

    Each round doubles how far a product reaches. Nothing crosses from one group to the next, an
    infinite product neither.
    """
    reached = step
    total = line
    while abs(reached) < line.shape[axis]:
        total = total * _neighbor(xp, total, groups, axis, reached)
        reached *= 2
    return _neighbor(xp, total, groups, axis, step)


def _neighbor(xp: Any, values: Any, groups: Any, axis: int, by: int) -> Any:
    """For each element the one so many places before it, or 1 where that is of another group."""
    same = groups == xp._shift(groups, axis, by, -1)
    return xp.where(same, xp._shift(values, axis, by, 1), 1)
