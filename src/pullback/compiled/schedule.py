"""The order of a graph's nodes for the emitters, and the groups of nodes on large values.

Values of up to ``MOST_ELEMENTS`` elements stay in registers; a node that makes a larger one, or
reduces or multiplies larger ones, is *large*. Large nodes that can run side by side are one group,
which ``arrays`` turns into loops over memory. Reads of small parts of large values, and writes of
small parts to them, are not large.
"""

from __future__ import annotations

from typing import NamedTuple

from pullback.compiled.ir import Graph, Node

__all__ = ["MOST_ELEMENTS", "Group", "is_large", "is_number", "make_schedule"]

MOST_ELEMENTS = 256
_MOST_PRODUCTS = 4096  # multiplications of a matrix product in registers


class Group(NamedTuple):
    """Nodes that are emitted together."""

    is_large: bool
    nodes: list[Node]


def is_large(node: Node) -> bool:
    """Whether a node is computed in memory."""
    if node.op in ("loop", "pick", "input", "const", "iota"):
        return False
    if node.op == "update":
        return node.inputs[1].size > MOST_ELEMENTS
    if node.op == "view":
        return node.size > MOST_ELEMENTS and not is_number(node)
    if node.op == "matmul":
        products = node.size * node.inputs[0].shape[-1]
        return products > _MOST_PRODUCTS or any(
            x.size > MOST_ELEMENTS for x in (node, *node.inputs)
        )
    if node.op == "take":
        return node.size > MOST_ELEMENTS
    return any(x.size > MOST_ELEMENTS for x in (node, *node.inputs))


def is_number(node: Node) -> bool:
    """Whether a node is one constant number in all elements."""
    base = node.inputs[0] if node.op == "view" else node
    return base.op == "const" and base.size == 1


def make_schedule(graph: Graph) -> list[Group]:
    """The nodes of a graph in an order of execution, in groups."""
    stages: dict[int, int] = {}
    groups: dict[tuple[int, bool], list[Node]] = {}
    for node in graph.live():
        large = is_large(node)
        stage = 0
        for x in node.inputs:
            if x.op not in ("input", "const", "iota"):
                other = stages[x.id]
                stage = max(stage, other if (other % 2 == 1) == large else other + 1)
        if (stage % 2 == 1) != large:
            stage += 1
        stages[node.id] = stage
        groups.setdefault((stage, large), []).append(node)
    return [Group(large, nodes) for (_, large), nodes in sorted(groups.items())]
