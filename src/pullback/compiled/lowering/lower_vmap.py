"""Operators inside ``vmap``: lowered for one element of the batch, then with a batch axis in front.

``lower_batched`` lowers the operator to a small graph on one element; ``batch_graph`` adds this
graph to the program, with a batch axis in front of each value that depends on the batch. Several
levels of ``vmap`` are one axis meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from pullback.compiled.lowering.builder import INT64, Builder
from pullback.compiled.lowering.expressions import CannotLower, Value
from pullback.compiled.lowering.ir import Graph, Node, Place
from pullback.compiled.lowering.operators import lower_operator, operator_name, parameters_of
from pullback.dispatch.table import ENTRIES
from pullback.fx.batched import BatchedCall

__all__ = ["Batched", "batch_graph", "lower_batched", "written_in_batch"]

_NUMBERS = (bool, int, float, complex)


class Batched(NamedTuple):
    """A node, and whether it has a batch axis in front."""

    node: Node
    is_batched: bool


class _Element:
    """The graph of an operator on one element of the batch.

    Attributes:
        given: for each input of the graph, the node of the program whose elements it is.
    """

    def __init__(self, call: BatchedCall, outer: Builder):
        self.sizes = call.sizes
        self.outer = outer
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.given: list[Batched] = []
        self._levels = iter(call.levels)  # of each tensor, and of each number in a tensor's place

    def argument(self, value: Any, is_tensor: bool) -> Any:
        """An argument with values of this graph."""
        if isinstance(value, list | tuple):
            return type(value)(self.argument(item, is_tensor) for item in value)
        is_value = isinstance(value, Value)
        levels = next(self._levels) if is_tensor and (is_value or type(value) in _NUMBERS) else ()
        return self._input(value, levels) if is_value else value

    def _input(self, value: Value, levels: tuple[int, ...]) -> Value:
        shape = value.shape[len(levels) :]
        node = value.node
        if levels:
            lead = tuple(n if k in levels else 1 for k, n in enumerate(self.sizes))
            wide = self.outer.reshape(node, (*lead, *shape))
            wide = self.outer.broadcast(wide, (*self.sizes, *shape))
            node = self.outer.reshape(wide, (prod(self.sizes), *shape))
        self.given.append(Batched(node, bool(levels)))
        return Value(self.graph.input(shape, value.dtype), self.builder, value.number)


def lower_batched(
    call: BatchedCall, args: list[Any], kwargs: dict[str, Any], builder: Builder
) -> Any:
    """The value of an operator inside ``vmap``, or a list of values.

    Tensors among the arguments are ``Value`` objects with their batch dimensions in front.
    """
    operator = call.operator
    positional, _, tensors = parameters_of(operator.schema)
    element = _Element(call, builder)
    pairs = zip(positional, args, strict=False)
    inner_args = [element.argument(value, name in tensors) for name, value in pairs]
    inner_kwargs = {n: element.argument(value, n in tensors) for n, value in kwargs.items()}
    name = operator_name(operator)
    found = lower_operator(name, operator.schema, inner_args, inner_kwargs, operator)
    is_list = isinstance(found, list | tuple)
    results = [value.node for value in (found if is_list else [found])]
    inner = element.graph
    inner.outputs, inner.checks = [*results, *inner.checks], []
    wide = batch_graph(inner, builder, element.given, prod(call.sizes))
    for check in wide[len(results) :]:
        builder.require(check)
    values = [
        Value(builder.reshape(node, (*call.sizes, *node.shape[1:])), builder)
        for node in wide[: len(results)]
    ]
    return values if is_list else values[0]


def written_in_batch(
    call: BatchedCall, name: str, now: Value, rest: list[Any], kwargs: dict[str, Any]
) -> Any:
    """The value that an in-place operator inside ``vmap`` writes to `now`, before broadcasting."""
    builder = now.builder
    if name == "zero_":
        return 0
    if name not in ("copy_", "fill_"):
        operator = ENTRIES[f"pullback::{name[:-1]}"].operator
        functional = BatchedCall(operator, call.levels, call.sizes)
        return lower_batched(functional, [now, *rest], kwargs, builder)
    source = rest[0]
    if not isinstance(source, Value):
        return source
    levels = call.levels[1]
    shape = source.shape[len(levels) :]
    missing = len(now.shape) - len(call.sizes) - len(shape)
    if missing < 0:
        raise CannotLower(f"{name} inside vmap of more axes than the target has")
    lead = [n if k in levels else 1 for k, n in enumerate(call.sizes)]
    node = builder.reshape(source.node, (*lead, *(1,) * missing, *shape))
    return Value(node, builder, source.number)


def batch_graph(graph: Graph, builder: Builder, given: list[Batched], size: int) -> list[Node]:
    """Adds a graph to another one with a batch axis; all outputs have it."""
    values: dict[int, Batched] = {}
    for node, value in zip(graph.inputs, given, strict=True):
        values[node.id] = value
    for node in graph.live():
        if node.op != "input":
            values[node.id] = _batch(node, builder, [values[n.id] for n in node.inputs], size)
    return [_wide(builder, values[node.id], size) for node in graph.outputs]


def _batch(node: Node, builder: Builder, operands: list[Batched], size: int) -> Batched:
    if not any(x.is_batched for x in operands):
        return Batched(builder.graph.add_copy(node, [x.node for x in operands]), False)
    rule = _RULES.get(node.op)
    if rule is None or any(_has_step(node)):
        raise CannotLower(f"{node.op} inside vmap")
    wide = [_wide(builder, x, size) for x in operands]
    return Batched(rule(node, builder, wide, size), True)


def _has_step(node: Node) -> list[bool]:
    """For a place of the node, whether it moves with an iteration."""
    return [attr.step != 0 for attr in node.attrs if isinstance(attr, Place)]


def _wide(builder: Builder, x: Batched, size: int) -> Node:
    """A value with a batch axis."""
    return x.node if x.is_batched else builder.broadcast(x.node, (size, *x.node.shape))


def _batch_at(place: Place, size: int, pitch: int) -> Place:
    stride = 0 if size == 1 else pitch
    return Place(place.offset, (stride, *place.strides), (size, *place.shape))


def _view(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    return builder.view(operands[0], _batch_at(node.place, size, node.inputs[0].size))


def _elementwise(node: Node, builder: Builder, operands: list[Node], _: int) -> Node:
    if node.function == "cast":
        return builder.cast(operands[0], node.dtype)
    return builder.elementwise(node.function, *operands)


def _reduce(node: Node, builder: Builder, operands: list[Node], _: int) -> Node:
    combiner, axes = node.attrs
    return builder.reduce(combiner, operands[0], tuple(a + 1 for a in axes))


def _update(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    return builder.update(
        node.attrs[0], operands[0], _batch_at(node.place, size, node.size), operands[1]
    )


def _assemble(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    places = [_batch_at(place, size, node.size) for place in node.attrs[0]]
    parts = list(zip(places, operands, strict=True))
    return builder.assemble((size, *node.shape), node.dtype, parts)


def _shift(builder: Builder, positions: Node, size: int, pitch: int) -> Node:
    """Positions in one element of the batch as positions in all."""
    starts = builder.elementwise("multiply", builder.iota(size), builder.full(pitch, (), INT64))
    start = builder.reshape(starts, (size, *(1,) * (len(positions.shape) - 1)))
    return builder.elementwise("add", positions, start)


def _take(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    return builder.take(operands[0], _shift(builder, operands[1], size, node.inputs[0].size))


def _put(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    base, positions, values = operands
    return builder.put(node.attrs[0], base, _shift(builder, positions, size, node.size), values)


_RULES: dict[str, Callable[[Node, Builder, list[Node], int], Node]] = {
    "view": _view,
    "elementwise": _elementwise,
    "reduce": _reduce,
    "matmul": lambda _, builder, operands, __: builder.matmul(*operands),
    "update": _update,
    "assemble": _assemble,
    "take": _take,
    "put": _put,
}
