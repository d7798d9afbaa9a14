"""Histories of tensors from outside of a traced program, which a graph cannot change.

A recorded in-place write gives its tensor another edge and other flags. The tracer notes those of
all arguments and captured tensors at their first use; afterwards they must be the same, and are
given back where the trace is undone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.autograd.graph.views import view_of
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import TraceError
from pullback.tensor.tensor import Tensor

__all__ = ["Histories"]


class _History(NamedTuple):
    """The history of a tensor before the program ran."""

    tensor: Tensor
    flags: int
    edge: Any
    view: tuple[Any, ...]  # the edges and the version of a view


class Histories:
    """Flags and edges of arguments and captured tensors, as they were before the program ran."""

    def __init__(self) -> None:
        self._found: dict[int, _History] = {}

    def note(self, tensor: Tensor) -> None:
        """Notes the history of a tensor, and of the base of a view, before it is used."""
        if id(tensor) in self._found:
            return
        view = view_of(tensor)
        held = () if view is None else (view.edge, view.base_edge, view.version)
        self._found[id(tensor)] = _History(tensor, tensor._flags, tensor._edge, held)
        if view is not None:
            self.note(view.base)

    def require_same(self, made: dict[int, Tensor]) -> None:
        """Refuses a recorded write, which gives a tensor another history; not to those `made`."""
        for tensor, flags, edge, _ in self._found.values():
            changed = (tensor._flags ^ flags) & REQUIRES_GRAD or tensor._edge is not edge
            if changed and id(tensor) not in made:
                raise TraceError(
                    "a write to an argument or captured tensor is recorded by autograd; write "
                    "under pb.no_grad(), or return the new value"
                )

    def undo(self) -> None:
        """Gives the tensors the history that they had."""
        for tensor, flags, edge, held in self._found.values():
            tensor._flags, tensor._edge = flags, edge
            view = view_of(tensor)
            if view is not None and held:
                view.edge, view.base_edge, view.version = held
        self._found.clear()
