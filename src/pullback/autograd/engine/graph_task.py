"""The backward pass: runs nodes, last recorded first, and adds what they return.

    roots ──> gradients of the roots
          ──> run the node with the highest number of those that have gradients
          ──> add what it returns to the nodes behind its edges, until none is left

A node runs once, when all its gradients have arrived, so it and its hooks see one total. Numbers
grow as nodes are recorded, so within a thread the highest number is always such a node. Leaves have
the highest number of all: a leaf's gradient is complete as early as possible. Only a hook could
tell when that is, so only a graph with hooks has its dependencies counted; and one that several
threads have recorded, if their numbers do not fit together. Nothing recurses: a chain of a million
nodes is a loop of a million rounds.

With `inputs`, only nodes on a path to one of them run. A gradient that is asked for is *captured*
when it arrives, after its tensor hooks; the node that it arrives at runs only if something behind
it is needed too.

Everything that belongs to one pass is local to ``GraphTask.run``, so passes may nest (a hook that
calls ``backward``) and run in several threads at a time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import cached_property
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.engine.array_loop import run_array_loop
from pullback.autograd.engine.current_task import current_graph_task, set_graph_task
from pullback.autograd.engine.dependencies import count_dependencies, is_ordered, needed_nodes
from pullback.autograd.engine.input_buffer import InputBuffers, accumulate, unbroadcast
from pullback.autograd.engine.root_lock import acquire, release
from pullback.autograd.engine.vmap_grad import match_levels
from pullback.autograd.graph.accumulate_grad import AccumulateGrad, ended, living_nodes
from pullback.autograd.graph.hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks
from pullback.autograd.graph.node import Node, node_of, output_of, unpack_edge
from pullback.autograd.graph.payload_nodes import any_marked, marked
from pullback.autograd.graph.pre_reduced_cotangent import require_full_cotangent
from pullback.autograd.levels import in_forward_mode
from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.dispatch.modes import (
    TRANSFORM,
    AutoGradMode,
    State,
    get_state,
    set_state,
    with_grad_mode,
)
from pullback.errors import AutogradError
from pullback.interrupts import uninterrupted_entry
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.autograd.engine import recorded_loop
else:
    recorded_loop = lazy_module("pullback.autograd.engine.recorded_loop")

__all__ = [
    "GraphTask",
    "Progress",
    "Root",
    "current_graph_task_id",
    "queue_callback",
    "will_run",
]

_LEVELS_PER_THREAD = 40  # passes that start one another need a new stack now and then
_task_ids = itertools.count()

Root = tuple[Node, int, Tensor | None]  # an output and its gradient; None is one
Progress = tuple[list[Node], InputBuffers, set[Node]]  # nodes that wait, gradients, whose are owned


def current_graph_task_id() -> int:
    """The number of the backward pass that this thread is in, or -1."""
    task = current_graph_task()
    return -1 if task is None else task.id


def queue_callback(callback: Callable[[], Any]) -> None:
    """Has a function called at the end of the running backward pass."""
    task = current_graph_task()
    if task is None:
        raise AutogradError("Final callbacks can only be installed during backward pass.")
    if task.callbacks is None:
        task.callbacks = []
    task.callbacks.append(callback)


def will_run(node: Node) -> bool:
    """Whether the running backward pass runs a node, or captures what arrives at it."""
    task = current_graph_task()
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
    leaves_out_ended = True  # the history of transforms that have ended, see accumulate.py
    payloads = False  # whether gradients may hold something else than arrays
    # Whether captured nodes run their hooks, and user functions, even if no node behind is needed.
    runs_inputs = False
    before: State | None = None  # the thread's, if the pass has been announced
    roots: list[Node]

    def __init__(self, *, create_graph: bool, retain_graph: bool):
        # Tangents travel with tensors only, so dual tensors need that road too.
        self.xp: Namespace = tensors if create_graph or in_forward_mode() else arrays
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        self.captured: dict[int, Any] = {}
        # Every custom backward asks for these two; of an object itself they are read sooner.
        self.exposed: Any = None  # tensors that code of the user's has seen, see handed.py
        self.given_seeds: Sequence[
            tuple[Node, int, Tensor]
        ] = ()  # the roots whose gradients were given

    @cached_property
    def id(self) -> int:
        """The number of the pass, which few ask for."""
        return next(_task_ids)

    def capture(
        self, edges: Iterable[tuple[Node, int, int]], accumulate: Iterable[Node] = ()
    ) -> None:
        """Asks for the gradients of edges, each with a place in the results, and of some leaves."""
        captures: dict[Node, list[tuple[int, int]]] = {}
        for node, number, place in edges:
            captures.setdefault(node, []).append((number, place))
        self.captures = captures
        self.needed = {*captures, *accumulate}

    def run(self, roots: list[Root]) -> dict[int, Any]:
        """Runs the pass from gradients of the roots; returns what was captured, by place.

        Where another thread runs the same graph, it waits for its turn.
        """
        outer = current_graph_task()
        root = None if self.retain_graph or outer is not None or not roots else roots[0][0]
        before = get_settings()
        try:
            if root is not None:
                acquire(root, self)
            set_settings(QUIET)
            self._explore(roots)
            if outer is None and not get_state().modes and self._is_sequential():
                self._run_plainly(self._begin(roots))
            else:
                self.run_openly(outer, lambda: self._begin(roots))
        finally:
            try:
                set_settings(before)
            finally:
                if root is not None:
                    release(root, self)
        return self.captured

    def _explore(self, roots: list[Root]) -> None:
        """Finds out what runs, and on what."""
        self.given_seeds = [(node, n, seed) for node, n, seed in roots if seed is not None]
        self.roots = [node for node, _, _ in roots]
        self.payloads = any(isinstance(seed._array, Payload) for _, _, seed in self.given_seeds)
        if marked and any_marked(count_dependencies(self.roots)):
            self.payloads = True
        if self.payloads:
            self.xp = tensors  # there is no raw array in what is differentiated
        if self.needed is not None:
            self.needed = self.search(self.roots, self.needed)
        if ended and self.leaves_out_ended:
            self.needed = living_nodes(self.roots, self.needed)

    def _begin(self, roots: list[Root]) -> Progress:
        """The gradients that the pass starts from."""
        xp, needed = self.xp, self.needed
        buffers: InputBuffers = {}
        for node, number, seed in roots:
            grad = xp.seed(*output_of(node, number)) if seed is None else xp.from_tensor(seed)
            accumulate(buffers, node, number, grad)
        return [node for node in buffers if needed is None or node in needed], buffers, set()

    def _is_sequential(self) -> bool:
        """Whether numbers alone say what runs next, as long as there are no hooks."""
        return (
            self.xp is arrays
            and type(self) is GraphTask
            and is_ordered(self.roots)
            and (not self.captures or {*map(type, self.captures)} == {AccumulateGrad})
        )

    def _is_on_tensors(self) -> bool:
        """Whether they do so on tensors, where nothing is asked of the samples of a map."""
        is_plain = self.xp is tensors and type(self) is GraphTask and not self.payloads
        return is_plain and is_ordered(self.roots)

    def _run_plainly(self, progress: Progress) -> None:
        """Runs the pass without a word, until it meets code of the user's, which could ask."""
        try:
            progress = self._run_in_sequence(progress, self.publish)
            if progress[0]:
                self.run_openly(None, lambda: progress)
            else:
                self.call_back()
        finally:
            self.unpublish()

    def publish(self) -> None:
        """Makes this the pass that the thread is in, for code of the user's that is to run."""
        self.before = get_state()
        self._enter(self.before)

    def _enter(self, state: State) -> None:
        """Makes this the pass that the thread is in; `state` is the thread's."""
        set_graph_task(self)
        # What formulas make and write to is no business of the transforms around the pass.
        set_state(with_grad_mode(state, self.create_graph, end=TRANSFORM))

    @uninterrupted_entry
    def unpublish(self) -> None:
        """Ends what ``publish`` began, if it did."""
        if self.before is not None:
            try:
                set_graph_task(None)
            finally:
                set_state(self.before)  # exactly: a hook may have changed the mode for good

    def call_back(self) -> None:
        """Calls what was queued for the end of the pass."""
        for callback in self.callbacks or ():  # may grow while it runs
            with AutoGradMode(False):
                callback()

    def run_openly(self, outer: GraphTask | None, begin: Callable[[], Progress]) -> None:
        """Runs the pass, or what is left of it, as the one that this thread is in."""
        if outer is not None:
            self.depth = outer.depth + 1
        state = get_state()
        try:
            self._enter(state)
            if self.depth % _LEVELS_PER_THREAD == _LEVELS_PER_THREAD - 1:
                _run_in_thread(self._run_rest, begin())
            else:
                self._run_rest(begin())
        finally:
            try:
                set_graph_task(outer)
            finally:
                set_state(state)  # exactly: a hook may have changed the mode for good

    def _run_rest(self, progress: Progress) -> None:
        if self._is_sequential():
            progress = self._run_in_sequence(progress, None)
        elif self._is_on_tensors():
            progress = self._run_on_tensors(progress)
        if progress[0]:
            self._run_when_ready(*progress)
        self.call_back()

    def _run_in_sequence(self, progress: Progress, announce: Callable[[], None] | None) -> Progress:
        """Runs nodes by their numbers, then leaves; what is left needs another way."""
        waiting, buffers, owned = progress
        waiting, leaves = run_array_loop(
            waiting, buffers, owned, self.needed, self.retain_graph, announce, not self.captures
        )
        captures = self.captures
        for leaf in leaves:
            grad = buffers.pop(leaf)
            if captures and leaf in captures:
                for _, place in captures[leaf]:
                    self.captured[place] = grad
            else:
                leaf.accumulate(arrays, grad, leaf in owned)
        return waiting, buffers, owned

    def _run_on_tensors(self, progress: Progress) -> Progress:
        """The same on tensors."""
        waiting, buffers, owned = progress
        waiting, leaves = recorded_loop.run_on_tensors(
            waiting, buffers, self.needed, self.captures, self._ends_at, self.xp, self.retain_graph
        )
        for leaf in leaves:
            grad = buffers.pop(leaf)
            if leaf not in self.captures or not self._ends_at(leaf, [grad]):
                leaf.accumulate(self.xp, grad, False)
        return waiting, buffers, owned

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
            results = self._execute(node, grad)
            for edge, grad in zip(node._edges, results):  # noqa: B905 - () ends it early
                target, number = unpack_edge(edge)
                if target is None or (needed is not None and target not in needed):
                    continue
                if grad is not None:
                    owned.discard(target)
                    grad = unbroadcast(self.xp, node, target, number, grad)
                    if self.payloads:
                        grad = match_levels(grad, output_of(target, number)[0])
                    accumulate(buffers, target, number, grad)
                pending[target] -= 1
                if pending[target] == 0:
                    heapq.heappush(heap, (-target._seq, next(order), target))

    def _execute(self, node: Node, grad: Any) -> tuple[Any, ...]:
        """Hooks, capture, the node itself, its hooks, release."""
        xp = self.xp
        grads: list[Any] = (
            [grad] if node._outputs == 1 else ([None] * node._outputs if grad is None else grad)
        )
        hooks = node._hooks
        if hooks is not None or isinstance(node, AccumulateGrad):
            require_full_cotangent(node, grad)
            grads = run_tensor_hooks(xp, node, grads)
        is_end = node in self.captures and self._ends_at(node, grads)
        if is_end and not self.runs_inputs:
            return ()
        if hooks is not None:
            grads = run_pre_hooks(xp, node, grads)
        results = () if is_end else node.backward(xp, *grads)
        if hooks is not None and hooks.post:
            results = self._grad_inputs(node, results)
        if hooks is not None or isinstance(node, AccumulateGrad):
            results = run_post_hooks(xp, node, results, grads)
        if not self.retain_graph and not is_end:
            node.release()  # after its hooks: if one raises, the node can run again
        return results

    def _grad_inputs(self, node: Node, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of post-hooks: gradients unbroadcast to the inputs' shapes.

        None where no gradient is needed; what a user's Function returned is passed on even there.
        """
        needed = self.needed
        made = []
        for edge, grad in itertools.zip_longest(node._edges, results):
            target, number = unpack_edge(edge)
            if grad is None or target is None:
                made.append(None if node._is_plain else grad)
            elif needed is not None and target not in needed and node._is_plain:
                made.append(None)
            else:
                made.append(unbroadcast(self.xp, node, target, number, grad))
        return tuple(made)

    def _ends_at(self, node: Node, grads: list[Any]) -> bool:
        """Takes what was asked for; says whether nothing behind the node is needed too."""
        for number, place in self.captures[node]:
            self.captured[place] = grads[number]
        if self.runs_inputs and not node._is_plain:
            return False  # its backward may be user code
        needed = self.needed
        behind = [node_of(edge) for edge in node._edges]
        return not any(n is not None and (needed is None or n in needed) for n in behind)


def _run_in_thread(run: Callable[[Progress], None], progress: Progress) -> None:
    """Runs a deeply nested pass on a stack of its own, as part of the calling thread."""
    failed: list[BaseException] = []

    def target() -> None:
        try:
            run(progress)
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=copy_context().run, args=(target,))
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
