"""Methods of tensors that no schema can describe: ``x.reshape(2, 3)``, ``x.view(dtype)``, ``x.T``.

They take their arguments in a row or as one sequence, as NumPy and PyTorch do, and call the
generated functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as functions
from pullback.errors import DerivativeMissingError, ViewError
from pullback.operators import array_functions
from pullback.tensor.tensor import Tensor, share_counter, wrap

__all__ = [
    "astype",
    "copy",
    "expand",
    "is_conj",
    "is_neg",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "transpose",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "view",
]


def _unpacked(args: tuple[Any, ...]) -> Any:
    """Arguments that came in a row, or as one sequence."""
    return args[0] if len(args) == 1 else args


def reshape(self: Tensor, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    """The same elements in another shape: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
    return functions.reshape(self, _unpacked(shape), order, copy=copy)


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same memory in another shape, never a copy; or read as another dtype.

    The real numbers inside complex ones, and complex ones made of pairs, keep their history. Memory
    seen as integers has none: ``x.view(np.int64)`` shares the elements and notices writes to them.
    """
    if len(shape) == 1 and not isinstance(shape[0], int | tuple | list | np.integer):
        return _seen_as(self, np.dtype(shape[0]))
    try:
        return functions.reshape(self, _unpacked(shape), copy=False)
    except ValueError as error:
        raise _view_error(self, _unpacked(shape), error) from None


def _view_error(self: Tensor, shape: Any, cause: ValueError) -> ViewError:
    """The error for a shape that no view of a tensor has."""
    lengths = [shape] if isinstance(shape, int | np.integer) else list(shape)
    known = math.prod(n for n in lengths if n != -1)
    fits = self.size == known if -1 not in lengths else known > 0 and self.size % known == 0
    if not fits or lengths.count(-1) > 1 or min(lengths, default=0) < -1:
        return ViewError(
            f"view: shape '{lengths}' is invalid for input of size {self.size}: {cause}"
        )
    return ViewError(
        f"view: view size is not compatible with input tensor's size and stride: no view of shape "
        f"{lengths} of a tensor of shape {list(self.shape)} exists, because its elements lie in "
        f"another order. Use .reshape(...) instead, which copies."
    )


def _seen_as(self: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """The same memory read as another dtype."""
    if dtype == self.dtype:
        return functions.reshape(self, self.shape, copy=False)
    made = self._array.view(dtype)
    if (self.dtype.char, dtype.char) in (("D", "d"), ("F", "f")):
        return functions.reshape(pointwise.view_as_real(self), made.shape, copy=False)
    if (self.dtype.char, dtype.char) in (("d", "D"), ("f", "F")):
        return pointwise.view_as_complex(functions.reshape(self, (*made.shape, 2), copy=False))
    if dtype.kind not in "fc" or not self.requires_grad:
        seen = wrap(made)
        share_counter(seen, self)
        return seen
    raise DerivativeMissingError(
        f"view: {self.dtype} seen as {dtype} has no derivative; write x.astype(dtype) for the same "
        "numbers in another type, or x.detach().view(dtype) for the same memory"
    )


def expand(self: Tensor, *shape: Any) -> Tensor:
    """The elements repeated to fill a larger shape, as a view; -1 keeps the length of an axis."""
    lengths = np.atleast_1d(_unpacked(shape)).tolist()
    new = len(lengths) - self.ndim
    if new < 0 or -1 in lengths[:new]:
        raise ValueError(
            f"expand: {tuple(lengths)} does not name a length for each new axis and each axis of "
            f"the tensor, whose shape is {self.shape}"
        )
    kept = zip(lengths[new:], self.shape, strict=True)
    return functions.broadcast_to(
        self, (*lengths[:new], *(own if n == -1 else n for n, own in kept))
    )


def transpose(self: Tensor, *axes: Any) -> Tensor:
    """The axes in another order, by default reversed: ``x.transpose(1, 0, 2)``."""
    return functions.permute_dims(self, _unpacked(axes) if axes else None)


def astype(
    self: Tensor,
    dtype: DTypeLike,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Tensor:
    """The elements as another data type; with ``copy=False``, the tensor itself if it has it."""
    del order, subok
    if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"astype: {self.dtype} cannot be cast to {np.dtype(dtype)} by the rule {casting!r}"
        )
    return array_functions.astype(self, dtype, copy=copy)


def copy(self: Tensor, order: str = "C") -> Tensor:
    """A copy that passes gradients on, as ``clone`` does; in C order, as an array's ``copy``."""
    if order == "F":
        return functions.permute_dims(copy(functions.permute_dims(self)))
    made = functions.ascontiguousarray(self) if order == "C" and self.ndim > 1 else self
    return pointwise.clone(self) if made is self else made


def unsafe_split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    """Parts of a length along an axis, or of these lengths, each in memory of its own.

    PyTorch's parts share memory that autograd does not watch; copies can be written to safely.
    """
    if not isinstance(split_size, int):
        return unsafe_split_with_sizes(self, split_size, dim)
    length = self.shape[dim]
    if split_size < 0 or (split_size == 0 and length):
        raise ValueError(
            f"unsafe_split: split_size is {split_size}, but axis {dim} has length {length}"
        )
    starts = range(0, length, split_size) if length else [0]
    return unsafe_split_with_sizes(self, [min(split_size, length - n) for n in starts], dim)


def unsafe_split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Parts of these lengths along an axis, each in memory of its own."""
    length = self.shape[dim]
    if sum(split_sizes) != length or any(n < 0 for n in split_sizes):
        raise ValueError(
            f"unsafe_split_with_sizes: split_sizes must sum to {length}, the length of axis {dim}, "
            f"but they are {list(split_sizes)}"
        )
    starts = itertools.accumulate(split_sizes, initial=0)
    return [
        pointwise.clone(functions.narrow(self, dim, start, n))
        for start, n in zip(starts, split_sizes, strict=False)
    ]


def unsafe_chunk(self: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    """At most so many parts along an axis, all but the last of one length, in their own memory."""
    return [pointwise.clone(part) for part in functions.chunk(self, chunks, dim)]


def is_conj(self: Tensor) -> bool:
    """False: conjugates are computed at once, so no tensor is one by a mark."""
    del self
    return False


def is_neg(self: Tensor) -> bool:
    """False: negatives are computed at once, so no tensor is one by a mark."""
    del self
    return False


def resolve_conj(self: Tensor) -> Tensor:
    """The tensor itself, which is never marked as a conjugate."""
    return self


def resolve_neg(self: Tensor) -> Tensor:
    """The tensor itself, which is never marked as a negative."""
    return self


def _transposed(self: Tensor) -> Tensor:
    """All axes in reverse order."""
    return functions.permute_dims(self)


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two axes exchanged."""
    return functions.matrix_transpose(self)


for _name, _member in {
    "reshape": reshape,
    "view": view,
    "expand": expand,
    "transpose": transpose,
    "astype": astype,
    "copy": copy,
    "is_conj": is_conj,
    "is_neg": is_neg,
    "resolve_conj": resolve_conj,
    "resolve_neg": resolve_neg,
    "unsafe_chunk": unsafe_chunk,
    "unsafe_split": unsafe_split,
    "unsafe_split_with_sizes": unsafe_split_with_sizes,
    "T": property(_transposed),
    "mT": property(_matrix_transposed),
}.items():
    setattr(Tensor, _name, _member)
