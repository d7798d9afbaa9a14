"""Arguments and results of shape functions, and rules that many of them share.

A shape function has the parameters of the array function of the same name. In the place of arrays
it gets things that have a shape and a dtype, and nothing else that may be read: shapes without
data, real arrays (a mask whose values are known, say), or Python numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

__all__ = [
    "Axes",
    "Shape",
    "Shaped",
    "Spec",
    "axis_of",
    "broadcast",
    "in_row",
    "matching",
    "promoted",
    "reduced",
    "view_memory",
    "with_length",
]

Shape = tuple[int, ...]
Axes = int | Sequence[int] | None


class Shaped(Protocol):
    """Stand-in for an array: shape and dtype."""

    @property
    def shape(self) -> Shape:
        """The length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def strides(self) -> Shape:
        """Bytes from one element to the next, for each axis."""


class Spec(NamedTuple):
    """One result.

    Attributes:
        shape: the length of each axis.
        dtype: the type of the elements; None: that of the kernel's result for small arrays.
        strides: of a view; None is memory of its own.
    """

    shape: Shape
    dtype: Any = None
    strides: Shape | None = None


def broadcast(*values: Any) -> Shape:
    """The common shape of some values; None is left out."""
    return np.broadcast_shapes(*(np.shape(value) for value in values if value is not None))


def promoted(*values: Any) -> np.dtype[Any]:
    """The dtype that NumPy gives to a result; Python numbers take theirs from the arrays."""
    return np.result_type(*(getattr(value, "dtype", value) for value in values))


def axis_of(x: Any, axis: int) -> int:
    """An axis counted from the front, checked."""
    (found,) = normalize_axis_tuple(axis, np.ndim(x))
    return found


def with_length(x: Any, axis: int, length: int) -> Shape:
    """A shape with another length along an axis."""
    axis = axis_of(x, axis)
    return (*x.shape[:axis], length, *x.shape[axis + 1 :])


def reduced(shape: Shape, axis: Axes, keepdims: bool) -> Shape:
    """The shape of a reduction over some axes, or all."""
    ndim = len(shape)
    # Of a number without axes NumPy reduces the axis that a vector of one would have.
    axes = range(ndim) if axis is None else normalize_axis_tuple(axis, max(ndim, 1))
    if keepdims:
        return tuple(1 if a in axes else n for a, n in enumerate(shape))
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def matching(name: str, values: Any, shape: Shape) -> None:
    """Refuses values that do not broadcast to the shape of the place where they are put."""
    given = np.shape(values)
    lead = len(given) - len(shape)
    fits = all(n == 1 for n in given[: max(lead, 0)]) and all(
        n in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"{name}: values of shape {given} could not be broadcast to the places, whose shape is "
            f"{shape}"
        )


def view_memory(x: Shaped) -> NDArray[Any]:
    """An array with the shape and strides of `x` whose elements must never be touched.

    NumPy computes the shapes and strides of views with it; there is no memory behind it.
    """
    return as_strided(np.zeros(1, x.dtype), x.shape, x.strides)


def in_row(x: Any) -> Shape:
    """The shape of all elements in a row."""
    return (prod(np.shape(x)),)
