"""Which nodes were recorded over payloads: formulas cannot run on raw arrays there.

Few programs use payloads, so nodes have no slot for it. The nodes that are marked are listed here,
weakly, and a backward pass looks for its own among them only if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

from pullback.autograd.node import Node

__all__ = ["any_marked", "mark", "marked"]

marked: dict[int, ref[Node]] = {}  # empty unless a program uses payloads


def mark(node: Node) -> None:
    """Notes that a node has a payload on either side."""
    place = id(node)
    marked[place] = ref(node, lambda _: marked.pop(place, None))


def any_marked(nodes: Iterable[Node]) -> bool:
    """Whether one of some nodes has been marked."""
    return any(id(node) in marked for node in nodes)
