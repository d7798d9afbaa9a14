"""A layer of convolution: gradients by images, filters and offsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Problem, Target, Workload, generator


def conv(batch: int, channels: int, side: int, filters: int) -> Problem:
    def fn(xp: Any, params: Any, consts: Any) -> Any:  # noqa: ARG001
        x, w, b = params
        y = xp.conv2d(x, w, b)
        return xp.mean(y * y)

    rng = generator()
    x = rng.normal(size=(batch, channels, side, side))
    w = rng.normal(size=(filters, channels, 3, 3)) * 0.2
    return Problem(fn, (x, w, rng.normal(size=filters)), hand=by_hand)


def windows(x: Array) -> Array:
    """Every 3x3 neighborhood, zeros around the border."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))


def by_hand(params: Arrays, consts: Arrays) -> list[Array]:  # noqa: ARG001
    x, w, b = params
    seen = windows(x)
    y = np.tensordot(seen, w, axes=((1, 4, 5), (1, 2, 3))) + b  # channels last
    g = (2.0 / y.size) * y
    by_w = np.tensordot(g, seen, axes=((0, 1, 2), (0, 2, 3)))
    turned = windows(np.moveaxis(g, 3, 1))
    by_x = np.tensordot(turned, w[:, :, ::-1, ::-1], axes=((1, 4, 5), (0, 2, 3)))
    return [np.mean(y * y), np.moveaxis(by_x, 3, 1), by_w, g.sum(axis=(0, 1, 2))]


WORKLOADS = (
    Workload(
        "conv2d",
        "8x3x32x32, 16 filters of 3x3",
        conv,
        {"batch": 8, "channels": 3, "side": 32, "filters": 16},
        {"batch": 2, "channels": 2, "side": 5, "filters": 3},
        target=Target(2.5, 1.5),
    ),
)
