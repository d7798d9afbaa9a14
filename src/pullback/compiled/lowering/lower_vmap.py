"""Batching of the intermediate representation: a graph of one element as a graph of many.

An operator inside ``vmap`` is lowered as for one element of the batch; here each primitive
operation of that graph gets a batch axis in front. Values that do not depend on the batch stay as
they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pullback.compiled.lowering.builder import INT64, Builder
from pullback.compiled.lowering.expressions import CannotLower
from pullback.compiled.lowering.ir import Graph, Node, Place

__all__ = ["Batched", "batch_graph"]


class Batched(NamedTuple):
    """A node, and whether it has a batch axis in front."""

    node: Node
    is_batched: bool


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


def _moved(place: Place, size: int, pitch: int) -> Place:
    stride = 0 if size == 1 else pitch
    return Place(place.offset, (stride, *place.strides), (size, *place.shape))


def _view(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    return builder.view(operands[0], _moved(node.place, size, node.inputs[0].size))


def _elementwise(node: Node, builder: Builder, operands: list[Node], _: int) -> Node:
    if node.function == "cast":
        return builder.cast(operands[0], node.dtype)
    return builder.elementwise(node.function, *operands)


def _reduce(node: Node, builder: Builder, operands: list[Node], _: int) -> Node:
    combiner, axes = node.attrs
    return builder.reduce(combiner, operands[0], tuple(a + 1 for a in axes))


def _update(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    return builder.update(
        node.attrs[0], operands[0], _moved(node.place, size, node.size), operands[1]
    )


def _assemble(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    places = [_moved(place, size, node.size) for place in node.attrs[0]]
    parts = list(zip(places, operands, strict=True))
    return builder.assemble((size, *node.shape), node.dtype, parts)


def _shifted(builder: Builder, positions: Node, size: int, pitch: int) -> Node:
    """Positions in one element of the batch as positions in all."""
    starts = builder.elementwise("multiply", builder.iota(size), builder.full(pitch, (), INT64))
    start = builder.reshape(starts, (size, *(1,) * (len(positions.shape) - 1)))
    return builder.elementwise("add", positions, start)


def _take(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    return builder.take(operands[0], _shifted(builder, operands[1], size, node.inputs[0].size))


def _put(node: Node, builder: Builder, operands: list[Node], size: int) -> Node:
    base, positions, values = operands
    return builder.put(node.attrs[0], base, _shifted(builder, positions, size, node.size), values)


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
