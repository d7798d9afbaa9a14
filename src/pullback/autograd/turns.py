"""Passes over one graph that several threads start at once: one after the other.

A pass that frees what it has used must not meet another halfway: of threads that run one graph
without ``retain_graph``, the first succeeds and the others find it freed. So a pass takes its root
for itself while it runs, and whoever finds it taken waits. Passes that keep the graph take nothing,
nor do passes inside another one, which would wait for their own end.

Neither function calls anything between looking at the table and changing it: so no other thread
runs in between, and no interrupt comes (``pullback.interrupts``). Waiting threads look again and
again, because a thread that was interrupted could not be relied on to wake them.
"""

from __future__ import annotations

from time import sleep
from typing import Any

from pullback.autograd.node import Node
from pullback.interrupts import uninterrupted_entry

__all__ = ["OWNERS", "PAUSE", "give_back", "take"]

OWNERS: dict[Node, Any] = {}  # by root
PAUSE = 0.0005  # seconds between two looks at a root that is taken


def take(root: Node, owner: Any) -> None:
    """Waits until a root is free, and makes it the owner's."""
    while root in OWNERS:
        sleep(PAUSE)
    OWNERS[root] = owner


@uninterrupted_entry
def give_back(root: Node, owner: Any) -> None:
    """Ends a turn, if the owner has it."""
    if root in OWNERS and OWNERS[root] is owner:
        del OWNERS[root]
