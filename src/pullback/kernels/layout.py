"""Memory layout of new arrays that are made like another one.

A dense array keeps its order, and gaps are closed. NumPy does the same, except for axes along which
one element is repeated: it moves these inwards, so that a copy of an expanded vector has columns
in a row. Here they stay where they are, as in PyTorch, and a reshape of the copy is a view.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Array", "copy_in_order", "empty_in_order", "order_of"]

Array = NDArray[Any]


def copy_in_order(x: Array, dtype: DTypeLike | None = None) -> Array:
    """Copies an array in the order of its axes in memory."""
    if 0 not in x.strides:
        return np.array(x, dtype, order="K")
    copy = empty_in_order(x, dtype)
    np.copyto(copy, x, casting="unsafe")
    return copy


def empty_in_order(x: Array, dtype: DTypeLike | None = None) -> Array:
    """Allocates an array with the order of axes of `x`."""
    if 0 not in x.strides:
        return np.empty_like(x, dtype)
    order = order_of(x.shape, x.strides)
    empty = np.empty([x.shape[axis] for axis in order], x.dtype if dtype is None else dtype)
    return empty.transpose(np.argsort(order)) if order else empty


def order_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The axes from the outermost to the innermost.

    Each axis in turn moves inwards past those of wider strides; one without a stride says nothing
    about its place, and is passed over.
    """
    inner = list(range(len(shape)))[::-1]
    for start in range(1, len(inner)):
        place = start
        for other in range(start - 1, -1, -1):
            near, far = inner[other], inner[place]
            step, own = abs(strides[near]), abs(strides[far])
            if not step or not own:
                continue
            if step < own:
                break
            if step > own or shape[near] > shape[far]:
                inner[other], inner[place] = far, near
                place = other
    return tuple(inner[::-1])
