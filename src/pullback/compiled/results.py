"""Results of compiled functions: nodes and values of a trace, containers of a run.

At the end of a trace, the leaves of what the function returned become the nodes that a program
computes; after a run, its values become leaves and are put into the same containers.
"""

from __future__ import annotations

import enum
import gc
from collections.abc import AsyncIterator, Awaitable, Container, Coroutine, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.views import requires_grad
from pullback.compiled.watch import PLAIN
from pullback.dispatch.keys import PLAIN_VIEW
from pullback.errors import TraceError
from pullback.fx.node import Node
from pullback.fx.traced_array import TracedArray
from pullback.fx.traced_number import TracedNumber
from pullback.fx.tracer import Tracer
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh
from pullback.utils import pytree

__all__ = [
    "OutsideArray",
    "as_array",
    "build_result",
    "constant_result",
    "require_known",
    "require_same_containers",
    "result_node",
    "result_value",
]

_WITHOUT_TENSORS = (bool, int, float, complex, str, bytes, type(None), type, ModuleType, CodeType)
_FIXED = (
    *PLAIN,
    *(type, frozenset, range, slice, type(...), type(NotImplemented), np.dtype, enum.Enum),
    *(FunctionType, BuiltinFunctionType, ModuleType, np.ufunc, np.ndarray),
)
"""Types of results that cannot change, or that are made again in each call."""
_MOST_OBJECTS = 10_000  # objects behind a result that are looked at
_PLAIN_FLAGS = (CPU_FLAGS, CPU_FLAGS | PLAIN_VIEW)


def require_known(value: Any, outside: Container[int]) -> None:
    """Refuses a result that a graph cannot make: one that runs later, or a new object.

    Args:
        value: a leaf of the results.
        outside: the ids of objects from outside, which are the same in each call.
    """
    kind = type(value).__name__
    if isinstance(value, Iterator | Awaitable | AsyncIterator):
        if isinstance(value, Coroutine):
            value.close()  # else Python warns that it was never awaited
        raise TraceError(f"it returns a {kind}, whose code runs after the call; return a list")
    if isinstance(value, Tensor | TracedNumber):
        return
    if _holds_traced(value):
        raise TraceError(
            f"it returns a {kind}, which holds tensors; return them in tuples, lists, dicts or "
            f"dataclasses"
        )
    if id(value) not in outside and not isinstance(value, _FIXED) and not _is_shape(value):
        raise TraceError(
            f"it returns a {kind} that is new in each call; return tuples, lists, dicts or "
            f"dataclasses"
        )


def _is_shape(value: Any) -> bool:
    """Whether a result is a tuple of integers of a class of its own, which cannot change."""
    return isinstance(value, tuple) and all(type(item) is int for item in value)


def _holds_traced(value: Any) -> bool:
    """Whether an object without tensors that are seen leads to a value of a trace."""
    if type(value) in _WITHOUT_TENSORS:
        return False
    waiting, seen = [value], {id(value): value}
    while waiting and len(seen) < _MOST_OBJECTS:
        found = waiting.pop()
        if _is_traced(found):
            return True
        for part in _parts_of(found):
            if id(part) not in seen and type(part) not in _WITHOUT_TENSORS:
                seen[id(part)] = part
                waiting.append(part)
    return False


def _parts_of(value: Any) -> Iterable[Any]:
    """The objects that an object refers to: of a function, those that belong to it alone."""
    if isinstance(value, FunctionType):
        return value.__closure__ or (), value.__defaults__, value.__kwdefaults__, value.__dict__
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.hasobject else ()
    return gc.get_referents(value)


def require_same_containers(arguments: Any, leaves: list[Any], spec: pytree.Spec) -> None:
    """Refuses a function that has changed a container among its arguments.

    Args:
        arguments: the containers that the function was called with.
        leaves: the leaves that they had.
        spec: the structure that they had.
    """
    after, structure = pytree.flatten(arguments)
    if structure != spec or any(x is not y for x, y in zip(after, leaves, strict=True)):
        raise TraceError(
            "it changes a list, dict or other container among its arguments; return a new one"
        )


def _is_traced(value: Any) -> bool:
    held = value._array if isinstance(value, Tensor) else value
    return isinstance(held, TracedArray | TracedNumber)


class OutsideArray(NamedTuple):
    """A result that is an array from outside, or a view of one: the same object in each call."""

    array: NDArray[Any]


def result_node(tracer: Tracer, value: Any, outside: Container[int] = ()) -> Node | Any:
    """The node of a result of a trace; what is no tensor or number of it is a constant.

    Args:
        tracer: of the trace.
        value: the result.
        outside: the ids of arrays that own memory from outside.
    """
    if isinstance(value, TracedNumber):
        return value.node
    if isinstance(value, np.ndarray):
        return OutsideArray(value) if id(owner_of(value)) in outside else value.copy("K")
    if not isinstance(value, Tensor):
        return value
    held = value._array
    tracer.picks.check_read(held.value if isinstance(held, TracedArray) else held)
    return held.node if isinstance(held, TracedArray) else tracer.lift(np.asarray(held)).node


def result_value(value: Any, node: Any) -> Any:
    """The value that a result, whose node or constant is given, has in a trace.

    It has memory of its own: the graph may read an array that NumPy has made, too.
    """
    if isinstance(value, TracedNumber):
        return value.value
    if not isinstance(value, Tensor):
        return constant_result(node)
    held = value._array
    return fresh(held.value if isinstance(held, TracedArray) else np.array(held))


def constant_result(value: Any) -> Any:
    """A constant as the result of one call: an array that NumPy has made in the trace is copied.

    The caller may write to it, and the next call has to return the values of the trace.
    """
    if type(value) is OutsideArray:
        return value.array
    return value.copy("K") if isinstance(value, np.ndarray) else value


def build_result(values: list[Any], spec: pytree.Spec, as_arrays: bool) -> Any:
    """The result of a call: containers around tensors, or around arrays and numbers."""
    if as_arrays:
        values = [as_array(value) for value in values]
    return values[0] if spec is pytree.LEAF else pytree.unflatten(spec, values)


def as_array(value: Any) -> Any:
    """A result as an array, or a scalar of NumPy; one with a history or a batch stays a tensor."""
    if type(value) is not Tensor or value._flags not in _PLAIN_FLAGS or requires_grad(value):
        return value
    array = value._array
    return array if array.ndim else array[()]
