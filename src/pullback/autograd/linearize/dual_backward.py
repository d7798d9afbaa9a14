"""A backward pass in forward mode on dual numbers of raw arrays: forward over reverse.

The general way runs such a pass on dual tensors. This one takes it over where nothing is recorded
and nobody watches: no hooks, no code of the user's. It changes nothing before it is done, so
whatever it meets that it cannot do, it leaves the whole pass to the general way.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import heappop, heappush
from typing import Any

from pullback.autograd.engine.dependencies import is_ordered
from pullback.autograd.engine.input_buffer import InputBuffers, accumulate, unbroadcast
from pullback.autograd.engine.roots import RootCotangent
from pullback.autograd.forward.batched_tangent import DeclinedError
from pullback.autograd.forward.dual_array import Dual, Duals
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.levels import Level
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.kernels.errstate import QUIET, get_settings, set_settings

__all__ = ["Dual", "run_on_duals"]


def run_on_duals(
    roots: Sequence[RootCotangent], targets: Container[Node], level: Level, keep: bool
) -> dict[Node, Any] | None:
    """The gradients that arrive at the targets, as arrays and dual numbers; None if it declines.

    Everything behind the roots that is no target is an inner node, or a leaf of no interest.
    """
    if not is_ordered([node for node, _, _ in roots]):
        return None
    before = get_settings()
    try:
        set_settings(QUIET)
        found, done = _run(roots, targets, Duals(level))
    except Exception:  # whatever it is: the general way has it too, and tells it in its own words
        return None
    finally:
        set_settings(before)
    if not keep:
        for node in done:
            node.release()
    return found


def _run(
    roots: Sequence[RootCotangent], targets: Container[Node], xp: Duals
) -> tuple[dict[Node, Any], list[Node]]:
    """The pass itself, last recorded first; leaves have no turn.

    A node with one output that nobody else has sent a gradient to runs next, if its number is the
    highest: then its gradient never gets into the buffers.
    """
    buffers: InputBuffers = {}
    heap: list[tuple[int, Node]] = []
    done: list[Node] = []
    leaves: list[Node] = []
    for node, number, seed in roots:
        grad = xp.seed(*output_of(node, number)) if seed is None else xp.from_tensor(seed)
        if accumulate(buffers, node, number, grad):
            if isinstance(node, AccumulateGrad):
                leaves.append(node)
            else:
                heappush(heap, (-node._seq, node))
    while heap:
        node = heappop(heap)[1]
        grad = buffers.pop(node)
        while True:
            if node._output_metadata.hooks is not None or not node._is_plain:
                raise DeclinedError("code of the user's")
            done.append(node)
            results = node.backward(xp, grad) if node._outputs == 1 else node.backward(xp, *grad)
            following: Node | None = None
            arity = node._arity
            if arity == 1:
                edges: tuple[Any, ...] = (node._edge0,)
            else:
                edges = (node._edge0, node._edge1) if arity else node._edges
            for target, part in zip(edges, results, strict=True):
                if target is None or part is None:
                    continue
                array, number = part.primal if type(part) is Dual else part, 0
                metadata = target._output_metadata
                if array.dtype is not metadata.dtype or array.shape != metadata.shape:
                    target, number = unpack_edge(target)
                    part = unbroadcast(xp, node, target, number, part)
                if target in buffers:
                    accumulate(buffers, target, number, part)
                elif isinstance(target, AccumulateGrad):
                    leaves.append(target)
                    buffers[target] = part
                elif target._outputs == 1 and following is None:
                    following, grad = target, part
                elif target is following:
                    grad = grad + part
                elif accumulate(buffers, target, number, part):
                    heappush(heap, (-target._seq, target))
            if following is None:
                break
            node = following
            if heap and heap[0][0] < -node._seq:
                buffers[node] = grad
                heappush(heap, (-node._seq, node))
                break
    return {leaf: buffers[leaf] for leaf in leaves if _is_asked_for(leaf, targets)}, done


def _is_asked_for(leaf: Any, targets: Container[Node]) -> bool:
    """Whether a leaf is a target; raises where it could be somebody else's."""
    if leaf.is_watched:
        raise DeclinedError("hooks")
    if leaf in targets:
        if type(leaf) is not AccumulateGrad:
            raise DeclinedError("a graph that goes on outside")
        return True
    if leaf.variable._flags & REQUIRES_GRAD:
        raise DeclinedError("a graph with other leaves")
    return False
