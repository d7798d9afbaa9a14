"""``GradientEdge``: an output of a node, which can stand for its tensor in ``grad``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pullback.autograd.graph.node import Node, unpack_edge
from pullback.autograd.graph.views import edge_of
from pullback.errors import AutogradError
from pullback.tensor.tensor import Tensor

__all__ = ["GradientEdge", "get_gradient_edge", "list_roots"]


class GradientEdge(NamedTuple):
    """An output of a node: the node, and the number of the output.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0], requires_grad=True)
    >>> pb.autograd.graph.get_gradient_edge(pb.sin(x)).output_nr
    0
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor; it can stand for the tensor in ``grad`` and ``backward``.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * x
    >>> edge = get_gradient_edge(y)
    >>> pb.autograd.grad(y.sum(), edge)[0].tolist()
    [1.0, 1.0]
    """
    node, number = unpack_edge(edge_of(tensor))
    if node is None:
        raise AutogradError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients; call requires_grad_() on it before computing"
        )
    return GradientEdge(node, number)


def list_roots(value: Any) -> list[Any]:
    """One tensor or edge, or several in any container, as a list."""
    kind = type(value)
    if kind is Tensor:
        return [value]
    if kind is list or kind is tuple:
        return list(value)
    if isinstance(value, Tensor | GradientEdge):
        return [value]
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, Iterable):
        return list(value)
    return [value]
