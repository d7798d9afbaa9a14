"""``checkpoint_loop``: a loop whose backward pass keeps to a memory budget.

The loop becomes one node. Forward, every step is recorded to find out which tensors it reads
besides its state, and then dropped; some states are kept. Backward, the steps are recorded again,
last first, starting from kept states, and each is differentiated by a small backward pass.
``step.py`` has the single step, ``schedule.py`` chooses the states to keep.

A pass whose gradients are to be differentiated again, or that has tangents or batch dimensions,
runs the whole loop once more with its history and goes through that, as through a plain loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._generated.public import stack, unbind
from pullback._lazy import lazy_module
from pullback.autograd.graph.node import FREED, Edge, Node, freed_error
from pullback.autograd.graph.output_metadata import UNDESCRIBED
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.levels import in_forward_mode
from pullback.autograd.modes import is_grad_enabled
from pullback.autograd.namespaces import arrays
from pullback.autograd.record.record import recorded_several
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import MAPPING, NUMPY, TRANSFORM, get_state
from pullback.errors import (
    AutogradTypeError,
    AutogradValueError,
    SavedVersionError,
)
from pullback.fx.refusals import current_tracer
from pullback.kernels.random import Generators, watch_generators
from pullback.tensor.tensor import Tensor, version_of, wrap
from pullback.utils import pytree
from pullback.utils.checkpoint.budget import slots_for
from pullback.utils.checkpoint.randomness import RandomState
from pullback.utils.checkpoint.schedule import best_split, kept_places
from pullback.utils.checkpoint.step import (
    Leaves,
    RecordedStep,
    Step,
    WholeLoop,
    changed_error,
    next_leaves,
)

if TYPE_CHECKING:
    from pullback.interop import mode
else:
    mode = lazy_module("pullback.interop.mode")

__all__ = ["checkpoint_loop", "run_checkpointed"]


def checkpoint_loop(
    step: Callable[[Any], Any], state: Any, n: int, budget: int | str = "500MB"
) -> Any:
    """Runs ``state = step(state)`` `n` times, keeping few states for the backward pass.

    Gradients are those of the plain loop, also of tensors that the step reads besides its state.
    The states that are kept take no more than the budget; as few steps as possible are run again.
    One step's own graph, and the state before and after it, come on top. A backward pass with
    ``create_graph=True``, or over a batch of gradients, has the memory of the plain loop.

    Args:
        step: returns a state like the one that it gets, which it may not write to; it has to do
            the same every time. What changes from step to step, a counter for example, belongs to
            the state.
        state: a tensor, or nested containers of tensors and other values.
        n: how many steps.
        budget: bytes, as a number or as text: ``"500MB"``, ``"2GiB"``.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint_loop(lambda x: x + 0.01 * pb.sin(x), x, 100, budget="1KB")
    >>> y.sum().backward()
    >>> x.grad.shape
    (2,)
    """
    if not callable(step):
        raise AutogradTypeError(
            f"checkpoint_loop: step is of type {type(step).__name__}; a function is expected"
        )
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise AutogradValueError(f"checkpoint_loop: n is {n!r}; the number of steps is expected")
    return run_checkpointed(lambda state: (step(state), []), state, n, budget)[0]


def run_checkpointed(
    step: Step, state: Any, n: int, budget: int | str, name: str = "checkpoint_loop"
) -> tuple[Any, list[Tensor]]:
    """Runs ``state, outputs = step(state)`` `n` times, as ``checkpoint_loop`` does.

    Returns the last state, and the outputs of all steps: for each of them the tensors of all steps,
    stacked. `name` is that of the public function, for messages.
    """
    leaves, spec = pytree.flatten(state, none_is_leaf=True)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    argument = "budget" if name == "checkpoint_loop" else "checkpoint"
    slots = slots_for(budget, sum(leaf.nbytes for leaf in tensors), f"{name}: {argument}")
    is_transformed = in_forward_mode() or get_state().modes & (TRANSFORM | MAPPING)
    if is_transformed:
        warnings.warn(
            f"{name}: inside a transform of pullback.func and in forward mode the loop runs as it "
            f"stands and keeps everything; the budget holds for backward() and autograd.grad() "
            f"only",
            stacklevel=3,
        )
    if get_state().modes & NUMPY:
        step = mode.run_in_mode(step)  # the recomputation, too
    keeps_few = n and not is_transformed and is_grad_enabled()
    if keeps_few and current_tracer() is None:
        return _LoopBackward(step, spec, n, min(slots, n)).run_forward(leaves)
    outputs = []
    for _ in range(n):
        state, own = step(state)
        outputs.append(own)
    if keeps_few:  # in a traced program, whose backward pass runs the whole loop again
        state = pytree.map(lambda x: x.clone() if isinstance(x, Tensor) else x, state)
    return state, _stacked(outputs)


def _stacked(outputs: list[list[Tensor]]) -> list[Tensor]:
    """The outputs of all steps as one tensor for each."""
    return [stack(list(parts)) for parts in zip(*outputs, strict=True)]


class _Snapshot:
    """A state that is kept, with the random numbers that come after it."""

    def __init__(self, index: int, leaves: Leaves, random: RandomState):
        self.index = index
        self.leaves = [_compact(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.random = random
        self.versions = self._versions()

    def _versions(self) -> list[int]:
        return [version_of(leaf)[0] for leaf in self.leaves if isinstance(leaf, Tensor)]

    def load(self) -> Leaves:
        """The state, checked for writes."""
        if self._versions() != self.versions:
            raise SavedVersionError(
                "checkpoint_loop: a state that is needed for gradient computation has been "
                "modified by an inplace operation; compute with a clone() before writing"
            )
        return self.leaves


def _compact(leaf: Tensor) -> Tensor:
    """A tensor that keeps no larger memory alive than its own."""
    base = leaf._array.base
    if isinstance(base, np.ndarray) and base.nbytes > leaf.nbytes:
        copy: Tensor = leaf.detach().clone()
        return copy
    return leaf.detach()


class _LoopBackward(Node):
    """The node of a loop."""

    _is_single = False
    _outputs: int  # type: ignore[misc]  # as many as state and outputs have tensors with gradient

    def __init__(self, step: Step, spec: pytree.Spec, n: int, slots: int):
        self.step = step
        self.spec = spec
        self.n = n
        self.slots = slots
        self.snapshots: Any = []  # of the forward run; after a backward pass only the first
        self.needs: list[tuple[bool, ...]] = []  # before each step, which leaves require grad
        self.captures: list[Edge] = []
        self.output_count = 0  # of one step
        self.generators: Generators = {}
        self._output_metadata = UNDESCRIBED

    def run_forward(self, leaves: Leaves) -> tuple[Any, list[Tensor]]:
        """Runs the loop, and becomes the history of its results."""
        edges = {
            place: edge_of(leaf)
            for place, leaf in enumerate(leaves)
            if isinstance(leaf, Tensor) and requires_grad(leaf) and leaf.dtype.kind in "fc"
        }
        needs = tuple(place in edges for place in range(len(leaves)))
        outputs: list[list[Tensor]] = []
        output_needs: list[tuple[bool, ...]] = []
        captures: dict[Edge, None] = {}
        keep = set(kept_places(self.n, self.slots))
        with watch_generators(self.generators):
            for index in range(self.n):
                if index in keep:
                    self._keep(self.snapshots, index, leaves)
                self.needs.append(needs)
                recorded = RecordedStep(self, self.step, self.spec, leaves, needs)
                captures.update(dict.fromkeys(recorded.captures))
                needs = recorded.needs[: len(leaves)]
                output_needs.append(recorded.needs[len(leaves) :])
                recorded.close()
                leaves = [x.detach() if isinstance(x, Tensor) else x for x in recorded.leaves]
                outputs.append([x.detach() for x in recorded.outputs])
        self.captures = list(captures)
        self._edges = (*edges.values(), *self.captures)
        self.output_count = len(outputs[0])
        needs += tuple(map(any, zip(*output_needs, strict=True)))
        return self._results(leaves, _stacked(outputs), needs)

    def _keep(self, snapshots: list[_Snapshot], index: int, leaves: Leaves) -> None:
        snapshots.append(_Snapshot(index, leaves, RandomState.now(self.generators)))

    def _results(
        self, leaves: Leaves, outputs: list[Tensor], needs: tuple[bool, ...]
    ) -> tuple[Any, list[Tensor]]:
        """The last state and outputs, on their own memory, with this node as their history."""
        made = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves] + outputs
        self.places = [place for place, needed in enumerate(needs) if needed]
        if self.places:
            self._outputs = len(self.places)
            results = [made[place]._array for place in self.places]
            for place, tensor in zip(
                self.places, recorded_several(self, results, (True,) * len(results)), strict=True
            ):
                made[place] = tensor
        count = len(leaves)
        return pytree.unflatten(self.spec, made[:count]), made[count:]

    def backward(self, xp: Any, *grads: Any) -> tuple[Any, ...]:
        """Runs the steps backwards."""
        if self.snapshots is FREED:
            raise freed_error(self)
        if self._is_watched(xp, grads):
            return self._connected(xp, grads)
        given = {
            place: xp.to_tensor(grad)._array
            for place, grad in zip(self.places, grads, strict=True)
            if grad is not None
        }
        count = self.spec.size
        found = {place: grad for place, grad in given.items() if place < count}
        of_outputs = {place: grad for place, grad in given.items() if place >= count}
        totals: dict[Edge, Any] = {}
        known = frozenset(self.captures)
        snapshots, self.snapshots = self.snapshots, self.snapshots[:1]
        for index in reversed(range(self.n)):
            found |= {place: np.asarray(grad[index]) for place, grad in of_outputs.items()}
            if not found:
                break
            recorded = self._record(index, snapshots)
            if not recorded.captures.keys() <= known:
                raise changed_error()
            found = recorded.differentiate(found, totals)
            if snapshots[-1].index == index:
                snapshots.pop()
        first = [found.get(place) for place, needed in enumerate(self.needs[0]) if needed]
        results = [*first, *(totals.get(edge) for edge in self.captures)]
        return tuple(None if g is None else xp.from_tensor(wrap(g)) for g in results)

    def _is_watched(self, xp: Any, grads: tuple[Any, ...]) -> bool:
        """Whether gradients need history, tangents or batch dimensions."""
        return xp is not arrays and (
            is_grad_enabled()
            or any(
                g._flags & DUAL or not isinstance(g._array, np.ndarray)
                for g in grads
                if g is not None
            )
        )

    def _connected(self, xp: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Runs the loop as it stands once more, and differentiates that."""
        start: _Snapshot = self.snapshots[0]
        with start.random.restored(self.generators):
            whole = WholeLoop(
                self, self.step, self.spec, start.load(), self.needs[0], self.captures
            )
        given: dict[int, Tensor] = {}
        for place, grad in zip(self.places, grads, strict=True):
            if grad is not None:
                given |= self._placed(place, xp.to_tensor(grad))
        found = whole.gradients(given, is_grad_enabled())
        return tuple(None if g is None else xp.from_tensor(g) for g in found)

    def _placed(self, place: int, grad: Tensor) -> dict[int, Tensor]:
        """A gradient by place in the whole loop, where each step has its own outputs."""
        first = self.spec.size
        if place < first:
            return {place: grad}
        parts = enumerate(unbind(grad))
        return {place + step * self.output_count: part for step, part in parts}

    def _record(self, index: int, snapshots: list[_Snapshot]) -> RecordedStep:
        """Runs a step with its history, from the last kept state; keeps states on the way."""
        start = snapshots[-1]
        at, leaves = start.index, start.load()
        with start.random.restored(self.generators):
            while at < index:
                slots = self.slots - len(snapshots) + 1
                split = best_split(index - at + 1, slots)
                for _ in range(split):
                    leaves = next_leaves(self.step, self.spec, leaves)
                at += split
                if slots > 1:
                    self._keep(snapshots, at, leaves)
            return RecordedStep(self, self.step, self.spec, leaves, self.needs[index])

    def release(self) -> None:
        """Releases the kept states."""
        self.snapshots = FREED
