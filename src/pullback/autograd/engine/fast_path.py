"""Everyday passes: ``loss.backward()`` and ``grad(loss, leaves)``, which most passes are.

Both do what a ``GraphTask`` does, in few steps. They ask first whether the thread is in no mode and
nothing about the graph is unusual; if something is, ``api.py`` takes the general way. A task begins
where the pass meets what only a task can do: hooks, and code of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import sleep
from typing import Any

import numpy as np

from pullback._cpython import SWITCHES_AT_CALLS
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.engine.array_loop import run_array_loop
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.engine.dependencies import is_ordered, needed_nodes
from pullback.autograd.engine.graph_task import GraphTask, Progress
from pullback.autograd.engine.input_buffer import InputBuffers
from pullback.autograd.engine.root_lock import LOCKED, POLL_SECONDS, acquire
from pullback.autograd.graph.accumulate_grad import AccumulateGrad, ended, reaches_ended
from pullback.autograd.graph.node import Node, later_threads
from pullback.autograd.graph.output_metadata import UNDESCRIBED
from pullback.autograd.graph.payload_nodes import marked
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import process_levels
from pullback.autograd.namespaces import arrays
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.memory import owner_of
from pullback.tensor.meta import View
from pullback.tensor.tensor import TRACKED, Tensor, share_counter, wrap

__all__ = ["as_tensors", "run_scalar_backward"]


class _Ones(dict[Any, Any]):
    """One of each dtype, None for those that a pass cannot start with: read without a call."""

    def __missing__(self, dtype: Any) -> None:
        return None


_ONE = _Ones({np.dtype(name): np.dtype(name).type(1) for name in ("float64", "float32", "float16")})
_ndarray = np.ndarray


# An input that is not reached has the gradient None; without inputs every leaf accumulates its own.
# One function, because a further call would be a tenth of the smallest passes.
def run_scalar_backward(
    loss: Tensor, inputs: Sequence[Any] | None, keep: bool
) -> list[Tensor | None] | None:
    """Gradients of a loss by inputs, or of every leaf; None, with nothing done, if unsupported."""
    root = loss._edge
    if root is None and type(loss._meta) is View:  # an element, for instance
        root = edge_of(loss)
    # A node with several outputs has no dtype; one of a payload is marked.
    metadata = UNDESCRIBED if root is None else root._output_metadata
    seed = None if metadata.shape else _ONE[metadata.dtype]
    if (
        seed is None
        or get_state().modes
        or (process_levels or marked or (ended and inputs is None and reaches_ended([root])))
        or current_graph_task() is not None
        or is_anomaly_enabled()
        or (later_threads and not is_ordered([root]))
    ):
        return None
    wanted = needed = None
    if inputs is not None:
        wanted = _leaves_of(inputs)
        needed = None if wanted is None else needed_nodes([root], set(wanted))
        if wanted is None or (needed is not None and root not in needed):
            return None
    buffers: InputBuffers = {root: seed}
    owned: set[Node] = set()
    tasks: list[GraphTask] = []
    publish = partial(_publish, tasks, root, keep, wanted, needed)
    before = get_settings()
    try:
        if not keep and SWITCHES_AT_CALLS:  # ``acquire`` in line, without a call
            while root in LOCKED:
                sleep(POLL_SECONDS)
            LOCKED[root] = buffers
        elif not keep:
            acquire(root, buffers)
        set_settings(QUIET)
        left = run_array_loop([root], buffers, owned, needed, keep, publish, wanted is None)
        waiting, leaves = left
        if waiting:
            rest = tasks[0] if tasks else _begin(tasks, root, keep, wanted, needed)
            rest.run_openly(None, partial(_so_far, waiting, buffers, owned))
        elif wanted is None:
            for leaf in leaves:
                leaf.accumulate(arrays, buffers[leaf], leaf in owned)
        if tasks and not waiting:
            tasks[0].call_back()
    finally:
        if not keep and root in LOCKED and LOCKED[root] is buffers:
            del LOCKED[root]
        try:
            set_settings(before)
        finally:
            if tasks:
                tasks[0].unpublish()
    if wanted is None:
        return []
    found = map(tasks[0].captured.get, range(len(wanted))) if waiting else map(buffers.get, wanted)
    return as_tensors(tasks[0] if tasks else None, [*found], [])


def _leaves_of(inputs: Sequence[Any]) -> list[Node] | None:
    """Where the gradients of some inputs arrive; None if one of them is not a leaf with a graph."""
    leaves: list[Node] = []
    for tensor in inputs:
        is_leaf = type(tensor) is Tensor and tensor._edge is None and tensor._flags & REQUIRES_GRAD
        meta = tensor._meta if is_leaf else None
        leaf = None if meta is None or meta.accumulator is None else meta.accumulator()
        if type(leaf) is not AccumulateGrad or (ended and id(leaf) in ended):
            return None
        leaves.append(leaf)
    return leaves


def _begin(
    tasks: list[GraphTask],
    root: Node,
    keep: bool,
    wanted: list[Node] | None,
    needed: set[Node] | None,
) -> GraphTask:
    """The everyday pass as one that can be asked for."""
    task = GraphTask(create_graph=False, retain_graph=keep)
    task.roots = [root]
    if wanted is not None:
        task.capture([(leaf, 0, place) for place, leaf in enumerate(wanted)])
        task.needed = needed
    tasks.append(task)
    return task


def _so_far(*progress: Any) -> Progress:
    """What a lambda would say, whose variables every pass would have to share with it."""
    return progress


def _publish(tasks: list[GraphTask], *everyday: Any) -> None:
    """Begins the task for code of the user's that is to run."""
    _begin(tasks, *everyday).publish()


def as_tensors(
    task: GraphTask | None, found: list[Any], given: list[Tensor]
) -> list[Tensor | None]:
    """Gradients that a pass has found, as tensors; `given` are those that it began with.

    What flows unchanged from one of these, or to two inputs, is one array and stays one tensor;
    views of one array count their versions together.
    """
    if task is None:
        made: list[Tensor | None] = []
        for value in found:
            if type(value) is not _ndarray or value.base is not None:
                break
            made.append(wrap(value))
        else:
            if len({*map(id, found)}) == len(found):
                return made
    elif task.exposed is not None:
        # Code of the user's has seen some of it, and may have saved it.
        tensor_of = task.exposed.tensor_of
        return [None if value is None else tensor_of(value) for value in found]
    return _in_common(arrays if task is None else task.xp, found, given)


def _in_common(xp: Any, found: list[Any], given: list[Tensor]) -> list[Tensor | None]:
    """The same, of arrays that may be views, or met before."""
    known = {id(xp.from_tensor(seed)): seed for seed in given}
    owners = {id(owner_of(seed._array)): seed for seed in given if seed._flags & TRACKED}
    for value in found:
        if value is not None and id(value) not in known:
            tensor = known[id(value)] = xp.to_tensor(value)
            lender = owners.setdefault(id(owner_of(tensor._array)), tensor)
            if lender is not tensor and tensor._flags & TRACKED:
                share_counter(tensor, lender)  # two views of one array: writes must be seen
    return [None if value is None else known[id(value)] for value in found]
