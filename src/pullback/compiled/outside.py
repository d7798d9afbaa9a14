"""The state outside of a traced program: values that it reads, and changes that it makes.

Captured tensors are read by the tensor, so that ``tensor.data = other`` is seen; gradients of
captured tensors that the program reads by ``leaf.grad``; options of optimizers by their dict. A
program that sets ``leaf.grad`` has the new gradient among its results. ``Outside`` reads all of
this before a run, and does the changes after it. ``Effects`` undoes what a trace has done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph import increment_version
from pullback.autograd.graph.views import requires_grad
from pullback.compiled.hidden_inputs import HiddenInput
from pullback.compiled.random_state import DrawnNumbersError, Draws
from pullback.compiled.side_effects import SideEffects
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.errors import TraceError
from pullback.fx.dependencies import GradSlot, Note
from pullback.fx.node import Node
from pullback.fx.picked import root_of
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer, has_hooks
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import Tensor, fresh, meta_of

__all__ = ["Effects", "Outside"]

_GRAD_FLAGS = REQUIRES_GRAD | PLAIN_VIEW | DUAL


class _Capture:
    """A captured tensor, or the gradient of a leaf, with what has to stay the same.

    Attributes:
        is_alone: whether no other captured value lies in the same memory. Only then may the tensor
            get another array: a graph has written down which of its values share memory.
    """

    __slots__ = ("array", "flags", "is_alone", "leaf", "name", "tensor")

    def __init__(self, name: str, tensor: Tensor, leaf: Tensor | None, is_alone: bool):
        self.name = name
        self.tensor = tensor
        self.leaf = leaf
        self.is_alone = is_alone
        self.array = tensor._array
        self.flags = tensor._flags & _GRAD_FLAGS

    def find(self) -> Any:
        """The array that the tensor has now; None if it is of another kind than it was."""
        tensor: Any = self.tensor if self.leaf is None else _grad(self.leaf)
        if tensor is None or tensor._flags & _GRAD_FLAGS != self.flags:
            return None
        array, before = tensor._array, self.array
        if array is before:
            return array
        is_same_kind = (
            self.is_alone
            and type(array) is np.ndarray
            and array.shape == before.shape
            and array.dtype == before.dtype
            and array.strides == before.strides
        )
        return array if is_same_kind else None


class _GradChange(NamedTuple):
    """A new gradient of a leaf."""

    leaf: Tensor
    node: Any  # the node that computes it, or None
    value: Tensor | None  # the gradient, if no node computes it


class Outside:
    """The state outside of a program.

    Attributes:
        inputs: places of captured arrays that may be replaced.
        outputs: nodes that the program has to return after its results.
        written: captured tensors whose memory the program writes to.
        replaced: captured tensors whose memory it replaces, with the nodes of the new memory.
        written_arguments: the places of arguments whose memory it writes to.
    """

    def __init__(self, tracer: Tracer, results: list[Any], inputs: Sequence[HiddenInput]):
        self._tracer = tracer
        self.inputs = inputs
        _require_same_attributes(tracer)
        tracer.histories.require_same(tracer.made_here)
        slots = list(tracer.grads.values())
        self.replaced = tracer.replaced.close([*results, *(_grad(slot.leaf) for slot in slots)])
        by_grad = _leaves_by_grad(slots)
        roots = Counter(id(root_of(array)) for array in tracer.captured.values())
        twins = {name for name, _ in tracer.twins}
        self._captures = [
            _Capture(
                name,
                tensor,
                by_grad.get(id(tensor)),
                name not in twins and roots[id(root_of(tensor._array))] == 1,
            )
            for name, tensor in tracer.origins.items()
        ]
        self._captures += [
            _Capture(name, tensor, by_grad.get(id(tensor)), False) for name, tensor in tracer.twins
        ]
        self._empty = [s.leaf for s in slots if s.is_read and s.before is None]
        self._full = [s.leaf for s in slots if s.is_read and s.before is not None]
        self._leaves = [slot.leaf for slot in slots]
        self._changes = [c for slot in slots if (c := _change(slot, tracer)) is not None]
        self.outputs = [c.node for c in self._changes if c.node is not None]
        self.outputs += [node for _, node in self.replaced]
        self._leaves_by_node = {c.node: c.leaf for c in self._changes if c.node is not None}
        names = {
            n.target
            for n in tracer.graph.find_nodes(op="get_attr")
            if n.meta.get("root") in tracer.written
        }
        self.written = [tensor for name, tensor in tracer.origins.items() if name in names]
        self.written_arguments = [
            place
            for place, n in enumerate(tracer.graph.find_nodes(op="placeholder"))
            if n.meta.get("root") in tracer.written
        ]

    @property
    def sets_gradients(self) -> bool:
        """Whether the program sets ``.grad`` of captured tensors."""
        return bool(self._changes)

    @property
    def captured(self) -> list[Tensor] | None:
        """The captured tensors, if nothing else outside is read or changed; else None."""
        tracer = self._tracer
        changes = self._leaves or self.written or self.replaced
        if changes or tracer.options or tracer.conditions:
            return None
        replaced = {id(place.tensor) for place in self.inputs}
        return [c.tensor for c in self._captures if id(c.tensor) not in replaced]

    def read(self) -> list[Any] | None:
        """The inputs from outside; None where the program does not fit."""
        if not all(place.read() for place in self.inputs) or not self._read_captured():
            return None
        if self.written and self.inputs:  # a write to an array whose elements are constants
            compared = {id(owner_of(array)) for array in self._tracer.snapshots.compared}
            if any(id(owner_of(place.tensor._array)) in compared for place in self.inputs):
                return None
        for leaf in self._leaves:
            if has_hooks(leaf):
                return None
        if any(_grad(leaf) is not None for leaf in self._empty):
            return None
        if any(_grad(leaf) is None for leaf in self._full):
            return None
        if not all(holds() for holds in self._tracer.conditions):
            return None
        numbers = []
        for option in self._tracer.options:
            value = option.now()
            if not isinstance(value, float) or value == 0:
                return None
            numbers.append(float(value))
        return numbers

    def _read_captured(self) -> bool:
        """Whether all captured tensors are of the same kind; gives the graph their arrays."""
        changes = []
        for capture in self._captures:
            array = capture.find()
            if array is None:
                return False
            if array is not capture.array:
                changes.append((capture, array))
        if not changes:
            return True
        captured = self._tracer.captured
        now = captured | {capture.name: array for capture, array in changes}
        roots = Counter(id(root_of(array)) for array in now.values())
        if any(roots[id(root_of(array))] > 1 for _, array in changes):
            return False  # an array that is alone in the graph shares memory now
        for capture, array in changes:
            captured[capture.name] = capture.array = array
        return True

    def apply(self, values: list[Any]) -> None:
        """Does the changes of a run, whose further results are `values`."""
        made = iter(values)
        for leaf, node, value in self._changes:
            grad = value
            if node is not None:
                tensor = next(made)
                grad = fresh(tensor._array)
            meta_of(leaf).grad = grad
        for tensor, _ in self.replaced:
            tensor._array = next(made)._array
        if self.written:
            increment_version(self.written)

    def share_gradients(self, outputs: list[Any], values: list[Any]) -> list[Any]:
        """The results of a run, where one that is the new gradient of a leaf is ``leaf.grad``."""
        pairs = zip(values, outputs, strict=False)
        return [
            _grad(self._leaves_by_node[node])
            if isinstance(node, Node) and node in self._leaves_by_node
            else value
            for value, node in pairs
        ]


def _grad(leaf: Tensor) -> Tensor | None:
    meta = leaf._meta
    return None if meta is None else meta.grad


def _is_swapped(note: Note) -> bool:
    """Whether a tensor was another one for a time, as in ``functional_call``."""
    now = note.owner.get(note.key)
    if now is note.value or not (isinstance(note.value, Tensor) and isinstance(now, Tensor)):
        return False
    return not isinstance(now._array, TracedArray)


def _require_same_attributes(tracer: Tracer) -> None:
    """Refuses a function that gives an attribute another object, which a graph cannot repeat."""
    for place, note in list(tracer.notes.items()):
        if _is_swapped(note):
            del tracer.notes[place]
        elif note.owner.get(note.key) is not note.value:
            raise TraceError(f"it sets the attribute or option {note.key!r}, which it also reads")


def _leaves_by_grad(slots: list[GradSlot]) -> dict[int, Tensor]:
    """The leaf of each gradient that a program reads, by the gradient's id."""
    found: dict[int, Tensor] = {}
    for slot in slots:
        if slot.before is not None and slot.is_read:
            if id(slot.before) in found:
                raise TraceError("two parameters have the same tensor as .grad")
            found[id(slot.before)] = slot.leaf
    return found


def _change(slot: GradSlot, tracer: Tracer) -> _GradChange | None:
    """The change of a leaf's gradient in a trace; None if there is none.

    A gradient that is set and not read is a change even if it is what it was: it may not be in
    another call.
    """
    after = _grad(slot.leaf)
    if after is slot.before and slot.is_read:
        return None
    if after is None:
        return _GradChange(slot.leaf, None, None)
    held = after._array
    is_made = isinstance(held, TracedArray)
    if tracer.is_outside(held.value) if is_made else id(after) in tracer.made_here:
        raise TraceError(".grad is set to an argument, or to memory from outside; set it to a copy")
    if not is_made:
        return _GradChange(slot.leaf, None, after)
    if requires_grad(after):
        raise TraceError(
            "backward(create_graph=True) inside of the function gives a captured tensor a "
            "gradient that requires grad"
        )
    return _GradChange(slot.leaf, held.node, None)


class Effects(Draws):
    """Effects of a trace on gradients, attributes, memory and generators of random numbers.

    Attributes:
        python: those on names, attributes and containers.
    """

    def __init__(self, tracer: Tracer, python: SideEffects):
        super().__init__(python.generators)
        self._tracer = tracer
        self.python = python

    def undo_all(self) -> None:
        """Restores all of it, because the function itself is called."""
        self.undo()
        self.python.undo()

    def require_no_draws(self) -> None:
        """Refuses a function that draws random numbers by itself: a graph would repeat them."""
        drawn = ["numpy.random"] if self._tracer.draws.has_drawn else []
        drawn += self.drawn_by_function()
        if drawn:
            raise DrawnNumbersError(
                f"it draws random numbers from {drawn[0]}, which its graph would repeat in each "
                f"call; draw them outside and pass them as arguments"
            )

    def undo(self) -> None:
        """Restores what a program does, because it is run."""
        for slot in self._tracer.grads.values():
            if slot.leaf._meta is not None:
                slot.leaf._meta.grad = slot.before
        for note in self._tracer.notes.values():
            if not _is_swapped(note):
                note.owner[note.key] = note.value
        self._tracer.replaced.undo()
        self._tracer.undo_writes()
        self._tracer.histories.undo()
        self._tracer.release()
        super().undo()

    def keep(self) -> None:
        """Makes the effects those of the function itself: gradients hold arrays."""
        for slot in self._tracer.grads.values():
            after = _grad(slot.leaf)
            if after is not None and isinstance(after._array, TracedArray):
                meta_of(slot.leaf).grad = fresh(after._array.value)
        self._tracer.replaced.keep()
        self._tracer.release()
