"""Shapes of elements that are moved about."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from pullback.kernels.platform import NUMPY
from pullback.kernels.shape_spec import (
    Shaped,
    Spec,
    axis_of,
    in_row,
    promoted,
    view_memory,
    with_length,
)

__all__ = [
    "concatenate",
    "constant_pad",
    "diagonal_backward",
    "merge_strides",
    "repeat",
    "reshape",
    "stack",
    "tile",
    "tril",
    "triu",
    "window_backward",
]


def reshape(x: Shaped, shape: Any, order: str = "C", *, copy: bool | None = None) -> Spec:
    """A view where the strides allow it, else a copy."""
    if order not in ("C", "F"):
        raise ValueError(f"reshape: order must be 'C' or 'F', not {order!r}")
    # One element everywhere has a view of any shape, so this says what the new shape is.
    lengths = np.reshape(np.broadcast_to(np.zeros((), x.dtype), x.shape), shape).shape
    if copy:
        return Spec(lengths, x.dtype)
    try:
        strides = _strides_in_shape(view_memory(x), lengths, order)
    except ValueError:
        if copy is None or not x.size:
            return Spec(lengths, x.dtype)
        raise ValueError(
            f"reshape: a view of shape {lengths} of a tensor of shape {x.shape} and strides "
            f"{x.strides} does not exist; allow a copy"
        ) from None
    return Spec(lengths, x.dtype, strides)


def _strides_in_shape(x: NDArray[Any], shape: tuple[int, ...], order: str) -> tuple[int, ...]:
    """The strides of a view of an array in another shape; ValueError where only a copy would do.

    Only shape and strides are read: there is no memory behind the arrays of `view_memory`.
    """
    if NUMPY >= (2, 1):
        return np.reshape(x, shape, "C" if order == "C" else "F", copy=False).strides
    if order == "F":
        return merge_strides(x.T, shape[::-1])[::-1]
    return merge_strides(x, shape)


def merge_strides(x: NDArray[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """`_strides_in_shape` in C order, for NumPy 2.0, which copies before it refuses a view.

    Neighboring axes of both shapes are gathered until they hold as many elements, and the old ones
    of such a group must lie behind one another in memory.
    """
    if shape == x.shape:
        return x.strides
    if x.flags.c_contiguous:
        return _strides_from(x.itemsize, shape)
    old = [(n, stride) for n, stride in zip(x.shape, x.strides, strict=True) if n != 1]
    strides: list[int] = []
    taken = 0
    while len(strides) < len(shape) and taken < len(old):
        group, first = [shape[len(strides)]], taken
        taken += 1
        count = old[first][0]
        while (wanted := prod(group)) != count:
            if wanted < count:
                group.append(shape[len(strides) + len(group)])
            else:
                count *= old[taken][0]
                taken += 1
        for (_, outer), (n, inner) in itertools.pairwise(old[first:taken]):
            if outer != n * inner:
                raise ValueError("only a copy has this shape")
        strides += _strides_from(old[taken - 1][1], tuple(group))
    last = strides[-1] if strides else x.itemsize
    return (*strides, *[last] * (len(shape) - len(strides)))  # axes of one element are left


def _strides_from(innermost: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of elements in a row, `innermost` bytes apart."""
    strides = [innermost]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * max(n, 1))
    return tuple(reversed(strides)) if shape else ()


def diagonal_backward(grad: Shaped, shape: Sequence[int], *_: Any) -> Spec:
    """Zeros of a shape."""
    return Spec(tuple(shape), grad.dtype)


window_backward = diagonal_backward


def concatenate(tensors: Sequence[Any], axis: int | None = 0) -> Spec:
    """The sum of the lengths along an axis."""
    if not tensors:
        raise ValueError("concatenate: need at least one array to concatenate")
    dtype = promoted(*tensors)
    if axis is None:
        return Spec((sum(np.size(x) for x in tensors),), dtype)
    first = tensors[0]
    if not np.ndim(first):
        raise ValueError("concatenate: zero-dimensional arrays cannot be concatenated")
    axis = axis_of(first, axis)
    for x in tensors:
        if np.ndim(x) != first.ndim or with_length(x, axis, 0) != with_length(first, axis, 0):
            shapes = " and ".join(str(np.shape(t)) for t in tensors)
            raise ValueError(f"concatenate: shapes {shapes} differ in another axis than {axis}")
    return Spec(with_length(first, axis, sum(x.shape[axis] for x in tensors)), dtype)


def stack(tensors: Sequence[Shaped], axis: int = 0) -> Spec:
    """A new axis as long as the list."""
    shapes = {np.shape(x) for x in tensors}
    if not tensors:
        raise ValueError("stack: need at least one array to stack")
    if len(shapes) > 1:
        raise ValueError(f"stack: all input arrays must have the same shape, not {sorted(shapes)}")
    (shape,) = shapes
    place = normalize_axis_index(axis, len(shape) + 1)
    return Spec((*shape[:place], len(tensors), *shape[place:]), promoted(*tensors))


def tile(x: Any, reps: int | Sequence[int]) -> Spec:
    """Each length times its count; missing axes are in front."""
    counts = [int(n) for n in np.atleast_1d(reps)]
    ndim = max(len(counts), np.ndim(x))
    lengths = (1,) * (ndim - np.ndim(x)) + np.shape(x)
    counts = [1] * (ndim - len(counts)) + counts
    return Spec(tuple(n * count for n, count in zip(lengths, counts, strict=True)), promoted(x))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Spec:
    """A length times a count, or the sum of as many counts."""
    if axis is not None and not x.ndim:  # of a number, NumPy takes axes that a vector has
        normalize_axis_index(axis, 1)
        axis = None
    n = in_row(x)[0] if axis is None else x.shape[axis_of(x, axis)]
    counts = np.atleast_1d(np.asarray(repeats))
    if counts.size not in (1, n):
        raise ValueError(
            f"repeat: operands could not be broadcast together: {counts.size} counts for {n} "
            f"elements"
        )
    if (counts < 0).any():
        raise ValueError("repeat: counts cannot be negative")
    length = n * int(counts[0]) if counts.size == 1 else int(counts.sum())
    return Spec((length,) if axis is None else with_length(x, axis, length), promoted(x))


def tril(x: Shaped, k: int = 0) -> Spec:  # noqa: ARG001 - which diagonal
    """The same shape; a vector is repeated to a square."""
    return Spec(x.shape * 2 if x.ndim == 1 else x.shape)


triu = tril


def constant_pad(x: Shaped, widths: Sequence[int], values: Sequence[Any]) -> Spec:  # noqa: ARG001
    """Each length with what is put before and after it."""
    pairs = zip(widths[::2], widths[1::2], strict=True)
    lengths = tuple(n + sum(pair) for n, pair in zip(x.shape, pairs, strict=True))
    if any(n < 0 for n in lengths):
        raise ValueError(f"constant_pad: negative dimensions are not allowed: {lengths}")
    return Spec(lengths, x.dtype)
