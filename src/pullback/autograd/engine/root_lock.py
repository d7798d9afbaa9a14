"""Passes over one graph that several threads start at once: one after the other.

A pass that frees saved values must not run beside another over the same graph: of threads that run
one graph without ``retain_graph``, the first succeeds and the others find it freed. So a pass
acquires a lock on its root while it runs, and other passes wait for it. Passes that keep the graph
acquire nothing, nor do passes inside another one, which would wait for their own end.

The table is read and changed by one atomic call, ``dict.setdefault``. A pass calls it inside the
``try`` whose ``finally`` releases the lock, so that an interrupt after it leaves no lock behind.
Waiting threads poll, because a thread that was interrupted might not wake them.
"""

from __future__ import annotations

from time import sleep
from typing import Any

from pullback.autograd.graph.node import Node
from pullback.interrupts import uninterrupted_entry

__all__ = ["LOCKED", "POLL_SECONDS", "acquire", "release"]

LOCKED: dict[Node, Any] = {}  # root -> the pass that holds its lock: any object that is its own
POLL_SECONDS = 0.0005  # seconds between two polls of a root that is locked


def acquire(root: Node, owner: Any) -> None:
    """Acquires the lock of a root for a pass, once no other pass has it."""
    while LOCKED.setdefault(root, owner) is not owner:
        sleep(POLL_SECONDS)


@uninterrupted_entry
def release(root: Node, owner: Any) -> None:
    """Releases the lock of a root, if this pass has it."""
    if root in LOCKED and LOCKED[root] is owner:
        del LOCKED[root]
