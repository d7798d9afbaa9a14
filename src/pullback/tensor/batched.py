"""``BatchedArray``: the payload of a batched tensor inside ``vmap``.

The array has one batch dimension in front for each vmap level, in the order of the levels' numbers;
the tensor has only the axes behind them::

    vmap(f)(x)      x of shape (32, 3)      inside f: BatchedArray(array (32, 3), levels (7,)),
                                            a tensor of shape (3,)

Nested ``vmap`` calls add batch dimensions, they do not nest arrays. Kernels are registered at the
key ``Python``, in ``pullback.batching``; autograd lies above and sees tensors without batch
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.errors import AutogradError
from pullback.tensor.levels import check_alive
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.payload import Payload, shares_memory
from pullback.tensor.tensor import CPU_FLAGS, Tensor

__all__ = ["BATCHED_FLAGS", "BatchShape", "BatchedArray", "Levels", "batched", "levels_of"]

Levels = tuple[int, ...]

BATCHED_FLAGS = CPU_FLAGS | KEY_BITS[DispatchKey.Python]
_new = object.__new__


class BatchShape(tuple[int, ...]):
    """Shape without batch dimensions, with the levels and sizes of these as attributes.

    The output metadata of a node thereby contains both.

    Attributes:
        levels: the numbers of the levels.
        sizes: the length of each batch dimension.
    """

    levels: Levels
    sizes: tuple[int, ...]


class BatchedArray(Payload):
    """Array with one batch dimension for each vmap level."""

    __slots__ = ("array", "levels")

    array: NDArray[Any]  # in a program that is traced, a payload that stands for one
    levels: Levels
    flags: ClassVar[int] = BATCHED_FLAGS

    def __init__(self, array: NDArray[Any] | Payload, levels: Levels):
        self.array = array  # type: ignore[assignment]
        self.levels = levels

    @property
    def shape(self) -> BatchShape:  # type: ignore[override]
        """The shape without batch dimensions."""
        k = len(self.levels)
        whole = self.array.shape
        shape = BatchShape(whole[k:])
        shape.levels = self.levels
        shape.sizes = whole[:k]
        return shape

    dtype = property(attrgetter("array.dtype"), doc="The type of the elements.")  # no Python call

    @property
    def ndim(self) -> int:
        """The number of axes without batch dimensions."""
        return self.array.ndim - len(self.levels)

    @property
    def size(self) -> int:
        """The number of elements without batch dimensions."""
        return prod(self.array.shape[len(self.levels) :])

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides without those of batch dimensions."""
        return self.array.strides[len(self.levels) :]

    @property
    def layout(self) -> tuple[int, ...]:
        """The axes without batch dimensions, from the widest stride to the narrowest."""
        k = len(self.levels)
        return tuple(axis - k for axis in layout_of(self.array) if axis >= k)

    def copy(self, order: str = "K") -> Self:
        """Copies the array."""
        return type(self)(self.array.copy(order), self.levels)  # type: ignore[arg-type]

    def shares_memory(self, other: Any) -> bool:
        """Whether this may be a view of another array."""
        return shares_memory(self.array, other.array if isinstance(other, BatchedArray) else other)

    def maker(self, layout: tuple[int, ...] | None = None) -> Callable[[], Payload]:
        """Returns a function that makes an uninitialized array of this shape and `layout`."""
        k, levels = len(self.levels), self.levels
        order = (*range(k), *(k + axis for axis in layout or self.layout))
        held: Any = self.array
        if isinstance(held, Payload):  # of a program that is traced
            make = held.maker(order)
            return lambda: BatchedArray(make(), levels)
        shape, dtype = self.array.shape, self.array.dtype
        return lambda: BatchedArray(empty_in_layout(shape, dtype, order), levels)

    def has_nan(self) -> bool:
        """Whether any element is NaN."""
        return self.array.dtype.kind in "fc" and bool(np.isnan(self.array).any())

    def refusal(self, what: str) -> Exception:
        """The error for an access to single values."""
        check_alive(self.levels)
        if what == "bool()":
            cause = "It looks like you're attempting to use a Tensor in some data-dependent control"
            cause += " flow: bool()"
        elif what == "item()":
            cause = "It looks like you're calling .item() on a Tensor, which"
        else:
            cause = what
        return AutogradError(
            f"vmap: {cause} asks for the value of one sample, but a mapped function computes all "
            f"of them at once. Choose by where(condition, x, y) instead of a branch, and read "
            f"values after vmap has returned. NumPy code belongs into an autograd.Function with a "
            f"vmap staticmethod; where it is in the backward of one, let that apply another, and "
            f"ask for Jacobians with chunk_size=1."
        )

    def __repr__(self) -> str:
        return f"BatchedArray(levels={self.levels}, of samples {self.array!r})"


def batched(array: NDArray[Any], levels: Levels) -> Tensor:
    """Wraps an array with batch dimensions in a tensor without history."""
    tensor = _new(Tensor)
    tensor._array = held = _new(BatchedArray)  # without a call of __init__, on a hot path
    held.array = array
    held.levels = levels
    tensor._flags = BATCHED_FLAGS
    tensor._edge = tensor._counter = tensor._meta = None
    return tensor


def levels_of(tensor: Tensor) -> Levels:
    """The vmap levels at which a tensor is batched."""
    held = tensor._array
    return held.levels if type(held) is BatchedArray else ()
