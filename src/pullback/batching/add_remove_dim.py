"""Entering and leaving a vmap level: an axis becomes a batch dimension, and back.

Called by the generated kernels of ``operators/batching/table.yaml`` for plain arrays, and by
``pullback.batching`` for arrays that are batched at other levels already.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from pullback.errors import NoDataError
from pullback.tensor.batched import BatchedArray, Levels

__all__ = ["Held", "add_level", "expand_level", "refuse_meta", "remove_level", "sum_level"]

Held = NDArray[Any] | BatchedArray


def _parts(x: Held) -> tuple[NDArray[Any], Levels]:
    return (x.array, x.levels) if isinstance(x, BatchedArray) else (np.asarray(x), ())


def _move_axis(array: NDArray[Any], source: int, target: int) -> NDArray[Any]:
    """``np.moveaxis``, which takes some ten calls, also where the axis stays in its place."""
    return array.view() if source == target else np.moveaxis(array, source, target)


def add_level(x: Held, axis: int, level: int) -> BatchedArray:
    """Makes an axis the batch dimension of a level."""
    array, levels = _parts(x)
    together = tuple(sorted((*levels, level)))
    axis = normalize_axis_index(axis, array.ndim - len(levels)) + len(levels)
    return BatchedArray(_move_axis(array, axis, together.index(level)), together)


def remove_level(x: Held, axis: int, level: int) -> Held:
    """Makes the batch dimension of a level an axis."""
    array, levels = _parts(x)
    place = levels.index(level)
    rest = levels[:place] + levels[place + 1 :]
    axis = normalize_axis_index(axis, array.ndim - len(rest)) + len(rest)
    array = _move_axis(array, place, axis)
    return BatchedArray(array, rest) if rest else array


def sum_level(x: Held, level: int, size: int) -> Held:  # noqa: ARG001 - read by the backward formula
    """Sums over the batch dimension of a level."""
    array, levels = _parts(x)
    place = levels.index(level)
    rest = levels[:place] + levels[place + 1 :]
    total = np.asarray(np.add.reduce(array, axis=place))
    return BatchedArray(total, rest) if rest else total


def expand_level(x: Held, level: int, size: int) -> BatchedArray:
    """Broadcasts a value along a new batch dimension of a level."""
    array, levels = _parts(x)
    together = tuple(sorted((*levels, level)))
    repeated = np.broadcast_to(array, (size, *array.shape))
    return BatchedArray(_move_axis(repeated, 0, together.index(level)), together)


def refuse_meta(x: Any, *_: int) -> NoReturn:
    """Raises for meta tensors, which have no data to compute with."""
    raise NoDataError(
        f"vmap: a meta tensor of shape {x.shape} has no data to map a function over; call the "
        f"function with the shape of one sample"
    )
