"""Fallback for operators without a batching rule: one call per batch element, results stacked.

Correct for every operator, and slow; so the first call of each operator warns with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from pullback.batching.align import finished, union
from pullback.dispatch.caller import warn_caller
from pullback.dispatch.keys import DispatchKeySet
from pullback.dispatch.modes import AutoDispatchBelowADInplaceOrView
from pullback.errors import AutogradError
from pullback.operators.indexing.batching import data_dependent
from pullback.schema import SchemaKind
from pullback.tensor.batched import BatchedArray, Levels
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["iter_batch_elements", "loop_kernel"]

_PLAIN = DispatchKeySet("CPU")
_warned: set[str] = set()


def iter_batch_elements(
    levels: Levels, sizes: tuple[int, ...], values: list[Any]
) -> Iterator[list[Any]]:
    """Yields the arguments of the call for each batch element."""
    for place in product(*map(range, sizes)):
        chosen = dict(zip(levels, place, strict=True))
        yield [_one(value, chosen) for value in values]


def _one(value: Any, chosen: dict[int, int]) -> Any:
    if isinstance(value, Tensor):
        held = value._array
        if type(held) is not BatchedArray:
            return value
        place: Any = (*(chosen[level] for level in held.levels), ...)
        return wrap(held.array[place])
    if isinstance(value, list):
        return [_one(item, chosen) for item in value]
    return value


def loop_kernel(operator: Any) -> Callable[..., Any]:
    """Makes the kernel that calls an operator once per batch element."""
    name: str = operator.name()
    writes = operator.schema.kind() is SchemaKind.inplace

    def call(*args: Any, **kwargs: Any) -> Any:
        below = operator.below(_PLAIN)
        _warn(name)
        values = [*args, *kwargs.values()]
        levels, sizes = union(values)
        found = []
        with AutoDispatchBelowADInplaceOrView():
            for given in (
                iter_batch_elements(levels, sizes, values) if 0 not in sizes else [_blank(values)]
            ):
                named = dict(zip(kwargs, given[len(args) :], strict=True))
                found.append(below(*given[: len(args)], **named))
        return args[0] if writes else _together(name, found, levels, sizes)

    return call


def _warn(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warn_caller(
            f"vmap: {name} has no batching rule, so it is called once for each sample, which is "
            f"slow. Operators of your own get one by pullback.library.register_vmap."
        )


def _blank(values: list[Any]) -> list[Any]:
    """Arguments of ones, to find the result's shape and dtype if the batch is empty."""

    def blank(value: Any) -> Any:
        if isinstance(value, Tensor):
            held = value._array
            varies = type(held) is BatchedArray
            return wrap(np.ones(held.shape, held.dtype)) if varies else value
        return [blank(item) for item in value] if isinstance(value, list) else value

    return [blank(value) for value in values]


def _together(name: str, found: list[Any], levels: Levels, sizes: tuple[int, ...]) -> Any:
    """Stacks the results of all calls."""
    first = found[0]
    if isinstance(first, tuple | list):
        parts = [
            _together(name, list(column), levels, sizes) for column in zip(*found, strict=True)
        ]
        return tuple(parts) if isinstance(first, tuple) else parts
    if not isinstance(first, Tensor):
        raise AutogradError(
            f"vmap: {name} returns a {type(first).__name__}, which cannot vary with the sample"
        )
    shapes = {result.shape for result in found}
    if len(shapes) > 1:
        raise data_dependent(f"the shape of what {name} returns, {sorted(shapes)},")
    arrays = [result._array for result in found]
    stacked = np.stack(arrays) if 0 not in sizes else np.empty((0, *first.shape), first.dtype)
    return finished(stacked.reshape(*sizes, *first.shape), levels, sizes)
