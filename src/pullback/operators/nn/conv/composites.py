"""Convolutions over one, two or three axes, and columns of windows, in PyTorch's form.

Here a number becomes one for each axis, the words for padding become numbers, and an input without
a batch gets one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pullback._generated import functions_nn_conv as private
from pullback._generated.functions_shape import _constant_pad, expand_dims, reshape, squeeze

__all__ = [
    "Ints",
    "batched",
    "both_sides",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "each",
    "fold",
    "unfold",
]

Ints = int | Sequence[int]


def each(name: str, value: Ints, count: int) -> tuple[int, ...]:
    """One number for each axis."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= count
    if len(values) != count:
        raise ValueError(f"{name} is {value}; one number or {count} are expected")
    return values


def both_sides(values: Sequence[int]) -> tuple[int, ...]:
    """Padding that is the same before and after."""
    return tuple(v for v in values for _ in range(2))


def batched(name: str, function: Callable[[Any], Any], x: Any, ndim: int) -> Any:
    """Calls a function with a batch, and takes it away again from an input that had none."""
    if x.ndim == ndim:
        return function(x)
    if x.ndim != ndim - 1:
        raise ValueError(
            f"{name}: the input of shape {list(x.shape)} has {x.ndim} axes; {ndim} are expected, "
            f"or {ndim - 1} without a batch"
        )
    return squeeze(function(expand_dims(x, 0)), 0)


def _padding(
    name: str, padding: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    count = len(kernel)
    if not isinstance(padding, str):
        return both_sides(each(f"{name}: padding", padding, count))
    if padding == "valid":
        return (0, 0) * count
    if padding != "same":
        raise ValueError(f"{name}: padding is {padding!r}; give numbers, 'same' or 'valid'")
    if any(s != 1 for s in stride):
        raise ValueError(f"{name}: padding='same' needs a stride of 1, not {stride}")
    totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple(side for total in totals for side in (total // 2, total - total // 2))


def _conv(
    axes: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Any = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Any:
    name = f"conv{axes}d"
    if weight.ndim != axes + 2:
        raise ValueError(f"{name}: the weight of shape {list(weight.shape)} needs {axes + 2} axes")
    stride = each(f"{name}: stride", stride, axes)
    dilation = each(f"{name}: dilation", dilation, axes)
    padding = _padding(name, padding, weight.shape[2:], stride, dilation)
    return batched(
        name,
        lambda x: private._conv(x, weight, bias, stride, padding, dilation, groups),
        x,
        axes + 2,
    )


def _conv_transpose(
    axes: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Any:
    name = f"conv_transpose{axes}d"
    if weight.ndim != axes + 2:
        raise ValueError(f"{name}: the weight of shape {list(weight.shape)} needs {axes + 2} axes")
    if x.ndim > axes and x.shape[-axes - 1] != weight.shape[0]:
        raise ValueError(
            f"{name}: the input of shape {list(x.shape)} does not fit the weight of shape "
            f"{list(weight.shape)}: {weight.shape[0]} channels are expected"
        )
    stride = each(f"{name}: stride", stride, axes)
    dilation = each(f"{name}: dilation", dilation, axes)
    padding = each(f"{name}: padding", padding, axes)
    extra = each(f"{name}: output_padding", output_padding, axes)
    channels = weight.shape[1] * groups
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"{name}: the bias has shape {list(bias.shape)}, not [{channels}]")
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise ValueError(
            f"{name}: output_padding {extra} must be smaller than stride {stride} or dilation "
            f"{dilation}"
        )
    # output_padding is less padding after an axis; what remains of it is zeros.
    ends = tuple(max(0, p - e) for p, e in zip(padding, extra, strict=True))
    zeros = [max(0, e - p) for p, e in zip(padding, extra, strict=True)]
    space = tuple(
        (n - 1) * s - p - end + d * (k - 1) + 1
        for n, s, p, end, d, k in zip(
            x.shape[-axes:], stride, padding, ends, dilation, weight.shape[2:], strict=True
        )
    )
    if any(n + zero < 1 for n, zero in zip(space, zeros, strict=True)):
        raise ValueError(
            f"{name}: the padding {padding} leaves no output of the input of shape {list(x.shape)}"
        )
    sides = tuple(side for pair in zip(padding, ends, strict=True) for side in pair)
    result = batched(
        name,
        lambda x: private._conv_input(x, weight, space, stride, sides, dilation, groups),
        x,
        axes + 2,
    )
    if any(zeros):
        widths = [0, 0] * (x.ndim - axes) + [count for zero in zeros for count in (0, zero)]
        result = _constant_pad(result, widths, [0] * len(widths))
    return result if bias is None else result + reshape(bias, (channels, *[1] * axes))


conv1d = partial(_conv, 1)
conv2d = partial(_conv, 2)
conv3d = partial(_conv, 3)
conv_transpose1d = partial(_conv_transpose, 1)
conv_transpose2d = partial(_conv_transpose, 2)
conv_transpose3d = partial(_conv_transpose, 3)


def unfold(
    x: Any, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Any:
    """The windows of images as columns."""
    kernel = each("unfold: kernel_size", kernel_size, 2)
    spread = each("unfold: dilation", dilation, 2)
    sides = both_sides(each("unfold: padding", padding, 2))
    step = each("unfold: stride", stride, 2)
    return batched("unfold", lambda x: private._im2col(x, kernel, spread, sides, step), x, 4)


def fold(
    x: Any,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Any:
    """The sum of windows laid back where they came from."""
    size = each("fold: output_size", output_size, 2)
    kernel = each("fold: kernel_size", kernel_size, 2)
    spread = each("fold: dilation", dilation, 2)
    sides = both_sides(each("fold: padding", padding, 2))
    step = each("fold: stride", stride, 2)
    return batched("fold", lambda x: private._col2im(x, size, kernel, spread, sides, step), x, 3)
