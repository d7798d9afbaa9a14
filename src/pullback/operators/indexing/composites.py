"""Operators made of other operators: indexing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shape
from pullback._generated.functions_reduction import any
from pullback._generated.functions_sorting import flatnonzero
from pullback.tensor.tensor import Tensor, has_values, holds_number, is_true, wrap

__all__ = [
    "choose",
    "compress",
    "extract",
    "fill_diagonal",
    "fill_diagonal_",
    "index_reduce",
    "index_reduce_",
    "index_select",
    "masked_select",
    "put",
    "put_",
    "take",
]

_MODES = ("raise", "wrap", "clip")
_SLICE_REDUCTIONS = ("prod", "mean", "amax", "amin")


def _within(name: str, indices: Tensor, n: int, mode: str) -> Tensor:
    """Indices brought into the range that `mode` allows; "raise" leaves that to the operator."""
    if mode not in _MODES:
        raise ValueError(f"{name}: mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if mode == "raise":
        return indices
    if mode == "wrap":
        return pointwise.remainder(indices, n)
    return pointwise.clip(indices, 0, n - 1)


def _axis(name: str, tensor: Tensor, axis: int) -> int:
    if not -tensor.ndim <= axis < tensor.ndim:
        raise np.exceptions.AxisError(axis, tensor.ndim, name)
    return axis % tensor.ndim


def take(self: Tensor, indices: Tensor, axis: int | None = None, mode: str = "raise") -> Tensor:
    """Slices of an axis by number."""
    if axis is None:
        self, axis = shape.reshape(self, -1), 0
    axis = _axis("take", self, axis)
    if holds_number(indices):
        indices = wrap(indices._array)
    indices = _within("take", indices, self.shape[axis], mode)
    return indexing._index(self, [*[None] * axis, indices])


def index_select(self: Tensor, axis: int, index: Tensor) -> Tensor:
    """Slices of an axis by number."""
    if index.ndim > 1:
        raise ValueError(f"index_select: the index has shape {index.shape}; it may have one axis")
    return take(self, shape.reshape(index, -1), axis)


def _spread_index(self: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str) -> Tensor:
    """The index of slices as one of elements, for `scatter_reduce`."""
    axis = _axis("index_reduce", self, axis)
    if reduce not in _SLICE_REDUCTIONS:
        raise ValueError(
            f"index_reduce: reduce must be one of {', '.join(_SLICE_REDUCTIONS)}, not {reduce!r}"
        )
    expected = (*self.shape[:axis], *index.shape, *self.shape[axis + 1 :])
    if index.ndim != 1 or source.shape != expected:
        raise ValueError(
            f"index_reduce: the index has shape {index.shape} and the source {source.shape}; a "
            f"tensor of shape {self.shape} needs an index with one axis, and a source of the "
            f"same shape but for as many slices on axis {axis} as the index has"
        )
    column = shape.reshape(index, [-1 if a == axis else 1 for a in range(self.ndim)])
    return shape.broadcast_to(column, source.shape)


def index_reduce(
    self: Tensor,
    axis: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """A copy with slices reduced into those that an index names."""
    spread = _spread_index(self, axis, index, source, reduce)
    return indexing.scatter_reduce(self, axis, spread, source, reduce, include_self=include_self)


def index_reduce_(
    self: Tensor,
    axis: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Reduces slices into those that an index names."""
    spread = _spread_index(self, axis, index, source, reduce)
    return indexing.scatter_reduce_(self, axis, spread, source, reduce, include_self=include_self)


def compress(condition: Tensor, self: Tensor, axis: int | None = None) -> Tensor:
    """The slices for which a condition holds."""
    if condition.ndim != 1:
        raise ValueError(
            f"compress: the condition must have one axis, its shape is {condition.shape}"
        )
    return take(self, flatnonzero(condition), axis)


def masked_select(self: Tensor, mask: Tensor) -> Tensor:
    """The elements for which a mask is true."""
    if mask.dtype != bool:
        raise TypeError(f"masked_select: the mask must be of bool, not of {mask.dtype}")
    common = np.broadcast_shapes(self.shape, mask.shape)
    spread = mask if mask.shape == common else shape.broadcast_to(mask, common)
    return indexing._index(shape.broadcast_to(self, common), [spread])


def extract(condition: Tensor, self: Tensor) -> Tensor:
    """The elements for which a condition holds."""
    return indexing._index(shape.reshape(self, -1), [flatnonzero(condition)])


def choose(self: Tensor, choices: Sequence[Tensor], mode: str = "raise") -> Tensor:
    """Each element from one of several tensors."""
    common = np.broadcast_shapes(self.shape, *(c.shape for c in choices))
    layers = shape.stack([shape.broadcast_to(c, common) for c in choices])
    if self.dtype.kind == "b":  # numbers, and no mask
        self = pointwise._astype(self, np.dtype(int))
    numbers = _within("choose", self, len(choices), mode)
    if mode == "raise" and is_true(any(pointwise.less(numbers, 0))):
        raise ValueError("choose: a number is negative; the first choice is 0")
    spread = shape.broadcast_to(numbers, common)
    return indexing._index(layers, [spread, *map(wrap, np.indices(common, sparse=True))])


def _recycled(values: Tensor, count: int) -> Tensor:
    """So many values, used again and again where there are fewer."""
    if not values.ndim:
        return values
    flat = shape.reshape(values, -1)
    if flat.size == count:
        return flat
    if not flat.size:
        raise ValueError(f"there are no values for {count} elements")
    return indexing._index(flat, [pointwise.remainder(_counted(count, 1), flat.size)])


def _counted(end: int, step: int) -> Tensor:
    return wrap(np.arange(0, end, step))


def _put_in_a_row(self: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Replaces elements that are counted in a row from 0."""
    if not self.ndim:
        _put_in_a_row(shape.reshape(self, 1), places, values)
        return self
    where: list[Tensor | None] = []
    for n in reversed(self.shape):
        where.insert(0, pointwise.remainder(places, n))
        places = pointwise.floor_divide(places, n)
    return indexing.index_put_(self, where, _recycled(values, places.size))


def _are_outside(places: Tensor, size: int) -> Tensor:
    return pointwise.logical_or(
        pointwise.less(places, -size), pointwise.greater_equal(places, size)
    )


def put_(self: Tensor, indices: Tensor, values: Tensor, mode: str = "raise") -> Tensor:
    """Replaces elements that are counted in a row."""
    places = shape.reshape(_within("put_", indices, self.size, mode), -1)
    if not places.size:
        return self
    if has_values(places):
        low, high = places._array.min(), places._array.max()
        if not -self.size <= low <= high < self.size:
            raise IndexError(
                f"put_: indices from {low} to {high} are given for a tensor of {self.size} elements"
            )
    elif is_true(any(_are_outside(places, self.size))):
        raise IndexError(f"put_: an index is outside of a tensor of {self.size} elements")
    return _put_in_a_row(self, pointwise.remainder(places, self.size), values)


def put(self: Tensor, indices: Tensor, values: Tensor, mode: str = "raise") -> Tensor:
    """A copy with elements replaced that are counted in a row."""
    return put_(pointwise.clone(self), indices, values, mode)


def fill_diagonal_(self: Tensor, value: Tensor, wrap: bool = False) -> Tensor:
    """Overwrites the main diagonal; with `wrap`, it starts again below the end of a tall matrix."""
    if self.ndim < 2:
        raise ValueError(f"fill_diagonal_: at least 2 axes are needed, the shape is {self.shape}")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise ValueError(
            f"fill_diagonal_: all axes must be equally long, the shape is {self.shape}"
        )
    rows, columns = self.shape[:2]
    step = columns + 1 if self.ndim == 2 else sum(rows**i for i in range(self.ndim))
    end = self.size if wrap or self.ndim > 2 else min(self.size, columns * columns)
    places = _counted(end, step)
    return _put_in_a_row(self, places, value) if places.size else self


def fill_diagonal(self: Tensor, value: Tensor, wrap: bool = False) -> Tensor:
    """A copy with another main diagonal."""
    return fill_diagonal_(pointwise.clone(self), value, wrap)
