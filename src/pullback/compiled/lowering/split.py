"""Splits a lowered program of results and gradients into a forward and a backward program.

The joint graph has the results of a function, the writes that it does, and the gradients of its
inputs as a function of cotangents. The forward program computes what results, writes and checks
need, and returns in addition the *residuals*: the values of the forward part that the gradients
read. All other nodes are computed in the backward program, whose inputs are residuals, inputs of
the forward program and cotangents. A ``view`` of a residual, or of an input, is made again, so that
broadcast values are not saved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.compiled.lowering.expressions import CannotLower
from pullback.compiled.lowering.ir import Node, copy_nodes, needed_by
from pullback.compiled.lowering.lower import Lowered, Output, Source

__all__ = ["Halves", "split", "without_cotangents"]


class Halves(NamedTuple):
    """The two programs of a joint graph.

    The results of `forward` are those of the function, then the residuals. The arguments of
    `backward` are the residuals, then the inputs of the joint graph at the places `inputs`, then
    the cotangents; its results are the gradients.
    """

    forward: Lowered
    backward: Lowered
    inputs: list[int]  # indices of sources of the joint graph


def split(joint: Lowered, results: int, cotangents: int) -> Halves:
    """Splits a joint program of `results` results, whose last arguments are cotangents.

    Arrays that only the gradients capture are inputs behind the cotangents. Raises ``CannotLower``
    if a check depends on a cotangent.
    """
    graph = joint.graph
    arguments = [place for place, source in enumerate(joint.sources) if source.kind == "argument"]
    last = arguments[len(arguments) - cotangents :]
    seeds = [graph.inputs[place] for place in last]
    others = [place for place, _ in enumerate(graph.inputs) if place not in last]
    outputs = [graph.outputs[r.output] for r in joint.results[:results] if isinstance(r, Output)]
    written = [graph.outputs[write.output] for write in joint.writes]
    inside = needed_by([*outputs, *written, *graph.checks, *graph.effects])
    if inside & {node.id for node in seeds}:
        raise CannotLower("a value of the forward program that depends on a cotangent")
    gradients = [graph.outputs[r.output] for r in joint.results[results:] if isinstance(r, Output)]
    plan = _Plan(inside, gradients)
    chosen = inside | plan.moved
    given = [graph.inputs[place] for place in others]
    forward = copy_nodes([n for n in graph.nodes if n.id in chosen], given)
    made = forward.made
    forward.graph.outputs = [made[n.id] for n in (*outputs, *plan.residuals, *written)]
    forward.graph.checks = [made[n.id] for n in graph.checks]
    forward.graph.effects = [made[n.id] for n in graph.effects]
    kept: list[Any] = [Output(len(outputs) + place, None) for place, _ in enumerate(plan.residuals)]
    first = len(outputs) + len(kept)
    head = Lowered(
        forward.graph,
        [joint.sources[place] for place in others],
        [*_renumber(joint.results[:results]), *kept],
        [w._replace(output=first + place) for place, w in enumerate(joint.writes)],
        {},
    )
    inputs = [place for place in others if graph.inputs[place].id in plan.inputs]
    given = [*plan.residuals, *(graph.inputs[place] for place in inputs), *seeds]
    backward = copy_nodes([n for n in graph.nodes if n.id in plan.backward], given)
    backward.graph.outputs = [backward.made[n.id] for n in gradients]
    sources = [Source("argument", place, None) for place, _ in enumerate(given)]
    tail = Lowered(backward.graph, sources, _renumber(joint.results[results:]), [], {})
    return Halves(head, tail, inputs)


def without_cotangents(backward: Lowered, given: tuple[bool, ...]) -> Lowered:
    """A backward program where some of the cotangents, its last inputs, are not given.

    Gradients are linear in the cotangents: a node is zero if all its operands are that depend on a
    cotangent. It is not computed, because zero times an infinite derivative would be NaN, which
    autograd does not have: it does not run nodes without a cotangent. Such a gradient is None.
    """
    graph = backward.graph
    seeds = graph.inputs[len(graph.inputs) - len(given) :]
    dependent = {node.id for node in seeds}
    zero = {node.id for node, is_given in zip(seeds, given, strict=True) if not is_given}
    for node in graph.nodes:
        own = {x.id for x in node.inputs} & dependent
        if own:
            dependent.add(node.id)
            if own <= zero:
                zero.add(node.id)
    needed = needed_by(graph.outputs, zero)
    pairs = zip(graph.inputs, backward.sources, strict=True)
    given_inputs = [pair for pair in pairs if pair[0].id in needed]
    nodes = [node for node in graph.nodes if node.id in needed]
    copy, _, made = copy_nodes(nodes, [node for node, _ in given_inputs], zero)
    copy.outputs = [made[x.id] for x in graph.outputs if x.id not in zero]
    results = [
        None if isinstance(r, Output) and graph.outputs[r.output].id in zero else r
        for r in backward.results
    ]
    sources = [source for _, source in given_inputs]
    return Lowered(copy, sources, _renumber(results), [], {})


def _renumber(results: list[Any]) -> list[Any]:
    numbers = iter(range(len(results)))
    return [r._replace(output=next(numbers)) if isinstance(r, Output) else r for r in results]


class _Plan:
    """The nodes of the backward program.

    Attributes:
        residuals: values of the forward program that it reads.
        inputs: the ids of inputs of the joint graph that it reads.
        backward: the ids of nodes that it computes.
        moved: the ids of nodes that are computed in the forward program only for it.
    """

    def __init__(self, inside: set[int], gradients: list[Node]):
        self._inside = inside
        self.residuals: list[Node] = []
        self.inputs: set[int] = set()
        self.backward: set[int] = set()
        self.moved: set[int] = set()
        seen: set[int] = set()
        stack = list(gradients)
        while stack:
            node = stack.pop()
            if node.id in seen:
                continue
            seen.add(node.id)
            if node.op == "const":
                self.backward.add(node.id)
            elif node.op == "input":
                self.inputs.add(node.id)
            elif self._is_saved(node):
                self.residuals.append(node)
            else:
                self.backward.add(node.id)
                stack.extend(node.inputs)
        self.residuals.sort(key=lambda node: node.id)

    def _is_saved(self, node: Node) -> bool:
        """Whether a node is computed in the forward program, and its value kept."""
        if node.op == "pick" and node.inputs[0].id in self._inside:
            self.moved.add(node.id)
            return True
        if node.id not in self._inside:
            return False
        return not (node.op == "view" and node.inputs[0].size <= node.size)
