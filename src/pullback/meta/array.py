"""``MetaArray``: the shape, dtype and strides of an array that does not exist.

Strides say whether a reshape would be a view, and the `storage` whether two of them would share
memory. It is an empty object, there to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.errors import NoDataError
from pullback.kernels.layout import order_of
from pullback.kernels.shape_spec import view_memory
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import TRACKED, Tensor, fresh

__all__ = ["MetaArray", "meta_tensor", "strides_in_layout"]


def strides_in_layout(
    shape: tuple[int, ...], itemsize: int, layout: Sequence[int]
) -> tuple[int, ...]:
    """The strides of a dense array whose memory runs through the axes in a given order.

    >>> strides_in_layout((2, 3), 8, (1, 0))
    (8, 16)
    """
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(layout):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


class MetaArray(Payload):
    """Shape, dtype and strides without data.

    >>> x = MetaArray((2, 3), np.dtype("float32"))
    >>> x.strides, x.nbytes
    ((12, 4), 24)
    """

    __slots__ = ("_shape", "_strides", "dtype", "storage")

    flags: ClassVar[int] = KEY_BITS[DispatchKey.Meta] | TRACKED | KEY_BITS[DispatchKey.AutogradMeta]
    device: ClassVar[str] = "meta"

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None = None,
        storage: object = None,
    ):
        self._shape = shape
        self.dtype = dtype
        if strides is None:
            strides = strides_in_layout(shape, dtype.itemsize, range(len(shape)))
        self._strides = strides
        self.storage = object() if storage is None else storage

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The length of each axis."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, for each axis."""
        return self._strides

    @property
    def layout(self) -> tuple[int, ...]:
        """The axes from the widest stride to the narrowest."""
        return order_of(self._shape, self._strides)

    @property
    def contiguous(self) -> bool:
        """Whether the elements would lie in memory in C order, without gaps."""
        return view_memory(self).flags.c_contiguous

    def view(self, dtype: Any) -> MetaArray:
        """The same memory read as another dtype."""
        view = view_memory(self).view(dtype)
        return MetaArray(view.shape, view.dtype, view.strides, self.storage)

    def in_layout(self, layout: tuple[int, ...]) -> MetaArray:
        """A dense array of this shape and dtype, in memory of its own."""
        strides = strides_in_layout(self._shape, self.dtype.itemsize, layout)
        return MetaArray(self._shape, self.dtype, strides)

    def copy(self, order: str = "K") -> MetaArray:
        """The same shape in memory of its own."""
        return self.in_layout(self.layout if order == "K" else tuple(range(self.ndim)))

    def shares_memory(self, other: Any) -> bool:
        """Whether one was made as a view of the other."""
        return isinstance(other, MetaArray) and other.storage is self.storage

    def maker(self, layout: tuple[int, ...] | None = None) -> Callable[[], MetaArray]:
        """Makes others of the same shape."""
        return partial(self.in_layout, self.layout if layout is None else layout)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> MetaArray:
        """Zeros of a shape, which are again a shape without data."""
        return MetaArray(tuple(shape), np.dtype(dtype))

    ones = zeros

    def refusal(self, what: str) -> Exception:
        """The error for an access to values."""
        return NoDataError(
            f"{what}: a meta tensor has no data; it has shape {self.shape} and dtype {self.dtype}, "
            f"and that is all"
        )

    def __repr__(self) -> str:
        return f"..., shape={self.shape}, dtype={self.dtype.name}, device='meta'"

    def __reduce__(self) -> tuple[type[MetaArray], tuple[Any, ...]]:
        return MetaArray, (self._shape, self.dtype, self._strides)


def meta_tensor(like: Any) -> Tensor:
    """A meta tensor with the shape, dtype and strides of an array or tensor.

    >>> meta_tensor(np.zeros((2, 3), np.float32)).device
    'meta'
    """
    held = like._array if isinstance(like, Tensor) else like
    array = held if isinstance(held, np.ndarray | MetaArray) else np.asarray(held)
    return fresh(MetaArray(array.shape, array.dtype, array.strides))
