"""Passes over one graph that several threads start at once: one after the other.

A pass that frees what it has used must not meet another halfway: of threads that run one graph
without ``retain_graph``, the first succeeds and the others find it freed. So a pass takes its root
for itself while it runs, and whoever finds it taken waits. Passes that keep the graph take nothing,
nor do passes inside another one, which would wait for their own end.
"""

from __future__ import annotations

from threading import Condition
from typing import Any

import numpy as np

from pullback.autograd.engine import GraphTask, current_graph_task_id
from pullback.autograd.node import Node
from pullback.tensor.tensor import Tensor

__all__ = ["run_in_turn"]

_running: dict[Node, GraphTask] = {}  # by root; setdefault is one step that no thread interrupts
_freed = Condition()
_waiting = 0


def run_in_turn(task: GraphTask, roots: list[tuple[Node, int, Tensor | None]]) -> dict[int, Any]:
    """Runs a pass when its root is free, without NumPy's warnings at singular points."""
    with np.errstate(all="ignore"):  # anomaly mode finds what is not finite
        if task.retain_graph or not roots or current_graph_task_id() != -1:
            return task.run(roots)
        root = roots[0][0]
        if _running.setdefault(root, task) is not task:
            _wait(root, task)
        try:
            return task.run(roots)
        finally:
            del _running[root]
            if _waiting:
                with _freed:
                    _freed.notify_all()


def _wait(root: Node, task: GraphTask) -> None:
    global _waiting
    with _freed:
        _waiting += 1  # before the next look: whoever frees the root after it will notify
        try:
            while _running.setdefault(root, task) is not task:
                _freed.wait()
        finally:
            _waiting -= 1
