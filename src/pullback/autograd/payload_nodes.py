"""Which nodes were recorded over payloads: formulas cannot run on raw arrays there.

Few programs use payloads, so nodes have no slot for it. The nodes that are marked are listed here,
weakly, and a backward pass looks for its own among them only if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

from pullback.autograd.node import Node

__all__ = ["any_marked", "has_marks", "mark"]

_marked: dict[int, ref[Node]] = {}


def mark(node: Node) -> None:
    """Notes that a node has a payload on either side."""
    place = id(node)
    _marked[place] = ref(node, lambda _: _marked.pop(place, None))


def has_marks() -> bool:
    """Whether any node has been marked and still exists."""
    return bool(_marked)


def any_marked(nodes: Iterable[Node]) -> bool:
    """Whether one of some nodes has been marked."""
    return any(id(node) in _marked for node in nodes)
