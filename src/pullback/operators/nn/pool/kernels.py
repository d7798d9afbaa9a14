"""Pooling over any number of spatial axes of images of shape (N, C, *space).

Places in an image are numbered row by row within one channel, so that one number finds an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from pullback.operators.nn.conv.kernels import Windows, pad

__all__ = [
    "Array",
    "Ints",
    "adaptive_avg",
    "adaptive_avg_backward",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_backward",
    "check_divisor",
    "max_pool",
    "plane_gather",
    "plane_scatter",
    "pool_windows",
]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any
Ints = Sequence[int]


def pool_windows(
    name: str,
    space: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
) -> tuple[Windows, tuple[int, ...]]:
    """The windows of a pooling with enough border on the far side, and how many there are."""
    out, sides = [], []
    for i, n in enumerate(space):
        k, s, p, d = kernel[i], stride[i], padding[i], dilation[i]
        if min(k, s, d) < 1 or not 0 <= 2 * p <= k:
            raise ValueError(
                f"{name}: kernel_size {k}, stride {s} and dilation {d} must be at least 1, and "
                f"padding {p} at most half the kernel_size"
            )
        reach = d * (k - 1) + 1
        free = n + 2 * p - reach
        count = (-(-free // s) if ceil_mode else free // s) + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1  # the last window must begin inside the image or the border before it
        if count < 1:
            raise ValueError(
                f"{name}: windows of size {list(kernel)} with dilation {list(dilation)} do not fit "
                f"into the input of size {list(space)} with padding {list(padding)}"
            )
        out.append(count)
        sides += [p, max(0, (count - 1) * s + reach - n - p)]
    return Windows(tuple(kernel), tuple(stride), tuple(sides), tuple(dilation)), tuple(out)


def max_pool(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest element of each window, and its place; the first of equal ones, or a NaN."""
    space = x.shape[2:]
    win, out = pool_windows("max_pool", space, kernel, stride, padding, dilation, ceil_mode)
    floating = x.dtype.kind == "f"
    image = pad(x, win.padding, -np.inf if floating else np.iinfo(x.dtype).min)
    best, winner = _largest(image, win, out)
    if floating and np.isnan(best).any():
        best, winner = _largest(image, win, out, has_nan=True)
    return best, _place_numbers(win, space, out, winner)


def _largest(image: Array, win: Windows, out: Ints, has_nan: bool = False) -> tuple[Array, Array]:
    """The largest element of each window, and its number in the window."""
    places = [(..., *where) for _, where in win.places(out)]
    best: Array = image[places[0]].copy(order="C")
    winner = np.zeros(best.shape, np.min_scalar_type(len(places)))
    part: Array = np.empty_like(best)  # contiguous: two passes over it are faster than over a view
    better = np.empty(best.shape, bool)
    for number, where in enumerate(places[1:], 1):
        part[...] = image[where]
        np.greater(part, best, out=better)
        if has_nan:
            better |= np.isnan(part)
        # Later numbers are larger, so the maximum is the last one that was better.
        np.maximum(winner, better * winner.dtype.type(number), out=winner)
        np.maximum(best, part, out=best)
    return best, winner


def _place_numbers(win: Windows, space: Ints, out: Ints, winner: Array) -> Array:
    """The place in the image of the element of each window that has a given number."""
    offsets = np.array(list(product(*map(range, win.kernel)))) * win.dilation
    starts = [
        win.stride[axis] * np.arange(out[axis]) - win.padding[2 * axis]
        for axis in range(len(space))
    ]
    if not any(win.padding):
        rows = [prod(space[axis + 1 :]) for axis in range(len(space))]
        number: Array = (offsets @ rows).take(winner)
        number += sum(np.ix_(*(s * row for s, row in zip(starts, rows, strict=True))))
        return number
    number = 0
    for axis, n in enumerate(space):
        along = offsets[:, axis][winner]
        along += starts[axis].reshape(-1, *[1] * (len(space) - axis - 1))
        # A window of minus infinities may have chosen the border.
        number = number * n + np.clip(along, 0, n - 1, out=along)
    return number


def plane_scatter(grad: Array, indices: Array, shape: Ints) -> Array:
    """Images of a shape, with elements added at numbered places."""
    planes, size = prod(shape[:2]), prod(shape[2:])
    result = np.zeros(planes * size, grad.dtype)
    first = np.arange(planes).reshape(*shape[:2], *[1] * (grad.ndim - 2)) * size
    np.add.at(result, (indices + first).reshape(-1), grad.reshape(-1))
    return result.reshape(shape)


def plane_gather(x: Array, indices: Array) -> Array:
    """The elements of images at numbered places."""
    planes = x.reshape(*x.shape[:2], prod(x.shape[2:]))
    flat = indices.reshape(*indices.shape[:2], prod(indices.shape[2:]))
    return np.take_along_axis(planes, flat, axis=2).reshape(indices.shape)


def check_divisor(override: int | None) -> None:
    """Refuses to divide by zero."""
    if override == 0:
        raise ValueError("avg_pool: divisor_override is 0")


def _divisor(win: Windows, space: Ints, out: Ints, include_pad: bool, override: int | None) -> Any:
    """By what each window's sum is divided."""
    check_divisor(override)
    if override is not None:
        return override
    count: Any = 1
    for axis, n in enumerate(space):
        before = win.padding[2 * axis]
        start = win.stride[axis] * np.arange(out[axis]) - before
        stop = np.minimum(start + win.kernel[axis], n + before)
        if not include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        count = count * (stop - start).reshape(-1, *[1] * (len(space) - axis - 1))
    return count


def avg_pool(
    x: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    include_pad: bool,
    override: int | None,
) -> Array:
    """The mean of each window."""
    space = x.shape[2:]
    ones = (1,) * len(space)
    win, out = pool_windows("avg_pool", space, kernel, stride, padding, ones, ceil_mode)
    image = pad(x, win.padding)
    total = np.zeros((*x.shape[:2], *out), x.dtype)
    for _, where in win.places(out):
        total += image[(..., *where)]
    return _divided(total, _divisor(win, space, out, include_pad, override))


def avg_pool_backward(
    grad: Array,
    space: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    include_pad: bool,
    override: int | None,
) -> Array:
    """Gives each element of a window its share of the gradient."""
    ones = (1,) * len(space)
    win, out = pool_windows("avg_pool", space, kernel, stride, padding, ones, ceil_mode)
    share = _divided(grad, _divisor(win, space, out, include_pad, override))
    image: Array = np.zeros((*grad.shape[:2], *win.padded(space)), share.dtype)
    for _, where in win.places(out):
        image[(..., *where)] += share
    inside = tuple(slice(win.padding[2 * i], win.padding[2 * i] + n) for i, n in enumerate(space))
    return np.ascontiguousarray(image[(..., *inside)])


def _divided(total: Array, divisor: Any) -> Array:
    """A quotient in the dtype of a floating sum; an array of integers would widen float32."""
    if isinstance(divisor, np.ndarray) and total.dtype.kind in "fc":
        divisor = divisor.astype(total.real.dtype)
    return np.divide(total, divisor)


def _cells(length: int, size: int) -> list[slice]:
    """A length cut into cells that cover it, equal or overlapping by one element."""
    return [slice(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def adaptive_avg(x: Array, axis: int, size: int) -> Array:
    """The means of `output_size` cells along one axis."""
    moved = np.moveaxis(x, axis, -1)
    dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
    result = np.empty((*moved.shape[:-1], size), dtype)
    for i, cell in enumerate(_cells(moved.shape[-1], size)):
        result[..., i] = moved[..., cell].mean(axis=-1)
    return np.moveaxis(result, -1, axis)


def adaptive_avg_backward(grad: Array, axis: int, length: int) -> Array:
    """Gives each element of a cell its share of the gradient, along one axis."""
    moved = np.moveaxis(grad, axis, -1)
    result = np.zeros((*moved.shape[:-1], length), grad.dtype)
    for i, cell in enumerate(_cells(length, moved.shape[-1])):
        result[..., cell] += moved[..., i : i + 1] / (cell.stop - cell.start)
    return np.moveaxis(result, -1, axis)


def adaptive_max_pool(x: Array, size: Ints) -> tuple[Array, Array]:
    """The largest element of each of `output_size` cells, and its index."""
    space = x.shape[2:]
    if not prod(space):
        raise ValueError(f"adaptive_max_pool: no elements to choose from in shape {list(x.shape)}")
    values: Array = np.empty((*x.shape[:2], *size), x.dtype)
    places: Array = np.empty(values.shape, np.int64)
    numbers = np.arange(prod(space)).reshape(space)
    grid = [_cells(n, s) for n, s in zip(space, size, strict=True)]
    for cell in product(*map(range, size)):
        where = tuple(grid[axis][i] for axis, i in enumerate(cell))
        flat = x[(..., *where)].reshape(*x.shape[:2], numbers[where].size)
        first = flat.argmax(axis=-1)
        places[(..., *cell)] = numbers[where].reshape(-1)[first]
        values[(..., *cell)] = np.take_along_axis(flat, first[..., np.newaxis], -1)[..., 0]
    return values, places
