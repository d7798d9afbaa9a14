"""Histories of tensors from outside of a traced program, which a graph cannot change.

A recorded in-place write gives its tensor another edge and other flags. The tracer notes those of
all arguments and captured tensors at their first use; afterwards they must be the same, and are
given back where the trace is undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.autograd.graph.views import requires_grad, view_of
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import TraceError
from pullback.fx.refusals import refusal
from pullback.fx.user_code import user_line
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["Histories"]


class _History(NamedTuple):
    """The history of a tensor before the program ran."""

    tensor: Tensor
    flags: int
    edge: Any
    view: tuple[Any, ...]  # the edges and the version of a view
    required_grad: bool


class Histories:
    """Flags and edges of arguments and captured tensors, as they were before the program ran."""

    def __init__(self) -> None:
        self._found: dict[int, _History] = {}
        self._properties: dict[tuple[int, str], Tensor] = {}  # that the program has read

    def note(self, tensor: Tensor) -> bool:
        """Notes the history of a tensor, and of the base of a view, before it is used.

        Returns whether it required grad before the program ran.
        """
        known = self._found.get(id(tensor))
        if known is not None:
            return known.required_grad
        view = view_of(tensor)
        held = () if view is None else (view.edge, view.base_edge, view.version)
        required = requires_grad(tensor)
        self._found[id(tensor)] = _History(tensor, tensor._flags, tensor._edge, held, required)
        if view is not None:
            self.note(view.base)
        return required

    def note_property(self, tracer: Tracer, tensor: Tensor, name: str, value: Any) -> None:
        """Notes that a property of the history of a tensor from outside is read.

        It is a condition for runs of the graph. Those of arguments are not traced.
        """
        if id(tensor) in tracer.arguments:
            has_history = tensor._flags & REQUIRES_GRAD or name == "_version"
            if name != "requires_grad" and has_history:  # which belongs to the signature
                raise refusal(f"it reads {name} of an argument{user_line()}")
            return
        is_captured = isinstance(tensor._array, np.ndarray) and id(tensor) not in tracer.made_here
        if is_captured and (id(tensor), name) not in self._properties:
            self._properties[id(tensor), name] = tensor
            tracer.conditions.append(lambda: bool(getattr(tensor, name) == value))

    def require_same(self, made: dict[int, Tensor]) -> None:
        """Refuses a recorded write, which gives a tensor another history; not to those `made`."""
        for tensor, flags, edge, *_ in self._found.values():
            if id(tensor) in made:
                continue
            if tensor._edge is not edge:
                raise TraceError(
                    "a write to an argument or captured tensor is recorded by autograd; write "
                    "under pb.no_grad(), or return the new value"
                )
            if (tensor._flags ^ flags) & REQUIRES_GRAD:
                raise TraceError("requires_grad of an argument or captured tensor changes")

    def undo(self) -> None:
        """Gives the tensors the history that they had."""
        for tensor, flags, edge, held, _ in self._found.values():
            tensor._flags, tensor._edge = flags, edge
            view = view_of(tensor)
            if view is not None and held:
                view.edge, view.base_edge, view.version = held
        self._found.clear()
