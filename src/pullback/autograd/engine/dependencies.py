"""Searches through the graph: dependency counts, order of sequence numbers, nodes on a path."""

from __future__ import annotations

from collections.abc import Iterable

from pullback.autograd.graph.accumulate_grad import find_ends
from pullback.autograd.graph.node import (
    LEAF_SEQUENCE_NUMBER,
    Node,
    Output,
    later_threads,
    node_of,
)

__all__ = ["count_dependencies", "is_ordered", "needed_nodes", "nodes_leading_to"]


def count_dependencies(roots: Iterable[Node], needed: set[Node] | None = None) -> dict[Node, int]:
    """For each needed node that the roots reach, the number of edges that lead to it."""
    pending = dict.fromkeys(roots, 0)
    stack = list(pending)
    while stack:
        for target in stack.pop()._edges:
            if type(target) is Output:
                target = target.node
            if target is None or (needed is not None and target not in needed):
                continue
            if target in pending:
                pending[target] += 1
            else:
                pending[target] = 1
                stack.append(target)
    return pending


def is_ordered(roots: Iterable[Node]) -> bool:
    """Whether sequence numbers are unique and fall along every edge; leaves have none.

    It is so where one thread has recorded all nodes.
    """
    if not later_threads:
        return True
    reached = count_dependencies(roots)
    numbers = [node._seq for node in reached if node._seq != LEAF_SEQUENCE_NUMBER]
    return len({*numbers}) == len(numbers) and not any(
        target is not None and node._seq <= target._seq != LEAF_SEQUENCE_NUMBER
        for node in reached
        for target in map(node_of, node._edges)
    )


def needed_nodes(roots: list[Node], wanted: set[Node]) -> set[Node] | None:
    """The nodes from which a wanted one can be reached; None if these are all.

    These are all if every path ends at a wanted node, as with all parameters of a loss.
    """
    if find_ends(roots) <= wanted:
        return None
    return nodes_leading_to(count_dependencies(roots), wanted)


def nodes_leading_to(nodes: Iterable[Node], wanted: set[Node]) -> set[Node]:
    """The wanted nodes, and those of the given ones from which a wanted one can be reached."""
    users: dict[Node | None, list[Node]] = {}
    for node in nodes:
        for target in node._edges:
            users.setdefault(node_of(target), []).append(node)
    needed = set(wanted)
    stack = list(needed)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in needed:
                needed.add(user)
                stack.append(user)
    return needed
