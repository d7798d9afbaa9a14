"""``GraphTask``: one backward pass, its driver and the general loop.

The package's docstring (``engine/__init__.py``) explains in which order nodes run.

With `inputs`, only nodes on a path to one of them run. The cotangent of an input is *captured* when
it is complete, after its tensor hooks; the node that it belongs to runs only if it leads to another
needed node.

All state of a pass belongs to its ``GraphTask``, so passes may nest (a hook that calls
``backward``) and run in several threads at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import cached_property
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any

from pullback.autograd.engine.array_loop import accumulate_complete, run_array_loop
from pullback.autograd.engine.current_task import current_graph_task, set_graph_task
from pullback.autograd.engine.dependencies import count_dependencies, is_ordered, needed_nodes
from pullback.autograd.engine.exposed import Exposed
from pullback.autograd.engine.input_buffer import InputBuffers, accumulate, unbroadcast
from pullback.autograd.engine.root_lock import acquire, release
from pullback.autograd.engine.roots import RootCotangent
from pullback.autograd.graph.accumulate_grad import AccumulateGrad, ended, living_nodes
from pullback.autograd.graph.batch_levels import match_levels
from pullback.autograd.graph.hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks
from pullback.autograd.graph.node import Node, Output, node_of, output_of, unpack_edge
from pullback.autograd.graph.payload_nodes import any_marked, marked
from pullback.autograd.graph.pre_reduced_cotangent import require_full_cotangent
from pullback.autograd.levels import in_forward_mode
from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.dispatch.modes import (
    DISPATCH_MODE,
    TRACE,
    TRANSFORM,
    AutoGradMode,
    State,
    get_state,
    set_state,
    with_grad_mode,
)
from pullback.interrupts import uninterrupted_entry
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["GraphTask"]

_PASSES_PER_THREAD = 40  # that start one another, before the next one gets a stack of its own
_AFTER_ALL_OTHERS = 1  # in a queue where nodes have negative numbers
_task_ids = itertools.count()


class GraphTask:
    """One backward pass: what it runs, captures and retains.

    `xp` is the namespace that formulas run on. Without one it is tensors if the pass is recorded,
    seen by a dispatch mode or traced, and in forward mode, where tensors have tangents; else
    arrays. A pass on another namespace, such as dual arrays, is a subclass that gives it, and may
    override `execute`.
    """

    # Attributes that most passes leave at their defaults.
    depth = 0  # the number of passes of this thread that this one is nested in
    outer: GraphTask | None = None  # the innermost of them
    callbacks: list[Callable[[], Any]] | None = None
    # By node: the number of an output, and the place of its cotangent in the results.
    captures: Mapping[Node, list[tuple[int, int]]] = MappingProxyType({})
    needed: set[Node] | None = None  # None: all nodes run
    find_needed = staticmethod(needed_nodes)
    skips_ended = True  # whether nodes that lead only to inputs of ended transforms are left out
    is_ordered = True  # whether sequence numbers order the nodes
    has_payloads = False  # whether cotangents may hold something else than arrays
    counts_dependencies = False  # whether to count from the start
    # Whether captured nodes run their hooks, and user functions, even if no node behind is needed.
    runs_inputs = False
    state: State | None = None  # the thread's before the pass was published
    roots: list[Node]

    def __init__(self, *, create_graph: bool, retain_graph: bool, xp: Namespace | None = None):
        if xp is None:
            is_observed = get_state().modes & (DISPATCH_MODE | TRACE)
            xp = tensors if create_graph or is_observed or in_forward_mode() else arrays
        self.xp = xp
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.captured: dict[int, Any] = {}
        # Compiled backwards read these two, an instance's attributes faster than the class's.
        self.exposed: Exposed | None = None
        self.given_seeds: Sequence[Tensor] = ()

    @cached_property
    def id(self) -> int:
        """The id of the pass, which few programs read."""
        return next(_task_ids)

    def capture(
        self, edges: Iterable[tuple[Node, int, int]], accumulate: Iterable[Node] = ()
    ) -> None:
        """Restricts the pass to outputs (node, number, place in the results) and some leaves."""
        captures: dict[Node, list[tuple[int, int]]] = {}
        for node, number, place in edges:
            captures.setdefault(node, []).append((number, place))
        self.captures = captures
        self.needed = {*captures, *accumulate}

    def run(self, roots: Sequence[RootCotangent]) -> dict[int, Any]:
        """Runs the pass from cotangents of the roots; returns what was captured, by place.

        It waits for other threads that run the same graph.
        """
        is_nested = current_graph_task() is not None
        locked = None if self.retain_graph or is_nested or not roots else roots[0].node
        settings = get_settings()
        try:
            if locked is not None:
                acquire(locked, self)
            set_settings(QUIET)
            self._explore(roots)
            if is_nested or get_state().modes or not self._fits_array_loop():
                self.publish()
            xp, needed = self.xp, self.needed
            buffers: InputBuffers = {}
            for node, number, seed in roots:
                shape, dtype = output_of(node, number)
                grad = xp.seed(shape, dtype) if seed is None else xp.from_tensor(seed)
                accumulate(buffers, node, number, grad)
            waiting = list(buffers)
            if needed is not None:
                waiting = [node for node in buffers if node in needed]
            if self.depth % _PASSES_PER_THREAD == _PASSES_PER_THREAD - 1:
                _run_on_new_stack(self.resume, waiting, buffers, set())
            else:
                self.resume(waiting, buffers, set())
        finally:
            try:
                set_settings(settings)
            finally:
                try:
                    self.unpublish()
                finally:
                    if locked is not None:
                        release(locked, self)
        return self.captured

    def _explore(self, roots: Sequence[RootCotangent]) -> None:
        """Finds the nodes to run, and whether sequence numbers order them."""
        self.given_seeds = [root.seed for root in roots if root.seed is not None]
        self.roots = [root.node for root in roots]
        self.is_ordered = is_ordered(self.roots)
        if self.given_seeds:
            self.has_payloads = any(isinstance(s._array, Payload) for s in self.given_seeds)
        if marked and any_marked(count_dependencies(self.roots)):
            self.has_payloads = True
        if self.has_payloads:
            self.xp = tensors  # formulas on raw arrays cannot run there
        if self.needed is not None:
            self.needed = self.find_needed(self.roots, self.needed)
        if ended and self.skips_ended:
            self.needed = living_nodes(self.roots, self.needed)

    def _fits_array_loop(self) -> bool:
        """Whether the array loop runs the pass, up to the first hook."""
        return (
            self.xp is arrays
            and type(self) is GraphTask
            and self.is_ordered
            and (not self.captures or {*map(type, self.captures)} == {AccumulateGrad})
        )

    def publish(self) -> None:
        """Makes this the pass that the thread is in, before user code runs, which may read it."""
        self.outer = current_graph_task()
        if self.outer is not None:
            self.depth = self.outer.depth + 1
        self.state = get_state()
        set_graph_task(self)
        # Formulas create and write tensors outside of the transforms around the pass.
        set_state(with_grad_mode(self.state, self.create_graph, end=TRANSFORM))

    @uninterrupted_entry
    def unpublish(self) -> None:
        """Ends what ``publish`` began, if it was called."""
        if self.state is not None:
            try:
                set_graph_task(self.outer)
            finally:
                set_state(self.state)  # a hook may have changed the mode without restoring it

    def resume(self, waiting: list[Node], buffers: InputBuffers, owned: set[Node]) -> None:
        """Runs the nodes that have cotangents, and all that follow; then the callbacks.

        The array loop goes as far as it can. What is left has hooks, or another namespace.
        """
        captures, fits = self.captures, self._fits_array_loop()
        while waiting and fits:
            fits = self.state is None  # once more after publishing
            publish = self.publish if fits else None
            waiting, leaves = run_array_loop(
                waiting, buffers, owned, self.needed, self.retain_graph, publish, not captures
            )
            for leaf in leaves:
                grad = buffers.pop(leaf)
                for _, place in captures.get(leaf, ()):
                    self.captured[place] = grad
                if leaf not in captures:
                    leaf.accumulate(arrays, grad, leaf in owned)
            if waiting and self.state is None:
                self.publish()
        if waiting:
            self._run_general_loop(waiting, buffers)
        self.run_callbacks()

    def run_callbacks(self) -> None:
        """Calls what was queued for the end of the pass."""
        for callback in self.callbacks or ():  # may grow while it runs
            with AutoGradMode(False):
                callback()

    def _run_general_loop(
        self, waiting: list[Node], buffers: InputBuffers, nodes: Iterable[Node] | None = None
    ) -> None:
        """Runs nodes on any namespace, by sequence numbers until there are hooks, then by counts.

        `nodes` are all nodes but leaves, last recorded first, where that is known; leaves are then
        left in the buffers. Otherwise the next one is taken from a queue. `pending` is None as long
        as sequence numbers are enough.
        """
        needed, has_payloads, is_batched = self.needed, self.has_payloads, self.xp.is_batched
        execute, pop, wrapper = self.execute, buffers.pop, self.xp.wrapper
        pending: dict[Node, int] | None = None
        counts = self.counts_dependencies or has_payloads or not self.is_ordered
        counts = counts or any(type(n) is AccumulateGrad and n.is_watched for n in waiting)
        order, known = itertools.count(), None if nodes is None else iter(nodes)
        queue = sorted([(_queue_key(n), next(order), n) for n in waiting])  # a heap
        while queue or known is not None:
            node: Any = heappop(queue)[2] if known is None else next(known, None)
            if node is None:
                break
            grad = pop(node, None)
            if grad is None and known is not None:
                continue
            extras = node._output_metadata.extras
            if pending is None and (counts or (extras is not None and extras.has_hooks)):
                buffers[node] = grad
                pending = self.count([*[n for _, _, n in sorted(queue)], node])
                queue = sorted([(-n._seq, next(order), n) for n in pending if not pending[n]])
                continue
            try:
                results = execute(node, grad)
            except BaseException:
                if pending is None and not self.captures:
                    self._write_complete(node, grad, buffers)
                raise
            edges = (node._edge0,) if node._arity == 1 else node._edges
            for edge, grad in zip(edges, results):  # noqa: B905 - () ends it early
                if edge is None or (needed is not None and node_of(edge) not in needed):
                    continue
                array: Any = grad._array if type(grad) is wrapper else grad
                metadata, target = edge._output_metadata, edge
                shape = metadata.shape  # None for several outputs
                if (array is None or array.dtype is not metadata.dtype) or (
                    array.shape != shape and not (is_batched and grad.shape == shape)
                ):
                    target, is_first = self._deliver(buffers, node, edge, grad)
                else:
                    grad = match_levels(grad, shape) if has_payloads else grad
                    is_first = target not in buffers
                    held = None if is_first else buffers[target]
                    buffers[target] = grad if held is None else held + grad
                if pending is not None:
                    pending[target] -= 1
                    if pending[target] == 0:
                        heappush(queue, (-target._seq, next(order), target))
                elif known is None and is_first:
                    is_leaf = type(target) is AccumulateGrad
                    counts = counts or (is_leaf and target.is_watched)
                    key = _AFTER_ALL_OTHERS if is_leaf else -target._seq
                    heappush(queue, (key, next(order), target))

    def _write_complete(self, node: Node, grad: Any, buffers: InputBuffers) -> None:
        """Writes the gradients of leaves that are ready, before the pass raises."""
        if type(node) is not AccumulateGrad:
            buffers[node] = grad
            leaves = [n for n in buffers if type(n) is AccumulateGrad]
            accumulate_complete(leaves, buffers, set(), self.xp)

    def _deliver(
        self, buffers: InputBuffers, node: Node, edge: Node | Output, grad: Any
    ) -> tuple[Node, bool]:
        """Accumulates a cotangent that may not fit; its node, and whether it is the first there."""
        target, number = unpack_edge(edge)
        grad = unbroadcast(self.xp, node, target, number, grad)
        if self.has_payloads and grad is not None:
            grad = match_levels(grad, output_of(target, number)[0])
        return target, accumulate(buffers, target, number, grad)

    def count(self, waiting: list[Node]) -> dict[Node, int]:
        """Counts the dependencies of the nodes that are left, before the first hook runs."""
        return count_dependencies(waiting, self.needed)

    def execute(self, node: Node, grad: Any) -> tuple[Any, ...]:
        """Runs one node: tensor hooks, capture, pre-hooks, ``backward``, post-hooks, release.

        `grad` is the cotangent of its output, a list if it has several, or None. Returns one
        cotangent for each edge, or an empty tuple.
        """
        xp = self.xp
        grads: list[Any] = (
            [grad] if node._outputs == 1 else ([None] * node._outputs if grad is None else grad)
        )
        extras = node._output_metadata.extras
        hooks = None if extras is None else extras.hooks
        has_hooks = hooks is not None or isinstance(node, AccumulateGrad)
        if has_hooks:
            require_full_cotangent(node, grad)
            grads = run_tensor_hooks(xp, node, grads)
        is_end = node in self.captures and self._capture(node, grads)
        if is_end and not self.runs_inputs:
            return ()
        if hooks is not None:
            grads = run_pre_hooks(xp, node, grads)
        results = () if is_end else node.backward(xp, *grads)
        if has_hooks:
            results = run_post_hooks(xp, node, results, grads, self.needed)
        if not self.retain_graph and not is_end:
            node.release()  # after its hooks: if one raises, the node can run again
        return results

    def _capture(self, node: Node, grads: list[Any]) -> bool:
        """Captures cotangents of a node; returns whether the pass ends there."""
        for number, place in self.captures[node]:
            self.captured[place] = grads[number]
        if self.runs_inputs and not node._is_plain:
            return False  # its backward may be user code
        needed = self.needed
        behind = [node_of(edge) for edge in node._edges]
        return not any(n is not None and (needed is None or n in needed) for n in behind)


def _queue_key(node: Node) -> int:
    return _AFTER_ALL_OTHERS if type(node) is AccumulateGrad else -node._seq


def _run_on_new_stack(function: Callable[..., None], *args: Any) -> None:
    """Runs a deeply nested pass in a new thread, with the context of this one."""
    from concurrent.futures import ThreadPoolExecutor  # few programs come here

    with ThreadPoolExecutor(1) as threads:
        threads.submit(copy_context().run, function, *args).result()
