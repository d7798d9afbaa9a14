"""Everyday passes: ``loss.backward()`` and ``grad(loss, leaves)``, which most passes are.

Both do what a ``GraphTask`` does, in few steps. They ask first whether the thread is in no mode and
nothing about the graph is unusual; if something is, ``api.py`` takes the general way. A task begins
where the pass meets what only a task can do: hooks, and code of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.autograd.accumulate import AccumulateGrad
from pullback.autograd.anomaly import is_anomaly_enabled
from pullback.autograd.buffers import Buffers
from pullback.autograd.engine import GraphTask
from pullback.autograd.level import process_levels
from pullback.autograd.namespaces import arrays
from pullback.autograd.node import Edge, Node, later_threads
from pullback.autograd.payload_nodes import marked
from pullback.autograd.running import current_graph_task
from pullback.autograd.sequence import run_in_sequence
from pullback.autograd.traversal import is_in_order, needed_nodes
from pullback.autograd.turns import give_back, take
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.kernels.quiet import begin_quiet, end_quiet
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import TRACKED, Tensor, share_counter, wrap

__all__ = ["backward_of_loss", "gradients_of_loss", "tensors_of"]

_ONE = {np.dtype(name): np.dtype(name).type(1) for name in ("float64", "float32", "float16")}
_ndarray = np.ndarray


def _seed_of(node: Edge) -> Any:
    """The gradient that an everyday pass begins with; None if it is no such pass."""
    if node is None or node._shape:  # of a node with several outputs, a tuple of shapes
        return None
    seed = _ONE.get(node._dtype)  # type: ignore[arg-type]  # an ``Output`` has none
    if (
        seed is None
        or get_state().modes
        or process_levels
        or marked
        or current_graph_task() is not None
        or is_anomaly_enabled()
        or (later_threads and not is_in_order([node]))  # type: ignore[list-item]
    ):
        return None
    return seed


def backward_of_loss(loss: Tensor, keep: bool) -> bool:
    """``loss.backward()``; False if it takes the general way."""
    node = loss._edge
    seed = _seed_of(node)
    if seed is None:
        return False
    _run(node, seed, keep, None, lambda: _task(node, keep))
    return True


def gradients_of_loss(
    loss: Tensor, inputs: Sequence[Any], keep: bool
) -> list[Tensor | None] | None:
    """``grad(loss, inputs)``, None for an input that is not reached; None for the general way."""
    node = loss._edge
    seed = _seed_of(node)
    if seed is None:
        return None
    leaves: list[AccumulateGrad] = []
    for tensor in inputs:
        is_leaf = type(tensor) is Tensor and tensor._edge is None and tensor._flags & REQUIRES_GRAD
        meta = tensor._meta if is_leaf else None
        leaf = None if meta is None or meta.accumulator is None else meta.accumulator()
        if type(leaf) is not AccumulateGrad:
            return None
        leaves.append(leaf)
    needed = needed_nodes([node], set(leaves))
    if needed is not None and node not in needed:
        return None

    def begin() -> GraphTask:
        task = _task(node, keep)
        task.capture([(leaf, 0, place) for place, leaf in enumerate(leaves)])
        task.needed = needed
        return task

    task, found = _run(node, seed, keep, leaves, begin, needed)
    if task is not None and task.handed is not None:
        # Code of the user's has seen some of it, and may have saved it.
        return [None if value is None else task.handed.tensor_of(value) for value in found]
    return tensors_of(arrays, found, [])


def _task(root: Node, keep: bool) -> GraphTask:
    """The everyday pass as one that can be asked for."""
    task = GraphTask(create_graph=False, retain_graph=keep)
    task.roots = [root]
    return task


def _run(
    root: Node,
    seed: Any,
    keep: bool,
    wanted: list[AccumulateGrad] | None,
    begin: Callable[[], GraphTask],
    needed: set[Node] | None = None,
) -> tuple[GraphTask | None, list[Any]]:
    """Runs a pass from the only output of a node, to all leaves or for those that are wanted.

    Returns the task, if there had to be one, and what has arrived at those that are wanted.
    """
    buffers: Buffers = {root: seed}
    owned: set[Node] = set()
    task: GraphTask | None = None

    def announce() -> None:
        nonlocal task
        task = begin()
        task.announce()

    if not keep:
        take(root, buffers)
    quiet = begin_quiet()
    try:
        waiting, leaves = run_in_sequence([root], buffers, owned, needed, keep, announce)
        if waiting:
            rest = task = task or begin()
            rest.run_openly(None, lambda: (waiting, buffers, owned))
            return rest, [rest.captured.get(place) for place in range(len(wanted or ()))]
        if wanted is None:
            for leaf in leaves:
                leaf.accumulate(arrays, buffers[leaf], leaf in owned)
        if task is not None:
            task.call_back()
        return task, [] if wanted is None else [buffers.get(leaf) for leaf in wanted]
    finally:
        if task is not None:
            task.withdraw()
        end_quiet(quiet)
        if not keep:
            give_back(root)


def tensors_of(xp: Any, found: list[Any], given: list[Tensor]) -> list[Tensor | None]:
    """Gradients as tensors. What flows unchanged from a seed, or to two inputs, is one array and
    stays one tensor; views of one array count their versions together."""
    if xp is arrays and not given:
        made: list[Tensor | None] = []
        for place, value in enumerate(found):
            is_new = type(value) is _ndarray and value.base is None
            if not is_new or any(value is other for other in found[:place]):
                break
            made.append(wrap(value))
        else:
            if not get_state().modes:
                return made
    known = {id(xp.from_tensor(seed)): seed for seed in given}
    owners = {id(owner_of(seed._array)): seed for seed in given if seed._flags & TRACKED}
    for value in found:
        if value is not None and id(value) not in known:
            tensor = known[id(value)] = xp.to_tensor(value)
            lender = owners.setdefault(id(owner_of(tensor._array)), tensor)
            if lender is not tensor and tensor._flags & TRACKED:
                share_counter(tensor, lender)  # two views of one array: writes must be seen
    return [None if value is None else known[id(value)] for value in found]
