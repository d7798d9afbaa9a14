"""Results of compiled functions: nodes and values of a trace, containers of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.fx.node import Node
from pullback.fx.traced_array import TracedArray
from pullback.fx.traced_number import TracedNumber
from pullback.fx.tracer import Tracer
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh
from pullback.utils import pytree

__all__ = ["as_array", "build_result", "result_node", "result_value"]


def result_node(tracer: Tracer, value: Any) -> Node | Any:
    """The node of a result of a trace; what is no array or number is a constant."""
    if isinstance(value, TracedNumber):
        return value.node
    if not isinstance(value, Tensor):
        return value
    held = value._array
    tracer.picks.check_read(held.value if isinstance(held, TracedArray) else held)
    return held.node if isinstance(held, TracedArray) else tracer.lift(np.asarray(held)).node


def result_value(value: Any) -> Any:
    """The value that a result has in a trace, in memory of its own."""
    if isinstance(value, TracedNumber):
        return value.value
    if not isinstance(value, Tensor):
        return value
    held = value._array
    return fresh(held.value if isinstance(held, TracedArray) else np.array(held))


def build_result(values: list[Any], spec: pytree.Spec, as_arrays: bool) -> Any:
    """The result of a call: containers around tensors, or around arrays and numbers."""
    if as_arrays:
        values = [as_array(value) for value in values]
    return values[0] if spec is pytree.LEAF else pytree.unflatten(spec, values)


def as_array(value: Any) -> Any:
    """A result as an array or number; one that is differentiated or batched stays a tensor."""
    if type(value) is not Tensor or value._flags != CPU_FLAGS:
        return value
    array = value._array
    return array if array.ndim else array.item()
