"""Roots of a backward pass, and the cotangent of each.

A root is a tensor, or a ``GradientEdge``: a place in the graph that can stand for a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.graph.accumulate_grad import ended
from pullback.autograd.graph.gradient_edge import GradientEdge, list_roots
from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.graph.views import edge_of, settle
from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError, AutogradTypeError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import TENSOR_TYPES, Tensor, fresh

__all__ = [
    "Root",
    "RootCotangent",
    "Seeds",
    "checked_seed",
    "implicit_seed",
    "seeds_of",
]


class RootCotangent(NamedTuple):
    """An output that a pass starts from, and its cotangent; None stands for one."""

    node: Node
    number: int
    seed: Tensor | None


Root = Tensor | GradientEdge
Seeds = Tensor | Sequence[Tensor | None] | None


def seeds_of(roots: list[Any], given: Seeds) -> list[RootCotangent]:
    """The outputs that a pass starts from, with the given cotangents, checked."""
    if ended:
        for root in roots:
            if type(root) in TENSOR_TYPES:
                settle(root)
    gradients = [None] * len(roots) if given is None else list_roots(given)
    if len(gradients) != len(roots):
        raise AutogradError(f"got {len(roots)} tensors and {len(gradients)} gradients")
    seeds: list[RootCotangent] = []
    for place, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
        if type(root) is not Tensor and not isinstance(root, Tensor | GradientEdge):
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
        seeds.append(RootCotangent(node, number, seed))
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
    return gradient if gradient.dtype == dtype else tensors.astype(gradient, dtype)
