"""The state outside of a traced program: values that it reads, and changes that it makes.

Captured tensors are read by the tensor, so that ``tensor.data = other`` is seen; gradients of
captured tensors that the program reads by ``leaf.grad``; options of optimizers by their dict. A
program that sets ``leaf.grad`` has the new gradient among its results. ``Outside`` reads all of
this before a run, and does the changes after it. ``Effects`` undoes what a trace has done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph import increment_version
from pullback.autograd.graph.views import requires_grad
from pullback.compiled.random_state import Draws
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.errors import TraceError
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import GradSlot, Note, Tracer, has_hooks
from pullback.tensor.tensor import Tensor, fresh, meta_of

__all__ = ["Effects", "Outside"]

_GRAD_FLAGS = REQUIRES_GRAD | PLAIN_VIEW | DUAL


class _Capture:
    """A captured tensor, or the gradient of a leaf, with what has to stay the same."""

    __slots__ = ("array", "flags", "leaf", "name", "tensor")

    def __init__(self, name: str, tensor: Tensor, leaf: Tensor | None):
        self.name = name
        self.tensor = tensor
        self.leaf = leaf
        self.array = tensor._array
        self.flags = tensor._flags & _GRAD_FLAGS

    def holds(self, captured: dict[str, Any]) -> bool:
        """Whether the tensor is of the same kind; its array is put into `captured`."""
        tensor: Any = self.tensor if self.leaf is None else _grad(self.leaf)
        if tensor is None or tensor._flags & _GRAD_FLAGS != self.flags:
            return False
        array, before = tensor._array, self.array
        if array is before:
            return True
        if (
            type(array) is not np.ndarray
            or array.shape != before.shape
            or array.dtype != before.dtype
            or array.strides != before.strides
        ):
            return False
        captured[self.name] = self.array = array
        return True


class _GradChange(NamedTuple):
    """A new gradient of a leaf."""

    leaf: Tensor
    node: Any  # the node that computes it, or None
    value: Tensor | None  # the gradient, if no node computes it


class Outside:
    """The state outside of a program.

    Attributes:
        outputs: nodes that the program has to return after its results.
    """

    def __init__(self, tracer: Tracer):
        self._tracer = tracer
        _require_same_attributes(tracer)
        tracer.histories.require_same(tracer.made_here)
        slots = list(tracer.grads.values())
        by_grad = {id(s.before): s.leaf for s in slots if s.before is not None and s.is_read}
        self._captures = [
            _Capture(name, tensor, by_grad.get(id(tensor)))
            for name, tensor in tracer.origins.items()
        ]
        self._empty = [s.leaf for s in slots if s.is_read and s.before is None]
        self._full = [s.leaf for s in slots if s.is_read and s.before is not None]
        self._leaves = [slot.leaf for slot in slots]
        self._changes = [c for c in map(_change, slots) if c is not None]
        self.outputs = [c.node for c in self._changes if c.node is not None]
        names = {
            n.target
            for n in tracer.graph.find_nodes(op="get_attr")
            if n.meta.get("root") in tracer.written
        }
        self._written = [tensor for name, tensor in tracer.origins.items() if name in names]
        self.written_arguments = [
            place
            for place, n in enumerate(tracer.graph.find_nodes(op="placeholder"))
            if n.meta.get("root") in tracer.written
        ]

    @property
    def captured(self) -> list[Tensor] | None:
        """The captured tensors, if nothing else outside is read or changed; else None."""
        tracer = self._tracer
        if self._leaves or tracer.options or tracer.conditions or self._written:
            return None
        return [capture.tensor for capture in self._captures]

    def read(self) -> list[Any] | None:
        """The inputs from outside; None where the program does not fit."""
        captured = self._tracer.captured
        for capture in self._captures:
            if not capture.holds(captured):
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
            if type(value) is not float or value == 0:
                return None
            numbers.append(value)
        return numbers

    def apply(self, values: list[Any]) -> None:
        """Does the changes of a run, whose further results are `values`."""
        made = iter(values)
        for leaf, node, value in self._changes:
            grad = value
            if node is not None:
                tensor = next(made)
                grad = fresh(tensor._array)
            meta_of(leaf).grad = grad
        if self._written:
            increment_version(self._written)


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


def _change(slot: GradSlot) -> _GradChange | None:
    """The change of a leaf's gradient in a trace; None if there is none."""
    after = _grad(slot.leaf)
    if after is slot.before:
        return None
    if after is None or not isinstance(after._array, TracedArray):
        return _GradChange(slot.leaf, None, after)
    if requires_grad(after):
        raise TraceError(
            "backward(create_graph=True) inside of the function gives a captured tensor a "
            "gradient that requires grad"
        )
    return _GradChange(slot.leaf, after._array.node, None)


class Effects(Draws):
    """Effects of a trace on gradients, attributes, memory and generators of random numbers."""

    def __init__(self, tracer: Tracer):
        super().__init__()
        self._tracer = tracer

    def undo(self) -> None:
        """Restores all of it, because the function itself is called, or its program."""
        for slot in self._tracer.grads.values():
            if slot.leaf._meta is not None:
                slot.leaf._meta.grad = slot.before
        for note in self._tracer.notes.values():
            if not _is_swapped(note):
                note.owner[note.key] = note.value
        self._tracer.undo_writes()
        self._tracer.histories.undo()
        super().undo()

    def keep(self) -> None:
        """Makes the effects those of the function itself: gradients hold arrays."""
        for slot in self._tracer.grads.values():
            after = _grad(slot.leaf)
            if after is not None and isinstance(after._array, TracedArray):
                meta_of(slot.leaf).grad = fresh(after._array.value)
