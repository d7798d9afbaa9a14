"""What batching rules share: axes of a sample as axes of the whole, and equal numbers of them.

A rule gets `k`, the number of batch axes, and arrays that all begin with `k` of them; an array that
does not vary along one has length 1 there. The axes behind them are those that the program sees.
Whatever a rule returns begins with the same `k` axes.
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
    "sample",
    "shifted",
    "shifted_all",
    "split",
]

Array = Any  # an ndarray, or a Python number in the place of one
Rule = Callable[..., Any]


def shifted(k: int, ndim: int, axis: int) -> int:
    """An axis of a sample with `ndim` axes, as an axis of the whole."""
    if not ndim and axis in (0, -1):  # NumPy reduces a number over these
        return k
    return normalize_axis_index(axis, ndim) + k


def shifted_all(k: int, ndim: int, axis: Any) -> tuple[int, ...]:
    """Axes of a sample as axes of the whole; None are all of them."""
    if axis is None:
        return tuple(range(k, k + ndim))
    return tuple(a + k for a in normalize_axis_tuple(axis, ndim, allow_duplicate=True))


def batch_shape(x: Array, k: int) -> tuple[int, ...]:
    """The lengths of the batch axes."""
    return tuple(x.shape[:k])


def sample(x: Array, k: int) -> tuple[int, ...]:
    """The shape of one sample."""
    return tuple(x.shape[k:])


def batch_of(k: int, *arrays: Array) -> tuple[int, ...]:
    """The lengths of the batch axes of several arrays together."""
    sizes = [1] * k
    for x in arrays:
        if isinstance(x, np.ndarray):
            for axis in range(k):
                if x.shape[axis] != 1:
                    sizes[axis] = x.shape[axis]
    return tuple(sizes)


def is_constant(x: Array, k: int) -> bool:
    """Whether an array has one sample only."""
    return x is None or not isinstance(x, np.ndarray) or prod(x.shape[:k]) == 1


def padded(k: int, *arrays: Array) -> list[Array]:
    """Arrays whose samples have the same number of axes: new ones come between batch and sample."""
    most = max((x.ndim for x in arrays if isinstance(x, np.ndarray)), default=k)
    made = []
    for x in arrays:
        if isinstance(x, np.ndarray) and x.ndim < most:
            x = x.reshape(x.shape[:k] + (1,) * (most - x.ndim) + x.shape[k:])
        made.append(x)
    return made


def full(k: int, *arrays: Array) -> list[Array]:
    """Arrays that all have every sample; what was constant is repeated, without a copy."""
    arrays = tuple(map(np.asarray, arrays))
    first = arrays[0].shape[:k] if arrays else ()
    if all([x.shape[:k] == first for x in arrays]):  # noqa: C419 - quicker than a generator
        return list(arrays)
    batch = batch_of(k, *arrays)
    return [x if x.shape[:k] == batch else np.broadcast_to(x, batch + x.shape[k:]) for x in arrays]


def flat(k: int, x: Array) -> Array:
    """Each sample as a vector."""
    return x.reshape(*x.shape[:k], prod(x.shape[k:]))


def merged(k: int, x: Array) -> Array:
    """Batch axes and the first axis of the samples as one."""
    return x.reshape(prod(x.shape[: k + 1]), *x.shape[k + 1 :])


def split(batch: Sequence[int], x: Array, rest: Sequence[int] | None = None) -> Array:
    """Undoes `merged`: the first axis as batch axes and what is left; or `rest` as given."""
    if rest is not None:
        return x.reshape(*batch, *rest)
    first = x.shape[0] // max(1, prod(batch)) if prod(batch) else 0
    return x.reshape(*batch, first, *x.shape[1:])


def along(function: Callable[..., Any], *, place: int = 1) -> Rule:
    """The rule of a function of one array that works along one axis, or on all elements in a row.

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
