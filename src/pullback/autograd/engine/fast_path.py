"""Fast path for ``loss.backward()`` and ``grad(loss, leaves)``: no ``GraphTask`` is created.

It serves a scalar loss in a thread without modes, transforms, payloads, anomaly mode or an outer
pass, whose gradients by leaves are wanted. It does what ``GraphTask.run`` does on such a graph:
acquires the lock of the root, runs the array loop, writes or returns the gradients. A ``GraphTask``
is created when the loop reaches user code, which may read it, or a hook, which the general loop
runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import sleep

import numpy as np

from pullback._cpython import SWITCHES_AT_CALLS
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.engine.array_loop import run_array_loop
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.engine.dependencies import is_ordered, needed_nodes
from pullback.autograd.engine.exposed import to_tensors
from pullback.autograd.engine.graph_task import GraphTask
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
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor

__all__ = ["run_scalar_backward"]


_ONE = {np.dtype(name): np.dtype(name).type(1) for name in ("float64", "float32", "float16")}


# One function, because a further call would be a tenth of the smallest passes.
def run_scalar_backward(
    loss: Tensor, inputs: Sequence[Tensor] | None, keep: bool
) -> list[Tensor | None] | None:
    """Gradients of a loss by inputs, or written to every leaf; None if it does not serve."""
    root = loss._edge
    if root is None and type(loss._meta) is View:  # an element, for instance
        root = edge_of(loss)
    # A node with several outputs has no dtype; one of a payload is marked.
    metadata = UNDESCRIBED if root is None else root._output_metadata
    seed = _ONE[metadata.dtype] if metadata.dtype in _ONE and not metadata.shape else None
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
        wanted = _find_leaves(inputs)
        needed = None if wanted is None else needed_nodes([root], set(wanted))
        if wanted is None or (needed is not None and root not in needed):
            return None
    buffers: InputBuffers = {root: seed}
    owned: set[Node] = set()
    tasks: list[GraphTask] = []  # empty until one is needed
    publish = partial(_publish_task, tasks, root, keep, wanted, needed)
    settings, writes = get_settings(), wanted is None
    try:
        if not keep and SWITCHES_AT_CALLS:  # ``acquire`` in line, without a call
            while root in LOCKED:
                sleep(POLL_SECONDS)
            LOCKED[root] = buffers
        elif not keep:
            acquire(root, buffers)
        set_settings(QUIET)
        waiting, leaves = run_array_loop([root], buffers, owned, needed, keep, publish, writes)
        if waiting:
            if not tasks:
                publish()
            tasks[0].resume(waiting, buffers, owned)
        else:
            for leaf in leaves if writes else ():
                leaf.accumulate(arrays, buffers[leaf], leaf in owned)
            if tasks:
                tasks[0].run_callbacks()
    finally:
        if not keep and root in LOCKED and LOCKED[root] is buffers:
            del LOCKED[root]
        try:
            set_settings(settings)
        finally:
            if tasks:
                tasks[0].unpublish()
    if wanted is None:
        return []
    found = map(tasks[0].captured.get, range(len(wanted))) if waiting else map(buffers.get, wanted)
    return to_tensors(tasks[0].exposed if tasks else None, arrays, [*found], [])


def _find_leaves(inputs: Sequence[Tensor]) -> list[Node] | None:
    """The accumulation nodes of some inputs; None if one of them is not a leaf with a graph."""
    leaves: list[Node] = []
    for tensor in inputs:
        is_leaf = type(tensor) is Tensor and tensor._edge is None and tensor._flags & REQUIRES_GRAD
        meta = tensor._meta if is_leaf else None
        leaf = None if meta is None or meta.accumulator is None else meta.accumulator()
        if type(leaf) is not AccumulateGrad or (ended and id(leaf) in ended):
            return None
        leaves.append(leaf)
    return leaves


def _publish_task(
    tasks: list[GraphTask],
    root: Node,
    keep: bool,
    wanted: list[Node] | None,
    needed: set[Node] | None,
) -> None:
    """Appends the task of this pass to `tasks` and publishes it, for user code."""
    task = GraphTask(create_graph=False, retain_graph=keep)
    task.roots = [root]
    if wanted is not None:
        task.capture([(leaf, 0, place) for place, leaf in enumerate(wanted)])
        task.needed = needed
    tasks.append(task)
    task.publish()
