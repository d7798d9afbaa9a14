"""Operators made of other operators: shape.

Each takes tensors and calls public functions, so its derivatives are those of what it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback._generated import functions_shape as shape_functions
from pullback._generated.functions_indexing import _index
from pullback._generated.functions_pointwise import clone
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, zeros_beside

__all__ = [
    "append",
    "array_split",
    "ascontiguousarray",
    "chunk",
    "column_stack",
    "diag",
    "diag_embed",
    "diagflat",
    "dsplit",
    "dstack",
    "flatten",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "narrow",
    "ravel",
    "resize",
    "rollaxis",
    "rot90",
    "select",
    "unfold",
    "vsplit",
    "vstack",
]


def _axis(name: str, tensor: Tensor, axis: int) -> int:
    """An axis counted from the front."""
    if not -tensor.ndim <= axis < tensor.ndim:
        raise np.exceptions.AxisError(axis, tensor.ndim, name)
    return axis % tensor.ndim


def _along(axis: int, part: Any) -> tuple[Any, ...]:
    """The index that takes a part of one axis."""
    return (slice(None),) * axis + (part,)


def rollaxis(self: Tensor, axis: int, start: int = 0) -> Tensor:
    """An axis moved back until it stands before another one."""
    axis = _axis("rollaxis", self, axis)
    if not -self.ndim <= start <= self.ndim:
        raise np.exceptions.AxisError(start, self.ndim + 1, "rollaxis: start")
    start += self.ndim if start < 0 else 0
    return shape_functions.moveaxis(self, axis, start - (axis < start))


def ravel(self: Tensor, order: str = "C") -> Tensor:
    """All elements in a row: a copy unless they lie so in memory, as NumPy's."""
    if order == "F":
        return ravel(self.T)
    return shape_functions.reshape(ascontiguousarray(self), -1, order)


def flatten(self: Tensor, order: str = "C") -> Tensor:
    """A copy of all elements in a row."""
    return shape_functions.reshape(self, -1, order, copy=True)


def narrow(self: Tensor, axis: int, start: int, length: int) -> Tensor:
    """A part of an axis."""
    axis = _axis("narrow", self, axis)
    n = self.shape[axis]
    start += n if start < 0 else 0
    if not 0 <= start <= start + length <= n:
        raise IndexError(
            f"narrow: {length} elements from {start} are not within axis {axis} of length {n}"
        )
    return self[_along(axis, slice(start, start + length))]


def select(self: Tensor, axis: int, index: int) -> Tensor:
    """One slice of an axis."""
    return self[_along(_axis("select", self, axis), index)]


def unfold(self: Tensor, axis: int, size: int, step: int = 1) -> Tensor:
    """Windows of an axis, some steps apart."""
    axis = _axis("unfold", self, axis)
    if size > self.shape[axis] or step < 1:
        raise ValueError(
            f"unfold: windows of {size} elements, {step} apart, do not fit axis {axis} of length "
            f"{self.shape[axis]}"
        )
    windows = shape_functions.sliding_window_view(self, size, axis)
    return windows if step == 1 else windows[_along(axis, slice(None, None, step))]


def diag(self: Tensor, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a diagonal."""
    if self.ndim == 1:
        n = self.size + abs(k)
        return shape_functions._diagonal_backward(self, (n, n), k)
    if self.ndim != 2:
        raise ValueError(f"diag: one or two axes are needed, the shape is {self.shape}")
    return clone(shape_functions.diagonal(self, k))


def diag_embed(self: Tensor, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Matrices with the last axis as a diagonal, along the new axes `axis1` and `axis2`."""
    ndim = self.ndim + 1
    if not self.ndim:
        raise ValueError("diag_embed: at least one axis is needed, the shape is ()")
    for axis in (axis1, axis2):
        if not -ndim <= axis < ndim:
            raise np.exceptions.AxisError(axis, ndim, "diag_embed")
    axis1, axis2 = axis1 % ndim, axis2 % ndim
    if axis1 == axis2:
        raise ValueError(f"diag_embed: axis1 and axis2 are both {axis1}; they must differ")
    n = self.shape[-1] + abs(offset)
    shape = list(self.shape[:-1])
    for axis in sorted((axis1, axis2)):
        shape.insert(axis, n)
    return shape_functions._diagonal_backward(self, shape, offset, axis1, axis2)


def diagflat(self: Tensor, k: int = 0) -> Tensor:
    """The matrix with all elements as a diagonal."""
    return diag(ravel(self), k)


def ascontiguousarray(self: Tensor) -> Tensor:
    """The tensor itself if it is C-contiguous, else a copy that is; it has at least one axis."""
    if not self.ndim:
        return shape_functions.reshape(self, 1)
    held = self._array
    contiguous = held.contiguous if isinstance(held, Payload) else held.flags.c_contiguous
    return self if contiguous else shape_functions.reshape(self, self.shape, copy=True)


def _at_least_1d(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [t if t.ndim else shape_functions.reshape(t, 1) for t in tensors]


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the second axis, or the only one."""
    made = _at_least_1d(tensors)
    return shape_functions.concatenate(made, 0 if made and made[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the first axis; those with one axis are rows."""
    made = [t if t.ndim > 1 else shape_functions.reshape(t, (1, -1)) for t in tensors]
    return shape_functions.concatenate(made, 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the third axis."""
    made = []
    for t in tensors:
        rows = t if t.ndim > 1 else shape_functions.reshape(t, (1, -1))
        made.append(rows if rows.ndim > 2 else shape_functions.expand_dims(rows, 2))
    return shape_functions.concatenate(made, 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined as columns."""
    made = [t if t.ndim > 1 else shape_functions.reshape(t, (-1, 1)) for t in tensors]
    return shape_functions.concatenate(made, 1)


def append(self: Tensor, values: Tensor, axis: int | None = None) -> Tensor:
    """Values joined to the end."""
    return shape_functions.concatenate([self, values], axis)


def chunk(self: Tensor, chunks: int, axis: int = 0) -> list[Tensor]:
    """At most so many parts, all but the last equally long."""
    if chunks < 1:
        raise ValueError(f"chunk: the number of chunks must be at least 1, not {chunks}")
    n = self.shape[_axis("chunk", self, axis)]
    length = max(1, -(-n // chunks))
    return shape_functions.split(self, list(range(length, n, length)), axis)


def array_split(self: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Nearly equal parts, or the parts between cuts; each a view by itself."""
    axis = _axis("array_split", self, axis)
    n = self.shape[axis]
    if np.ndim(indices_or_sections) == 0:
        if indices_or_sections < 1:
            raise ValueError(
                f"array_split: the number of sections must be at least 1, not {indices_or_sections}"
            )
        length, longer = divmod(n, indices_or_sections)
        cuts = [length * i + min(i, longer) for i in range(1, indices_or_sections)]
    else:
        cuts = list(indices_or_sections)
    spans = zip([0, *cuts], [*cuts, n], strict=True)
    return [self[_along(axis, slice(start, stop))] for start, stop in spans]


def _equal_parts(name: str, self: Tensor, indices_or_sections: Any, axis: int) -> list[Tensor]:
    if self.ndim <= axis:
        raise ValueError(f"{name}: at least {axis + 1} axes are needed, the shape is {self.shape}")
    if np.ndim(indices_or_sections) == 0 and (
        indices_or_sections < 1 or self.shape[axis] % indices_or_sections
    ):
        raise ValueError(
            f"{name}: an axis of length {self.shape[axis]} has no {indices_or_sections} equal parts"
        )
    return array_split(self, indices_or_sections, axis)


def hsplit(self: Tensor, indices_or_sections: Any) -> list[Tensor]:
    """Parts of the second axis, or of the only one."""
    return _equal_parts("hsplit", self, indices_or_sections, 0 if self.ndim == 1 else 1)


def vsplit(self: Tensor, indices_or_sections: Any) -> list[Tensor]:
    """Parts of the first of several axes."""
    if self.ndim < 2:
        raise ValueError(f"vsplit: at least 2 axes are needed, the shape is {self.shape}")
    return _equal_parts("vsplit", self, indices_or_sections, 0)


def dsplit(self: Tensor, indices_or_sections: Any) -> list[Tensor]:
    """Parts of the third axis."""
    return _equal_parts("dsplit", self, indices_or_sections, 2)


def fliplr(self: Tensor) -> Tensor:
    """The second axis reversed."""
    if self.ndim < 2:
        raise ValueError(f"fliplr: at least 2 axes are needed, the shape is {self.shape}")
    return shape_functions.flip(self, 1)


def flipud(self: Tensor) -> Tensor:
    """The first axis reversed."""
    if self.ndim < 1:
        raise ValueError("flipud: at least 1 axis is needed, the shape is ()")
    return shape_functions.flip(self, 0)


def rot90(self: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by right angles in the plane of two axes."""
    first, second = (_axis("rot90", self, axis) for axis in axes)
    if first == second:
        raise ValueError(f"rot90: the axes must differ, both are {first}")
    turns = k % 4
    if turns == 0:
        return clone(self)
    if turns == 2:
        return shape_functions.flip(self, (first, second))
    # Flipping last makes a copy of its own, so that the result is no view.
    swapped = shape_functions.swapaxes(self, first, second)
    return shape_functions.flip(swapped, first if turns == 1 else second)


def resize(self: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Another shape, filled with the elements again and again."""
    lengths = tuple(np.atleast_1d(shape).tolist())
    if any(n < 0 for n in lengths):
        raise ValueError(f"resize: all lengths of {lengths} must be at least 0")
    count = prod(lengths)
    if not self.size:
        return zeros_beside(self, lengths, self.dtype)
    places = np.arange(count) % self.size
    return shape_functions.reshape(_index(ravel(self), [places]), lengths)
