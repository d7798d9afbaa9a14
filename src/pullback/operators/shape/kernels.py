"""Functions that move elements about, or only look at them differently.

Where an operator is a view, the function here returns an array on the same memory, and one that can
be written to: NumPy makes some of its views read-only, which would forbid writes through them.
NumPy's own functions of this kind are written in Python and take some ten times as long as the
methods of arrays, so an array's method is called where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array",
    "as_strided",
    "broadcast_to",
    "concatenate",
    "constant_pad",
    "diagonal",
    "diagonal_backward",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "sliding_window_view",
    "split",
    "split_bound",
    "split_bounds",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "tril",
    "triu",
    "unbind",
    "window_backward",
]

Array = NDArray[Any]
_ndarray = np.ndarray
_concatenate = np.concatenate
_WHOLE = slice(None)


def reshape(x: Array, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """The same elements in another shape, read in C or Fortran order."""
    if copy is None and order == "C" and type(x) is _ndarray:
        return x.reshape(shape)
    if order not in ("C", "F"):
        raise ValueError(f"reshape: order must be 'C' or 'F', not {order!r}")
    result: Array = np.reshape(x, shape, "C" if order == "C" else "F")
    if copy is None:
        return result
    shares = np.may_share_memory(result, x)
    if copy:
        return result.copy() if shares else result
    if not shares and result.size:
        raise ValueError(
            f"reshape: a view of shape {result.shape} of a tensor of shape {x.shape} and strides "
            f"{x.strides} does not exist; allow a copy"
        )
    return result


def _tuple(axis: Any) -> Any:
    """An axis, or several as a tuple, which is what NumPy wants."""
    return tuple(axis) if isinstance(axis, list) else axis


def permute_dims(x: Array, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order."""
    if axes is None:
        return x.T if type(x) is _ndarray else np.transpose(x)
    return np.transpose(x, tuple(axes))


def matrix_transpose(x: Array) -> Array:
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: at least two axes are needed, the shape is {x.shape}")
    return x.swapaxes(-1, -2)


def swapaxes(x: Array, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    return np.swapaxes(x, axis1, axis2)


def moveaxis(x: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other places."""
    return np.moveaxis(x, source, destination)


def expand_dims(x: Array, axis: int | Sequence[int]) -> Array:
    """New axes of length one."""
    if type(axis) is int and type(x) is _ndarray:
        if 0 <= axis <= x.ndim:
            return x[(_WHOLE,) * axis + (None,)]
        if axis == -1:
            return x[..., None]
    return np.expand_dims(x, _tuple(axis))


def squeeze(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """Without axes of length one."""
    result: Array = np.squeeze(x, _tuple(axis))
    return result if result is not x else x[...]


def broadcast_to(x: Any, shape: int | Sequence[int]) -> Array:
    """The elements repeated, without a copy, to fill a larger shape."""
    if isinstance(x, np.generic):
        x = np.asarray(x)
    if (
        isinstance(x, np.ndarray)
        and x.size == 1
        and isinstance(shape, list | tuple)
        and x.ndim <= len(shape)
    ):
        # One number everywhere, as in the gradient of a sum: NumPy's way takes five times as long.
        return np.ndarray(tuple(shape), x.dtype, x, 0, (0,) * len(shape))
    if type(x) is _ndarray and type(shape) in (list, tuple) and x.flags.c_contiguous:
        strides = _repeating(x, shape)  # type: ignore[arg-type]
        if strides is not None:
            return np.ndarray(shape, x.dtype, x, 0, strides)
    result = np.broadcast_to(x, shape)
    if isinstance(x, np.ndarray) and x.flags.writeable:
        result.flags.writeable = True
    return result


def _repeating(x: Array, shape: Sequence[int]) -> list[int] | None:
    """The strides by which an array fills a larger shape; None unless it plainly does."""
    new = len(shape) - x.ndim
    if new < 0 or not x.size:
        return None
    strides = [0] * new
    for own, stride in zip(x.shape, x.strides, strict=True):
        n = shape[len(strides)]
        if own != n and own != 1:
            return None
        strides.append(stride if own == n else 0)
    return strides


def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as a new last axis."""
    result = np.diagonal(x, offset, axis1, axis2)
    if x.flags.writeable:
        result.flags.writeable = True
    return result


def diagonal_backward(
    grad: Array, shape: Sequence[int], offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Array:
    """Zeros of a shape, with a diagonal given."""
    result = np.zeros(shape, grad.dtype)
    diagonal(result, offset, axis1, axis2)[...] = grad
    return result


def sliding_window_view(
    x: Array, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:
    """Windows that slide over axes, as new last axes."""
    return np.lib.stride_tricks.sliding_window_view(
        x, _tuple(window_shape), _tuple(axis), writeable=x.flags.writeable
    )


def window_backward(
    grad: Array,
    shape: Sequence[int],
    window_shape: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
) -> Array:
    """The sum of windows, each at its place, in zeros of a shape."""
    result = np.zeros(shape, grad.dtype)
    window = np.atleast_1d(window_shape).tolist()
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis).tolist()
    for place in np.ndindex(*window):
        starts = [0] * len(shape)
        for a, offset in zip(axes, place, strict=True):  # an axis may be named twice
            starts[a % len(shape)] += offset
        part = grad[(..., *place)]
        spans = zip(starts, part.shape, strict=True)
        result[tuple(slice(start, start + n) for start, n in spans)] += part
    return result


def as_strided(
    x: Array, shape: Sequence[int], strides: Sequence[int], storage_offset: int = 0
) -> Array:
    """Elements at any steps through the memory of a C-contiguous array, counted in elements."""
    if not x.flags.c_contiguous:
        raise ValueError(
            f"as_strided: the tensor must be C-contiguous, its strides are {x.strides}; "
            f"call ascontiguousarray() first"
        )
    if len(shape) != len(strides):
        raise ValueError(f"as_strided: {len(shape)} lengths but {len(strides)} strides are given")
    reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    least = storage_offset + sum(min(0, r) for r in reach)
    most = storage_offset + sum(max(0, r) for r in reach)
    if 0 not in shape and not 0 <= least <= most < x.size:
        raise ValueError(
            f"as_strided: shape {tuple(shape)} with strides {tuple(strides)} reaches elements "
            f"{least} to {most}, and the tensor has {x.size}"
        )
    flat = x.reshape(-1)[storage_offset:]
    return np.lib.stride_tricks.as_strided(
        flat, tuple(shape), [step * x.itemsize for step in strides], writeable=x.flags.writeable
    )


def concatenate(tensors: Sequence[Array], axis: int | None = 0) -> Array:
    """Arrays joined along an axis."""
    return _concatenate(tensors, axis)


def stack(tensors: Sequence[Array], axis: int = 0) -> Array:
    """Arrays joined along a new axis."""
    are_arrays = {type(x) for x in tensors} == {_ndarray}
    if axis == 0 and are_arrays and len({x.shape for x in tensors}) == 1:
        return np.array(tensors)
    return np.stack(tensors, axis)


def unbind(x: Array, axis: int = 0) -> list[Array]:
    """The slices along an axis."""
    moved = np.moveaxis(x, axis, 0)
    return [moved[number, ...] for number in range(moved.shape[0])]


def split_bounds(n: int, indices_or_sections: Any) -> list[tuple[int, int]]:
    """The bounds of the parts of an axis of length `n`; a part may be empty."""
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count <= 0 or n % count:
            raise ValueError(f"split: an axis of length {n} has no {count} equal parts")
    else:
        count = len(indices_or_sections) + 1
    return [split_bound(n, indices_or_sections, number) for number in range(count)]


def split_bound(n: int, indices_or_sections: Any, number: int) -> tuple[int, int]:
    """The bounds of one of these parts."""
    cuts = indices_or_sections
    if isinstance(cuts, int | np.integer):
        length = n // int(cuts)
        return length * number, length * (number + 1)
    first = int(cuts[number - 1]) if number else 0
    last = int(cuts[number]) if number < len(cuts) else n
    start, stop, _ = slice(first, last).indices(n)
    return start, max(start, stop)


def split(x: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The parts of an axis between cuts."""
    moved = np.moveaxis(x, axis, 0)
    bounds = split_bounds(moved.shape[0], indices_or_sections)
    return [np.moveaxis(moved[start:stop], 0, axis) for start, stop in bounds]


def tile(x: Array, reps: int | Sequence[int]) -> Array:
    """The array repeated as a whole."""
    return np.tile(x, reps)


def repeat(x: Array, repeats: Any, axis: int | None = None) -> Array:
    """Each element repeated."""
    return np.repeat(x, repeats, axis)


def roll(x: Array, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """Elements moved along axes; those that leave at the end come back in front."""
    return np.roll(x, shift, axis)


def flip(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """Axes reversed, in memory of its own."""
    return np.flip(x, _tuple(axis)).copy()


def tril(x: Array, k: int = 0) -> Array:
    """The part on and below a diagonal."""
    return np.tril(x, k)


def triu(x: Array, k: int = 0) -> Array:
    """The part on and above a diagonal."""
    return np.triu(x, k)


def constant_pad(x: Array, widths: Sequence[int], values: Sequence[Any]) -> Array:
    """Numbers around the array; widths and values are given before and after each axis in turn."""
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    result = np.empty([n + sum(pair) for n, pair in zip(x.shape, pairs, strict=True)], x.dtype)
    middle = []
    for axis, (before, after) in enumerate(pairs):
        n = x.shape[axis]
        # Later axes fill the corners, as in NumPy.
        for value, span in zip(
            values[2 * axis : 2 * axis + 2],
            (slice(0, before), slice(before + n, before + n + after)),
            strict=True,
        ):
            result[(slice(None),) * axis + (span,)] = value
        middle.append(slice(before, before + n))
    result[tuple(middle)] = x
    return result
