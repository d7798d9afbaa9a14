"""The backward pass: runs nodes, last recorded first, and adds what they return.

    roots ──> gradients of the roots
          ──> run the node with the highest number of those that have gradients
          ──> add what it returns to the nodes behind its edges, until none is left

A node runs once, when all its gradients have arrived, so it and its hooks see one total. Numbers
grow as nodes are recorded, so within a thread the highest number is always such a node. Leaves have
the highest number of all: a leaf's gradient is complete as early as possible. Only a hook could
tell when that is, so only a graph with hooks has its dependencies counted; and one that several
threads have recorded, where numbers say nothing. Nothing recurses: a chain of a million nodes is a
loop of a million rounds.

With `inputs`, only nodes on a path to one of them run. A gradient that is asked for is *captured*
when it arrives, after its tensor hooks; the node that it arrives at runs only if something behind
it is needed too.

Everything that belongs to one pass is local to ``GraphTask.run``, so passes may nest (a hook that
calls ``backward``) and run in several threads at a time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, copy_context
from threading import Thread
from types import MappingProxyType
from typing import Any

import numpy as np

from pullback.autograd.accumulate import AccumulateGrad
from pullback.autograd.hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks
from pullback.autograd.inplace import CopySlices
from pullback.autograd.level import in_forward_mode
from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.autograd.node import Node, numbers_are_unique, output_of
from pullback.autograd.part import Part
from pullback.autograd.payload_nodes import any_marked, has_marks
from pullback.autograd.samples import settled
from pullback.autograd.traversal import count_dependencies, needed_nodes
from pullback.dispatch.modes import TRANSFORM, AutoGradMode, get_state, set_state, with_grad_mode
from pullback.errors import AutogradError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["GraphTask", "current_graph_task", "current_graph_task_id", "queue_callback", "will_run"]

_LEVELS_PER_THREAD = 40  # passes that start one another need a new stack now and then
_task_ids = itertools.count()
_current: ContextVar[GraphTask | None] = ContextVar("pullback_graph_task", default=None)
current_graph_task = _current.get  # the pass that this thread is in, if any


def current_graph_task_id() -> int:
    """The number of the backward pass that this thread is in, or -1."""
    task = _current.get()
    return -1 if task is None else task.id


def queue_callback(callback: Callable[[], Any]) -> None:
    """Has a function called at the end of the running backward pass."""
    task = _current.get()
    if task is None:
        raise AutogradError("Final callbacks can only be installed during backward pass.")
    if task.callbacks is None:
        task.callbacks = []
    task.callbacks.append(callback)


def will_run(node: Node) -> bool:
    """Whether the running backward pass runs a node, or captures what arrives at it."""
    task = _current.get()
    if task is None:
        raise AutogradError("will_run: there is no backward pass in this thread")
    if task.needed is not None and node not in task.needed:
        return False
    return node in count_dependencies(task.roots)


class GraphTask:
    """One backward pass: what to run, what to capture, what to keep."""

    # What most passes do not have.
    depth = 0  # how many passes of this thread this one runs inside of
    callbacks: list[Callable[[], Any]] | None = None
    captures: Mapping[Node, list[tuple[int, int]]] = MappingProxyType({})  # node -> output, place
    needed: set[Node] | None = None  # None: everything runs
    search = staticmethod(needed_nodes)  # finds what is needed for what was asked for
    payloads = False  # whether gradients may hold something else than arrays

    def __init__(self, *, create_graph: bool, retain_graph: bool):
        # Tangents travel with tensors only, so dual tensors need that road too.
        self.xp: Namespace = tensors if create_graph or in_forward_mode() else arrays
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.id = next(_task_ids)
        self.captured: dict[int, Any] = {}
        self.roots: list[Node] = []

    def capture(
        self, edges: Iterable[tuple[Node, int, int]], accumulate: Iterable[Node] = ()
    ) -> None:
        """Asks for the gradients of edges, each with a place in the results, and of some leaves."""
        captures: dict[Node, list[tuple[int, int]]] = {}
        for node, number, place in edges:
            captures.setdefault(node, []).append((number, place))
        self.captures = captures
        self.needed = {*captures, *accumulate}

    def run(self, roots: list[tuple[Node, int, Tensor | None]]) -> dict[int, Any]:
        """Runs the pass from gradients of the roots; returns what was captured, by place."""
        outer, state = _current.get(), get_state()
        if outer is not None:
            self.depth = outer.depth + 1
        _current.set(self)
        try:
            # What formulas make and write to is no business of the transforms around the pass.
            set_state(with_grad_mode(state, self.create_graph, end=TRANSFORM))
            if self.depth % _LEVELS_PER_THREAD == _LEVELS_PER_THREAD - 1:
                _run_in_thread(self._traverse, roots)
            else:
                self._traverse(roots)
        finally:
            _current.set(outer)
            set_state(state)  # exactly: a hook may have changed the mode for good
        return self.captured

    def _traverse(self, roots: list[tuple[Node, int, Tensor | None]]) -> None:
        for node, _, seed in roots:
            self.roots.append(node)
            if seed is not None and isinstance(seed._array, Payload):
                self.payloads = True
        if has_marks() and any_marked(count_dependencies(self.roots)):
            self.payloads = True
        if self.payloads:
            self.xp = tensors  # there is no raw array in what is differentiated
        xp = self.xp
        buffers: dict[Node, Any] = {}
        for node, number, seed in roots:
            grad = xp.seed(*output_of(node, number)) if seed is None else xp.from_tensor(seed)
            self._receive(buffers, node, number, grad)
        waiting = list(buffers)
        if self.needed is not None:
            needed = self.needed = self.search(self.roots, self.needed)
            waiting = [node for node in buffers if needed is None or node in needed]
        owned: set[Node] = set()  # nodes whose buffer nobody else holds: it may be written to
        if (
            xp is arrays
            and type(self) is GraphTask
            and numbers_are_unique()
            and (not self.captures or {*map(type, self.captures)} == {AccumulateGrad})
        ):
            waiting = self._run_in_sequence(waiting, buffers, owned)
        if waiting:
            self._run_when_ready(waiting, buffers, owned)
        for callback in self.callbacks or ():  # may grow while it runs
            with AutoGradMode(False):
                callback()

    def _run_in_sequence(
        self, waiting: list[Node], buffers: dict[Node, Any], owned: set[Node]
    ) -> list[Node]:
        """Runs nodes, last recorded first, until something needs the exact order of leaves.

        Where one thread has recorded everything, a node's number is higher than those of the nodes
        behind it, so nobody has to count dependencies: whoever has the highest number has all its
        gradients. Leaves come last, which only a hook could notice: from the first hook on, the
        nodes that are still waiting are returned.

        One round costs as much as everything else in the backward pass of a small operation, so the
        common case stands here in full. The node that comes next keeps its gradient in a local.
        """
        xp, needed, keep = self.xp, self.needed, self.retain_graph
        leaves: list[AccumulateGrad] = []
        heap: list[tuple[int, Node]] = []
        is_watched = False
        for node in waiting:
            if type(node) is AccumulateGrad:
                leaves.append(node)
                is_watched = is_watched or node.is_watched
            else:
                heapq.heappush(heap, (-node._seq, node))
        while heap and not is_watched:
            node = heapq.heappop(heap)[1]
            grad = buffers.pop(node)
            while True:
                if node._hooks is not None:
                    buffers[node] = grad
                    return [*leaves, node, *[other for _, other in heap]]
                if node._is_plain and grad is not None:
                    results = node.run(xp, grad, keep)
                elif grad is None:
                    results = self._execute(node, None)
                else:
                    assert type(node) is CopySlices
                    results = node.run_on(grad, node in owned, keep)
                    base = node._edges[node.place][0]
                    before = [target for target, _ in node._edges[: node.place]]
                    if base is not None and base not in buffers and base not in before:
                        owned.add(base)  # what it gets is new, or was ours
                is_exact = node._is_exact and grad is not None
                following: Node | None = None
                for (target, number), part in zip(node._edges, results):  # noqa: B905 - may be ()
                    if target is None or (needed is not None and target not in needed):
                        continue
                    if not (is_exact and target._is_single) and (
                        part is None
                        or part.dtype is not target._dtype
                        or part.shape != target._shape  # several outputs have a tuple of shapes
                    ):
                        if target is following:
                            buffers[target], following = grad, None
                            heapq.heappush(heap, (-target._seq, target))
                        if type(part) is Part:
                            is_new = self._receive_part(buffers, owned, target, number, part)
                        else:
                            is_new = self._check_and_receive(buffers, node, target, number, part)
                        if is_new:
                            if type(target) is AccumulateGrad:
                                leaves.append(target)
                                is_watched = is_watched or target.is_watched
                            else:
                                heapq.heappush(heap, (-target._seq, target))
                    elif target is following:
                        grad = grad + part
                    elif target in buffers:
                        held = buffers[target]
                        if held is None:
                            buffers[target] = part
                        elif target in owned:
                            buffers[target] += part  # a number is replaced, an array written to
                        else:
                            # The first two are not ours to write to; their sum is.
                            buffers[target] = held + part
                            owned.add(target)
                    elif type(target) is AccumulateGrad:
                        leaves.append(target)
                        is_watched = is_watched or target.is_watched
                        buffers[target] = part
                        if node._makes_new:
                            owned.add(target)
                    elif following is None:
                        following, grad = target, part
                    else:
                        buffers[target] = part
                        heapq.heappush(heap, (-target._seq, target))
                if following is None:
                    break
                node = following
                if is_watched or (heap and heap[0][0] < -node._seq):
                    buffers[node] = grad
                    heapq.heappush(heap, (-node._seq, node))
                    break
        if is_watched:
            return [*leaves, *[node for _, node in heap]]
        for leaf in leaves:
            self._accumulate(leaf, buffers.pop(leaf), leaf in owned)
        return []

    def _run_when_ready(
        self, waiting: list[Node], buffers: dict[Node, Any], owned: set[Node]
    ) -> None:
        """Runs each node when its gradients have all arrived, leaves first, then the newest."""
        needed = self.needed
        pending = count_dependencies(waiting, needed)
        order = itertools.count()
        heap: list[tuple[int, int, Node]] = []
        for node in waiting:
            if pending[node] == 0:
                heapq.heappush(heap, (-node._seq, next(order), node))
        while heap:
            node = heapq.heappop(heap)[2]
            grad = buffers.pop(node, None)
            if type(node) is AccumulateGrad:
                results = self._accumulate(node, grad, node in owned)
            else:
                results = self._execute(node, grad)
            for (target, number), grad in zip(node._edges, results):  # noqa: B905 - () ends it early
                if target is None or (needed is not None and target not in needed):
                    continue
                if grad is not None:
                    owned.discard(target)
                    self._check_and_receive(buffers, node, target, number, grad)
                pending[target] -= 1
                if pending[target] == 0:
                    heapq.heappush(heap, (-target._seq, next(order), target))

    def _accumulate(self, node: AccumulateGrad, grad: Any, is_owned: bool) -> tuple[Any, ...]:
        """Ends at a leaf: the short way where nobody asks for its gradient or watches it."""
        if grad is None or type(self) is not GraphTask or node.is_watched or node in self.captures:
            return self._execute(node, grad)
        return node.accumulate(self.xp, grad, is_owned)

    def _execute(self, node: Node, grad: Any) -> tuple[Any, ...]:
        """Hooks, capture, the node itself, its hooks, release."""
        xp = self.xp
        grads: list[Any] = (
            [grad] if node._outputs == 1 else ([None] * node._outputs if grad is None else grad)
        )
        hooks = node._hooks
        if hooks is not None or isinstance(node, AccumulateGrad):
            grads = run_tensor_hooks(xp, node, grads)
        if node in self.captures:
            for number, place in self.captures[node]:
                self.captured[place] = grads[number]
            if not self._leads_on(node):
                return ()
        if hooks is not None:
            grads = run_pre_hooks(xp, node, grads)
        results = node.backward(xp, *grads)
        if not self.retain_graph:
            node.release()
        if hooks is not None or isinstance(node, AccumulateGrad):
            results = run_post_hooks(xp, node, results, grads)
        return results

    def _leads_on(self, node: Node) -> bool:
        """Whether something behind a captured node is needed too."""
        needed = self.needed
        return any(t is not None and (needed is None or t in needed) for t, _ in node._edges)

    def _check_and_receive(
        self, buffers: dict[Node, Any], source: Node, target: Node, number: int, grad: Any
    ) -> bool:
        """Makes a gradient fit and adds it; says whether it is the first that came for the node."""
        if grad is not None:
            shape, dtype = output_of(target, number)
            if grad.shape != shape or grad.dtype is not dtype:

                def blame() -> str:
                    edge = (target, number)
                    place = next(i for i, other in enumerate(source._edges) if other == edge)
                    return f"Function {source.name()} returned an invalid gradient at index {place}"

                if grad.shape != shape:
                    grad = self.xp.sum_to(grad, shape, blame)
                if grad.dtype != dtype:
                    grad = self.xp.match_dtype(grad, dtype, source._narrows, blame)
            if self.payloads:
                grad = settled(grad, shape)
        return self._receive(buffers, target, number, grad)

    def _receive_part(
        self, buffers: dict[Node, Any], owned: set[Node], target: Node, number: int, part: Part
    ) -> bool:
        """Adds the gradient of a slice in its place, to a whole that is ours."""
        held = buffers.get(target)
        if target._outputs != 1 or target._dtype is not part.grad.dtype:
            return self._check_and_receive(buffers, target, target, number, part.whole())
        is_new = target not in buffers
        if held is None:
            buffers[target] = part.whole()
        else:
            if target not in owned or type(held) is not np.ndarray:
                buffers[target] = held = np.array(held)
            part.add_to(held)
        owned.add(target)
        return is_new

    def _receive(self, buffers: dict[Node, Any], node: Node, number: int, grad: Any) -> bool:
        """Adds a gradient to what has arrived for an output of a node."""
        is_new = node not in buffers
        if is_new:
            buffers[node] = None if node._outputs == 1 or grad is None else [None] * node._outputs
        if grad is None:
            return is_new
        if node._outputs == 1:
            held = buffers[node]
            buffers[node] = grad if held is None else held + grad
        else:
            if buffers[node] is None:
                buffers[node] = [None] * node._outputs
            held = buffers[node][number]
            buffers[node][number] = grad if held is None else held + grad
        return is_new


def _run_in_thread(run: Callable[[Any], None], roots: Any) -> None:
    """Runs a deeply nested pass on a stack of its own, as part of the calling thread."""
    failed: list[BaseException] = []

    def target() -> None:
        try:
            run(roots)
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=copy_context().run, args=(target,))
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
