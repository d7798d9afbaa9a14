"""Convolution over any number of spatial axes, as three products of one trilinear form.

With x of shape (N, C, *space), w of shape (O, C / groups, *kernel) and g of shape (N, O, *out), the
sum of ``g * conv(x, w)`` is linear in each. Its derivatives are `conv` (in g), `conv_input` (in x)
and `conv_weight` (in w), and each is the derivative of another. All three are one matrix product
with *columns*: the windows of x laid out as (groups, channels * kernel, N * out). The batch is
taken in pieces, so that columns stay small.

Columns are copied in runs of one row of the output. Where that pays for two transposed copies, the
batch is made the last axis before: then a run is a row of all images of the piece. A training step
with 64 images of 4 x 4 takes half the time so.

`padding` has two numbers an axis, before and after, as in (top, bottom, left, right).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

__all__ = [
    "Array",
    "Ints",
    "Windows",
    "check_columns",
    "check_conv",
    "col2im",
    "conv",
    "conv_input",
    "conv_weight",
    "im2col",
    "pad",
    "windows",
]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any
Ints = Sequence[int]

_COLUMNS = 1 << 18  # elements of columns at a time: they stay in the cache for the product
_GAIN = 2.5  # columns have so many times the elements of input and output: the batch becomes last


class Windows(NamedTuple):
    """Geometry of sliding windows: kernel size, stride, padding, dilation."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def padded(self, space: Ints) -> tuple[int, ...]:
        """The size of the image with its borders."""
        return tuple(n + sum(self.padding[2 * i : 2 * i + 2]) for i, n in enumerate(space))

    def out(self, space: Ints, name: str = "convolution") -> tuple[int, ...]:
        """The number of windows along each axis."""
        sizes = []
        for i, n in enumerate(self.padded(space)):
            reach = self.dilation[i] * (self.kernel[i] - 1) + 1
            if n < reach:
                raise ValueError(
                    f"{name}: the kernel of size {list(self.kernel)} with dilation "
                    f"{list(self.dilation)} does not fit into the input of size {list(space)} "
                    f"with padding {list(self.padding)}"
                )
            sizes.append((n - reach) // self.stride[i] + 1)
        return tuple(sizes)

    def places(self, out: Ints) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each element of the kernel, with the elements of the padded image that it meets."""
        for offset in product(*map(range, self.kernel)):
            yield (
                offset,
                tuple(
                    slice(k * d, k * d + (n - 1) * s + 1, s)
                    for k, d, s, n in zip(offset, self.dilation, self.stride, out, strict=True)
                ),
            )


def windows(kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Windows:
    """The windows of checked arguments."""
    for name, values, least in (("stride", stride, 1), ("dilation", dilation, 1)):
        if any(v < least for v in values):
            raise ValueError(f"convolution: {name} is {list(values)}; it must be at least {least}")
    if any(v < 0 for v in padding):
        raise ValueError(f"convolution: padding is {list(padding)}; it must not be negative")
    return Windows(tuple(kernel), tuple(stride), tuple(padding), tuple(dilation))


def pad(x: Array, padding: Ints, value: float = 0.0) -> Array:
    """The image inside a border."""
    if not any(padding):
        return x
    space = x.shape[2:]
    wide = [n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(space)]
    result: Array = np.zeros((*x.shape[:2], *wide), x.dtype)
    if value:
        result.fill(value)
    result[(..., *_inside(padding, space))] = x
    return result


def _inside(padding: Ints, space: Ints) -> tuple[slice, ...]:
    return tuple(slice(padding[2 * i], padding[2 * i] + n) for i, n in enumerate(space))


def _gains_from_batch_last(batch: int, inputs: int, outputs: int, columns: int) -> bool:
    """Whether making the batch the last axis takes less time than it saves; see the docstring.

    The numbers are elements of one image.
    """
    return batch > 1 and columns > _GAIN * (inputs + outputs)


def _by_channel(x: Array, is_last: bool) -> Array:
    """An array of axes (N, C, *space) with the axes (C, *space, N), or (C, N, *space)."""
    return x.transpose(*range(1, x.ndim), 0) if is_last else x.swapaxes(0, 1)


def _by_sample(x: Array, is_last: bool) -> Array:
    """The inverse of `_by_channel`."""
    return x.transpose(x.ndim - 1, *range(x.ndim - 1)) if is_last else x.swapaxes(0, 1)


def _framed(x: Array, padding: Ints, is_last: bool) -> Array:
    """Images inside a border of zeros, by channel."""
    if not is_last:
        return _by_channel(pad(x, padding), False)
    space = x.shape[2:]
    wide = [n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(space)]
    result: Array = np.zeros((x.shape[1], *wide, x.shape[0]), x.dtype)
    result[(slice(None), *_inside(padding, space))] = _by_channel(x, True)
    return result


def _columns(x: Array, w: Windows, out: Ints, groups: int, is_last: bool = False) -> Array:
    """The windows of images by channel as (groups, channels * kernel, N * out)."""
    batch = x.ndim - 1 if is_last else 1
    steps = x.strides[1:-1] if is_last else x.strides[2:]
    inner = [s * d for s, d in zip(steps, w.dilation, strict=True)]
    outer = [s * d for s, d in zip(steps, w.stride, strict=True)]
    count, step = x.shape[batch], x.strides[batch]
    lengths = (*out, count) if is_last else (count, *out)
    strides = (*outer, step) if is_last else (step, *outer)
    view = as_strided(
        x, (x.shape[0], *w.kernel, *lengths), (x.strides[0], *inner, *strides), writeable=False
    )
    return view.reshape(groups, x.shape[0] // groups * prod(w.kernel), count * prod(out))


def _add_columns(
    image: Array, columns: Array, w: Windows, out: Ints, is_last: bool = False
) -> None:
    """Adds columns to the padded images by channel that they are windows of."""
    lengths = (*out, image.shape[-1]) if is_last else (image.shape[1], *out)
    columns = columns.reshape(image.shape[0], *w.kernel, *lengths)
    for offset, place in w.places(out):
        where = (slice(None), *place) if is_last else (..., *place)
        image[where] += columns[(slice(None), *offset)]


def _pieces(count: int, elements: int) -> Iterator[slice]:
    """The batch in pieces with few enough elements each."""
    step = max(1, _COLUMNS // max(1, elements))
    return (slice(start, start + step) for start in range(0, count, step))


def _grouped(g: Array, groups: int, is_last: bool) -> Array:
    """An output of shape (N, O, *out) as (groups, O / groups, N * out)."""
    moved = _by_channel(g, is_last)
    return moved.reshape(groups, g.shape[1] // groups, g.shape[0] * prod(g.shape[2:]))


def check_conv(x: Array, w: Array, bias: Array | None, groups: int) -> None:
    """Refuses channels that do not fit the weight and the groups."""
    name = "convolution"
    if groups < 1 or w.shape[0] % groups:
        raise ValueError(
            f"{name}: groups is {groups}; it must divide the {w.shape[0]} output channels of the "
            f"weight of shape {list(w.shape)}"
        )
    if x.ndim != w.ndim or x.shape[1] != w.shape[1] * groups:
        raise ValueError(
            f"{name}: the input of shape {list(x.shape)} does not fit the weight of shape "
            f"{list(w.shape)} with {groups} group(s): {w.shape[1] * groups} channels are expected"
        )
    if bias is not None and bias.shape != (w.shape[0],):
        raise ValueError(
            f"{name}: the bias has shape {list(bias.shape)}, but the weight of shape "
            f"{list(w.shape)} makes {w.shape[0]} channels"
        )


def conv(
    x: Array,
    w: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """Slides a kernel over an image; the sum of products at each place."""
    check_conv(x, w, bias, groups)
    win = windows(w.shape[2:], stride, padding, dilation)
    out = win.out(x.shape[2:])
    matrix = w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))
    result = np.empty((x.shape[0], w.shape[0], *out), np.result_type(x, w))
    size = prod(out) * x.shape[1] * prod(win.kernel)
    is_last = _gains_from_batch_last(x.shape[0], prod(x.shape[1:]), prod(result.shape[1:]), size)
    for piece in _pieces(x.shape[0], size):
        columns = _columns(_framed(x[piece], padding, is_last), win, out, groups, is_last)
        part = np.matmul(matrix, columns)
        if bias is not None:
            part += bias.reshape(groups, -1, 1)
        lengths = (*out, -1) if is_last else (-1, *out)
        result[piece] = _by_sample(part.reshape(w.shape[0], *lengths), is_last)
    return result


def conv_input(
    g: Array,
    w: Array,
    space: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """Spreads each output over the window that it came from."""
    win = windows(w.shape[2:], stride, padding, dilation)
    channels, out = w.shape[1] * groups, g.shape[2:]
    matrix = w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:])).swapaxes(1, 2)
    dtype = np.result_type(g, w)
    result = np.empty((g.shape[0], channels, *space), dtype)
    size = prod(out) * channels * prod(win.kernel)
    is_last = _gains_from_batch_last(g.shape[0], prod(result.shape[1:]), prod(g.shape[1:]), size)
    inside = _inside(padding, space)
    for piece in _pieces(g.shape[0], size):
        columns = np.matmul(matrix, _grouped(g[piece], groups, is_last))
        wide, count = win.padded(space), g[piece].shape[0]
        image: Array = np.zeros((channels, *((*wide, count) if is_last else (count, *wide))), dtype)
        _add_columns(image, columns, win, out, is_last)
        part = image[(slice(None), *inside) if is_last else (..., *inside)]
        result[piece] = _by_sample(part, is_last)
    return result


def conv_weight(
    x: Array,
    g: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """The products of outputs with what they saw, summed over all places."""
    win = windows(kernel, stride, padding, dilation)
    out, channels = g.shape[2:], g.shape[1]
    rows = x.shape[1] // groups * prod(kernel)
    result = np.zeros((groups, channels // groups, rows), np.result_type(x, g))
    size = prod(out) * x.shape[1] * prod(win.kernel)
    is_last = _gains_from_batch_last(x.shape[0], prod(x.shape[1:]), prod(g.shape[1:]), size)
    for piece in _pieces(x.shape[0], size):
        columns = _columns(_framed(x[piece], padding, is_last), win, out, groups, is_last)
        result += np.matmul(_grouped(g[piece], groups, is_last), columns.swapaxes(1, 2))
    return result.reshape(channels, x.shape[1] // groups, *kernel)


def im2col(x: Array, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Array:
    """The windows of images as columns: (N, C * kernel, windows)."""
    win = windows(kernel_size, stride, padding, dilation)
    out = win.out(x.shape[2:], "unfold")
    columns = _columns(_framed(x, padding, False), win, out, 1)
    moved = columns.reshape(columns.shape[1], x.shape[0], prod(out)).swapaxes(0, 1)
    return np.ascontiguousarray(moved)


def check_columns(columns: Array, win: Windows, output_size: Ints) -> None:
    """Refuses columns that are not the windows of an image of a size."""
    out = win.out(output_size, "fold")
    _, rows, count = columns.shape
    if rows % prod(win.kernel) or count != prod(out):
        raise ValueError(
            f"fold: columns of shape {list(columns.shape)} do not fit: expected "
            f"(N, C * {prod(win.kernel)}, {prod(out)}) for the size {list(output_size)} and the "
            f"kernel {list(win.kernel)}"
        )


def col2im(
    columns: Array,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
) -> Array:
    """The sum of windows laid back where they came from: (N, C, *output_size)."""
    win = windows(kernel_size, stride, padding, dilation)
    out = win.out(output_size, "fold")
    check_columns(columns, win, output_size)
    batch, rows, _ = columns.shape
    shape = (batch, rows // prod(win.kernel), *win.padded(output_size))
    image: Array = np.zeros(shape, columns.dtype)
    _add_columns(_by_channel(image, False), columns.swapaxes(0, 1), win, out)
    return np.ascontiguousarray(image[(..., *_inside(padding, output_size))])
