"""Where a backward pass starts: its roots, and the gradient of each.

A root is a tensor, or a ``GradientEdge``: a place in the graph that can stand for a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.accumulate_grad import ended
from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.graph.views import edge_of, settle
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.errors import AutogradError, AutogradTypeError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, fresh

__all__ = [
    "GradientEdge",
    "Root",
    "Seeds",
    "checked_seed",
    "get_gradient_edge",
    "implicit_seed",
    "listed",
    "seeds_of",
]


class GradientEdge(NamedTuple):
    """Where a gradient flows: a node, and which of its outputs."""

    node: Node
    output_nr: int


Root = Tensor | GradientEdge
Seeds = Tensor | Sequence[Tensor | None] | None

_ROOTS = (Tensor, GradientEdge)


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


def listed(value: Any) -> list[Any]:
    """One tensor or edge, or several in any container, as a list."""
    kind = type(value)
    if kind is Tensor:
        return [value]
    if kind is list or kind is tuple:
        return list(value)
    if isinstance(value, _ROOTS):
        return [value]
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, Iterable):
        return list(value)
    return [value]


def seeds_of(roots: list[Any], given: Seeds) -> list[tuple[Node, int, Tensor | None]]:
    """The roots' nodes with the gradient that each starts from; None stands for ones."""
    if ended:
        for root in roots:
            if type(root) is Tensor:
                settle(root)
    if given is None and len(roots) == 1 and type(roots[0]) is Tensor:
        edge, array = roots[0]._edge, roots[0]._array
        is_loss = type(array) is np.ndarray and not array.shape and array.dtype.kind == "f"
        if edge is not None and is_loss:
            return [(*unpack_edge(edge), None)]  # what nearly every pass begins with
    gradients = [None] * len(roots) if given is None else listed(given)
    if len(gradients) != len(roots):
        raise AutogradError(f"got {len(roots)} tensors and {len(gradients)} gradients")
    seeds: list[tuple[Node, int, Tensor | None]] = []
    for place, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
        if type(root) is not Tensor and not isinstance(root, _ROOTS):
            raise AutogradTypeError(f"root {place} is a {type(root).__name__}, not a tensor")
        node, number = root if isinstance(root, GradientEdge) else unpack_edge(edge_of(root))
        if node is None:
            raise AutogradError(
                f"element {place} of tensors does not require grad and does not have a grad_fn"
            )
        shape, dtype = output_of(node, number)
        if gradient is None:
            seed = implicit_seed(root, shape, dtype)
        else:
            seed = checked_seed(gradient, shape, dtype, place)
        seeds.append((node, number, seed))
    return seeds


def implicit_seed(root: Root, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor | None:
    """One, the gradient of a scalar with respect to itself; None stands for it on arrays."""
    if shape and math.prod(shape) != 1:
        raise AutogradError(
            f"grad can be implicitly created only for scalar outputs, and this one has shape "
            f"{list(shape)}; give its gradient"
        )
    if dtype.kind == "c":
        raise AutogradError(
            f"grad can be implicitly created only for real scalar outputs but got {dtype}; give "
            f"its gradient"
        )
    if isinstance(root, Tensor) and isinstance(root._array, Payload):
        return fresh(root._array.ones(shape, dtype))
    return None


def checked_seed(gradient: Any, shape: tuple[int, ...], dtype: np.dtype[Any], place: int) -> Tensor:
    """A gradient that was given for a root, of its shape and dtype."""
    if not isinstance(gradient, Tensor):
        raise AutogradTypeError(
            f"gradients can be either Tensors or None, but gradient {place} is a "
            f"{type(gradient).__name__}"
        )
    if gradient.shape != shape:
        raise AutogradError(
            f"Mismatch in shape: grad_output[{place}] has a shape of {list(gradient.shape)} and "
            f"output[{place}] has a shape of {list(shape)}."
        )
    if gradient.dtype != dtype and "c" in (gradient.dtype.kind, dtype.kind):
        raise AutogradError(
            f"For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[{place}] has a dtype of {gradient.dtype} and "
            f"output[{place}] has a dtype of {dtype}."
        )
    if gradient.dtype == dtype:
        return gradient
    is_plain = not gradient._flags & (REQUIRES_GRAD | PLAIN_VIEW | DUAL)
    if not is_plain or isinstance(gradient._array, Payload):
        return tensors.astype(gradient, dtype)  # type: ignore[no-any-return]
    return fresh(gradient._array.astype(dtype))
