"""The array loop: runs nodes on raw arrays by sequence numbers, up to the first hook.

The package's docstring explains the order. One round costs as much as all else in the backward pass
of a small operation, so the common case is written out in one function (2.1 times as fast as the
general loop on ``chain_small``). The cotangent of the node that runs next stays in a local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from pullback.autograd.engine.current_task import NeedsPassError
from pullback.autograd.engine.dependencies import count_dependencies
from pullback.autograd.engine.input_buffer import (
    InputBuffers,
    accumulate,
    accumulate_slice,
    unbroadcast,
)
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import Node, Output, node_of, unpack_edge
from pullback.autograd.graph.slice_cotangent import SliceCotangent
from pullback.autograd.namespaces import Namespace, arrays

__all__ = ["accumulate_complete", "run_array_loop"]

_ndarray = np.ndarray


def run_array_loop(
    waiting: list[Node],
    buffers: InputBuffers,
    owned: set[Node],
    needed: set[Node] | None,
    keep: bool,
    publish: Callable[[], None] | None,
    writes: bool,
) -> tuple[list[Node], list[AccumulateGrad]]:
    """Runs the nodes that have cotangents, and all that follow, up to the first hook.

    Returns the nodes that are left and, if there are none, the leaves that have cotangents.
    `publish` is called before the first user code, which may read the current task; None means that
    the task is published. `writes` says whether leaves get gradients, if a node raises.
    """
    leaves: list[AccumulateGrad] = []
    heap: list[tuple[int, Any]] = []
    is_watched = False  # whether a leaf has hooks
    for other in waiting:
        if type(other) is AccumulateGrad:
            leaves.append(other)
            is_watched = is_watched or other.is_watched
        else:
            heappush(heap, (-other._seq, other))
    while heap and not is_watched:
        node = heappop(heap)[1]
        grad = buffers.pop(node)
        while True:
            # Nodes of all classes pass here, so that CPython's inline caches of attributes miss:
            # one tuple per class saves five misses per node.
            run, run_on, is_exact, is_alike, makes_new, arity = node._traits
            try:
                metadata = node._output_metadata
                extras = metadata.extras
                if extras is not None and extras.has_hooks:
                    raise NeedsPassError
                if run is not None and grad is not None:
                    results = run(node, arrays, grad, keep)
                elif run_on is not None and grad is not None:
                    results = run_on(node, grad, buffers, owned, keep)
                elif publish is None and not node._sees_buffers and grad is not None:
                    results = node.run(arrays, grad, keep)
                else:
                    is_exact = False
                    if publish is not None and not (
                        node._is_plain or (node._sees_buffers and node.is_ours)
                    ):
                        publish()
                        publish = None
                    if grad is None:
                        results = node.backward(arrays, *[None] * node._outputs)
                        if not keep:
                            node.release()
                    elif node._sees_buffers:
                        results = node.run_on(grad, buffers, owned, keep)
                    else:
                        results = node.run(arrays, grad, keep)
            except BaseException as error:
                buffers[node] = grad
                if isinstance(error, NeedsPassError):
                    return [*leaves, node, *[other for _, other in heap]], []
                if writes:
                    accumulate_complete(leaves, buffers, owned, arrays)
                raise
            following: Any = None  # the node that may run next
            turn = 0  # its key in the heap
            one = two = edges = None
            if arity:
                one = node._edge0
                if arity == 2:
                    two = node._edge1
                elif (
                    is_exact
                    and needed is None
                    and one is not None
                    and one._is_single
                    and one not in buffers
                ):
                    # Sequence numbers of long chains are not in the cache: read only if compared.
                    turn = -one._seq if heap else 0
                    following, grad, results = one, results[0], ()
            else:
                edges = iter(node._edges)
            # Interned metadata: equal outputs mostly have the same object.
            if not is_alike:
                metadata = None
            for part in results:  # may be fewer than edges
                if edges is None:
                    target, one = one, two
                else:
                    target = next(edges, None)
                if target is None or (needed is not None and node_of(target) not in needed):
                    continue
                is_ours = makes_new
                if ((wanted := target._output_metadata) is not metadata or part is None) and (
                    part is None
                    or part.dtype is not wanted.dtype
                    or part.shape != wanted.shape  # None for several outputs
                ):
                    if (
                        part is None
                        or type(part) is SliceCotangent
                        or type(target) is Output
                        or target._outputs != 1
                    ):
                        target, number = unpack_edge(target)
                        if target is following:
                            buffers[target], following = grad, None
                            heappush(heap, (turn, target))
                        if type(part) is SliceCotangent:
                            is_new = accumulate_slice(buffers, owned, target, number, part)
                        else:
                            fit = unbroadcast(arrays, node, target, number, part)
                            is_new = accumulate(buffers, target, number, fit)
                        if is_new:
                            if type(target) is AccumulateGrad:
                                leaves.append(target)
                                is_watched = is_watched or target.is_watched
                            else:
                                heappush(heap, (-target._seq, target))
                        continue
                    fit = unbroadcast(arrays, node, target, 0, part)
                    if fit is not part:
                        is_ours = type(fit) is _ndarray and fit.base is None
                        part = fit
                if target is following:
                    if is_ours:
                        part += grad
                        grad = part
                    else:
                        grad = grad + part
                elif target in buffers:
                    held = buffers[target]
                    if held is None:
                        buffers[target] = part
                    elif target in owned:
                        held += part  # a number is replaced, an array written to
                        buffers[target] = held
                    else:
                        if is_ours:
                            part += held
                            buffers[target] = part
                        else:
                            buffers[target] = held + part
                        owned.add(target)
                elif type(target) is AccumulateGrad:
                    leaves.append(target)
                    is_watched = is_watched or target.is_watched
                    buffers[target] = part
                    if is_ours:
                        owned.add(target)
                else:
                    place = -target._seq
                    if following is None:
                        following, grad, turn = target, part, place
                    elif place < turn:  # then it runs before the other
                        buffers[following] = grad
                        heappush(heap, (turn, following))
                        following, grad, turn = target, part, place
                    else:
                        buffers[target] = part
                        heappush(heap, (place, target))
            if following is None:
                break
            node = following
            if heap and heap[0][0] < turn:
                buffers[node] = grad
                node = heappushpop(heap, (turn, node))[1]
                grad = buffers.pop(node)
            if is_watched:
                buffers[node] = grad
                heappush(heap, (-node._seq, node))
                break
    if is_watched:
        return [*leaves, *[node for _, node in heap]], []
    return [], leaves


def accumulate_complete(
    leaves: Iterable[AccumulateGrad], buffers: InputBuffers, owned: set[Node], xp: Namespace
) -> None:
    """Writes the gradients of the leaves that are ready by their counts, before a pass raises."""
    left = count_dependencies([node for node in buffers if type(node) is not AccumulateGrad])
    for leaf in leaves:
        if leaf not in left:
            leaf.accumulate(xp, buffers.pop(leaf), leaf in owned)
