"""Shapes of convolutions, pooling and interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.kernels.shape_spec import Shaped, Spec, promoted, with_length
from pullback.operators.nn.conv.kernels import check_columns, check_conv, windows
from pullback.operators.nn.pool.kernels import check_divisor, pool_windows

__all__ = [
    "Ints",
    "adaptive_avg",
    "adaptive_avg_backward",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_backward",
    "col2im",
    "conv",
    "conv_input",
    "conv_weight",
    "im2col",
    "max_pool",
    "plane_gather",
    "plane_scatter",
    "resize",
    "resize_backward",
]

Ints = Sequence[int]


def conv(
    x: Shaped,
    w: Shaped,
    bias: Shaped | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Spec:
    """One image a row of the weight, with an element for each place of the kernel."""
    check_conv(x, w, bias, groups)
    out = windows(w.shape[2:], stride, padding, dilation).out(x.shape[2:])
    return Spec((x.shape[0], w.shape[0], *out), promoted(x, w))


def conv_input(g: Shaped, w: Shaped, space: Ints, *rest: Any) -> Spec:
    """The images that were convolved."""
    return Spec((g.shape[0], w.shape[1] * rest[-1], *space), promoted(g, w))


def conv_weight(x: Shaped, g: Shaped, kernel: Ints, *rest: Any) -> Spec:
    """The kernels that they were convolved with."""
    return Spec((g.shape[1], x.shape[1] // rest[-1], *kernel), promoted(x, g))


def im2col(x: Shaped, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Spec:
    """A column for each window."""
    out = windows(kernel_size, stride, padding, dilation).out(x.shape[2:], "unfold")
    return Spec((x.shape[0], x.shape[1] * prod(kernel_size), prod(out)), x.dtype)


def col2im(
    columns: Shaped,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
) -> Spec:
    """The image that the columns are windows of."""
    win = windows(kernel_size, stride, padding, dilation)
    check_columns(columns, win, output_size)
    channels = columns.shape[1] // prod(kernel_size)
    return Spec((columns.shape[0], channels, *output_size), columns.dtype)


def max_pool(
    x: Shaped, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Spec, Spec]:
    """One element a window, and its place."""
    space = x.shape[2:]
    _, out = pool_windows("max_pool", space, kernel, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[:2], *out)
    return Spec(shape, x.dtype), Spec(shape, np.dtype(np.int64))


def _mean(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "fc" else np.dtype(float)


def avg_pool(
    x: Shaped,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    include_pad: bool,  # noqa: ARG001 - values
    override: int | None,
) -> Spec:
    """One element a window."""
    check_divisor(override)
    ones = (1,) * (x.ndim - 2)
    _, out = pool_windows("avg_pool", x.shape[2:], kernel, stride, padding, ones, ceil_mode)
    return Spec((*x.shape[:2], *out), _mean(x.dtype))


def avg_pool_backward(grad: Shaped, space: Ints, *_: Any) -> Spec:
    """The images that were pooled."""
    return Spec((*grad.shape[:2], *space), _mean(grad.dtype))


def adaptive_avg(x: Shaped, axis: int, size: int) -> Spec:
    """So many elements along an axis."""
    return Spec(with_length(x, axis, size), _mean(x.dtype))


def adaptive_avg_backward(grad: Shaped, axis: int, length: int) -> Spec:
    """As many elements along an axis as there were."""
    return Spec(with_length(grad, axis, length), grad.dtype)


def adaptive_max_pool(x: Shaped, size: Ints) -> tuple[Spec, Spec]:
    """So many elements along each axis, and their places."""
    if not prod(x.shape[2:]):
        raise ValueError(f"adaptive_max_pool: no elements to choose from in shape {list(x.shape)}")
    shape = (*x.shape[:2], *size)
    return Spec(shape, x.dtype), Spec(shape, np.dtype(np.int64))


def plane_scatter(grad: Shaped, indices: Shaped, shape: Ints) -> Spec:  # noqa: ARG001 - values
    """Images of a shape."""
    return Spec(tuple(shape), grad.dtype)


def plane_gather(x: Shaped, indices: Shaped) -> Spec:
    """One element for each index."""
    return Spec(indices.shape, x.dtype)


def resize(x: Shaped, axis: int, size: int, *_: Any) -> Spec:
    """So many elements along an axis."""
    return Spec(with_length(x, axis, size), x.dtype)


resize_backward = resize
