"""Batch dimensions for unbatched memory of a traced program, as ``tensor/promote.py`` adds them.

``out = np.zeros(n); out[0] = x`` inside ``vmap``, as in the Hessian of a program with a buffer: at
the first write of a batched value, the memory is copied for each sample, and all tensors in it
become the same views of the copy, which are recorded again.
"""

from __future__ import annotations

import operator as python_operators
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.dispatch.keys import INTERCEPT
from pullback.fx.node import Node, nodes_in
from pullback.fx.refusals import refusal
from pullback.fx.traced_array import TracedArray
from pullback.tensor.batched import BATCHED_FLAGS, BatchedArray, Levels
from pullback.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["promote_traced"]


def promote_traced(
    tracer: Tracer, target: Tensor, levels: Levels, sizes: tuple[int, ...], name: str
) -> None:
    """Adds batch dimensions to the memory of a tensor that `name` is about to write to."""
    lying = _tensors_in_memory(target, levels)
    chains = [_views_to(other) for other in lying]
    if not all(chains) or len({id(chain[0]) for chain in chains}) != 1:
        raise refusal(
            f"{name}: inside vmap, a write of batched values to a tensor that is not batched "
            f"cannot be traced here; make the tensor from a batched one, by zeros_like or clone"
        )
    whole = _whole(tracer, lying[0]._array, chains[0])
    wide = tracer.call("broadcast_to", whole, [*sizes, *whole.shape])
    copies = wrap(BatchedArray(tracer.call("clone", wide), levels))
    views = [_replay(tracer, copies, chain) for chain in chains]
    if not all(np.may_share_memory(_real(view), _real(copies)) for view in views):
        raise refusal(f"{name}: inside vmap, views of this kind cannot be traced")
    for other, view in zip(lying, views, strict=True):
        other._array = view._array
        other._flags = other._flags & ~INTERCEPT | BATCHED_FLAGS


def _real(tensor: Any) -> Any:
    return tensor._array.array.value


def _tensors_in_memory(target: Tensor, levels: Levels) -> list[Tensor]:
    """All tensors in the memory of one that was made inside of the mapped functions, else none."""
    counter: Any = target._counter
    if counter is None or len(counter) < 3 or counter[1] < max(levels):
        return []
    found = [other for other in (reference() for reference in counter[2:]) if other is not None]
    is_plain = all(type(other._array) is TracedArray for other in found)
    is_complete = any(other is target for other in found)
    return found if is_plain and is_complete and target._array.is_made_here else []


def _views_to(tensor: Any) -> list[Node]:
    """The node that made the memory of a tensor, and the views of it; empty if unknown."""
    node: Node = tensor._array.node
    chain: list[Node] = []
    while "view_of" in node.meta:
        if "byte_offset" in node.meta:  # a view, and not what a write has returned
            call = node.args[0] if node.target is python_operators.getitem else node
            if any(True for _ in nodes_in((call.args[1:], call.kwargs))):
                return []
            chain.append(node)
        node = node.meta["view_of"]
    return [node, *reversed(chain)]


def _whole(tracer: Tracer, held: Any, chain: list[Node]) -> TracedArray:
    """The array in which a view lies, as its node has made it."""
    made, *views = chain
    shape, dtype, strides = made.meta["tensor_meta"]
    memory = held.value
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    start = held.value.__array_interface__["data"][0] - sum(v.meta["byte_offset"] for v in views)
    offset = start - memory.__array_interface__["data"][0]
    return TracedArray(np.ndarray(shape, dtype, memory, offset, strides), made, tracer)


def _replay(tracer: Tracer, whole: Tensor, chain: list[Node]) -> Tensor:
    """The same views of another tensor."""
    found = whole
    for node in chain[1:]:
        is_part = node.target is python_operators.getitem
        call = node.args[0] if is_part else node
        made = tracer.intercept(call.target, (found, *call.args[1:]), dict(call.kwargs))
        found = made[node.args[1]] if is_part else made
    return found
