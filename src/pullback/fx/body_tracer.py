"""``BodyTracer``: records one step of a loop, inside a program that is being traced.

The step may use values of the program around it. Each is *captured*: it becomes an input of the
step's graph. Captured tensors are also kept as the tensors that they are, so that the loop can have
derivatives by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.dispatch.keys import DUAL, SUBCLASS
from pullback.fx.node import Node
from pullback.fx.refusals import refusal
from pullback.fx.traced_array import TracedArray
from pullback.fx.traced_number import TracedNumber
from pullback.fx.tracer import Tracer
from pullback.tensor.batched import BatchedArray, Levels
from pullback.tensor.tensor import Tensor, as_operand, wrap

__all__ = ["BodyTracer"]

_SLOTS = ("_array", "_flags", "_edge", "_counter", "_meta")


class BodyTracer(Tracer):
    """Tracer of one step of a loop.

    Args:
        outer: the tracer of the program around the loop.
        may_differentiate: whether captured tensors may require grad or have tangents; else these
            raise, because the step is then traced on stand-ins for them.

    Attributes:
        tensors: the captured tensors that belong to the program around, by id.
        operands: for each captured value, its input and the value outside.
        own_arrays: captured arrays that only the step has read.
    """

    def __init__(self, outer: Tracer, *, may_differentiate: bool):
        super().__init__(is_general=True)
        self.outer = outer
        self.keeps_guards = outer.keeps_guards
        self.exposed = outer.exposed
        self.stand_ins = outer.stand_ins
        self.may_differentiate = may_differentiate
        self.tensors: dict[int, Tensor] = {}
        self.operands: list[tuple[Node, TracedArray | TracedNumber]] = []
        self.own_arrays: list[NDArray[Any]] = []
        self._before_stand_in: list[tuple[Tensor, list[Any]]] = []
        self._own: dict[int, Any] = {}  # by the id of a value outside, which `operands` keeps

    def is_true(self, array: TracedArray) -> bool | None:
        """Raises where the graph has guards: a step has other values each time."""
        return bool(self.read(array, "a check of values")) if self.keeps_guards else None

    def guard(self, array: TracedArray, what: str) -> None:
        """Raises, for the same reason."""
        self.read(array, what)

    def _is_written(self, root: Any) -> bool:
        return super()._is_written(root) or self.outer._is_written(root)

    def intercept(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records a call, after the values from outside among its arguments are captured."""
        own_args = tuple(self._localized(value) for value in args)
        own_kwargs = {key: self._localized(value) for key, value in kwargs.items()}
        if operator.schema.is_mutable:
            self._check_writes(operator, args, own_args, kwargs)
        return super().intercept(operator, own_args, own_kwargs)

    def _check_writes(
        self, operator: Any, args: tuple[Any, ...], own: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Refuses a write to a tensor from outside of the step."""
        positional = operator.schema.arguments.flat_positional
        triples = zip(positional, args, own, strict=False)
        if any(a.is_write and value is not local for a, value, local in triples) or any(
            a.is_write and a.name in kwargs for a in operator.schema.arguments.flat_all
        ):
            raise refusal(f"{operator}: a step of a loop writes to a tensor from outside")

    def _localized(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.localize(value)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            found = [self._localized(item) for item in value]
            same = all(a is b for a, b in zip(found, value, strict=True))
            return value if same else type(value)(found)
        return value

    def localize(self, tensor: Tensor) -> Tensor:
        """A tensor as a value of this trace."""
        held: Any = tensor._array
        levels: Levels = ()
        if isinstance(held, BatchedArray):
            held, levels = held.array, held.levels
        if isinstance(held, TracedArray):
            if held.tracer is self:
                return tensor
        elif not isinstance(held, np.ndarray) or not _is_differentiable(tensor):
            return tensor
        if not isinstance(held, TracedArray) or held.number is None:
            self._note(tensor)
        if isinstance(held, np.ndarray):
            held = self.outer.lift(held, None if levels else tensor)
        own = self._array(held)
        return wrap(BatchedArray(own, levels) if levels else own)

    def _note(self, tensor: Tensor) -> None:
        if _is_differentiable(tensor) and not self.may_differentiate:
            raise refusal("a step of a loop uses another tensor than when it was traced before")
        if tensor._flags & SUBCLASS:
            raise refusal(f"a step of a loop uses a {type(tensor).__name__}")
        self.tensors.setdefault(id(tensor), tensor)

    def _array(self, held: TracedArray) -> TracedArray:
        """The input of an array from outside."""
        held.tracer.picks.check_read(held.value)
        known: TracedArray | None = self._own.get(id(held))
        if known is not None:
            return known
        if held.number is not None:
            number = self._number(TracedNumber(held.number, held.node.args[0], held.tracer))
            node = self.graph.call_function(as_operand, (number.node,))
            made = TracedArray(held.value, node, self, held.number)
            self._own[id(held)] = made
            self.operands.append((node, held))
            return made
        made = self.input(f"outer{len(self.operands)}", np.array(held.value, order="C"))
        self._own[id(held)] = made
        self.operands.append((made.node, held))
        return made

    def _number(self, number: TracedNumber) -> TracedNumber:
        """The input of a number from outside."""
        key = id(number.node)
        if key not in self._own:
            self._own[key] = self.input_number(f"outer{len(self.operands)}", number.value)
            self.operands.append((self._own[key].node, number))
        found: TracedNumber = self._own[key]
        return found

    def _given(self, value: Any) -> tuple[Any, Any]:
        if isinstance(value, TracedNumber) and value.tracer is not self:
            value = self._number(value)
        elif isinstance(value, Tensor):
            held = value._array
            if isinstance(held, TracedArray) and held.tracer is not self:
                value = wrap(self._array(held))
        return super()._given(value)

    def stand_in(self, tensors: list[Tensor], given: list[Tensor]) -> None:
        """Makes captured tensor objects be the given tensors, until ``restore_tensors``.

        Nodes save tensors as objects: what a step has recorded is pulled back with these contents,
        so that they stay for the whole trace.
        """
        if self._before_stand_in:
            raise refusal("a step of a loop runs twice in one trace")
        for tensor, other in zip(tensors, given, strict=True):
            edge_of(other)  # a leaf gets the node that its gradient arrives at
            self._before_stand_in.append((tensor, [getattr(tensor, slot) for slot in _SLOTS]))
            for slot in _SLOTS:
                setattr(tensor, slot, getattr(other, slot))

    def restore_tensors(self) -> None:
        """Gives captured tensor objects their own contents."""
        for tensor, contents in reversed(self._before_stand_in):
            for slot, value in zip(_SLOTS, contents, strict=True):
                setattr(tensor, slot, value)
        self._before_stand_in.clear()

    def captured_operands(self) -> list[tuple[Node, Node]]:
        """For each captured value: its input here, and its node in the program around."""
        found: list[tuple[Node, Node]] = []
        for node, value in self.operands:
            if node.op == "placeholder":
                found.append((node, _node_outside(self.outer, value)))
        for node in self.graph.find_nodes(op="get_attr"):
            array, origin = self.captured[node.target], self.origins.get(node.target)
            is_scalar = "is_scalar" in node.meta
            if is_scalar or not self.outer.has_lifted(array):
                self.own_arrays.append(array)
            outer = self.outer.lift_scalar(array) if is_scalar else self.outer.lift(array, origin)
            found.append((node, outer.node))
        return found

    def pass_on(self) -> None:
        """Hands what the step depends on outside, besides tensors, to the program around."""
        if self.grads or self.options:
            raise refusal("a step of a loop reads or sets .grad, or updates parameters")
        self.outer.notes.update(self.notes)
        self.outer.conditions += self.conditions


def _node_outside(outer: Tracer, value: Any) -> Node:
    """The node of a value in the program around a loop."""
    if value.tracer is not outer:
        assert isinstance(outer, BodyTracer)
        is_number = isinstance(value, TracedNumber)
        value = outer._number(value) if is_number else outer._array(value)
    node: Node = value.node
    return node


def _is_differentiable(tensor: Tensor) -> bool:
    return requires_grad(tensor) or bool(tensor._flags & DUAL)
