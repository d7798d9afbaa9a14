"""Results that are arguments or captured tensors, views of these, or views of each other.

A program computes values in memory of their own. A result that shares memory outside of a trace is
no result of the program, then: after a run it is the argument or tensor itself, or is made of it by
the operators that have made the view in the trace. So it has the history of a view, and its version
counter. Results that are views of one memory of the program, as those of ``chunk``, are made of
their base, which is a further result of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.views import requires_grad, view_of
from pullback.autograd.modes import no_grad
from pullback.compiled.watch import Watch, owners_of_arrays
from pullback.fx.node import Node, map_arg
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer
from pullback.tensor.memory import owner_of
from pullback.tensor.meta import Creation
from pullback.tensor.tensor import SUBCLASSES, Tensor, as_subclass, wrap

__all__ = ["Hidden", "Results", "SharedResult", "find_shared"]


class SharedResult(NamedTuple):
    """Recipe of a result that is made of another tensor.

    Attributes:
        kind: of the other tensor: ``"argument"``, ``"result"``, ``"tensor"`` (from outside),
            ``"grad"`` (of a tensor from outside) or ``"array"`` (from outside).
        source: the place of the argument or result, the tensor or the array.
        steps: the nodes of the views that lead to the result.
        is_cut: whether the result is made of the source without its history.
        is_unrecorded: whether the views were made under ``no_grad``.
    """

    kind: str
    source: Any
    steps: tuple[Node, ...] = ()
    is_cut: bool = False
    is_unrecorded: bool = False

    def make(self, values: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """The result of a call with the results `values` so far and the arguments `leaves`."""
        found: Any = self.source
        if self.kind == "argument":
            found = leaves[self.source]
        elif self.kind == "result":
            found = values[self.source]
        elif self.kind == "grad":
            found = found.grad
        elif self.kind == "array":
            found = wrap(found)
        if self.steps and not isinstance(found, Tensor):
            found = wrap(np.asarray(found))
        if self.is_cut:
            found = found.view() if isinstance(found, np.ndarray) else found
            found = found.detach() if isinstance(found, Tensor) else found
        with no_grad() if self.is_unrecorded else nullcontext():
            for step in self.steps:
                found = _apply(step, found)
        return found


class Hidden(NamedTuple):
    """A further result of the program: the base of the view that the result at a place is."""

    place: int


class Results(NamedTuple):
    """The results of a trace, and how those that share memory are made.

    Attributes:
        made: the leaves of the results, None for those that share memory; then the bases.
        shared: the others by their places.
        bases: for each base, a result that is a view of it.
        instances: the places of results that are instances of the registered subclass of tensors.
    """

    made: list[Any]
    shared: dict[int, SharedResult]
    bases: list[Hidden]
    instances: list[int]

    def build(self, values: list[Any], leaves: Sequence[Any]) -> list[Any]:
        """The leaves of the results of a call, of which the program has computed `values`."""
        if not self.shared and not self.instances:
            return values
        found = list(values)
        for place, shared in self.shared.items():
            found[place] = shared.make(found, leaves)
        for place in self.instances:
            as_subclass(found[place])
        return found[: len(found) - len(self.bases)]

    def find_made(self, returned: list[Any]) -> list[Any]:
        """The same of a call of the function itself: what the program computes."""
        bases = [_base_of(returned[hidden.place]) for hidden in self.bases]
        return [*returned, *bases]


def _apply(step: Node, source: Any) -> Any:
    """A view of a tensor, made as in the trace."""
    call = _call_of(step)
    found = call.target(
        *map_arg(call.args, lambda _: source), **map_arg(call.kwargs, lambda _: source)
    )
    return found if call is step else found[step.args[1]]


def _call_of(step: Node) -> Node:
    """The call of the operator of a view; one of several views is an item of its result."""
    first = step.args[0]
    is_item = not hasattr(step.target, "overloadpacket") and isinstance(first, Node)
    return first if is_item else step


class _Chain(NamedTuple):
    """The views that lead from the memory that was made first to a value."""

    root: Node
    steps: tuple[Node, ...]


def _chain(node: Node) -> _Chain | None:
    """The views behind a node; None if they cannot be made again."""
    steps: list[Node] = []
    while "view_of" in node.meta:
        source = node.meta["view_of"]
        if "byte_offset" in node.meta:  # else it is what an in-place operator has written to
            call = _call_of(node)
            if not hasattr(call.target, "overloadpacket") or call.all_input_nodes != [source]:
                return None
            steps.append(node)
        node = source
    return _Chain(node, tuple(reversed(steps)))


def find_shared(
    tracer: Tracer, found: list[Any], leaves: list[Any], watches: list[Watch]
) -> Results:
    """Sorts the results of a trace: those that the program computes, and those that share memory.

    Args:
        tracer: of the trace.
        found: the leaves of the results.
        leaves: the leaves of the arguments, as the trace has them.
        watches: the places outside that the function may read.
    """
    return _Search(tracer, found, leaves, watches).run()


class _Search:
    def __init__(self, tracer: Tracer, found: list[Any], leaves: list[Any], watches: list[Watch]):
        self._tracer = tracer
        self._found = list(found)
        self._leaves = leaves
        self._arguments = {id(x): n for n, x in enumerate(leaves) if isinstance(x, Tensor)}
        self._placeholders = {
            node: n for n, node in enumerate(tracer.graph.find_nodes(op="placeholder"))
        }
        self._memory = owners_of_arrays(watches)
        self._tensors = {id(w.owner) for w in watches if w.kind == "slot" and w.name == "_array"}
        self._tensors.update(id(note.value) for note in tracer.notes.values())
        self._grads = {id(s.before): s.leaf for s in tracer.grads.values() if s.before is not None}
        self._shared: dict[int, SharedResult] = {}
        self._bases: list[Hidden] = []

    def run(self) -> Results:
        first: dict[int, int] = {}
        groups: dict[Node, list[int]] = {}
        chains: dict[int, _Chain] = {}
        for place, value in enumerate(self._found):
            if not isinstance(value, Tensor | np.ndarray):
                continue
            if id(value) in self._arguments:
                self._shared[place] = SharedResult("argument", self._arguments[id(value)])
            elif id(value) in first:
                self._shared[place] = SharedResult("result", first[id(value)])
            elif not isinstance(value, Tensor):
                pass  # an array that NumPy has made
            elif value in self._tracer.replaced:
                self._shared[place] = SharedResult("tensor", value)
            elif isinstance(value._array, TracedArray):
                chain = _chain(value._array.node)
                if chain is None:
                    continue
                known = self._from_outside(value, chain)
                if known is not None:
                    self._shared[place] = known
                elif chain.root.op == "call_function":
                    chains[place] = chain
                    groups.setdefault(chain.root, []).append(place)
            else:
                self._captured(place, value)
            first.setdefault(id(value), place)
        for places in groups.values():
            if len(places) > 1:
                self._views_of_results(places, chains)
        made = [None if n in self._shared else x for n, x in enumerate(self._found)]
        instances = [n for n, x in enumerate(self._found) if type(x) in SUBCLASSES]
        return Results(made, dict(sorted(self._shared.items())), self._bases, instances)

    def _from_outside(self, value: Tensor, chain: _Chain) -> SharedResult | None:
        """A view of an argument or of a captured tensor."""
        place = self._placeholders.get(chain.root)
        if place is None:
            source = self._tracer.origins.get(str(chain.root.target))
            if source is None or id(source) not in self._tensors:
                return None
            return _made_of(SharedResult("tensor", source, chain.steps), value, source)
        argument = self._leaves[place] if place < len(self._leaves) else None
        if not isinstance(argument, Tensor):
            return None
        return _made_of(SharedResult("argument", place, chain.steps), value, argument)

    def _captured(self, place: int, value: Tensor) -> None:
        """A tensor from outside, one that the program has made of its memory, or of an array."""
        source = self._tracer.source_of(value)
        if id(source) in self._grads:
            leaf = self._grads[id(source)]
            self._shared[place] = SharedResult("grad", leaf, is_cut=source is not value)
        elif id(source) in self._tensors and source._array is value._array:
            self._shared[place] = SharedResult("tensor", source, is_cut=source is not value)
        elif isinstance(value._array, np.ndarray) and id(owner_of(value._array)) in self._memory:
            self._shared[place] = SharedResult("array", value._array)

    def _views_of_results(self, places: list[int], chains: dict[int, _Chain]) -> None:
        """Results that have one memory: views of the one that is the whole, or of a base."""
        whole = [n for n in places if not chains[n].steps]
        whole.sort(key=lambda n: not requires_grad(self._found[n]))
        if not whole:
            base = self._base(places)
            if base is None:
                return
            whole = [base]
        source = self._found[whole[0]]
        for place in places:
            if place != whole[0]:
                shared = SharedResult("result", whole[0], chains[place].steps)
                known = _made_of(shared, self._found[place], source)
                if known is not None:
                    self._shared[place] = known

    def _base(self, places: list[int]) -> int | None:
        """Adds the base of views to the results; None if they have no common one."""
        views = {n: view_of(self._found[n]) for n in places}
        place = next((n for n in places if views[n] is not None), None)
        view = None if place is None else views[place]
        if view is None or place is None or not isinstance(view.base._array, TracedArray):
            return None
        chain = _chain(view.base._array.node)
        if chain is None or chain.steps:
            return None
        self._found.append(view.base)
        self._bases.append(Hidden(place))
        return len(self._found) - 1


def _made_of(shared: SharedResult, value: Tensor, source: Tensor) -> SharedResult | None:
    """The same with the history that the result has; None if that is no view's of the source."""
    view = view_of(value)
    if view is not None and view.base is _base_of(source) and shared.steps:
        if requires_grad(value) != requires_grad(source):
            return None
        return shared._replace(is_unrecorded=view.creation is Creation.NO_GRAD)
    if requires_grad(value):
        return None
    return shared._replace(is_cut=requires_grad(source) or not shared.steps)


def _base_of(tensor: Tensor) -> Tensor:
    view = view_of(tensor)
    return tensor if view is None else view.base
