"""Input buffers: the cotangents that have arrived at each node, accumulated.

The buffer of a node is the cotangent of its output, or a list of them where it has several; None
stands for a cotangent that is missing. A node is *owned* if its buffer is an array that no other
object refers to, so that it may be written to.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import numpy as np

from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.graph.pre_reduced_cotangent import PreReducedCotangent
from pullback.autograd.graph.slice_cotangent import SliceCotangent
from pullback.autograd.namespaces import Namespace, arrays
from pullback.kernels.broadcasting import sum_all, sum_to_one

__all__ = ["InputBuffers", "accumulate", "accumulate_slice", "unbroadcast"]

InputBuffers: TypeAlias = "dict[Node, Any]"


def accumulate(buffers: InputBuffers, node: Node, number: int, grad: Any) -> bool:
    """Adds a cotangent of one output to the buffer; returns whether it is the node's first."""
    is_new = node not in buffers
    if node._outputs == 1:
        if is_new:
            buffers[node] = grad
        elif grad is not None:
            held = buffers[node]
            buffers[node] = grad if held is None else held + grad
        return is_new
    held = buffers.setdefault(node, None)
    if grad is not None:
        if held is None:
            held = buffers[node] = [None] * node._outputs
        held[number] = grad if held[number] is None else held[number] + grad
    return is_new


def unbroadcast(xp: Namespace, source: Node, target: Node, number: int, grad: Any) -> Any:
    """A cotangent that `source` returned, in shape and dtype of an output of `target`."""
    if grad is None:
        return None
    shape, dtype = output_of(target, number)
    if type(grad) is PreReducedCotangent and grad.shape != shape:
        grad = grad.total
    elif type(grad) is SliceCotangent:
        grad = grad.whole()
    if grad.dtype is dtype:
        if grad.shape == shape:
            return grad
        if xp is arrays:  # sums to one number are frequent in loops, and 0.5 µs faster like this
            if shape == ():
                return sum_all(grad)
            if shape == (1,) and grad.ndim == 1:
                return sum_to_one(grad)
    describe = partial(_describe_source, source, target, number)
    if grad.shape != shape:
        grad = xp.sum_to(grad, shape, describe)
    if grad.dtype is not dtype:
        grad = xp.match_dtype(grad, dtype, source._narrows, describe)
    return grad


def _describe_source(source: Node, target: Node, number: int) -> str:
    """The beginning of an error about what `source` returned for an output of `target`."""
    # An edge to a first output is an ``Output`` where the tensor has got other data since.
    place = [*map(unpack_edge, source._edges)].index((target, number))
    function = f"Function {source.name()}{source._origin}"
    return f"{function} returned an invalid gradient at index {place}"


def accumulate_slice(
    buffers: InputBuffers, owned: set[Node], target: Node, number: int, part: SliceCotangent
) -> bool:
    """Adds the cotangent of a slice in its place; returns whether it is the node's first."""
    held = buffers.get(target)
    if target._outputs != 1 or target._output_metadata.dtype is not part.grad.dtype:
        whole = unbroadcast(arrays, target, target, number, part.whole())
        return accumulate(buffers, target, number, whole)
    if type(held) is np.ndarray and target in owned:
        part.add_to(held)  # as with all but the first of many slices
        return False
    if type(held) is PreReducedCotangent:
        buffers[target] = held + part.whole()
        return False
    is_new = target not in buffers
    if held is None:
        buffers[target] = part.whole()
    else:
        buffers[target] = held = np.array(held)
        part.add_to(held)
    owned.add(target)
    return is_new
