"""Normalisation over batches, layers, groups and instances, in PyTorch's form."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback._generated import functions_nn_norm as private
from pullback._generated.functions_pointwise import add_, mul_, sqrt
from pullback._generated.functions_reduction import sum
from pullback._generated.functions_shape import reshape
from pullback.dispatch.modes import AutoGradMode

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _last_axes(name: str, x: Any, shape: int | Sequence[int], *others: Any) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ValueError(
            f"{name}: the input of shape {list(x.shape)} does not end in normalized_shape "
            f"{list(shape)}"
        )
    for other in others:
        if other is not None and other.shape != shape:
            raise ValueError(
                f"{name}: weight and bias must have normalized_shape {list(shape)}, not "
                f"{list(other.shape)}"
            )
    return tuple(range(-len(shape), 0))


def layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalises over the last axes."""
    axes = _last_axes("layer_norm", x, normalized_shape, weight, bias)
    return private._norm(x, weight, bias, axes, eps)[0]


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Normalises the mean square over the last axes."""
    axes = _last_axes("rms_norm", x, normalized_shape, weight)
    if eps is None:
        eps = float(np.finfo(x.dtype).eps)
    if x.dtype.kind == "c":  # the mean of squares, not of sizes, as in PyTorch
        count = prod(x.shape[axis] for axis in axes)
        scaled = x / sqrt(sum(x * x, axes, keepdims=True) / count + eps)
        return scaled if weight is None else scaled * weight
    return private._rms_norm(x, weight, axes, eps)[0]


def _check_channels(name: str, x: Any, **others: Any) -> int:
    if x.ndim < 2:
        raise ValueError(f"{name}: the input of shape {list(x.shape)} has no channels (axis 1)")
    channels = int(x.shape[1])
    for argument, other in others.items():
        if other is not None and other.shape != (channels,):
            raise ValueError(
                f"{name}: {argument} has shape {list(other.shape)}, but the input of shape "
                f"{list(x.shape)} has {channels} channels (axis 1)"
            )
    return channels


def _by_channel(values: Any, x: Any) -> Any:
    """One value a channel, shaped to broadcast."""
    return None if values is None else reshape(values, (-1, *[1] * (x.ndim - 2)))


def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalises each sample over groups of channels and space."""
    channels = _check_channels("group_norm", x, weight=weight, bias=bias)
    if num_groups < 1 or channels % num_groups:
        raise ValueError(f"group_norm: {num_groups} groups do not divide {channels} channels")
    width = channels // num_groups
    grouped = reshape(x, (x.shape[0], num_groups, width, *x.shape[2:]))
    shape = (num_groups, width, *[1] * (x.ndim - 2))
    weight, bias = (None if v is None else reshape(v, shape) for v in (weight, bias))
    axes = tuple(range(2, x.ndim + 1))
    return reshape(private._norm(grouped, weight, bias, axes, eps)[0], x.shape)


def _move(running: Any, value: Any, momentum: float, correction: float = 1.0) -> None:
    """Moves a running statistic towards a new value, in place and outside of any graph."""
    if running is None:
        return
    with AutoGradMode(False):
        rows = reshape(value, (value.size // running.size, running.size))
        step = sum(rows, 0) * (momentum * correction / rows.shape[0])
        add_(mul_(running, 1 - momentum), step)


def _by_running(
    x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """Normalises by fixed statistics: one multiplication and one addition an element."""
    scale = 1 / sqrt(running_var + eps)
    if weight is not None:
        scale = scale * weight
    shift = -running_mean * scale
    if bias is not None:
        shift = shift + bias
    return x * _by_channel(scale, x) + _by_channel(shift, x)


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalises each channel over the batch and space, or by running statistics."""
    statistics = {"running_mean": running_mean, "running_var": running_var}
    _check_channels("batch_norm", x, weight=weight, bias=bias, **statistics)
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: running_mean and running_var are needed outside training")
        return _by_running(x, running_mean, running_var, weight, bias, eps)
    count = x.shape[0] * prod(x.shape[2:])
    if count == 1:
        raise ValueError(
            f"batch_norm: the input of shape {list(x.shape)} has one value for each channel; "
            "training needs more, to have a variance"
        )
    axes = (0, *range(2, x.ndim))
    weight, bias = _by_channel(weight, x), _by_channel(bias, x)
    result, mean, var = private._norm(x, weight, bias, axes, eps)
    if count:
        _move(running_mean, mean, momentum)
        _move(running_var, var, momentum, count / (count - 1))
    return result


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalises each channel of each sample over its space, or by running statistics."""
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    statistics = {"running_mean": running_mean, "running_var": running_var}
    _check_channels("instance_norm", x, weight=weight, bias=bias, **statistics)
    count = prod(x.shape[2:])
    if count == 1:
        raise ValueError(
            f"instance_norm: the input of shape {list(x.shape)} has one value for each sample and "
            "channel; more are needed, to have a variance"
        )
    weight, bias = _by_channel(weight, x), _by_channel(bias, x)
    result, mean, var = private._norm(x, weight, bias, tuple(range(2, x.ndim)), eps)
    if x.size:
        _move(running_mean, mean, momentum)
        _move(running_var, var, momentum, count / (count - 1))
    return result
