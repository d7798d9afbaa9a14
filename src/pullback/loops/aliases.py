"""Results of a traced loop that share memory with other tensors, outside of a trace.

A carry that each step returns as it is stays the tensor that the loop began with. Where the last
carry is another view of the first one, of a slice or of a captured tensor, the graph has a copy,
which is kept as such (``fx/picked.py``): a write to one side while the other is in use raises.
"""

from __future__ import annotations

from typing import Any

from pullback.fx.body_tracer import BodyTracer
from pullback.fx.loop_call import LoopBody
from pullback.fx.node import Node
from pullback.fx.tracer import Tracer
from pullback.loops.step import Operands, traced_array
from pullback.tensor.tensor import Tensor

__all__ = ["with_aliases"]


def with_aliases(
    tracer: Tracer, body: LoopBody, given: Operands, last: list[Tensor], length: int | None
) -> list[Tensor]:
    """The last carry, in which unchanged tensors are the first ones; notes what shares memory."""
    results = list(last)
    owners: dict[Any, Any] = {}  # the array of a result by the node and step that have made it
    for place, tensor in enumerate(last):
        if body.outputs[place] is body.carried[place]:
            results[place] = given.carry[place]
            continue
        made = traced_array(tracer, tensor)
        if length is None:  # there may be no step
            tracer.picks.note_pick(made, traced_array(tracer, given.carry[place]), [])
            continue
        node, step = _origin(body, place, length)
        source = _array_of(tracer, body, given, node) if step == 0 else owners.get((node, step))
        if source is not None:
            tracer.picks.note_pick(made, source, [])
        owners.setdefault((node, step), made)
    return results


def _origin(body: LoopBody, place: int, length: int) -> tuple[Node, int]:
    """The node whose memory a last carry has, and the step that makes it; 0 for an input."""
    for step in range(length, 0, -1):
        node = _root(body.outputs[place])
        if node not in body.carried:
            is_input = node.op in ("placeholder", "get_attr")
            return node, 0 if is_input else step
        place = body.carried.index(node)
    return node, 0


def _root(node: Node) -> Node:
    while "view_of" in node.meta:
        node = node.meta["view_of"]
    return node


def _array_of(tracer: Tracer, body: LoopBody, given: Operands, node: Node) -> Any:
    """The array outside of the loop that an input of its step is, or is a slice of."""
    for inputs, tensors in ((body.carried, given.carry), (body.sliced, given.xs)):
        if node in inputs:
            return traced_array(tracer, tensors[inputs.index(node)])
    own = body.tracer
    assert isinstance(own, BodyTracer)
    if node.op == "get_attr":
        return own.captured[node.target]
    return next((value.value for inner, value in own.operands if inner is node), None)
