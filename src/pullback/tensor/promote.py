"""Promotion of unbatched buffers inside vmap, when a batched value is first written to them.

``out = pb.zeros(3); out[0] = x`` inside a mapped function: `out` is unbatched, and `x` is batched.
Since `out` was made inside the function, it may get a batch dimension: at the first write of a
batched value, the tensor and every view of it get memory with a batch dimension.

For a tensor that was made outside the function, such a write raises.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from pullback.errors import InplaceError
from pullback.tensor.batched import BATCHED_FLAGS, BatchedArray, Levels
from pullback.tensor.tensor import Tensor

__all__ = ["promote"]


def promote(tensor: Tensor, levels: Levels, sizes: tuple[int, ...], name: str) -> None:
    """Adds batch dimensions for missing levels to a tensor and all tensors in its memory.

    `levels` are those of the value that `name` is about to write, and `sizes` their lengths.
    """
    held = tensor._array
    own = held.levels if type(held) is BatchedArray else ()
    new = {level: size for level, size in zip(levels, sizes, strict=True) if level not in own}
    if not new:
        return
    counter = tensor._counter
    if counter is None or len(counter) < 3 or counter[1] < max(new):
        raise InplaceError(
            f"{name}: vmap: a value that differs from sample to sample would mutate a captured "
            f"Tensor, one that was made outside the mapped function and has only one copy for all "
            f"samples (or lies in memory that is not its own). Make it inside the function, for "
            f"example with zeros_like(x), or return the value instead of writing it."
        )
    lying = [found for found in (reference() for reference in counter[2:]) if found is not None]
    arrays = [_physical(other._array) for other in lying]
    memory = max(map(_root, arrays), key=lambda root: root.nbytes)
    low, high = byte_bounds(memory)
    bounds = [byte_bounds(array) for array in arrays]
    if not memory.flags.owndata or any(not low <= a <= b <= high for a, b in bounds):
        raise InplaceError(
            f"{name}: vmap: this tensor and its views do not lie in one piece of memory of their "
            f"own, so they cannot get a copy for each sample; write to a clone() of the tensor"
        )
    copies = np.empty((*new.values(), memory.size), memory.dtype)
    copies[...] = memory.ravel(order="K")
    for other, (start, _) in zip(lying, bounds, strict=True):
        _move(other, start - low, copies, tuple(new))
    counter[2:] = map(ref, lying)


def _physical(held: Any) -> NDArray[Any]:
    return held.array if type(held) is BatchedArray else held


def _root(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _move(tensor: Tensor, place: int, copies: NDArray[Any], new: Levels) -> None:
    """Makes a tensor a view of new memory, at the same byte offset in each batch element."""
    held = tensor._array
    own = held.levels if type(held) is BatchedArray else ()
    array = _physical(held)
    place -= sum(min(0, (n - 1) * step) for n, step in zip(array.shape, array.strides, strict=True))
    strides = copies.strides[: len(new)] + array.strides
    shape = copies.shape[: len(new)] + array.shape
    batched: NDArray[Any] = np.ndarray(shape, array.dtype, copies, place, strides)
    together = (*new, *own)
    order = sorted(range(len(together)), key=together.__getitem__)
    batched = batched.transpose(*order, *range(len(together), batched.ndim))
    tensor._array = BatchedArray(batched, tuple(sorted(together)))
    tensor._flags |= BATCHED_FLAGS
