"""Gradients on their way: what has arrived for each node, added up.

Buffers are a dict by node: the gradient of its output, or a list where it has several outputs. None
stands for a gradient that has not arrived. A node that is *owned* has a buffer that nobody else
holds, so that it may be written to.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.graph.pre_reduced_cotangent import PreReducedCotangent
from pullback.autograd.graph.slice_cotangent import SliceCotangent
from pullback.autograd.namespaces import Namespace, arrays
from pullback.kernels.broadcasting import sum_all, sum_to_one

__all__ = ["InputBuffers", "accumulate", "accumulate_slice", "unbroadcast"]

InputBuffers = dict[Node, Any]

_ndarray = np.ndarray


def accumulate(buffers: InputBuffers, node: Node, number: int, grad: Any) -> bool:
    """Adds a gradient to what has arrived for an output; says whether it is the node's first."""
    is_new = node not in buffers
    if is_new:
        buffers[node] = None if node._outputs == 1 or grad is None else [None] * node._outputs
    if grad is None:
        return is_new
    if node._outputs == 1:
        held = buffers[node]
        buffers[node] = grad if held is None else held + grad
    else:
        if buffers[node] is None:
            buffers[node] = [None] * node._outputs
        held = buffers[node][number]
        buffers[node][number] = grad if held is None else held + grad
    return is_new


def unbroadcast(xp: Namespace, source: Node, target: Node, number: int, grad: Any) -> Any:
    """What `source` returned for an output of `target`, in that output's shape and dtype."""
    if grad is None:
        return None
    shape, dtype = output_of(target, number)
    if type(grad) is PreReducedCotangent and grad.shape != shape:
        grad = grad.total
    if grad.dtype is dtype:
        if grad.shape == shape:
            return grad
        if xp is arrays:  # sums to a number are frequent in loops, and half a µs quicker like this
            if shape == ():
                return sum_all(grad)
            if shape == (1,) and grad.ndim == 1:
                return sum_to_one(grad)
    blame = partial(_invalid, source, target, number)
    if grad.shape != shape:
        grad = xp.sum_to(grad, shape, blame)
    if grad.dtype is not dtype:
        grad = xp.match_dtype(grad, dtype, source._narrows, blame)
    return grad


def _invalid(source: Node, target: Node, number: int) -> str:
    """The beginning of an error about what `source` returned for an output of `target`."""
    # An edge to a first output is an ``Output`` where the tensor has got other data since.
    place = [*map(unpack_edge, source._edges)].index((target, number))
    who = f"Function {source.name()}{source._origin}"
    return f"{who} returned an invalid gradient at index {place}"


def accumulate_slice(
    xp: Namespace,
    buffers: InputBuffers,
    owned: set[Node],
    target: Node,
    number: int,
    part: SliceCotangent,
) -> bool:
    """Adds the gradient of a slice in its place, to a whole that is ours."""
    held = buffers.get(target)
    if (
        type(held) is _ndarray
        and target in owned
        and part.grad.dtype is target._output_metadata.dtype
    ):
        part.add_to(held)  # as with all but the first of many
        return False
    if target._outputs != 1 or target._output_metadata.dtype is not part.grad.dtype:
        whole = unbroadcast(xp, target, target, number, part.whole())
        return accumulate(buffers, target, number, whole)
    is_new = target not in buffers
    if type(held) is PreReducedCotangent:
        buffers[target] = held + part.whole()
        return False
    if held is None:
        buffers[target] = part.whole()
    else:
        buffers[target] = held = np.array(held)
        part.add_to(held)
    owned.add(target)
    return is_new
