"""Shared parts of batching rules: conversion of axes, and alignment of batch dimensions.

A rule gets `k`, the number of batch dimensions, and arrays that all begin with `k` of them, of
length 1 where an array is unbatched. The axes behind them are the *logical* axes, which the program
sees. The result of a rule begins with the same `k` axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

__all__ = [
    "Array",
    "Rule",
    "along",
    "batch_of",
    "batch_shape",
    "flat",
    "full",
    "is_constant",
    "merged",
    "padded",
    "shifted",
    "shifted_all",
    "split",
]

Array = Any  # an ndarray, or a Python number in the place of one
Rule = Callable[..., Any]


def shifted(k: int, ndim: int, axis: int) -> int:
    """Converts a logical axis, of `ndim`, to an axis of the array."""
    if not ndim and axis in (0, -1):  # NumPy reduces a number over these
        return k
    return normalize_axis_index(axis, ndim) + k


def shifted_all(k: int, ndim: int, axis: Any) -> tuple[int, ...]:
    """Converts logical axes to axes of the array; None are all of them."""
    if axis is None:
        return tuple(range(k, k + ndim))
    return tuple(a + k for a in normalize_axis_tuple(axis, ndim, allow_duplicate=True))


def batch_shape(x: Array, k: int) -> tuple[int, ...]:
    """The lengths of the batch axes."""
    return tuple(x.shape[:k])


def batch_of(k: int, *arrays: Array) -> tuple[int, ...]:
    """The broadcast lengths of the batch dimensions of several arrays."""
    sizes = [1] * k
    for x in arrays:
        if isinstance(x, np.ndarray):
            for axis in range(k):
                if x.shape[axis] != 1:
                    sizes[axis] = x.shape[axis]
    return tuple(sizes)


def is_constant(x: Array, k: int) -> bool:
    """Whether an array is unbatched: all its batch dimensions have length 1."""
    return x is None or not isinstance(x, np.ndarray) or prod(x.shape[:k]) == 1


def padded(k: int, *arrays: Array) -> list[Array]:
    """Pads arrays to the same number of logical axes, with axes of length 1 in front of these."""
    most = max((x.ndim for x in arrays if isinstance(x, np.ndarray)), default=k)
    made = []
    for x in arrays:
        if isinstance(x, np.ndarray) and x.ndim < most:
            x = x.reshape(x.shape[:k] + (1,) * (most - x.ndim) + x.shape[k:])
        made.append(x)
    return made


def full(k: int, *arrays: Array) -> list[Array]:
    """Broadcasts arrays to all batch dimensions, without a copy."""
    arrays = tuple(map(np.asarray, arrays))
    first = arrays[0].shape[:k] if arrays else ()
    if all([x.shape[:k] == first for x in arrays]):  # noqa: C419 - quicker than a generator
        return list(arrays)
    batch = batch_of(k, *arrays)
    return [x if x.shape[:k] == batch else np.broadcast_to(x, batch + x.shape[k:]) for x in arrays]


def flat(k: int, x: Array) -> Array:
    """Flattens the logical axes to one."""
    return x.reshape(*x.shape[:k], prod(x.shape[k:]))


def merged(k: int, x: Array) -> Array:
    """Merges the batch dimensions and the first logical axis."""
    return x.reshape(prod(x.shape[: k + 1]), *x.shape[k + 1 :])


def split(batch: Sequence[int], x: Array, rest: Sequence[int] | None = None) -> Array:
    """Undoes `merged`: splits the first axis into batch dimensions and the rest, or `rest`."""
    if rest is not None:
        return x.reshape(*batch, *rest)
    first = x.shape[0] // max(1, prod(batch)) if prod(batch) else 0
    return x.reshape(*batch, first, *x.shape[1:])


def along(function: Callable[..., Any], *, place: int = 1) -> Rule:
    """Makes the rule of a function of one array along one axis, or on the flattened array.

    The axis is its argument number `place`, counted from the one after the array.
    """

    def rule(k: int, x: Array, *args: Any, **kwargs: Any) -> Any:
        values = list(args)
        axis = values[place - 1]
        if axis is None:
            x, axis = flat(k, x), -1
        elif x.ndim == k:
            return of_numbers(k, x, values, kwargs)
        else:
            axis = shifted(k, x.ndim - k, axis)
        values[place - 1] = axis
        return function(x, *values, **kwargs)

    def of_numbers(k: int, x: Array, values: list[Any], kwargs: dict[str, Any]) -> Any:
        # Some functions accept axis 0 of a 0-d array and return a vector: call one to find out.
        single = function(np.ones((), x.dtype), *values, **kwargs)
        values[place - 1] = k
        found = function(x[..., np.newaxis], *values, **kwargs)
        if not isinstance(found, tuple):
            return found.reshape(x.shape + np.shape(single))
        pairs = zip(found, single, strict=True)
        return tuple(part.reshape(x.shape + np.shape(one)) for part, one in pairs)

    return rule
