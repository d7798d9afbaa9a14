"""Pooling over one to three axes, and interpolation, in PyTorch's form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from pullback._generated import functions_nn_pool as private
from pullback._generated.functions_shape import expand_dims, squeeze
from pullback.operators.nn.conv.composites import Ints, batched, each

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool_with_indices",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "interpolate",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool_with_indices",
]

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_NEAREST = ("nearest", "nearest-exact", "area")


def max_pool_with_indices(
    axes: int,
    x: Any,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest elements of windows over the last axes, and their places."""
    name = f"max_pool{axes}d"
    kernel = each(f"{name}: kernel_size", kernel_size, axes)
    step = kernel if stride is None else each(f"{name}: stride", stride, axes)
    sides = each(f"{name}: padding", padding, axes)
    spread = each(f"{name}: dilation", dilation, axes)
    if x.ndim == axes + 1:
        pair = private._max_pool(expand_dims(x, 0), kernel, step, sides, spread, ceil_mode)
        return tuple(squeeze(part, 0) for part in pair)
    return batched(
        name, lambda x: private._max_pool(x, kernel, step, sides, spread, ceil_mode), x, axes + 2
    )


def _max_pool(axes: int, *args: Any) -> Any:
    return max_pool_with_indices(axes, *args)[0]


max_pool1d = partial(_max_pool, 1)
max_pool2d = partial(_max_pool, 2)
max_pool1d_with_indices = partial(max_pool_with_indices, 1)
max_pool2d_with_indices = partial(max_pool_with_indices, 2)


def avg_pool(
    axes: int,
    x: Any,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The means of windows over the last axes."""
    name = f"avg_pool{axes}d"
    kernel = each(f"{name}: kernel_size", kernel_size, axes)
    step = kernel if stride is None else each(f"{name}: stride", stride, axes)
    sides = each(f"{name}: padding", padding, axes)
    options = (kernel, step, sides, ceil_mode, count_include_pad, divisor_override)
    return batched(name, lambda x: private._avg_pool(x, *options), x, axes + 2)


avg_pool1d = partial(avg_pool, 1)
avg_pool2d = partial(avg_pool, 2)


def _sizes(name: str, output_size: Any, space: Sequence[int]) -> tuple[int, ...]:
    """The size of each axis; None leaves it as it is."""
    sizes = (output_size,) if output_size is None else output_size
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if len(sizes) == 1:
        sizes *= len(space)
    if len(sizes) != len(space):
        raise ValueError(f"{name}: output_size is {output_size}; give one or {len(space)} sizes")
    return tuple(n if size is None else size for size, n in zip(sizes, space, strict=True))


def _equal_steps(space: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The size of the cells, if they are equal and none is empty."""
    if any(s < 1 or n < s or n % s for n, s in zip(space, sizes, strict=True)):
        return None
    return tuple(n // s for n, s in zip(space, sizes, strict=True))


def adaptive_avg_pool(axes: int, x: Any, output_size: Any) -> Any:
    """The means of cells of the last axes."""
    name = f"adaptive_avg_pool{axes}d"
    if x.ndim not in (axes + 1, axes + 2):
        raise ValueError(f"{name}: the input of shape {list(x.shape)} needs {axes + 2} axes")
    sizes = _sizes(name, output_size, x.shape[-axes:])
    steps = _equal_steps(x.shape[-axes:], sizes)
    if steps and prod(steps) <= sum(sizes):  # few passes over all windows at once
        return avg_pool(axes, x, steps)
    for axis, size in enumerate(sizes, -axes):
        if x.shape[axis] != size:
            x = private._adaptive_avg(x, axis, size)
    return x


adaptive_avg_pool1d = partial(adaptive_avg_pool, 1)
adaptive_avg_pool2d = partial(adaptive_avg_pool, 2)


def adaptive_max_pool_with_indices(axes: int, x: Any, output_size: Any) -> Any:
    """The largest elements of cells of the last axes, and their places."""
    name = f"adaptive_max_pool{axes}d"
    sizes = _sizes(name, output_size, x.shape[-axes:])
    steps = _equal_steps(x.shape[-axes:], sizes)
    if steps and prod(steps) <= prod(sizes):
        return max_pool_with_indices(axes, x, steps)
    if x.ndim == axes + 1:
        pair = private._adaptive_max_pool(expand_dims(x, 0), sizes)
        return tuple(squeeze(part, 0) for part in pair)
    return batched(name, lambda x: private._adaptive_max_pool(x, sizes), x, axes + 2)


def _adaptive_max_pool(axes: int, x: Any, output_size: Any) -> Any:
    return adaptive_max_pool_with_indices(axes, x, output_size)[0]


adaptive_max_pool1d = partial(_adaptive_max_pool, 1)
adaptive_max_pool2d = partial(_adaptive_max_pool, 2)
adaptive_max_pool1d_with_indices = partial(adaptive_max_pool_with_indices, 1)
adaptive_max_pool2d_with_indices = partial(adaptive_max_pool_with_indices, 2)


def _new_sizes(
    space: tuple[int, ...], size: Ints | None, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The new length of each axis, and the factors where they were given."""
    axes = len(space)
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor")
    scales: tuple[float | None, ...] = (None,) * axes
    if scale_factor is None:
        sizes = each("interpolate: size", size or 0, axes)
    else:
        given = [scale_factor] if isinstance(scale_factor, int | float) else list(scale_factor)
        given = given * axes if len(given) == 1 else given
        if len(given) != axes:
            raise ValueError(f"interpolate: scale_factor is {scale_factor}; give one or {axes}")
        scales = tuple(given)
        sizes = tuple(int(n * s) for n, s in zip(space, given, strict=True))
    if min(sizes) < 1:
        raise ValueError(f"interpolate: the size {list(sizes)} has an axis without elements")
    return sizes, scales


def interpolate(
    x: Any,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Any:
    """Resizes the axes after the first two, one after the other."""
    axes = x.ndim - 2
    if mode not in (*_NEAREST, *_LINEAR) or _LINEAR.get(mode, axes) != axes or axes < 1:
        raise ValueError(
            f"interpolate: the mode {mode!r} does not fit an input of shape {list(x.shape)}; give "
            "'nearest', 'nearest-exact' or 'area', 'bicubic' for two axes after batch and "
            "channels, or 'linear', 'bilinear' or 'trilinear' for one, two or three"
        )
    if align_corners is not None and mode in _NEAREST:
        raise ValueError(
            f"interpolate: align_corners has no meaning for mode={mode!r}; leave it None"
        )
    sizes, scales = _new_sizes(tuple(x.shape[2:]), size, scale_factor)
    if recompute_scale_factor:
        if scale_factor is None:
            raise ValueError("interpolate: recompute_scale_factor needs a scale_factor")
        scales = (None,) * axes
    if mode in _LINEAR and mode != "bicubic":
        # As in PyTorch an axis that keeps its length is copied, whatever the factor.
        triples = zip(x.shape[2:], sizes, scales, strict=True)
        scales = tuple(None if n == length else scale for n, length, scale in triples)
    kind = "cubic" if mode == "bicubic" else "linear" if mode in _LINEAR else mode
    for axis, (length, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        if mode == "area":
            x = private._adaptive_avg(x, axis, length)
        else:
            x = private._resize(x, axis, length, kind, bool(align_corners), scale)
    return x
