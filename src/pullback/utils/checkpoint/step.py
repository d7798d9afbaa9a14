"""One step of a checkpointed loop: recorded, separated from the outer graph, differentiated.

A step's graph ends at ``_Outside`` nodes: one for each tensor of the step's input state, and one
for each edge that leads out of the step, to a *captured* tensor. Sequence numbers refer to the step
that was running, and so identify the nodes that belong to it.

Where gradients are to be differentiated again, all steps are recorded as one, and its graph ends at
``_Bridge`` nodes, whose edges lead to the outer graph: ``WholeLoop``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from pullback.autograd.engine.graph_task import GraphTask
from pullback.autograd.engine.roots import RootCotangent
from pullback.autograd.graph.node import (
    Edge,
    Node,
    next_sequence_number,
    node_of,
    numbered_by,
    output_of,
    unpack_edge,
)
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.modes import enable_grad, no_grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import CheckpointError, InplaceError
from pullback.tensor.tensor import Tensor, meta_of, share_counter, version_of, wrap
from pullback.utils import pytree

__all__ = ["Leaves", "RecordedStep", "Step", "WholeLoop", "changed_error", "next_leaves"]

Step = Callable[[Any], tuple[Any, list[Tensor]]]  # the next state, and outputs of the step
Leaves = list[Any]  # of a state: tensors without history, and whatever else it has


class _Outside(Node):
    """End of a step's graph."""

    __slots__ = ("_edges", "loop", "__weakref__")

    def __init__(self, loop: Any, shape: tuple[int, ...], dtype: Any):
        self.loop = loop
        self._edges: tuple[Edge, ...] = ()
        self._seq = -1  # below those of all nodes in front of it, which are recorded before it
        self._output_metadata = intern_metadata(shape, dtype)

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Always raises: only a pass from outside of the step reaches it."""
        raise CheckpointError(
            "checkpoint_loop: a tensor that was computed inside a step, or written to, is used "
            "outside of it, where its history is unknown. Make it part of the state that the step "
            "returns."
        )


class _Bridge(_Outside):
    """Node between the graph of a whole loop and the outer graph."""

    __slots__ = ()

    def __init__(self, loop: Any, shape: tuple[int, ...], dtype: Any, edge: Edge):
        super().__init__(loop, shape, dtype)
        self._edges = (edge,)
        self._seq = next_sequence_number()

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002 - a node's form
        """The same gradient."""
        return grads


def next_leaves(step: Step, spec: pytree.Spec, leaves: Leaves) -> Leaves:
    """The state after a step, without history."""
    with no_grad():
        found, _ = _run(step, spec, [_plain(leaf) for leaf in leaves])
    return [_plain(leaf) for leaf in found]


def _plain(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _run(step: Step, spec: pytree.Spec, given: Leaves) -> tuple[Leaves, list[Tensor]]:
    """Runs a step, and checks the structure of the state that it returns."""
    versions = [version_of(leaf)[0] if isinstance(leaf, Tensor) else 0 for leaf in given]
    result, outputs = step(pytree.unflatten(spec, given))
    _check_unwritten(given, versions)
    return _checked_leaves(result, spec, given), outputs


def _check_unwritten(given: Leaves, versions: list[int]) -> None:
    for leaf, version in zip(given, versions, strict=True):
        if isinstance(leaf, Tensor) and version_of(leaf)[0] != version:
            raise InplaceError(
                "checkpoint_loop: the step writes to the state that it gets, which may be needed "
                "again; write to a clone()"
            )


def _checked_leaves(result: Any, spec: pytree.Spec, before: Leaves) -> Leaves:
    leaves, found = pytree.flatten(result, none_is_leaf=True)
    if found != spec:
        raise CheckpointError(
            f"checkpoint_loop: the step has to return a state like the one that it gets, {spec!r}, "
            f"but returns {found!r}"
        )
    for path, old, new in zip(spec.paths(), before, leaves, strict=True):
        if _kind(old) != _kind(new):
            raise CheckpointError(
                f"checkpoint_loop: state{path} is {_kind(old)} before a step and {_kind(new)} "
                f"after it; it has to stay what it is"
            )
    return leaves


def _kind(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"a tensor of {leaf.dtype} {list(leaf.shape)}"
    return f"of type {type(leaf).__name__}"


class _Owner:
    """Owner of a step's nodes; refers to the loop, not to the step, to avoid a cycle."""

    __slots__ = ("loop",)

    def __init__(self, loop: Any):
        self.loop = loop


class RecordedStep:
    """A step that has been run with its history.

    Attributes:
        leaves: the state after the step.
        outputs: what the step returns besides; their places are counted behind those of the state.
        needs: which leaves and outputs require grad.
        captures: the edges that lead out of the step.
    """

    def __init__(self, loop: Any, step: Step, spec: pytree.Spec, leaves: Leaves, needs: Any):
        self._owner = _Owner(loop)
        self._sources: dict[int, _Outside] = {}
        self._prepare()
        given = [
            self._leaf(place, leaf) if isinstance(leaf, Tensor) and needs[place] else leaf
            for place, leaf in enumerate(leaves)
        ]
        with enable_grad(), numbered_by(self._owner):
            self.leaves, self.outputs = _run(step, spec, given)
        made = [*self.leaves, *self.outputs]
        self.needs = tuple(isinstance(y, Tensor) and requires_grad(y) for y in made)
        self.captures: dict[Edge, _Outside] = {}
        self._roots = {place: edge_of(leaf) for place, leaf in enumerate(made) if self.needs[place]}
        self._cut()

    def _prepare(self) -> None:
        """Called before anything is recorded."""

    def _leaf(self, place: int, leaf: Tensor) -> Tensor:
        """Makes a leaf that shares the memory of a tensor of the state."""
        made = wrap(leaf._array)
        share_counter(made, leaf)
        made._flags |= REQUIRES_GRAD
        source = self._sources[place] = _Outside(self._owner.loop, leaf.shape, leaf.dtype)
        meta_of(made).accumulator = ref(source)
        return made

    def _captured(self, edge: Edge) -> _Outside:
        """A new end for an edge that leads out of the step."""
        node, number = unpack_edge(edge)
        assert node is not None
        return _Outside(self._owner.loop, *output_of(node, number))

    def _cut(self) -> None:
        """Redirects every edge out of the step to an ``_Outside`` node."""
        own = set(self._sources.values())
        stack: list[Node] = []
        seen: set[Node] = set()

        def inner(edge: Edge) -> Edge:
            node = node_of(edge)
            if node is None or node in own:
                return edge
            owner = getattr(node._seq, "owner", None)
            if owner is self._owner:
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
                return edge
            loop = node.loop if isinstance(node, _Outside) else getattr(owner, "loop", None)
            if loop is self._owner.loop:
                raise CheckpointError(
                    "checkpoint_loop: the step reads a tensor that an earlier step has computed "
                    "and not returned; make it part of the state"
                )
            if edge not in self.captures:
                self.captures[edge] = self._captured(edge)
            return self.captures[edge]

        self._roots = {place: inner(edge) for place, edge in self._roots.items()}
        while stack:
            node = stack.pop()
            node._edges = tuple(map(inner, node._edges))  # type: ignore[misc]  # has it

    def close(self) -> None:
        """Makes a pass from outside that arrives inside of the step raise.

        Tensors that outlive the step, such as one from outside that it writes to, lead there. The
        ends of the step get an edge to the loop, because ``autograd.grad`` visits only nodes that
        lead to its inputs.
        """
        for end in (*self._sources.values(), *self.captures.values()):
            end._edges = (self._owner.loop,)
            end._seq = next_sequence_number()

    def differentiate(self, grads: dict[int, Any], totals: dict[Edge, Any]) -> dict[int, Any]:
        """The gradients of the state before the step; adds to those of the captures."""
        ends = [(edge, grads[place]) for place, edge in self._roots.items() if place in grads]
        if not ends:
            return {}
        # Totals come first, so that everything is added up in the order of a plain backward pass.
        roots = [
            RootCotangent(end, 0, wrap(totals[edge]))
            for edge, end in self.captures.items()
            if edge in totals
        ]
        roots += [RootCotangent(*unpack_edge(e), wrap(grad)) for e, grad in ends]  # type: ignore[arg-type]
        wanted = [*self._sources.values(), *self.captures.values()]
        task = GraphTask(create_graph=False, retain_graph=False)
        task.capture((end, 0, place) for place, end in enumerate(wanted))
        captured = task.run(roots)
        found = [task.xp.to_tensor(captured.get(place)) for place in range(len(wanted))]
        count = len(self._sources)
        for edge, grad in zip(self.captures, found[count:], strict=True):
            if grad is not None:
                totals[edge] = grad._array
        return {
            place: grad._array
            for place, grad in zip(self._sources, found[:count], strict=True)
            if grad is not None
        }


class WholeLoop(RecordedStep):
    """All steps of a loop as one, connected to what is outside, as a plain loop would be.

    Its outputs are those of all steps, one after the other.
    Used if the outer pass needs gradients with history, tangents or batch dimensions.
    """

    def __init__(
        self,
        loop: Any,
        step: Step,
        spec: pytree.Spec,
        leaves: Leaves,
        needs: tuple[bool, ...],
        captures: list[Edge],
    ):
        """`captures` are the edges that lead out, as the steps were first recorded."""
        self._known = captures
        super().__init__(loop, _repeated(step, loop.n), spec, leaves, needs)

    def _prepare(self) -> None:
        """Makes the bridges: the numbers of nodes in front of them have to be higher."""
        edges = list(self._owner.loop._edges)
        count = len(edges) - len(self._known)
        self._state_edges = iter(edges[:count])
        self._bridges = {
            known: _Bridge(self._owner.loop, *output_of(*unpack_edge(known)), edge)  # type: ignore[arg-type]
            for known, edge in zip(self._known, edges[count:], strict=True)
        }

    def _leaf(self, place: int, leaf: Tensor) -> Tensor:
        made = wrap(leaf._array)
        share_counter(made, leaf)
        made._flags |= REQUIRES_GRAD
        edge = next(self._state_edges)
        source = _Bridge(self._owner.loop, leaf.shape, leaf.dtype, edge)
        self._sources[place] = source
        made._edge = source
        return made

    def _captured(self, edge: Edge) -> _Outside:
        if edge not in self._bridges:
            raise changed_error()
        return self._bridges[edge]

    def gradients(self, grads: dict[int, Tensor], create_graph: bool) -> list[Tensor | None]:
        """The gradients of the state before the loop, and of what it captures."""
        ends = [
            (unpack_edge(self._roots[place]), grad)
            for place, grad in grads.items()
            if place in self._roots
        ]
        roots = [RootCotangent(*end, grad) for end, grad in ends]  # type: ignore[arg-type]
        wanted = [*self._sources.values(), *self._bridges.values()]
        task = GraphTask(create_graph=create_graph, retain_graph=create_graph)
        task.capture((end, 0, place) for place, end in enumerate(wanted))
        captured = task.run(roots)
        return [task.xp.to_tensor(captured.get(place)) for place in range(len(wanted))]


def _repeated(step: Step, n: int) -> Step:
    def run(state: Any) -> Any:
        outputs: list[Tensor] = []
        for _ in range(n):
            state, own = step(state)
            outputs += own
        return state, outputs

    return run


def changed_error() -> CheckpointError:
    """The error for a step that does something else when it is run again."""
    return CheckpointError(
        "checkpoint_loop: run again, the step reads a tensor that it did not read at first; it has "
        "to do the same every time"
    )
