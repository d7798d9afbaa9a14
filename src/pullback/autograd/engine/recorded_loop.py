"""Nodes in the order of their numbers, on tensors: for passes that are recorded themselves.

What ``sequence.py`` is for arrays. Operations on tensors take longer than the loop, so this one is
plain. A pass in forward mode that cannot run on raw arrays comes here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from pullback.autograd.engine.array_loop import accumulate_complete
from pullback.autograd.engine.input_buffer import InputBuffers, accumulate, unbroadcast
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import Node, Output, node_of
from pullback.autograd.namespaces import Namespace

__all__ = ["run_on_tensors"]


def run_on_tensors(
    waiting: list[Node],
    buffers: InputBuffers,
    needed: set[Node] | None,
    captures: Mapping[Node, Any],
    ends_at: Callable[[Node, list[Any]], bool],
    xp: Namespace,
    keep: bool,
) -> tuple[list[Node], list[AccumulateGrad]]:
    """Runs nodes, last recorded first, until there are hooks to run.

    Returns the nodes that are left and, if there are none, the leaves that have got gradients.
    `ends_at` takes what arrives at a node of `captures`, and says whether the pass ends there.
    """
    leaves: list[AccumulateGrad] = []
    heap: list[tuple[int, Any]] = []
    is_watched = False
    for node in waiting:
        is_watched = _arrive(node, leaves, heap) or is_watched
    while heap and not is_watched:
        node = heappop(heap)[1]
        if _is_watched(node):
            is_watched = True
            heap.append((0, node))
            break
        grad = buffers.pop(node)
        grads = [grad] if node._outputs == 1 else (grad or [None] * node._outputs)
        if node in captures and ends_at(node, grads):
            continue
        try:
            results = node.backward(xp, *grads)
        except BaseException:
            buffers[node] = grad
            if not captures:
                accumulate_complete(leaves, buffers, set(), xp)
            raise
        if not keep:
            node.release()
        for target, part in zip(node._edges, results):  # noqa: B905 - () ends it early
            if target is None or (needed is not None and node_of(target) not in needed):
                continue
            number = 0
            if part is not None:
                array = part._array
                metadata = target._output_metadata
                if array.dtype is not metadata.dtype or array.shape != metadata.shape:
                    if type(target) is Output:
                        number, target = target.number, target.node
                    part = unbroadcast(xp, node, target, number, part)
            elif type(target) is Output:
                number, target = target.number, target.node
            if accumulate(buffers, target, number, part):
                is_watched = _arrive(target, leaves, heap) or is_watched
    if is_watched:
        return [*leaves, *[node for _, node in heap]], []
    return [], leaves


def _is_watched(node: Node) -> bool:
    """Whether there are hooks to run before or after a node."""
    if isinstance(node, AccumulateGrad):
        return node.is_watched
    hooks = node._output_metadata.hooks
    return hooks is not None and not hooks.are_empty


def _arrive(node: Node, leaves: list[AccumulateGrad], heap: list[tuple[int, Any]]) -> bool:
    """Has a node wait for its turn, leaves after all others; whether hooks see when that is."""
    if type(node) is not AccumulateGrad:
        heappush(heap, (-node._seq, node))
        return False
    leaves.append(node)
    return node.is_watched
