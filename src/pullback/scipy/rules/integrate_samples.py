"""Rules of the integrals of sampled functions: trapezoid, simpson, romb, and cumulative ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate

from pullback._generated import functions_reduction as reductions
from pullback._generated import functions_shape as shapes
from pullback.interop.arguments import as_tensor
from pullback.operators import array_functions
from pullback.scipy.registry import rule
from pullback.tensor.tensor import Tensor, fresh

__all__: list[str] = []


def _samples(y: Any, x: Any, dx: Any, axis: int) -> tuple[Tensor, Tensor]:
    """The samples with the axis of integration last, and the distances between them."""
    values = as_tensor(y)
    if values.dtype.kind not in "fc":
        values = values * 1.0
    count = values.shape[axis]
    last = shapes.swapaxes(values, axis, -1)
    if x is None:
        width = as_tensor(dx)
        if width.ndim:
            width = shapes.swapaxes(width, axis, -1)
        return last, width * np.ones(max(count - 1, 0))
    nodes = as_tensor(x)
    if nodes.ndim != 1 and nodes.ndim != values.ndim:
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    if nodes.ndim != 1:
        nodes = shapes.swapaxes(nodes, axis, -1)
    if nodes.shape[-1] != count:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return last, nodes[..., 1:] - nodes[..., :-1]


def _like_scipy(function: Callable[..., Any], y: Any, x: Any, found: Tensor) -> Tensor:
    """The result in the dtype that SciPy's function gives for these arguments."""
    values = np.ones(3, as_tensor(y).dtype)
    nodes = {} if x is None else {"x": np.arange(3).astype(as_tensor(x).dtype)}
    dtype = np.asarray(function(values, **nodes)).dtype
    return found if found.dtype == dtype else found.astype(dtype)


def _trapezoids(y: Tensor, h: Tensor) -> Tensor:
    return h * (y[..., 1:] + y[..., :-1]) / 2.0


@rule("scipy.integrate.trapezoid", tensors="y x dx")
def _trapezoid(y: Any, x: Any, dx: Any, axis: int) -> Tensor:
    found = reductions.sum(_trapezoids(*_samples(y, x, dx, axis)), -1)
    return _like_scipy(integrate.trapezoid, y, x, found)


@rule("scipy.integrate.cumulative_trapezoid", tensors="y x dx")
def _cumulative_trapezoid(y: Any, x: Any, dx: Any, axis: int, initial: Any) -> Tensor:
    values, h = _samples(y, x, dx, axis)
    if values.shape[-1] == 0:
        raise ValueError("At least one point is required along `axis`.")
    found = reductions.cumsum(_trapezoids(values, h), -1)
    if initial is not None:
        if not np.isscalar(initial) or initial != 0:
            raise ValueError("`initial` must be `None` or `0`.")
        found = shapes.concatenate([0.0 * values[..., :1], found], -1)
    found = shapes.swapaxes(found, axis, -1)
    return _like_scipy(integrate.cumulative_trapezoid, y, x, found)


@rule("scipy.integrate.simpson", tensors="y x dx")
def _simpson(y: Any, x: Any, dx: Any, axis: int) -> Tensor:
    values, h = _samples(y, x, dx, axis)
    if values.shape[-1] == 2:
        found = reductions.sum(_trapezoids(values, h), -1)
    else:
        found = _simpson_sum(values, h)
    return _like_scipy(integrate.simpson, y, x, found)


def _simpson_sum(values: Tensor, h: Tensor) -> Tensor:
    count = values.shape[-1]
    stop = count - 2 + count % 2
    found = _pairs_of_intervals(values[..., : stop + 1], h[..., :stop])
    if count % 2:
        return found
    # The last interval of an odd number, from the parabola through the last three points.
    before, last = h[..., -2], h[..., -1]
    high = (2 * last**2 + 3 * before * last) / (6 * (last + before))
    middle = (last**2 + 3 * before * last) / (6 * before)
    low = last**3 / (6 * before * (before + last))
    return found + high * values[..., -1] + middle * values[..., -2] - low * values[..., -3]


def _pairs_of_intervals(y: Tensor, h: Tensor) -> Tensor:
    """Simpson's rule on pairs of intervals of different width."""
    h0, h1 = h[..., 0::2], h[..., 1::2]
    whole = h0 + h1
    parts = y[..., 0:-2:2] * (2.0 - h1 / h0) + y[..., 1:-1:2] * (whole * whole / (h0 * h1))
    return reductions.sum(whole / 6.0 * (parts + y[..., 2::2] * (2.0 - h0 / h1)), -1)


@rule("scipy.integrate.cumulative_simpson", tensors="y x dx initial")
def _cumulative_simpson(y: Any, x: Any, dx: Any, axis: int, initial: Any) -> Tensor:
    values, h = _samples(y, x, dx, axis)
    if x is not None and type(h._array) is np.ndarray and np.any(h._array <= 0):
        raise ValueError("Input x must be strictly increasing.")
    if values.shape[-1] < 3:
        found = reductions.cumsum(_trapezoids(values, h), -1)
    else:
        found = reductions.cumsum(_simpson_intervals(values, h), -1)
    if initial is not None:
        start = as_tensor(initial)
        start = shapes.swapaxes(start, axis, -1) if start.ndim else start
        found = found + start
        found = shapes.concatenate([0.0 * values[..., :1] + start, found], -1)
    found = shapes.swapaxes(found, axis, -1)
    return _like_scipy(integrate.cumulative_simpson, y, x, found)


def _simpson_intervals(y: Tensor, h: Tensor) -> Tensor:
    """The integral over each interval, from the parabola through its ends and a neighbour."""
    h = h + 0.0 * y[..., 1:]
    first = _first_intervals(y, h)
    second = shapes.flip(_first_intervals(shapes.flip(y, -1), shapes.flip(h, -1)), -1)
    count = h.shape[-1]
    pad = [first, first[..., -1:]]
    by_first = shapes.concatenate(pad, -1)
    by_second = shapes.concatenate([second[..., :1], second], -1)
    is_first = np.arange(count) % 2 == 0
    is_first[-1] = False
    return array_functions.where(is_first, by_first, by_second)  # type: ignore[no-any-return]


def _first_intervals(y: Tensor, h: Tensor) -> Tensor:
    h0, h1 = h[..., :-1], h[..., 1:]
    ratio = h0 / (h0 + h1)
    square = ratio * (h0 / h1)
    inner = (3 - ratio) * y[..., :-2] + (3 + square + ratio) * y[..., 1:-1] - square * y[..., 2:]
    return h0 / 6 * inner


@rule("scipy.integrate.romb", tensors="y dx")
def _romb(y: Any, dx: Any, axis: int, show: bool) -> Tensor:
    values, _ = _samples(y, None, 1.0, axis)
    weights = integrate.romb(np.eye(values.shape[-1]), axis=-1, show=show)
    found = reductions.sum(values * fresh(weights.astype(values.dtype)), -1) * dx
    return _like_scipy(integrate.romb, y, None, found)
