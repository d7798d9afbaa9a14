"""Nodes in the order of their numbers: the loop that nearly every backward pass consists of.

Where one thread has recorded everything, a node's number is higher than those of the nodes behind
it, so nobody has to count dependencies: whoever has the highest number has all its gradients.
Leaves come last, which only a hook could notice, so the loop ends at the first hook.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from pullback.autograd.accumulate import AccumulateGrad
from pullback.autograd.buffers import Buffers, fitted, is_whole, receive, receive_part
from pullback.autograd.namespaces import arrays
from pullback.autograd.node import Node, Output, node_of
from pullback.autograd.part import Part
from pullback.autograd.running import NeedsPassError
from pullback.autograd.traversal import count_dependencies

__all__ = ["run_in_sequence"]

_add_to: Callable[[Any, Any], Any] = operator.iadd


def run_in_sequence(
    waiting: list[Node],
    buffers: Buffers,
    owned: set[Node],
    needed: set[Node] | None,
    keep: bool,
    announce: Callable[[], None] | None,
) -> tuple[list[Node], list[AccumulateGrad]]:
    """Runs nodes on raw arrays, last recorded first, until something needs more than the order.

    Returns the nodes that are left and, if there are none, the leaves that have got gradients.
    Code of the user's can ask for the pass that it is in, so `announce` is called before the first
    of it; None says that this has been done.

    One round costs as much as everything else in the backward pass of a small operation, so the
    common case stands here in full. The node that comes next keeps its gradient in a local.
    """
    leaves: list[AccumulateGrad] = []
    heap: list[tuple[int, Any]] = []
    is_watched = False
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
            is_exact = node._is_exact
            try:
                if node._rare is not None and type(node._rare) is not list:
                    raise NeedsPassError  # it has hooks
                if grad is not None and (
                    node._is_direct or (announce is None and not node._sees_buffers)
                ):
                    results = node.run(arrays, grad, keep)
                else:
                    is_exact = False
                    if announce is not None and not (
                        node._is_plain or (node._sees_buffers and node.is_ours)
                    ):
                        announce()
                        announce = None
                    if grad is not None and node._sees_buffers:
                        results = node.run_on(grad, buffers, owned, keep)
                    else:
                        results = _run_special(node, grad, keep)
            except BaseException as error:
                buffers[node] = grad
                if isinstance(error, NeedsPassError):
                    return [*leaves, node, *[other for _, other in heap]], []
                _finish_leaves(leaves, buffers, owned, needed)
                raise
            following: Any = None  # a node
            if is_exact and needed is None:
                following = node._edge0  # the only one
            if following is not None and following._is_single and following not in buffers:
                grad = results[0]
            else:
                following = None
                # Nodes share the tuple of a shape, so equal ones are mostly known without a look.
                shape, dtype = node._shape if node._is_alike else False, node._dtype
                arity = node._arity
                if arity == 1:
                    edges: tuple[Any, ...] = (node._edge0,)
                else:
                    edges = (node._edge0, node._edge1) if arity else node._edges
                for target, part in zip(edges, results):  # noqa: B905 - may be ()
                    if target is None or (needed is not None and node_of(target) not in needed):
                        continue
                    if (
                        target._shape is not shape or target._dtype is not dtype or part is None
                    ) and (
                        part is None
                        or part.dtype is not target._dtype
                        or part.shape != target._shape  # several outputs have a tuple of shapes
                    ):
                        number = 0
                        if type(target) is Output:
                            number, target = target.number, target.node
                        if target is following:
                            buffers[target], following = grad, None
                            heappush(heap, (-target._seq, target))
                        if type(part) is Part:
                            is_new = receive_part(arrays, buffers, owned, target, number, part)
                        else:
                            fit = fitted(arrays, node, target, number, part)
                            is_new = receive(buffers, target, number, fit)
                            if is_new and fit is not part and is_whole(target, fit):
                                owned.add(target)  # nobody has seen what was made to fit
                        if is_new:
                            if type(target) is AccumulateGrad:
                                leaves.append(target)
                                is_watched = is_watched or target.is_watched
                            else:
                                heappush(heap, (-target._seq, target))
                    elif target is following:
                        grad = _add_to(part, grad) if node._makes_new else grad + part
                    elif target in buffers:
                        held = buffers[target]
                        if held is None:
                            buffers[target] = part
                        elif target in owned:
                            buffers[target] += part  # a number is replaced, an array written to
                        else:
                            # The first two are ours to write to if they are new; their sum is.
                            total = _add_to(part, held) if node._makes_new else held + part
                            buffers[target] = total
                            owned.add(target)
                    elif type(target) is AccumulateGrad:
                        leaves.append(target)
                        is_watched = is_watched or target.is_watched
                        buffers[target] = part
                        if node._makes_new:
                            owned.add(target)
                    elif following is None:
                        following, grad = target, part
                    elif target._seq > following._seq:  # then it is its turn before the other
                        buffers[following] = grad
                        heappush(heap, (-following._seq, following))
                        following, grad = target, part
                    else:
                        buffers[target] = part
                        heappush(heap, (-target._seq, target))
                if following is None:
                    break
            node = following
            if is_watched or (heap and heap[0][0] < -node._seq):
                buffers[node] = grad
                heappush(heap, (-node._seq, node))
                break
    if is_watched:
        return [*leaves, *[node for _, node in heap]], []
    return [], leaves


def _finish_leaves(
    leaves: list[AccumulateGrad], buffers: Buffers, owned: set[Node], needed: set[Node] | None
) -> None:
    """Before a pass fails: the leaves that would have got all their gradients by now keep them."""
    if needed is not None:  # then they are results, of which there will be none
        return
    left = count_dependencies([node for node in buffers if type(node) is not AccumulateGrad])
    for leaf in leaves:
        if leaf not in left:
            leaf.accumulate(arrays, buffers.pop(leaf), leaf in owned)


def _run_special(node: Node, grad: Any, keep: bool) -> tuple[Any, ...]:
    """What few nodes need: a gradient of None, code of the user's."""
    if grad is not None:
        return node.run(arrays, grad, keep)
    results = node.backward(arrays, *[None] * node._outputs)
    if not keep:
        node.release()
    return results
