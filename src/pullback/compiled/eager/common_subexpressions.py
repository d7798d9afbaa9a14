"""Merging of equal calls: a graph whose nodes compute a value twice uses the first of them.

Backward passes compute again what the forward pass has (bundle adjustment: 12 % of its time). Only
graphs that write to no memory are changed, in place; ``program.py`` calls this before it writes the
source of a graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.fx.graph import Graph
from pullback.fx.node import Node

__all__ = ["merge_equal_nodes"]


def merge_equal_nodes(graph: Graph, kept: list[Any]) -> None:
    """Makes users of equal calls use the first of them.

    Values in `kept`, and those that they are views of, stay as they are: a caller may write to one
    result of a function without changing another.
    """
    exposed: set[Node] = set()
    for value in kept:
        while isinstance(value, Node):
            exposed.add(value)
            value = value.meta.get("view_of")
    known: dict[Any, Node] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node in exposed or not _is_pure(node):
            continue
        key = (node.target, _key_of(node.args), _key_of(tuple(node.kwargs.items())))
        try:
            first = known.setdefault(key, node)
        except TypeError:  # an argument that has no hash
            continue
        if first is not node:
            node.replace_all_uses_with(first)


def _is_pure(node: Node) -> bool:
    if getattr(node.target, "schema", None) is None:
        return False
    return "nondeterministic_seeded" not in node.target.tags


def _key_of(value: Any) -> Any:
    """An argument as a key: values of different types, or signs of zero, are different."""
    if isinstance(value, list | tuple):
        return (type(value), *map(_key_of, value))
    if isinstance(value, slice):
        return (slice, *map(_key_of, (value.start, value.stop, value.step)))
    if type(value) in (float, complex):
        return (type(value), repr(value))
    if isinstance(value, Node | np.dtype):
        return value
    return (type(value), value)
