"""Shapes of what is picked by number or by truth, and checks of what is written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DataDependentError
from pullback.kernels.shape_spec import (
    Shape,
    Shaped,
    Spec,
    axis_of,
    in_row,
    matching,
    promoted,
    view_memory,
)
from pullback.operators.indexing.kernels import check_index, check_reduction, reach

__all__ = [
    "Indices",
    "copy_",
    "fill_",
    "gather",
    "getitem",
    "getitem_backward",
    "index",
    "index_add",
    "index_put",
    "index_put_",
    "put_along_axis",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "take_along_axis",
    "zero_",
]

Indices = Sequence[Shaped | None]


def getitem(x: Shaped, index: Any) -> Spec:
    """Basic indexing: a view."""
    # With an ellipsis NumPy makes an array in any case, and never looks at an element.
    whole = index if any(i is Ellipsis for i in index) else (*index, Ellipsis)
    view = view_memory(x)[whole]
    return Spec(view.shape, x.dtype, view.strides)


def getitem_backward(grad: Shaped, shape: Sequence[int], index: Any) -> Spec:  # noqa: ARG001
    """Zeros of a shape."""
    return Spec(tuple(shape), grad.dtype)


def _numbers(x: Shaped, axis: int, index: Any) -> list[Shape]:
    """The shapes of the integer indices, one an axis, that one index stands for."""
    if index.dtype.kind in "iu":
        return [index.shape]
    if index.dtype != bool:
        raise IndexError(
            f"arrays used as indices must be of integer (or boolean) type, not {index.dtype}"
        )
    lengths = x.shape[axis : axis + index.ndim]
    if lengths != index.shape:
        raise IndexError(
            f"boolean index of shape {index.shape} did not match the indexed array of shape "
            f"{x.shape} along axis {axis}"
        )
    if index.size and not isinstance(index, np.ndarray):
        raise DataDependentError(
            "index: how many elements a mask picks depends on its values, and a meta tensor has "
            "none; use where(), or a mask that is not on the meta device"
        )
    return [(int(np.count_nonzero(index)) if index.size else 0,)] * index.ndim


def _picked(x: Shaped, indices: Indices) -> Shape:
    """The shape of the elements at indices, of which None takes a whole axis."""
    kept: list[int] = []
    numbers: list[Shape] = []
    places: list[int] = []  # of the axes that stay, how many stand before each index
    gaps = 0
    axis = 0
    for index in indices:
        if index is None:
            if axis >= x.ndim:
                raise _too_many(x, indices)
            kept.append(x.shape[axis])
            axis += 1
            continue
        if numbers and places[-1] != len(kept):
            gaps += 1
        found = _numbers(x, axis, index)
        numbers += found
        places += [len(kept)] * max(len(found), 1)
        axis += len(found)
    if axis > x.ndim:
        raise _too_many(x, indices)
    try:
        common = np.broadcast_shapes(*numbers)
    except ValueError:
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes "
            f"{', '.join(map(str, numbers))}"
        ) from None
    kept += x.shape[axis:]
    place = places[0] if places and not gaps else 0  # indices apart put their axes in front
    return (*kept[:place], *common, *kept[place:])


def _too_many(x: Shaped, indices: Indices) -> IndexError:
    return IndexError(
        f"too many indices for array: array is {x.ndim}-dimensional, but {len(indices)} were "
        f"indexed"
    )


def index(x: Shaped, indices: Indices) -> Spec:
    """The elements at arrays of integers or truth values."""
    return Spec(_picked(x, indices), x.dtype)


def index_put(x: Shaped, indices: Indices, values: Any, accumulate: bool = False) -> Spec:
    """The same shape, with some elements replaced or added to."""
    try:
        places = _picked(x, indices)
    except DataDependentError:  # how many there are is not known, and does not matter
        places = None
    if places is not None:
        matching("index_put", values, places)
    return Spec(x.shape, promoted(x, values) if accumulate else x.dtype)


def index_put_(x: Shaped, indices: Indices, values: Any, accumulate: bool = False) -> Spec:
    """The same, in the dtype that is written to."""
    return index_put(x, indices, values, accumulate)._replace(dtype=x.dtype)


def copy_(x: Shaped, src: Any) -> Spec:
    """Values that take the dtype of what is overwritten."""
    return Spec(np.shape(src), x.dtype)


def fill_(x: Shaped, value: Any) -> Spec:
    """One number."""
    if np.ndim(value):
        raise ValueError(f"fill_: the value must be one number, not of shape {np.shape(value)}")
    return Spec(x.shape, x.dtype)


def zero_(x: Shaped) -> Spec:
    """The same shape."""
    return Spec(x.shape, x.dtype)


def _along(name: str, lengths: Shape, indices: Shaped, axis: int) -> Shape:
    """The shape of one element for each index along an axis."""
    if indices.dtype.kind not in "iu":
        raise IndexError(f"{name}: the indices must be integers, not {indices.dtype}")
    if indices.ndim != len(lengths):
        raise ValueError(
            f"{name}: indices of shape {indices.shape} must have as many axes as the tensor of "
            f"shape {lengths}"
        )
    axis %= len(lengths)
    others = tuple(1 if a == axis else n for a, n in enumerate(lengths))
    try:
        return np.broadcast_shapes(others, indices.shape)
    except ValueError:
        raise IndexError(
            f"{name}: shape mismatch: indices of shape {indices.shape} could not be broadcast "
            f"together with a tensor of shape {lengths}"
        ) from None


def take_along_axis(x: Shaped, indices: Shaped, axis: int | None = -1) -> Spec:
    """One element for each index."""
    lengths = in_row(x) if axis is None else x.shape
    place = 0 if axis is None else axis_of(x, axis)
    return Spec(_along("take_along_axis", lengths, indices, place), x.dtype)


def put_along_axis(
    x: Shaped, indices: Shaped, values: Any, axis: int | None = -1, accumulate: bool = False
) -> Spec:
    """The same shape, with one element for each index replaced or added to."""
    lengths = in_row(x) if axis is None else x.shape
    place = 0 if axis is None else axis_of(x, axis)
    matching("put_along_axis", values, _along("put_along_axis", lengths, indices, place))
    return Spec(x.shape, promoted(x, values) if accumulate else x.dtype)


def gather(x: Shaped, axis: int, index: Shaped) -> Spec:
    """One element for each index."""
    check_index("gather", x, axis, index)
    return Spec(index.shape, x.dtype)


def scatter(x: Shaped, axis: int, index: Shaped, src: Any) -> Spec:
    """The same shape, with one element for each index replaced."""
    check_index("scatter", x, axis, index)
    matching("scatter", src, index.shape)
    return Spec(x.shape, x.dtype)


def scatter_add(x: Shaped, axis: int, index: Shaped, src: Any) -> Spec:
    """The same shape, with one element for each index added to."""
    check_index("scatter_add", x, axis, index)
    matching("scatter_add", src, index.shape)
    return Spec(x.shape, promoted(x, src))


def scatter_reduce(
    x: Shaped,
    axis: int,
    index: Shaped,
    src: Any,
    reduce: str,
    *,
    include_self: bool = True,  # noqa: ARG001 - it changes values only
) -> Spec:
    """The same shape, with some elements combined with others."""
    check_reduction(reduce, promoted(x, src))
    check_index("scatter_reduce", x, axis, index)
    source = np.broadcast_to(0, np.shape(src))
    matching("scatter_reduce", source[reach(source.shape, index.shape)], index.shape)
    return Spec(x.shape, promoted(x, src))


def index_add(x: Shaped, axis: int, index: Shaped, source: Any) -> Spec:
    """The same shape, with slices of one axis added to."""
    if index.ndim != 1:
        raise ValueError(f"index_add: the index must have one axis, its shape is {index.shape}")
    axis = axis_of(x, axis)
    matching("index_add", source, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return Spec(x.shape, promoted(x, source))
