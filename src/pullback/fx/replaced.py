"""Captured tensors that a traced program gives other memory: ``weight.data = weight.data - step``.

While the program is traced, such a tensor holds the traced array that was set. At its end it gets
its own array again, and the program has the new values among its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.autograd.graph.views import view_of
from pullback.fx.picked import root_of
from pullback.fx.refusals import current_tracer, refusal
from pullback.fx.traced_array import TracedArray
from pullback.fx.user_code import user_line
from pullback.tensor.tensor import Tensor

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["Replaced"]


class Replaced:
    """The tensors, with the arrays that they had before the program ran."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._found: dict[int, tuple[Tensor, Any]] = {}
        self._new: list[tuple[Tensor, TracedArray]] = []

    def __contains__(self, tensor: object) -> bool:
        return id(tensor) in self._found

    def note(self, tensor: Tensor, new: Tensor) -> bool:
        """Whether this trace records that ``tensor.data`` is set; refuses what a run cannot do."""
        held, before, tracer = new._array, tensor._array, self._tracer
        if current_tracer() is not tracer:
            return False
        if held is before and not _is_traced(tensor):
            return False  # `weight.data -= step` has written to the memory, and sets the same one
        if id(tensor) in tracer.arguments:
            raise refusal(f"it sets data of an argument{user_line()}")
        if id(tensor) in tracer.made_here or (_is_traced(tensor) and tensor not in self):
            return _is_traced(new)
        if (
            not tracer.keeps_guards
            or not isinstance(held, TracedArray)
            or not held.is_made_here
            or view_of(tensor) is not None
            or _kind(held) != _kind(before)
        ):
            raise refusal(
                f"data of a tensor from outside is set{user_line()} to memory from outside, or to "
                f"another shape or dtype, or the tensor is a view; write to it under pb.no_grad()"
            )
        if tensor not in self:
            tracer.capture(tensor)  # its kind is compared in each call
        self._found.setdefault(id(tensor), (tensor, before))
        return True

    def close(self, others: list[Any]) -> list[tuple[Tensor, Any]]:
        """Gives the tensors the arrays that they had; returns them with the nodes of the new ones.

        Refuses new memory that belongs to one of `others`, too, or to two of the tensors.
        """
        tensors = [tensor for tensor, _ in self._found.values()]
        known = [x._array.value for x in (*tensors, *others) if _is_traced(x)]
        roots = [id(root_of(array)) for array in known]
        if any(roots.count(root) > 1 for root in roots[: len(tensors)]):
            raise refusal(
                "data of a tensor from outside is set to a result, or to the gradient or data of "
                "another one; set it to a copy"
            )
        self._new = [(tensor, tensor._array) for tensor in tensors]
        self.undo()
        return [(tensor, held.node) for tensor, held in self._new]

    def undo(self) -> None:
        """Gives the tensors the arrays that they had."""
        for tensor, before in self._found.values():
            tensor._array = before
        self._found.clear()

    def keep(self) -> None:
        """Gives the tensors the new arrays."""
        for tensor, held in self._new:
            tensor._array = held.value


def _kind(array: Any) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.strides


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tensor) and isinstance(value._array, TracedArray)
