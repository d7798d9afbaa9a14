"""Passes over one graph that several threads start at once: one after the other.

A pass that frees what it has used must not meet another halfway: of threads that run one graph
without ``retain_graph``, the first succeeds and the others find it freed. So a pass takes its root
for itself while it runs, and whoever finds it taken waits. Passes that keep the graph take nothing,
nor do passes inside another one, which would wait for their own end.
"""

from __future__ import annotations

from threading import Condition
from typing import Any

from pullback.autograd.node import Node

__all__ = ["give_back", "take"]

_running: dict[Node, Any] = {}  # by root; setdefault is one step that no thread interrupts
_freed = Condition()
_waiting = 0


def take(root: Node, owner: Any) -> None:
    """Waits until a root is free, and makes it the owner's."""
    if _running.setdefault(root, owner) is not owner:
        _wait(root, owner)


def give_back(root: Node) -> None:
    """Ends a turn."""
    del _running[root]
    if _waiting:
        with _freed:
            _freed.notify_all()


def _wait(root: Node, owner: Any) -> None:
    global _waiting
    with _freed:
        _waiting += 1  # before the next look: whoever frees the root after it will notify
        try:
            while _running.setdefault(root, owner) is not owner:
                _freed.wait()
        finally:
            _waiting -= 1
