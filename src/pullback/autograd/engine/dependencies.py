"""Searches through the graph that run nothing: who waits for how many, and who leads where."""

from __future__ import annotations

from typing import Any

from pullback.autograd.graph.node import LEAF_SEQUENCE_NUMBER, Node, Output, later_threads

__all__ = ["count_dependencies", "is_ordered", "needed_nodes"]


def count_dependencies(roots: list[Node], needed: set[Node] | None = None) -> dict[Node, int]:
    """How many gradients each reachable node, of those that run, will get from other nodes."""
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


def is_ordered(roots: list[Node]) -> bool:
    """Whether every node has a number of its own, higher than those of the nodes behind it.

    It is so where one thread has recorded them. Leaves, which all have the last number, are apart.
    """
    if not later_threads:
        return True
    seen = set(roots)
    stack = list(seen)
    while stack:
        node = stack.pop()
        number = node._seq
        for target in node._edges:
            if type(target) is Output:
                target = target.node
            if target is not None and target._seq != LEAF_SEQUENCE_NUMBER:
                if target._seq >= number:
                    return False
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
    return len({node._seq for node in seen}) == len(seen)


def needed_nodes(roots: list[Node], wanted: set[Node]) -> set[Node] | None:
    """The nodes from which a wanted one can be reached; None if these are all."""
    return None if _all_end_at(roots, wanted) else _search(roots, wanted)


def _all_end_at(roots: list[Node], wanted: set[Node]) -> bool:
    """Whether every path from the roots ends at a wanted node, as with all parameters of a loss.

    A pass for some inputs asks this of every node before it runs, so nodes with edges in slots have
    a loop of their own.
    """
    leaves = [
        node for node in wanted if node._seq == LEAF_SEQUENCE_NUMBER
    ]  # behind these is nothing
    stack: list[Any] = list(set(roots).difference(leaves))
    seen: set[Any] = {*leaves, *stack}
    while stack:
        node = stack.pop()
        arity = node._arity
        if arity == 2:
            one, two = node._edge0, node._edge1
            if two is not None:
                if two not in seen:
                    seen.add(two)
                    stack.append(two)
                if one is None:
                    continue
        elif arity:
            one = node._edge0
        else:
            one = None
        if one is not None:
            if one not in seen:
                seen.add(one)
                stack.append(one)
            continue
        if type(node) is Output:
            node = node.node
            if node not in seen:
                seen.add(node)
                stack.append(node)
            continue
        targets = [target for target in node._edges if target is not None]
        if not targets and node not in wanted:
            return False
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return True


def _search(roots: list[Node], wanted: set[Node]) -> set[Node]:
    """A depth-first search without recursion."""
    needed = set(wanted)
    seen: set[Node] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(root._edges))]
        while stack:
            node, edges = stack[-1]
            for target in edges:
                if type(target) is Output:
                    target = target.node
                if target is None:
                    continue
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(target._edges)))
                    break
                if target in needed:
                    needed.add(node)
            else:
                stack.pop()
                if node in needed and stack:
                    needed.add(stack[-1][0])
    return needed
