"""Kernels of batched tensors, which ``fallback.py`` links for all operators.

Linking finds an operator's rule once; a call aligns the arguments' levels, runs the rule on arrays
and wraps what it returns. All of it lies below autograd and below version counters and views.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.batching.add_remove_dim import add_level, expand_level, remove_level, sum_level
from pullback.batching.align import aligned, array_for, finished, union
from pullback.batching.loop import loop_kernel
from pullback.batching.random import random_kernel
from pullback.batching.rules import array_rule, is_random, tensor_rule
from pullback.batching.tensor_rules import rule_kernel
from pullback.batching.writes import write_kernel
from pullback.dispatch.keys import DispatchKey
from pullback.dispatch.modes import INFERENCE, TRANSFORM, get_state
from pullback.kernels.batch_axes import Rule
from pullback.schema import SchemaKind
from pullback.tensor.batched import BatchedArray, batched
from pullback.tensor.levels import active_numbers
from pullback.tensor.tensor import Tensor, as_inference, tag_level, wrap

__all__ = ["Function", "batched_kernel", "is_composite"]

Function = Callable[..., Any]

_COMPOSITES = (
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeExplicitAutogradNonFunctional,
)
_LEVEL_OPS: dict[str, Function] = {
    "pullback::_add_level": add_level,
    "pullback::_remove_level": remove_level,
    "pullback::_sum_level": sum_level,
    "pullback::_expand_level": expand_level,
}


def batched_kernel(operator: Any, flags: int) -> Function:
    """Makes the kernel of one operator for batched tensors."""
    kernel = _tracked_kernel(operator, flags)
    above = operator.entry.kernels.get(DispatchKey.Autograd)
    if above and above[-1].fallthrough:
        kernel = _marking(kernel)
    return _untracked(kernel) if get_state().modes & INFERENCE else kernel


def is_composite(operator: Any) -> bool:
    """Whether an operator is made of others, which are called on batched tensors."""
    return any(key in operator.entry.kernels for key in _COMPOSITES)


def _marking(kernel: Function) -> Function:
    """The kernel of an operator whose kernel at Autograd is a fallthrough, such as ``zeros_like``.

    It marks new tensors as made in the transform that runs; for all other operators, the kernel at
    Autograd does.
    """

    @functools.wraps(kernel)
    def call(*args: Any, **kwargs: Any) -> Any:
        results = kernel(*args, **kwargs)
        if get_state().modes & TRANSFORM:
            for result in results if isinstance(results, tuple | list) else (results,):
                if isinstance(result, Tensor) and not any(result is value for value in args):
                    tag_level(result)
        return results

    return call


def _untracked(kernel: Function) -> Function:
    """A kernel in inference mode, whose results are inference tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        results = kernel(*args, **kwargs)
        for result in results if isinstance(results, tuple | list) else (results,):
            if isinstance(result, Tensor) and not any(result is value for value in args):
                as_inference(result)
        return results

    return call


def _tracked_kernel(operator: Any, flags: int) -> Function:
    entry = operator.entry
    name: str = entry.name
    custom = tensor_rule(name)
    if custom is not None:
        return rule_kernel(operator, custom)
    if name in _LEVEL_OPS:
        return _alone(_level_kernel(_LEVEL_OPS[name]))
    if is_random(name):
        return _alone(random_kernel(name))
    for key in _COMPOSITES:
        if key in entry.kernels:
            return entry.kernels[key][-1].link(operator, flags)  # type: ignore[no-any-return]
    loop = loop_kernel(operator)
    if operator.schema.kind() is SchemaKind.inplace:
        return _alone(write_kernel(operator, loop))
    rule = array_rule(name)
    if rule is None:
        return loop
    arguments = operator.schema.arguments.flat_all
    tensors = [a for a in arguments if a.type.is_tensor_like()]
    plain = all(str(a.type) == "Tensor" for a in tensors)
    if len(tensors) == 1 and plain and tensors[0] is arguments[0]:
        return _alone(_of_one(rule))
    if len(tensors) == len(arguments) == 2 and plain and hasattr(rule, "function"):
        return _alone(_of_pair(rule.function, rule))
    if len(tensors) == len(arguments) == 2 and plain:
        return _alone(_of_two(rule, loop))
    return _alone(_of_many(rule, loop))


def _alone(kernel: Function) -> Function:
    """Marks a kernel that calls no operator, so that autograd need not be disabled around it."""
    kernel.works_alone = True  # type: ignore[attr-defined]
    return kernel


def _level_kernel(function: Function) -> Function:
    def call(self: Tensor, *args: Any) -> Tensor:
        return wrap(function(self._array, *args))

    return call


def _of_one(rule: Rule) -> Function:
    """The kernel of an operator whose first argument is its only tensor."""

    direct = getattr(rule, "function", None)

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        held: BatchedArray = self._array
        levels = held.levels
        k = len(levels)
        if direct is not None:
            found = direct(held.array, *args, **kwargs)
        else:
            found = rule(k, held.array, *args, **kwargs)
        if type(found) is np.ndarray and levels == active_numbers():
            return batched(found, levels)
        return finished(found, levels, held.array.shape[:k])

    return call


def _of_pair(function: Function, rule: Rule) -> Function:
    """The kernel of an operator that takes two tensors element by element."""

    def call(self: Tensor, other: Tensor) -> Any:
        a, b = self._array, other._array
        one = a if type(a) is BatchedArray else b
        levels = one.levels
        k = len(levels)
        if type(a) is not BatchedArray:
            # An unbatched operand broadcasts, unless it has more axes.
            fits = getattr(a, "ndim", 0) <= b.array.ndim - k
            found = function(a, b.array) if fits else rule(k, array_for(self, levels), b.array)
        elif type(b) is not BatchedArray:
            fits = getattr(b, "ndim", 0) <= a.array.ndim - k
            found = function(a.array, b) if fits else rule(k, a.array, array_for(other, levels))
        elif b.levels != levels:
            return general(self, other)
        else:
            fits = a.array.ndim == b.array.ndim
            found = function(a.array, b.array) if fits else rule(k, a.array, b.array)
        if type(found) is np.ndarray and levels == active_numbers():
            return batched(found, levels)
        return finished(found, levels, one.array.shape[:k])

    general = _of_many(rule, call)  # an element-wise rule supports every call
    return call


def _of_two(rule: Rule, loop: Function) -> Function:
    """The kernel of an operator of two tensors, such as their matrix product."""
    general = _of_many(rule, loop)

    def call(self: Tensor, other: Tensor) -> Any:
        a, b = self._array, other._array
        one = a if type(a) is BatchedArray else b
        levels = one.levels
        k = len(levels)
        if levels != active_numbers() or (
            one is a and type(b) is BatchedArray and b.levels != levels
        ):
            return general(self, other)
        found = rule(k, array_for(self, levels), array_for(other, levels))
        if type(found) is np.ndarray and found.shape[:k] == one.array.shape[:k]:
            return batched(found, levels)
        return (
            general(self, other)
            if found is NotImplemented
            else finished(found, levels, one.array.shape[:k])
        )

    return call


def _of_many(rule: Rule, loop: Function) -> Function:
    """The kernel of any operator that has a rule."""

    def call(*args: Any, **kwargs: Any) -> Any:
        levels, sizes = union((*args, *kwargs.values()))
        given = [aligned(value, levels) for value in args]
        named = {name: aligned(value, levels) for name, value in kwargs.items()}
        found = rule(len(levels), *given, **named)
        if found is NotImplemented:
            return loop(*args, **kwargs)
        return finished(found, levels, sizes)

    return call
