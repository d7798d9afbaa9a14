"""The backward pass: the only traversal of the graph.

    roots ──> count, for every reachable node, how many gradients it will get
          ──> run nodes whose gradients have all arrived, last recorded first
          ──> add what a node returns to the nodes behind its edges, until none is left

A node is *ready* when its count is zero, so it and its hooks see one total gradient and it runs
once. Among ready nodes the highest sequence number goes first; accumulation nodes have the highest
of all, so a leaf's gradient is complete as early as possible. Nothing recurses: a chain of a
million nodes is a loop of a million rounds. The next node usually is the only ready one, and then
the heap is not touched.

With `inputs`, only nodes on a path to one of them run. A gradient that is asked for is *captured*
when it arrives, after its tensor hooks; the node that it arrives at runs only if something behind
it is needed too.

Everything that belongs to one pass is local to ``GraphTask.run``, so passes may nest (a hook that
calls ``backward``) and run in several threads at a time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, copy_context
from threading import Thread
from typing import Any

from pullback.autograd.accumulate import AccumulateGrad
from pullback.autograd.hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks
from pullback.autograd.level import in_forward_mode
from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.autograd.node import Node
from pullback.autograd.payload_nodes import any_marked
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import TRANSFORM, AutoGradMode, StateGuard, get_state, set_state
from pullback.errors import AutogradError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["GraphTask", "current_graph_task_id", "queue_callback", "will_run"]

_LEVELS_PER_THREAD = 40  # passes that start one another need a new stack now and then
_task_ids = itertools.count()
_current: ContextVar[GraphTask | None] = ContextVar("pullback_graph_task", default=None)


def current_graph_task_id() -> int:
    """The number of the backward pass that this thread is in, or -1."""
    task = _current.get()
    return -1 if task is None else task.id


def queue_callback(callback: Callable[[], Any]) -> None:
    """Has a function called at the end of the running backward pass."""
    task = _current.get()
    if task is None:
        raise AutogradError("Final callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)


def will_run(node: Node) -> bool:
    """Whether the running backward pass runs a node, or captures what arrives at it."""
    task = _current.get()
    if task is None:
        raise AutogradError("will_run: there is no backward pass in this thread")
    return node in task.pending and (task.needed is None or node in task.needed)


class GraphTask:
    """One backward pass: what to run, what to capture, what to keep."""

    def __init__(self, *, create_graph: bool, retain_graph: bool):
        # Tangents travel with tensors only, so dual tensors need that road too.
        self.xp: Namespace = tensors if create_graph or in_forward_mode() else arrays
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.callbacks: list[Callable[[], Any]] = []
        self.id = next(_task_ids)
        self.depth = 0  # how many passes of this thread this one runs inside of
        self.captures: dict[Node, list[tuple[int, int]]] = {}  # node -> (output, place in results)
        self.captured: dict[int, Any] = {}
        self.accumulate: set[Node] = set()  # leaves to write to, when not to all
        self.needed: set[Node] | None = None  # None: everything runs
        self.pending: dict[Node, int] = {}  # gradients that each node still waits for

    def capture(self, edges: Iterable[tuple[Node, int]]) -> None:
        """Asks for the gradients that arrive at these edges."""
        for place, (node, number) in enumerate(edges):
            self.captures.setdefault(node, []).append((number, place))

    def run(self, roots: list[tuple[Node, int, Tensor]]) -> dict[int, Any]:
        """Runs the pass from gradients of the roots; returns what was captured, by place."""
        outer, state = _current.get(), get_state()
        self.depth = 0 if outer is None else outer.depth + 1
        _current.set(self)
        try:
            if self.depth % _LEVELS_PER_THREAD == _LEVELS_PER_THREAD - 1:
                _run_in_thread(self._run, roots)
            else:
                self._run(roots)
        finally:
            _current.set(outer)
            set_state(state)  # exactly: a hook may have changed the mode for good
        return self.captured

    def _run(self, roots: list[tuple[Node, int, Tensor]]) -> None:
        keep = REQUIRES_GRAD if self.create_graph else 0
        # What formulas make and write to is no business of the transforms around the pass.
        with StateGuard(keep=keep, drop=REQUIRES_GRAD ^ keep, end=TRANSFORM):
            self._traverse(roots)
            for callback in self.callbacks:  # may grow while it runs
                with AutoGradMode(False):
                    callback()

    def _traverse(self, roots: list[tuple[Node, int, Tensor]]) -> None:
        pending = self.pending = _count_dependencies(roots)
        if any_marked(pending):
            self.xp = tensors  # there is no raw array in what is differentiated
        if self.captures or self.accumulate:
            self.needed = _needed_nodes(roots, {*self.captures, *self.accumulate})
        buffers: dict[Node, Any] = {}
        owned: set[Node] = set()
        for _, _, grad in roots:
            if isinstance(grad._array, Payload):
                self.xp = tensors
        for node, number, grad in roots:
            self._receive(buffers, owned, node, number, self.xp.from_tensor(grad))
        heap: list[tuple[int, int, Node]] = []
        order = itertools.count()
        for node in dict.fromkeys(node for node, _, _ in roots):
            if pending[node] == 0 and (self.needed is None or node in self.needed):
                heapq.heappush(heap, (-node._seq, next(order), node))
        self._loop(pending, buffers, owned, heap, order)

    def _loop(
        self,
        pending: dict[Node, int],
        buffers: dict[Node, Any],
        owned: set[Node],
        heap: list[tuple[int, int, Node]],
        order: Iterator[int],
    ) -> None:
        """Runs ready nodes until none is left.

        One round costs as much as everything else in the backward pass of a small operation, so the
        common case stands here in full: one output, no hooks, a gradient of the right kind.
        """
        xp, needed = self.xp, self.needed
        general = bool(self.captures) or type(self) is not GraphTask
        release = not self.retain_graph
        take, push, pop = buffers.pop, heapq.heappush, heapq.heappop
        node: Node | None = pop(heap)[2] if heap else None
        while node is not None:
            if node._outputs == 1 and node._hooks is None and not general and not node.leaf_hooks:
                results = node.backward(xp, take(node, None))
                if release:
                    node.release()
            else:
                results = self._execute(node, take(node, None))
            if owned:
                owned.discard(node)
            ready: Node | None = None
            for (target, number), grad in zip(node._edges, results):  # noqa: B905 - () ends it early
                if target is None or (needed is not None and target not in needed):
                    continue
                if grad is not None:
                    if (
                        target not in buffers
                        and target._outputs == 1
                        and grad.dtype is target._dtype
                        and grad.shape == target._shape
                    ):
                        buffers[target] = grad
                    else:
                        self._check_and_receive(buffers, owned, node, target, number, grad)
                left = pending[target]
                if left > 1:
                    pending[target] = left - 1
                elif ready is None:
                    ready = target
                else:
                    push(heap, (-target._seq, next(order), target))
            if ready is None:
                node = pop(heap)[2] if heap else None
            elif heap:
                node = heapq.heappushpop(heap, (-ready._seq, next(order), ready))[2]
            else:
                node = ready

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
        needed = self.needed or ()
        return any(target in needed for target, _ in node._edges)

    def _check_and_receive(
        self,
        buffers: dict[Node, Any],
        owned: set[Node],
        source: Node,
        target: Node,
        number: int,
        grad: Any,
    ) -> None:
        single = target._outputs == 1
        shape = target._shape if single else target._shape[number]
        dtype = target._dtype if single else target._dtype[number]
        if grad.shape != shape or grad.dtype is not dtype:

            def blame() -> str:
                place = next(i for i, edge in enumerate(source._edges) if edge == (target, number))
                return f"Function {source.name()} returned an invalid gradient at index {place}"

            if grad.shape != shape:
                grad = self.xp.sum_to(grad, shape, blame)
            if grad.dtype != dtype:
                grad = self.xp.match_dtype(grad, dtype, source._narrows, blame)
        self._receive(buffers, owned, target, number, grad)

    def _receive(
        self, buffers: dict[Node, Any], owned: set[Node], node: Node, number: int, grad: Any
    ) -> None:
        """Adds a gradient to what has arrived for an output of a node."""
        if node._outputs != 1:
            slots = buffers.setdefault(node, [None] * node._outputs)
            held = slots[number]
            slots[number] = grad if held is None else held + grad
            return
        held = buffers.get(node)
        if held is None:
            buffers[node] = grad
        elif node in owned and self.xp is arrays:
            held += grad
        else:
            # The first two are not ours to write to; their sum is.
            buffers[node] = held + grad
            if buffers[node].shape:
                owned.add(node)


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


def _count_dependencies(roots: list[tuple[Node, int, Any]]) -> dict[Node, int]:
    """How many gradients each reachable node will get from other nodes."""
    pending: dict[Node, int] = {}
    stack: list[Node] = []
    for node, _, _ in roots:
        if node not in pending:
            pending[node] = 0
            stack.append(node)
    while stack:
        for target, _ in stack.pop()._edges:
            if target is None:
                continue
            if target in pending:
                pending[target] += 1
            else:
                pending[target] = 1
                stack.append(target)
    return pending


def _needed_nodes(roots: list[tuple[Node, int, Any]], wanted: set[Node]) -> set[Node]:
    """The nodes from which a wanted one can be reached: a depth-first search without recursion."""
    needed = set(wanted)
    seen: set[Node] = set()
    for root, _, _ in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(root._edges))]
        while stack:
            node, edges = stack[-1]
            for target, _ in edges:
                if target is None:
                    continue
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(target._edges)))
                    break
                if target in needed:
                    needed.add(node)
            else:
                stack.pop()
                if node in needed and stack:
                    needed.add(stack[-1][0])
    return needed
