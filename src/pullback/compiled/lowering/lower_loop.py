"""Loops of the traced program (``scan`` and its kind) in the intermediate representation.

The body of a loop is lowered as a program of its own, and becomes the body of a ``loop`` node.
Slices of arrays are views at an offset that moves with the iteration. What does not depend on the
iteration is computed before the loop. ``prune_loops`` drops results that no node reads.
"""

from __future__ import annotations

import numpy as np

from pullback.compiled.lowering.builder import Builder, LoopMaker
from pullback.compiled.lowering.ir import (
    Graph,
    Loop,
    Node,
    Place,
    c_strides,
    copy_nodes,
    needed_by,
)
from pullback.fx.loop_call import LoopCall
from pullback.fx.node import Node as TracedNode

__all__ = ["add_loop", "prune_loops"]

_BOOL = np.dtype(bool)


def add_loop(
    builder: Builder, call: LoopCall, lowered: Graph, order: list[TracedNode], given: list[Node]
) -> list[Node]:
    """Adds a loop to a graph: the last carried values, then the stacked ones.

    `lowered` is the graph of one step, `order` has the node of the traced step for each of its
    inputs, `given` the operands of the loop. The checks of all steps become one check.
    """
    return _LoopLowering(builder, call, lowered).add(order, given)


class _LoopLowering(LoopMaker):
    """Builds one loop.

    Values of a step are of two kinds: those that depend on the iteration are nodes of the body
    (`inside`), all others are nodes of the graph around it (`outside`).
    """

    def __init__(self, builder: Builder, call: LoopCall, lowered: Graph):
        super().__init__()
        self.builder = builder
        self.call = call
        self.lowered = lowered
        self.inside: dict[int, Node] = {}
        self.outside: dict[int, Node] = {}

    def add(self, order: list[TracedNode], given: list[Node]) -> list[Node]:
        call, steps = self.call, self.call.body
        operands = dict(zip(steps.inputs, given, strict=True))
        firsts = given[: len(steps.carried)]
        inputs = dict(zip(order, self.lowered.inputs, strict=True))
        for node in steps.carried:
            source = inputs[node]
            self.inside[source.id] = self.body.input(source.shape, source.dtype)
        has_checks = bool(self.lowered.checks)
        if has_checks:
            holds = self.body.input((), _BOOL)
            firsts = [*firsts, self.builder.const(True)]
        for node in steps.sliced:
            source = inputs[node]
            self.inside[source.id] = self._slice(operands[node], source)
        for node in steps.constant:
            if node in inputs:
                self.outside[inputs[node].id] = operands[node]
        self._copy_nodes()
        results = [self._inside(node) for node in self.lowered.outputs]
        count = len(steps.carried)
        carried = results[:count]
        if has_checks:
            for check in self.lowered.checks:
                holds = self.inner.elementwise("logical_and", holds, self._inside(check))
            carried.append(holds)
        outputs = carried + results[count:]
        made = self.add_to(self.builder.graph, call.length, firsts, outputs)
        if has_checks:
            self.builder.graph.checks.append(self.builder.pick(made, count, (), _BOOL))
        return self._results(made, count, len(carried))

    def _results(self, made: Node, count: int, carried: int) -> list[Node]:
        found = []
        for place, node in enumerate(self.body.outputs):
            if place < count:
                found.append(self.builder.pick(made, place, node.shape, node.dtype))
            elif place >= carried:
                shape = (self.call.length or 0, *node.shape)
                rows = self.builder.pick(made, place, shape, node.dtype)
                found.append(self._in_order(rows, node))
        return found

    def _in_order(self, rows: Node, node: Node) -> Node:
        """Rows that stand in the order of iterations, in the order of slices."""
        if not self.call.is_reversed or not node.size:
            return rows
        last = (rows.shape[0] - 1) * node.size
        return self.builder.view(
            rows, Place(last, (-node.size, *c_strides(node.shape)), rows.shape)
        )

    def _slice(self, array: Node, source: Node) -> Node:
        """The slice of an array for one step."""
        if not source.size:
            return self.inner.full(0, source.shape, source.dtype)
        start, step = 0, source.size
        if self.call.is_reversed:
            start, step = (array.shape[0] - 1) * source.size, -source.size
        place = Place(start, c_strides(source.shape), source.shape, step)
        return self.inner.view(self.invariant(array), place, self.index)

    def _copy_nodes(self) -> None:
        for node in self.lowered.live():
            if node.op == "input":
                continue
            if node.op == "const":
                self.outside[node.id] = self.builder.graph.add_copy(node)
            elif node.inputs and all(x.id in self.outside for x in node.inputs):
                operands = [self.outside[x.id] for x in node.inputs]
                self.outside[node.id] = _add_copy(self.builder, node, operands)
            else:
                operands = [self._inside(x) for x in node.inputs]
                self.inside[node.id] = _add_copy(self.inner, node, operands)

    def _inside(self, node: Node) -> Node:
        """A value of the step as a node of the body."""
        known = self.inside.get(node.id)
        if known is None:
            known = self.inside[node.id] = self._local(self.outside[node.id])
        return known

    def _local(self, outside: Node) -> Node:
        """A value from outside in the body."""
        if outside.op == "view" and len(outside.inputs) == 1:
            return self.inner.view(self._local(outside.inputs[0]), outside.place)
        return self.invariant(outside)


def _add_copy(builder: Builder, node: Node, operands: list[Node]) -> Node:
    """Adds a copy of a node with other operands."""
    if node.op == "view" and len(operands) == 1:
        return builder.view(operands[0], node.place)
    return builder.graph.add_copy(node, operands)


# --- results that are not read --------------------------------------------------------------------


def prune_loops(graph: Graph) -> Graph:
    """The graph without results of loops that are not read, and what computes them."""
    if not any(node.op == "loop" for node in graph.nodes):
        return graph
    live = graph.live()
    used: dict[int, set[int]] = {}
    for node in live:
        if node.op == "pick" and node.inputs[0].op == "loop":
            used.setdefault(node.inputs[0].id, set()).add(node.attrs[0])
    made = Graph()
    values: dict[int, Node] = {}
    kept: dict[int, list[int]] = {}
    for node in live:
        if node.op == "input":
            values[node.id] = made.input(node.shape, node.dtype)
        elif node.op == "loop":
            loop, inputs, kept[node.id] = _prune(node, used.get(node.id, set()))
            values[node.id] = made.add(
                "loop", [values[x.id] for x in inputs], (loop,), (), _BOOL, unique=True
            )
        elif node.op == "pick" and node.inputs[0].op == "loop":
            loop_id = node.inputs[0].id
            place = kept[loop_id].index(node.attrs[0])
            values[node.id] = made.add("pick", (values[loop_id],), (place,), node.shape, node.dtype)
        else:
            values[node.id] = made.add_copy(node, [values[x.id] for x in node.inputs])
    for name in ("outputs", "checks", "effects"):
        setattr(made, name, [values[node.id] for node in getattr(graph, name)])
    return made


def _prune(node: Node, used: set[int]) -> tuple[Loop, list[Node], list[int]]:
    """A loop with the results that are read: it, its inputs, and the places of its results."""
    loop: Loop = node.attrs[0]
    body = loop.body
    carried = body.inputs[1 : 1 + loop.carried]
    wanted = set(used) if loop.length is not None else {0, *used}
    while True:
        reached = needed_by(body.outputs[n] for n in wanted)
        more = {place for place, x in enumerate(carried) if x.id in reached}
        if more <= wanted:
            break
        wanted |= more
    places = sorted(wanted)
    index, *others = body.inputs
    kept = [
        place
        for place, x in enumerate(others)
        if (place in wanted if place < loop.carried else x.id in reached)
    ]
    chosen = [x for x in body.nodes if x.id in reached and x.op != "input"]
    part, _, made = copy_nodes(chosen, [index, *(others[place] for place in kept)])
    part.outputs = [made[body.outputs[n].id] for n in places]
    count = sum(n < loop.carried for n in places)
    inputs = [node.inputs[place] for place in kept]
    return Loop(loop.length, prune_loops(part), count), inputs, places
