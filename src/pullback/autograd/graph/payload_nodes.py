"""Marks of nodes that were recorded on payloads: their formulas cannot run on arrays.

Few programs use payloads, so nodes have no slot for it. The nodes that are marked are listed here,
as long as they live, and a backward pass looks for its own among them only if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from weakref import ref

from pullback.autograd.graph.node import Node
from pullback.autograd.graph.output_metadata import OutputExtras

__all__ = ["any_marked", "mark", "marked"]

marked: dict[int, ref[OutputExtras]] = {}  # empty unless a program uses payloads


def mark(node: Node) -> None:
    """Notes that a node has a payload on either side."""
    place = id(node)
    # Nodes cannot be referenced weakly, but the extras that they alone hold can.
    # ``pop(place, the reference)``, in C: an interrupt in a callback of Python's would be lost.
    marked[place] = ref(node.make_extras(), partial(marked.pop, place))


def any_marked(nodes: Iterable[Node]) -> bool:
    """Whether one of some nodes has been marked."""
    return not marked.keys().isdisjoint(map(id, nodes))
