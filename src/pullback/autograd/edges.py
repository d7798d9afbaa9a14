"""``GradientEdge``: a place in the graph that can stand for a tensor."""

from __future__ import annotations

from typing import NamedTuple

from pullback.autograd.node import Node, ends_of
from pullback.autograd.view import edge_of
from pullback.errors import AutogradError
from pullback.tensor.tensor import Tensor

__all__ = ["GradientEdge", "get_gradient_edge"]


class GradientEdge(NamedTuple):
    """Where a gradient flows: a node, and which of its outputs."""

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
    node, number = ends_of(edge_of(tensor))
    if node is None:
        raise AutogradError(
            "it is not possible to get the gradient edge of a tensor that does not require grad"
        )
    return GradientEdge(node, number)
