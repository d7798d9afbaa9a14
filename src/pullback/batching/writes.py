"""In-place operators on batched tensors: the rule's result is written to the target's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.batching.align import aligned, tensors_in, union
from pullback.batching.rules import array_rule
from pullback.kernels.batch_axes import Rule, padded
from pullback.operators.indexing.batching import put_
from pullback.operators.indexing.kernels import copy_ as checked_source
from pullback.tensor.batched import BatchedArray
from pullback.tensor.memory import check_no_partial_overlap, check_writable, overwrite
from pullback.tensor.promote import promote
from pullback.tensor.tensor import Tensor

__all__ = ["write_kernel"]


def write_kernel(operator: Any, loop: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an in-place operator."""
    name: str = operator.name()
    own = name.rpartition("::")[2]
    rule: Rule | None = _SPECIAL.get(name) or array_rule(name.removesuffix("_"))

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        values = (*args, *kwargs.values())
        levels, sizes = union((self, *values))
        promote(self, levels, sizes, own)
        _check_overlap(self, values)
        if rule is None:
            loop(self, *args, **kwargs)
            return self
        target = self._array.array
        given = [aligned(value, levels) for value in args]
        named = {key: aligned(value, levels) for key, value in kwargs.items()}
        found = rule(len(levels), target, *given, **named)
        if found is NotImplemented:
            loop(self, *args, **kwargs)
        elif found is not target:
            result, _ = padded(len(levels), np.asarray(found), target)
            overwrite(target, result, own, len(levels))
        return self

    return call


def _check_overlap(self: Tensor, values: tuple[Any, ...]) -> None:
    """Raises for an input that partially overlaps the written memory of a batch element."""
    for other in tensors_in(values):
        if other is not self and other._counter is self._counter is not None:
            first, second = self._array, other._array
            if type(second) is BatchedArray and first.array.size and second.array.size:
                check_no_partial_overlap(_sample(first), _sample(second))


def _sample(held: BatchedArray) -> Any:
    place: Any = (*(0,) * len(held.levels), ...)
    return held.array[place]


def _copy(k: int, target: Any, src: Any) -> Any:
    if not isinstance(src, np.ndarray):
        return np.asarray(src, target.dtype)
    src, _ = padded(k, src, target)
    return checked_source(target, src)


def _fill(k: int, target: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim > k:
        raise ValueError(f"fill_: the value must be one number, not of shape {value.shape[k:]}")
    check_writable(target, "fill_")
    value = np.asarray(value)
    target[...] = value.reshape(value.shape + (1,) * (target.ndim - value.ndim))
    return target


def _zero(k: int, target: Any) -> Any:  # noqa: ARG001 - every rule gets it
    check_writable(target, "zero_")
    target[...] = 0
    return target


def _index_put(k: int, target: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    check_writable(target, "index_put_")
    return put_(k, target, indices, values, accumulate)


_SPECIAL: dict[str, Rule] = {
    "pullback::copy_": _copy,
    "pullback::fill_": _fill,
    "pullback::zero_": _zero,
    "pullback::index_put_": _index_put,
}
