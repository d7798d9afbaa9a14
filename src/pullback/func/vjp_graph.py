"""The graph between some results and the inputs of one transform, which can be pulled back often.

A transform of ``pullback.func`` gives its function *aliases* of the arguments and computes the
gradients of these aliases only. So reverse mode nests on one graph: the gradients of an inner
transform are never mixed with those of an outer one.

    outer argument ──┐
                     └─ AliasGrad ── alias ── ... ── result
    a plain argument:  AccumulateGrad ── alias ── ... ── result

An alias of a tensor that can be differentiated outside has an ``AliasGrad``, which passes gradients
to the outer graph. If the graph has no such node and no other leaf, it is *closed*: the gradient
cannot be differentiated further, and the pass runs on raw arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from weakref import ref

from numpy.typing import NDArray

from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.engine.dependencies import is_ordered, nodes_leading_to
from pullback.autograd.engine.graph_task import GraphTask
from pullback.autograd.engine.roots import RootCotangent
from pullback.autograd.forward.tangents import set_tangent, tangents_of
from pullback.autograd.graph.accumulate_grad import AccumulateGrad, leaf_edge
from pullback.autograd.graph.hooks import run_tensor_hooks
from pullback.autograd.graph.node import (
    Edge,
    Node,
    Output,
    next_sequence_number,
    unpack_edge,
)
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.payload_nodes import mark
from pullback.autograd.graph.views import EDGED, edge_of, requires_grad
from pullback.autograd.levels import (
    TransformLevel,
    in_forward_mode,
    leave_tape,
    only_forward_level,
    tangents_are_recorded,
)
from pullback.autograd.namespaces import arrays, tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import DISPATCH_MODE, INFERENCE, TRACE, get_state
from pullback.tensor.memory import owner_of
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import (
    TRACES,
    TRACKED,
    Tensor,
    fresh,
    meta_of,
    share_counter,
    wrap,
    zeros_beside,
)

if TYPE_CHECKING:
    from pullback.autograd.debug import anomaly_task
    from pullback.autograd.linearize import backward as dual_backward
    from pullback.fx import tracer
else:
    anomaly_task = lazy_module("pullback.autograd.debug.anomaly_task")
    dual_backward = lazy_module("pullback.autograd.linearize.backward")
    tracer = lazy_module("pullback.fx.tracer")

__all__ = ["Alias", "AliasGrad", "Seeds", "VjpGraph", "records_outside", "released"]


Seeds = Sequence[Tensor | None] | None


class AliasGrad(AccumulateGrad):
    """Hands the gradient of an alias on to what it is an alias of."""

    __slots__ = ("_alias", "_edges")

    def __init__(self, alias: Tensor, source: Tensor):
        self._alias = ref(alias)
        self._edges = (edge_of(source),)
        self._seq = next_sequence_number()
        self._output_metadata = intern_metadata(alias.shape, alias.dtype)
        if isinstance(alias._array, Payload):
            mark(self)

    @property
    def variable(self) -> Tensor | None:  # type: ignore[override]
        """The alias, whose hooks see the gradient."""
        return self._alias()

    @property
    def is_watched(self) -> bool:
        """Whether the node or the alias has hooks."""
        alias = self._alias()
        hooks = None if alias is None or alias._meta is None else alias._meta.hooks
        return self._hooks is not None or bool(hooks)

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002 - a node's form
        """The same gradient."""
        return grads

    def run(self, xp: Any, grad: Any, keep: bool) -> tuple[Any, ...]:  # noqa: ARG002 - a node's form
        """The same gradient, after the alias's hooks have seen it."""
        return tuple(run_tensor_hooks(xp, self, [grad])) if self.is_watched else (grad,)


class Alias:
    """An input of a transform: a leaf to the function, with the memory of the argument.

    Attributes:
        tensor: what the function gets.
        node: where the gradient of this input arrives.
    """

    __slots__ = ("node", "tensor")

    def __init__(self, argument: Tensor, level: TransformLevel, outside: bool):
        """`outside` says whether what happens around the transform is recorded."""
        if TRACES:
            argument = tracer.localize_tensor(argument)
        self.tensor = tensor = wrap(argument._array)
        tensor._flags |= REQUIRES_GRAD
        tensor._counter = level.take_input(argument if argument._flags & TRACKED else tensor)
        if argument._flags & (DUAL | PLAIN_VIEW):
            for at, tangent in tangents_of(argument).items():
                set_tangent(tensor, at, tangent)
        self.node: Node
        if outside and argument._flags & EDGED and requires_grad(argument):
            node = self.node = AliasGrad(tensor, argument)
            meta_of(tensor).accumulator = lambda: node
        else:
            self.node = leaf_edge(tensor)  # type: ignore[assignment]

    def end(self) -> None:
        """Makes a plain alias a constant, after the function has run."""
        if type(self.node) is AccumulateGrad:
            self.tensor._flags &= ~REQUIRES_GRAD

    def forget(self) -> Tensor:
        """Releases the graph, which will not be needed again; returns the input."""
        if type(self.node) is AccumulateGrad:
            del self.node
        return self.tensor


def records_outside() -> bool:
    """Whether operations are recorded where a transform is called."""
    state = get_state()
    return bool(state.keep & REQUIRES_GRAD) and not state.modes & INFERENCE


_node_of_alias = attrgetter("node")


def _keep_needed(roots: list[Node], wanted: set[Node]) -> set[Node]:  # noqa: ARG001 - fixed form
    return wanted


class VjpGraph:
    """The graph between some results and the aliases of one transform.

    Attributes:
        is_open: whether gradients could be differentiated outside.
        reached: the aliases' nodes that gradients arrive at.
    """

    __slots__ = ("_needed", "_nodes", "aliases", "edges", "is_open", "reached")

    def __init__(self, results: Sequence[Tensor], aliases: Sequence[Alias]):
        self.aliases = aliases
        self.edges = list(map(edge_of, results))
        targets = set(map(_node_of_alias, aliases))
        self._nodes, self.is_open, is_all = _explored(self.edges, targets)
        self.reached = targets & self._nodes
        self._needed = None if is_all else nodes_leading_to(self._nodes, self.reached)

    def released(self, result: Tensor, outside: bool) -> Tensor:
        """One of the results, for use outside of the transform."""
        if self.is_open or result._flags & (PLAIN_VIEW | DUAL):
            return released(result, self.aliases, outside)
        if not result._flags & REQUIRES_GRAD:
            return result
        made = wrap(result._array)
        share_counter(made, result)
        return made

    def gradients(
        self, seeds: Seeds, *, again: bool, create_graph: bool | None = None
    ) -> list[Tensor]:
        """The gradient of every alias; recorded, unless said otherwise, if someone could
        differentiate it. `again` says that the graph will be needed again.
        """
        records = records_outside()
        if not records or create_graph is False:
            leave_tape()
        if create_graph is None:
            create_graph = records and (self.is_open or tangents_are_recorded())
            if records and not create_graph and seeds is not None:
                edged = [seed for seed in seeds if seed is not None and seed._flags & EDGED]
                create_graph = any(map(requires_grad, edged))
        return self.run(seeds, create_graph=create_graph, retain_graph=again or create_graph)

    def run(self, seeds: Seeds, *, create_graph: bool, retain_graph: bool = True) -> list[Tensor]:
        """The gradient of every alias, from gradients of the results.

        A gradient of None is zero; without any, that of a single scalar result is one.
        """
        roots: list[RootCotangent] = []
        for place, edge in enumerate(self.edges):
            seed = None if seeds is None else seeds[place]
            if edge is not None and (seed is not None or seeds is None):
                roots.append(RootCotangent(*unpack_edge(edge), seed))
        if not (roots and self.reached):
            return [self._zeros(place) for place in range(len(self.aliases))]
        has_tangents = not create_graph and in_forward_mode()
        if has_tangents and not self.is_open:
            found = self._run_on_dual_arrays(roots, retain_graph)
            if found is not None:
                return found
        kind = anomaly_task.AnomalyTask if is_anomaly_enabled() else GraphTask
        xp = tensors if create_graph or has_tangents else arrays
        task = kind(create_graph=create_graph, retain_graph=retain_graph, xp=xp)
        task.capture(zip(map(_node_of_alias, self.aliases), repeat(0), count()))
        task.needed = self._needed  # found already; None: all nodes
        task.find_needed = _keep_needed
        task.skips_ended = False  # a pullback may be called after its transform has ended
        captured = task.run(roots)
        if task.xp is arrays:
            return self._owned(captured, roots)
        results = []
        for place in range(len(self.aliases)):
            made = task.xp.to_tensor(captured.get(place))
            results.append(self._zeros(place) if made is None else made)
        return _own_in_trace(results, roots) if get_state().modes & TRACE else results

    def _run_on_dual_arrays(self, roots: list[RootCotangent], keep: bool) -> list[Tensor] | None:
        """The same in forward mode, if it can be done on arrays and tangents that are arrays."""
        level = only_forward_level()
        if level is None or is_anomaly_enabled():
            return None
        if get_state().modes & (DISPATCH_MODE | TRACE):  # which see operators, and no arrays
            return None
        if not is_ordered([node for node, _, _ in roots]):
            return None
        targets = {alias.node for alias in self.aliases}
        inner = [node for node in self._nodes if not isinstance(node, AccumulateGrad)]
        inner.sort(key=attrgetter("_seq"), reverse=True)
        xp = dual_backward.DualArrays(level)
        found = dual_backward.run_on_dual_arrays(roots, inner, targets, xp, keep)
        if found is None:
            return None
        numbers = {place: found.get(alias.node) for place, alias in enumerate(self.aliases)}
        duals = {n: d for n, d in numbers.items() if type(d) is dual_backward.DualArray}
        gradients = self._owned(numbers | {n: d.primal for n, d in duals.items()}, roots)
        tangents = self._owned({n: d.tangent for n, d in duals.items()}, roots)
        for place in duals:
            set_tangent(gradients[place], level, tangents[place])
        return gradients

    def _zeros(self, place: int) -> Tensor:
        alias = self.aliases[place].tensor
        return zeros_beside(alias, alias.shape, alias.dtype)

    def _owned(self, captured: dict[int, Any], roots: list[RootCotangent]) -> list[Tensor]:
        """Gradients in memory of their own: no seed's, no other's, and free to be written to."""
        seen: set[int] = set()
        for _, _, seed in roots:
            if seed is not None:
                seen.add(id(owner_of(seed._array)))
        results = []
        for place in range(len(self.aliases)):
            array = captured.get(place)
            if array is None:
                results.append(self._zeros(place))
                continue
            owner = array if array.base is None else owner_of(array)
            if id(owner) in seen or not array.flags.writeable or _repeats(array):
                array = owner = array.copy()
            seen.add(id(owner))
            results.append(fresh(array))
        return results


def _own_in_trace(results: list[Tensor], roots: list[RootCotangent]) -> list[Tensor]:
    """The same for tensors of a traced program, by copies that the trace records."""
    seen = {_memory_of(seed) for _, _, seed in roots if seed is not None}
    owned = []
    for result in results:
        made = result.clone() if _memory_of(result) in seen else result
        seen.add(_memory_of(made))
        owned.append(made)
    return owned


def _memory_of(tensor: Tensor) -> int:
    """The id of the array that owns a tensor's memory; of its payload if that has none."""
    held = tensor._array
    memory = held.memory if isinstance(held, Payload) else held
    return id(held if memory is None else owner_of(memory))


def _repeats(array: NDArray[Any]) -> bool:
    """Whether an array shows one element of its memory in several places."""
    return not array.flags.forc and 0 in array.strides


def _explored(edges: Sequence[Edge], targets: set[Node]) -> tuple[set[Node], bool, bool]:
    """The nodes from some edges up to the targets; whether the graph leads to other leaves that
    require grad; and whether every path ends at a target. Without other such leaves a path may
    still end elsewhere: at an input of a transform that has ended, through a captured tensor.
    """
    nodes: set[Node] = set()
    stack: list[Node] = []
    is_open, is_all = False, True
    following = edges
    while True:
        for target in following:
            if type(target) is Output:
                target = target.node
            if target is not None and target not in nodes:
                nodes.add(target)
                stack.append(target)
        if not stack:
            break
        node = stack.pop()
        following = (node._edge0,) if node._arity == 1 else node._edges
        if node in targets:
            is_open = is_open or bool(following)
            following = ()
        elif not following and isinstance(node, AccumulateGrad):
            is_all = False
            is_open = is_open or bool(node.variable._flags & REQUIRES_GRAD)
    return nodes, is_open, is_all and not is_open


def released(tensor: Tensor, aliases: Sequence[Alias], outside: bool) -> Tensor:
    """A result of a transformed function, for use outside of the transform.

    What does not depend on the aliases stays as it is. The rest keeps its history if someone
    outside can use it; so do tangents, each for itself.
    """
    edge = edge_of(tensor) if requires_grad(tensor) else None
    kept = edge
    if edge is not None:
        pull = VjpGraph([tensor], aliases)
        if pull.reached and not (outside and pull.is_open):
            kept = None
    tangents = tangents_of(tensor)
    parts = {level: released(tangent, aliases, outside) for level, tangent in tangents.items()}
    is_alias = any(alias.tensor is tensor for alias in aliases)
    if kept is edge and not is_alias and all(parts[at] is t for at, t in tangents.items()):
        return tensor
    made = wrap(tensor._array)
    share_counter(made, tensor)
    if kept is not None:
        made._edge = kept
        made._flags |= REQUIRES_GRAD
    for level, part in parts.items():
        set_tangent(made, level, part)
    return made
