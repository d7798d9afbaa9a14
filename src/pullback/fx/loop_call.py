"""``LoopCall``: a loop of a traced program, as the target of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.fx.node import Node
from pullback.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["LoopBody", "LoopCall"]


class LoopBody(NamedTuple):
    """One step of a loop: the graph of its trace.

    Attributes:
        tracer: has the graph. Its inputs are those of the steps, in the order of `operands`.
        carried: the inputs that are carried from step to step.
        sliced: the inputs that are a slice of an array for each step.
        constant: the inputs that are the same for all steps; numbers among them.
        outputs: the nodes of the next carried values, then of the values that are stacked.
    """

    tracer: Tracer
    carried: list[Node]
    sliced: list[Node]
    constant: list[Node]
    outputs: list[Node]

    @property
    def inputs(self) -> list[Node]:
        """All inputs, in the order of the operands of a loop."""
        return [*self.carried, *self.sliced, *self.constant]

    def reorder(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the graph's placeholders, in their order, as one of the operands."""
        places = {node: place for place, node in enumerate(self.inputs)}
        order = [places[node] for node in self.tracer.graph.find_nodes(op="placeholder")]
        return lambda *operands: run(*(operands[place] for place in order))


class LoopCall:
    """A loop whose body is traced once.

    It is called with the first carried values, the arrays that are sliced along their first axis,
    and the constants; and returns the last carried values and the stacked values.

    Args:
        body: the graph of one step.
        length: the number of steps; None for a loop that runs while its first carried value, a
            truth value, is true, and stacks nothing.
        is_reversed: whether steps go from the last slice to the first; stacked values lie where
            the slices of their step do.
        step: runs the graph of one step on tensors; by default, node by node.
    """

    __slots__ = ("__name__", "body", "is_reversed", "length", "step")

    def __init__(
        self,
        body: LoopBody,
        length: int | None,
        is_reversed: bool,
        step: Callable[..., Any] | None = None,
    ):
        self.__name__ = "loop"
        self.body = body
        self.length = length
        self.is_reversed = is_reversed
        self.step = step

    def with_step(self, step: Callable[..., Any]) -> LoopCall:
        """The same loop with another function that runs one step."""
        return LoopCall(self.body, self.length, self.is_reversed, step)

    def __call__(self, *operands: Any) -> list[Tensor]:
        """Runs the loop on tensors."""
        assert self.step is not None
        body = self.body
        carried, sliced = len(body.carried), len(body.sliced)
        state = list(operands[:carried])
        arrays = [tensor._array for tensor in operands[carried : carried + sliced]]
        constants = operands[carried + sliced :]
        if self.length is None:
            while bool(state[0]._array):
                state = _contiguous(self.step(*state, *constants))
            return state
        stacked = [
            np.empty((self.length, *meta.shape), meta.dtype)
            for meta in (node.meta["tensor_meta"] for node in body.outputs[carried:])
        ]
        for count in range(self.length):
            place = self.length - 1 - count if self.is_reversed else count
            slices = [wrap(np.array(array[place], order="C")) for array in arrays]
            found = self.step(*state, *slices, *constants)
            state = _contiguous(found[:carried])
            for rows, tensor in zip(stacked, found[carried:], strict=True):
                rows[place] = tensor._array
        return [*state, *map(wrap, stacked)]

    def __repr__(self) -> str:
        order = ", from the last" if self.is_reversed else ""
        times = "while true" if self.length is None else f"{self.length} times"
        return f"loop({times} {len(self.body.tracer.graph)} nodes{order})"


def _contiguous(tensors: list[Tensor]) -> list[Tensor]:
    """Copies in C order, as the trace of a step has had them."""
    return [wrap(np.array(tensor._array, order="C")) for tensor in tensors]
