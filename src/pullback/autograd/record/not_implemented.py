"""Results of operators that have no autograd kernel: in the graph, but without a gradient.

In the fallback mode ``"warn"`` such a result requires grad, so that nothing that depends on it is
silently constant. A backward pass that comes to it says what is missing and ends there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pullback.autograd.graph.node import Node, next_sequence_number
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.payload_nodes import mark
from pullback.autograd.graph.views import edge_of, requires_grad, view_of
from pullback.autograd.namespaces import Namespace
from pullback.dispatch.autograd_fallback import record_results_with
from pullback.dispatch.caller import warn_caller
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, version_of

__all__ = ["WarnNotImplemented", "record_not_registered"]


class WarnNotImplemented(Node):
    """Stands for an operator without an autograd kernel; warns, and gives no gradient."""

    __slots__ = ("_edges", "complaint")
    _saves: ClassVar[tuple[str, ...]] = ("complaint",)
    complaint: str

    def backward(self, xp: Namespace, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002 - a node's form
        """No gradient for any input."""
        warn_caller(f"{self.complaint}. Its inputs get no gradient.")
        return (None,) * len(self._edges)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def record_not_registered(complaint: str, inputs: tuple[Any, ...], results: Any) -> bool:
    """Makes the results part of the graph; returns whether there was a tensor among them."""
    given = list(_tensors(inputs))
    made = list(_tensors([results]))
    for result in made:
        if result.dtype.kind not in "fc":
            continue
        if requires_grad(result):  # the kernel recorded a history of its own, which stays
            result.register_hook(lambda _: warn_caller(f"{complaint}."))
        elif not any(result is value for value in given):
            _attach(result, complaint, given)
    return bool(made)


def _attach(result: Tensor, complaint: str, given: list[Tensor]) -> None:
    node: Any = object.__new__(WarnNotImplemented)
    node.complaint = complaint
    node._edges = tuple(edge_of(tensor) for tensor in given)
    node._seq = next_sequence_number()
    node._output_metadata = intern_metadata(result.shape, result.dtype)
    if isinstance(result._array, Payload):
        mark(node)
    view = view_of(result)
    if view is None:
        if result._edge is not None:
            version_of(result)  # while its old node is known, if the kernel has recorded it
        result._edge = node
    else:
        view.edge = node
    result._flags = result._flags & ~PLAIN_VIEW | REQUIRES_GRAD


record_results_with(record_not_registered)
