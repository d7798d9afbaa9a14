"""Pooling over one, two and three axes in PyTorch's form: part of ``nn.functional``."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pullback._generated import functions_nn_pool as pool
from pullback._generated.functions_pointwise import abs, sign
from pullback.errors import ModuleInputError
from pullback.nn.spelling import spell
from pullback.operators.creation.functions import asarray, zeros
from pullback.operators.nn.conv.composites import each
from pullback.operators.nn.pool import composites
from pullback.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _max_pool3d_with_indices(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of volumes, and its place.

    >>> import pullback as pb
    >>> pb.nn.functional.max_pool3d_with_indices(pb.ones((1, 1, 2, 2, 2)), 2)[1].item()
    0
    """
    options = (kernel_size, stride, padding, dilation, ceil_mode)
    return composites.max_pool_with_indices(3, asarray(x), *options)


def _avg_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of volumes.

    >>> import pullback as pb
    >>> pb.nn.functional.avg_pool3d(pb.ones((1, 1, 2, 2, 2)), 2).item()
    1.0
    """
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return composites.avg_pool(3, asarray(x), *options)


def _adaptive_avg_pool3d(x: Any, output_size: Any) -> Any:
    """The means of volumes divided into `output_size` cells.

    >>> import pullback as pb
    >>> pb.nn.functional.adaptive_avg_pool3d(pb.ones((1, 1, 2, 2, 2)), 1).item()
    1.0
    """
    return composites.adaptive_avg_pool(3, asarray(x), output_size)


def _adaptive_max_pool3d_with_indices(x: Any, output_size: Any) -> Any:
    """The largest elements of cells of volumes, and their places.

    >>> import pullback as pb
    >>> pb.nn.functional.adaptive_max_pool3d_with_indices(pb.ones((1, 1, 2, 2, 2)), 1)[1].item()
    0
    """
    return composites.adaptive_max_pool_with_indices(3, asarray(x), output_size)


adaptive_avg_pool1d = spell(pool.adaptive_avg_pool1d, kinds="f")
adaptive_avg_pool2d = spell(pool.adaptive_avg_pool2d, kinds="f")
adaptive_avg_pool3d = spell(_adaptive_avg_pool3d, kinds="f")
adaptive_max_pool1d_with_indices = spell(pool.adaptive_max_pool1d_with_indices, kinds="f")
adaptive_max_pool2d_with_indices = spell(pool.adaptive_max_pool2d_with_indices, kinds="f")
adaptive_max_pool3d_with_indices = spell(_adaptive_max_pool3d_with_indices, kinds="f")
avg_pool1d = spell(pool.avg_pool1d, kinds="fi", keeps_integers=True)
avg_pool2d = spell(pool.avg_pool2d, kinds="fi", keeps_integers=True)
avg_pool3d = spell(_avg_pool3d, kinds="fi", keeps_integers=True)
max_pool1d_with_indices = spell(pool.max_pool1d_with_indices, kinds="f")
max_pool2d_with_indices = spell(pool.max_pool2d_with_indices, kinds="fi")
max_pool3d_with_indices = spell(_max_pool3d_with_indices, kinds="fi")


def _with_option(axes: int, values: Any, pairs: Any, is_adaptive: bool = False) -> Any:
    """A pooling that returns places too if the argument `return_indices` says so.

    Without places it is the function `values`, with them `pairs`.
    """
    last = 1 if is_adaptive else 5  # arguments between the input and return_indices

    def max_pool(input: Any, *args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        if len(args) == last + 1:
            *args, return_indices = args  # type: ignore[assignment]
        return (pairs if return_indices else values)(input, *args, **kwargs)

    kind = "adaptive_max" if is_adaptive else "max"
    max_pool.__name__ = max_pool.__qualname__ = f"{kind}_pool{axes}d"
    max_pool.__doc__ = f"""The largest elements of windows or cells over {axes} axes.

    The arguments are those of the module; `return_indices` gives the places too.

    >>> import pullback as pb
    >>> pb.nn.functional.{max_pool.__name__}(pb.ones((1, 1{", 2" * axes})), 2).sum().item()
    {1.0 if not is_adaptive else 2.0**axes}
    """
    return max_pool


def _values_of(pairs: Any) -> Any:
    return lambda *args, **kwargs: pairs(*args, **kwargs)[0]


adaptive_max_pool1d = _with_option(
    1, spell(pool.adaptive_max_pool1d, kinds="f"), adaptive_max_pool1d_with_indices, True
)
adaptive_max_pool2d = _with_option(
    2, spell(pool.adaptive_max_pool2d, kinds="f"), adaptive_max_pool2d_with_indices, True
)
adaptive_max_pool3d = _with_option(
    3, _values_of(adaptive_max_pool3d_with_indices), adaptive_max_pool3d_with_indices, True
)
max_pool1d = _with_option(1, spell(pool.max_pool1d, kinds="f"), max_pool1d_with_indices)
max_pool2d = _with_option(2, spell(pool.max_pool2d, kinds="fi"), max_pool2d_with_indices)
max_pool3d = _with_option(3, _values_of(max_pool3d_with_indices), max_pool3d_with_indices)


def _unpooled_size(
    axes: int, space: tuple[int, ...], options: tuple[Any, ...], output_size: Any
) -> tuple[int, ...]:
    """The size of the image that was pooled; it may differ by less than a step of the window."""
    kernel, stride, padding = options
    usual = tuple(
        (n - 1) * s - 2 * p + k for n, k, s, p in zip(space, kernel, stride, padding, strict=True)
    )
    if output_size is None:
        return usual
    given = tuple(output_size)[-axes:]
    pairs = zip(given, usual, stride, strict=False)
    if len(given) != axes or any(not u - s < g < u + s for g, u, s in pairs):
        raise ValueError(
            f"max_unpool{axes}d: output_size is {tuple(output_size)}; lengths of {axes} axes are "
            f"expected that differ from {usual} by less than the stride {tuple(stride)}"
        )
    return given


def _max_unpool(
    axes: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    name = f"max_unpool{axes}d"
    x, places = asarray(input), asarray(indices)
    if places.dtype != np.int64 or places.shape != x.shape:
        raise ModuleInputError(
            f"expected indices of int64 and shape {x.shape}, got {places.dtype} and "
            f"{places.shape} in {name}"
        )
    kernel = each(f"{name}: kernel_size", kernel_size, axes)
    steps = kernel if stride is None else each(f"{name}: stride", stride, axes)
    sides = each(f"{name}: padding", padding, axes)
    space = x.shape[x.ndim - axes :]
    size = _unpooled_size(axes, tuple(space), (kernel, steps, sides), output_size)
    lead = x.shape[: x.ndim - axes]
    flat = places.reshape((*lead, prod(space)))
    numbers = flat.detach().numpy()
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < prod(size):
        raise ValueError(
            f"{name}: found an invalid index: they lie in {numbers.min()} to {numbers.max()}, the "
            f"image of size {size} has {prod(size)} places"
        )
    base = zeros((*lead, prod(size)), dtype=x.dtype)
    made: Tensor = base.scatter(base.ndim - 1, flat, x.reshape(flat.shape))
    return made.reshape((*lead, *size))


def max_unpool1d(input: Any, indices: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The inverse of `max_pool1d` with indices: zeros where no largest element was.

    The arguments are kernel_size, stride, padding and output_size.

    >>> import pullback as pb
    >>> values, places = max_pool1d(pb.tensor([[[1.0, 3.0]]]), 2, return_indices=True)
    >>> max_unpool1d(values, places, 2).tolist()
    [[[0.0, 3.0]]]
    """
    return _max_unpool(1, input, indices, *args, **kwargs)


def max_unpool2d(input: Any, indices: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The inverse of `max_pool2d` with indices; the arguments are those of `max_unpool1d`.

    >>> import pullback as pb
    >>> max_unpool2d(*max_pool2d(pb.ones((1, 1, 2, 2)), 2, return_indices=True), 2).sum().item()
    1.0
    """
    return _max_unpool(2, input, indices, *args, **kwargs)


def max_unpool3d(input: Any, indices: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The inverse of `max_pool3d` with indices; the arguments are those of `max_unpool1d`.

    >>> import pullback as pb
    >>> max_unpool3d(*max_pool3d(pb.ones((1, 1, 2, 2, 2)), 2, return_indices=True), 2).sum().item()
    1.0
    """
    return _max_unpool(3, input, indices, *args, **kwargs)


def _lp_pool(
    axes: int,
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Tensor:
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[axes - 1]
    kernel = each(f"lp_pool{axes}d: kernel_size", kernel_size, axes)
    mean = average(input**norm_type, kernel, stride, 0, ceil_mode)
    positive = sign(mean) * abs(mean)
    return (positive * prod(kernel)) ** (1.0 / norm_type)


def lp_pool1d(input: Any, norm_type: float, *args: Any, **kwargs: Any) -> Tensor:
    """The norms of windows of signals; further arguments are kernel_size, stride, ceil_mode.

    >>> import pullback as pb
    >>> lp_pool1d(pb.tensor([[[3.0, 4.0]]]), 2, 2).tolist()
    [[[5.0]]]
    """
    return _lp_pool(1, input, norm_type, *args, **kwargs)


def lp_pool2d(input: Any, norm_type: float, *args: Any, **kwargs: Any) -> Tensor:
    """The norms of windows of images; the arguments are those of `lp_pool1d`.

    >>> import pullback as pb
    >>> lp_pool2d(pb.ones((1, 1, 2, 2)), 2, 2).item()
    2.0
    """
    return _lp_pool(2, input, norm_type, *args, **kwargs)


def lp_pool3d(input: Any, norm_type: float, *args: Any, **kwargs: Any) -> Tensor:
    """The norms of windows of volumes; the arguments are those of `lp_pool1d`.

    >>> import pullback as pb
    >>> lp_pool3d(pb.ones((1, 1, 2, 2, 2)), 1, 2).item()
    8.0
    """
    return _lp_pool(3, input, norm_type, *args, **kwargs)
