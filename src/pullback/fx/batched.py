"""Batched tensors of ``vmap`` in a traced program.

A batched tensor holds a ``BatchedArray`` around a ``TracedArray``, which has the batch dimensions
in front. The operators that enter and leave a level, and element-wise operators, are recorded as
ordinary operators on such arrays. Any other operator is recorded as a ``BatchedCall``, which runs
its batching rule: batching rules compute on plain arrays and record nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pullback._generated import functions_batching
from pullback.batching.kernels import batched_kernel, is_composite
from pullback.batching.rules import array_rule, is_random, tensor_rule
from pullback.dispatch.keys import AUTOGRAD_BITS, DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.errors import AutogradError
from pullback.fx.promoted import promote_traced
from pullback.fx.refusals import refusal
from pullback.fx.traced_array import TracedArray
from pullback.tensor.batched import BATCHED_FLAGS, BatchedArray, Levels
from pullback.tensor.levels import MapLevel
from pullback.tensor.tensor import Tensor, fresh, wrap

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = [
    "LEVEL_OPS",
    "BatchedCall",
    "add_levels",
    "has_batched",
    "move_axis",
    "parts_of",
    "record_batched",
]


class BatchedCall:
    """An operator inside ``vmap``, as a function of arrays with their batch dimensions in front.

    Args:
        operator: the operator.
        levels: for each tensor among the arguments, the levels at which it is batched: numbers
            from 0, the outermost first.
        sizes: the length of the batch dimension of each level.
    """

    __slots__ = ("__name__", "kernel", "levels", "operator", "sizes")

    def __init__(self, operator: Any, levels: tuple[Levels, ...], sizes: tuple[int, ...]):
        self.operator = operator
        self.levels = levels
        self.sizes = sizes
        self.kernel = batched_kernel(operator, BATCHED_FLAGS)
        self.__name__ = f"vmap_{operator.name().rpartition('::')[2]}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the operator on batched tensors; results have all batch dimensions in front.

        Where nothing can be recorded, its batching rule is called directly.
        """
        keep = get_state().keep
        is_plain = not keep & AUTOGRAD_BITS
        if self.operator.schema.is_mutable and not is_plain:
            given = _tensors((*args, *kwargs.values()))
            if any(tensor._flags & keep & (REQUIRES_GRAD | DUAL) for tensor in given):
                raise AutogradError(
                    f"{self.__name__}: a graph of a mapped function that writes to memory has no "
                    f"derivatives; make the graph of its derivative: make_fx(grad(f))"
                )
        with ExitStack() as stack:
            numbers = [stack.enter_context(MapLevel(n, "error")).number for n in self.sizes]
            levels = iter([tuple(numbers[place] for place in own) for own in self.levels])

            def enter(tensor: Tensor) -> Tensor:
                return (_batched if is_plain else _entered)(tensor, next(levels))

            def leave(tensor: Tensor) -> Tensor:
                return _physical(tensor) if is_plain else _left(tensor, numbers)

            function = self.kernel if is_plain else self.operator
            entered = [_mapped(value, enter) for value in args]
            named = {name: _mapped(value, enter) for name, value in kwargs.items()}
            return _mapped(function(*entered, **named), leave)

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchedCall, (self.operator, self.levels, self.sizes)

    def __repr__(self) -> str:
        return f"vmap({self.operator}, levels={self.levels}, sizes={self.sizes})"


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """An argument or result with `function` of each tensor in it."""
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, function) for item in value)
    return function(value) if isinstance(value, Tensor) else value


def _batched(tensor: Tensor, own: Levels) -> Tensor:
    return wrap(BatchedArray(tensor._array, own)) if own else tensor


def _physical(tensor: Tensor) -> Tensor:
    held = tensor._array
    return wrap(held.array if isinstance(held, BatchedArray) else held)


def _entered(tensor: Tensor, own: Levels) -> Tensor:
    """A tensor with its first axes as batch dimensions, by operators that are recorded."""
    for number in own:
        tensor = functions_batching._add_level(tensor, 0, number)
    return tensor


def _left(tensor: Tensor, levels: Sequence[int]) -> Tensor:
    """A batched tensor with its batch dimensions as first axes."""
    for number in reversed(levels):
        tensor = functions_batching._remove_level(tensor, 0, number)
    return tensor


# --- levels ---------------------------------------------------------------------------------------


def parts_of(tracer: Tracer, tensor: Tensor) -> tuple[TracedArray, Levels]:
    """The traced array of a tensor, and the levels of its batch dimensions."""
    held: Any = tensor._array
    levels: Levels = ()
    if isinstance(held, BatchedArray):
        levels = held.levels
        held = held.array
    if not isinstance(held, TracedArray):
        held = tracer.lift(np.asarray(held)) if levels else tracer.capture(tensor)
    return held, levels


def move_axis(tracer: Tracer, array: TracedArray, source: int, destination: int) -> TracedArray:
    """An array with one axis at another place."""
    axes = list(range(array.ndim))
    axes.insert(destination, axes.pop(source))
    return array if axes == sorted(axes) else tracer.call("permute_dims", array, axes)


def add_levels(
    tracer: Tracer, array: TracedArray, own: Levels, wanted: Levels, sizes: dict[int, int]
) -> tuple[TracedArray, Levels]:
    """An array with the batch dimensions of all wanted levels, which contain its own."""
    if own == wanted:
        return array, wanted
    rest = array.shape[len(own) :]
    lead = [sizes[level] if level in own else 1 for level in wanted]
    wide = tracer.call("reshape", array, [*lead, *rest])
    return tracer.call("broadcast_to", wide, [*(sizes[n] for n in wanted), *rest]), wanted


def _add_level(tracer: Tracer, x: Tensor, axis: int, level: int) -> Any:
    array, levels = parts_of(tracer, x)
    axis = normalize_axis_index(axis, array.ndim - len(levels)) + len(levels)
    together = tuple(sorted((*levels, level)))
    return BatchedArray(move_axis(tracer, array, axis, together.index(level)), together)


def _remove_level(tracer: Tracer, x: Tensor, axis: int, level: int) -> Any:
    array, levels = parts_of(tracer, x)
    place = levels.index(level)
    rest = levels[:place] + levels[place + 1 :]
    axis = normalize_axis_index(axis, array.ndim - len(rest)) + len(rest)
    array = move_axis(tracer, array, place, axis)
    return BatchedArray(array, rest) if rest else array


def _sum_level(tracer: Tracer, x: Tensor, level: int, size: int) -> Any:  # noqa: ARG001
    array, levels = parts_of(tracer, x)
    place = levels.index(level)
    rest = levels[:place] + levels[place + 1 :]
    total = tracer.call("sum", array, [place], False)
    return BatchedArray(total, rest) if rest else total


def _expand_level(tracer: Tracer, x: Tensor, level: int, size: int) -> Any:
    array, levels = parts_of(tracer, x)
    wide = tracer.call("broadcast_to", array, [size, *array.shape])
    together = tuple(sorted((*levels, level)))
    return BatchedArray(move_axis(tracer, wide, 0, together.index(level)), together)


LEVEL_OPS: dict[str, Callable[..., Any]] = {
    "pullback::_add_level": _add_level,
    "pullback::_remove_level": _remove_level,
    "pullback::_sum_level": _sum_level,
    "pullback::_expand_level": _expand_level,
}


# --- kernels --------------------------------------------------------------------------------------


def has_batched(values: tuple[Any, ...]) -> bool:
    """Whether there is a batched tensor among arguments."""
    for value in values:
        if isinstance(value, Tensor):
            if isinstance(value._array, BatchedArray):
                return True
        elif isinstance(value, list | tuple) and has_batched(tuple(value)):
            return True
    return False


def record_batched(
    tracer: Tracer, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Records a call with batched tensors."""
    name = operator.name()
    if is_random(name):
        raise refusal(
            f"{name}: random operators inside vmap cannot be traced; draw the numbers outside, and "
            f"map over them"
        )
    batch = _Batch(tracer, (*args, *kwargs.values()))
    is_mutable = operator.schema.is_mutable
    if is_mutable:
        batch.promote(args[0], name)
    rule = None if tensor_rule(name) or is_composite(operator) else array_rule(name)
    if hasattr(rule, "function") and not is_mutable:
        given = [batch.aligned(value) for value in args]
        named = {key: batch.aligned(value) for key, value in kwargs.items()}
        return batch.wrapped(tracer.record(operator, tuple(given), named))
    target = BatchedCall(operator, batch.places, batch.sizes)
    given = [batch.physical(value) for value in args]
    named = {key: batch.physical(value) for key, value in kwargs.items()}
    found = tracer.record_function(target, tuple(given), named)
    return args[0] if is_mutable else batch.wrapped(found)


class _Batch:
    """The levels of one call's arguments."""

    def __init__(self, tracer: Tracer, values: tuple[Any, ...]):
        self.tracer = tracer
        sizes: dict[int, int] = {}
        self._own: list[Levels] = []
        for tensor in _tensors(values):
            held = tensor._array
            own: Levels = held.levels if isinstance(held, BatchedArray) else ()
            if own:
                sizes.update(zip(own, held.array.shape, strict=False))
            self._own.append(own)
        self.levels: Levels = tuple(sorted(sizes))
        self.sizes = tuple(sizes[level] for level in self.levels)
        self._ndim = max((t.ndim for t in _tensors(values) if not _is_number(t._array)), default=0)

    @property
    def places(self) -> tuple[Levels, ...]:
        """For each tensor, its levels as numbers from 0."""
        return tuple(tuple(self.levels.index(n) for n in own) for own in self._own)

    def physical(self, value: Any) -> Any:
        """An argument with arrays that have their batch dimensions in front."""
        if isinstance(value, Tensor):
            return value if _is_number(value._array) else wrap(parts_of(self.tracer, value)[0])
        if isinstance(value, list | tuple):
            return type(value)(self.physical(item) for item in value)
        return value

    def aligned(self, value: Any) -> Any:
        """As ``physical``, with an axis for each level and as many others as the widest has."""
        if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
            return type(value)(self.aligned(item) for item in value)
        if not isinstance(value, Tensor) or _is_number(value._array):
            return value
        array, own = parts_of(self.tracer, value)
        lead = [n if level in own else 1 for level, n in zip(self.levels, self.sizes, strict=True)]
        shape = array.shape[len(own) :]
        shape = (*lead, *(1,) * (self._ndim - len(shape)), *shape)
        return wrap(
            array if shape == array.shape else self.tracer.call("reshape", array, list(shape))
        )

    def wrapped(self, found: Any) -> Any:
        """Results as batched tensors."""
        if isinstance(found, list | tuple):
            return type(found)(self.wrapped(item) for item in found)
        return fresh(BatchedArray(found._array, self.levels))

    def promote(self, target: Tensor, name: str) -> None:
        """Adds the batch dimensions that are written to a tensor to its memory."""
        held = target._array
        own = held.levels if isinstance(held, BatchedArray) else ()
        if set(own) == set(self.levels):
            return
        promote_traced(self.tracer, target, self.levels, self.sizes, name)
        self._own[0] = self.levels


def _is_number(held: Any) -> bool:
    """Whether a tensor holds a Python number, plain or traced, which has no dtype of its own."""
    if isinstance(held, TracedArray):
        return held.number is not None
    return isinstance(held, bool | int | float | complex)


def _tensors(values: Any) -> Any:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
