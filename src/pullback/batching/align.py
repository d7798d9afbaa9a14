"""Alignment of tensors of different levels: all arrays get the same batch dimensions in front."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pullback.tensor.batched import BatchedArray, Levels, batched
from pullback.tensor.levels import active_levels, check_alive
from pullback.tensor.tensor import Tensor, tag_level

__all__ = ["aligned", "array_for", "finished", "tensors_in", "union"]

_ndarray = np.ndarray


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments, also those in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def union(values: Iterable[Any]) -> tuple[Levels, tuple[int, ...]]:
    """The union of the levels of all arguments, and the size of each."""
    sizes: dict[int, int] = {}
    for tensor in tensors_in(values):
        held = tensor._array
        if type(held) is BatchedArray:
            sizes.update(zip(held.levels, held.array.shape, strict=False))
    levels = tuple(sorted(sizes))
    check_alive(levels)
    return levels, tuple(sizes[level] for level in levels)


def array_for(tensor: Tensor, levels: Levels) -> Any:
    """A tensor's array with an axis in front for each level, of length 1 where it is unbatched.

    A Python number stays one, so that it has no dtype to promote others to.
    """
    held = tensor._array
    if type(held) is BatchedArray:
        if held.levels == levels:
            return held.array
        own = iter(held.array.shape)
        lead = [next(own) if level in held.levels else 1 for level in levels]
        return held.array.reshape(*lead, *own)
    if isinstance(held, _ndarray):
        return held.reshape((1,) * len(levels) + held.shape)
    return held


def aligned(value: Any, levels: Levels) -> Any:
    """An argument as a rule takes it."""
    if isinstance(value, Tensor):
        return array_for(value, levels)
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        return [None if item is None else np.asarray(array_for(item, levels)) for item in value]
    return value


def finished(found: Any, levels: Levels, sizes: tuple[int, ...]) -> Any:
    """Wraps the results of a rule in tensors."""
    if isinstance(found, tuple):
        return tuple(finished(part, levels, sizes) for part in found)
    if isinstance(found, list):
        return [finished(part, levels, sizes) for part in found]
    check_alive(levels)
    array = found if type(found) is _ndarray else np.asarray(found)
    k = len(levels)
    if array.shape[:k] != sizes:
        array = np.broadcast_to(array, sizes + array.shape[k:]).copy()
    tensor = batched(array, levels)
    if k < len(active_levels()):
        tag_level(tensor)
    return tensor
