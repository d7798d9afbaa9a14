"""State of the running backward pass for user code: its id, its end, its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.engine.dependencies import count_dependencies
from pullback.autograd.graph.node import Node
from pullback.errors import AutogradError

__all__ = ["current_graph_task_id", "queue_callback", "will_run"]


def current_graph_task_id() -> int:
    """The id of the backward pass that this thread is in, or -1.

    >>> import pullback as pb
    >>> pb.autograd.graph.current_graph_task_id()
    -1
    """
    task = current_graph_task()
    return -1 if task is None else task.id


def queue_callback(callback: Callable[[], Any]) -> None:
    """Has a function called at the end of the current backward pass.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0], requires_grad=True)
    >>> done = lambda: print("the pass has ended")
    >>> handle = x.register_hook(lambda grad: pb.autograd.graph.queue_callback(done))
    >>> (x * 2).sum().backward()
    the pass has ended
    """
    task = current_graph_task()
    if task is None:
        raise AutogradError("Final callbacks can only be installed during backward pass.")
    if task.callbacks is None:
        task.callbacks = []
    task.callbacks.append(callback)


def will_run(node: Node) -> bool:
    """Whether the current backward pass runs a node, or captures its cotangent."""
    task = current_graph_task()
    if task is None:
        raise AutogradError("will_run: there is no backward pass in this thread")
    if task.needed is not None and node not in task.needed:
        return False
    return node in count_dependencies(task.roots)
