"""Results of a traced loop that share memory with other tensors, outside of a trace.

A carry that each step returns as it is stays the tensor that the loop began with. Where the last
carry is another view of the first one, of a slice or of a captured tensor, the graph has a copy,
which is kept as such (``fx/picked.py``): a write to one side while the other is in use raises. If
there are several such tensors, as in a loop of unknown length that swaps two carries, a write to
any of them raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import getitem
from typing import Any, NamedTuple

from pullback.fx.body_tracer import BodyTracer
from pullback.fx.loop_call import LoopBody, LoopCall
from pullback.fx.node import Node, memory_of
from pullback.fx.tracer import Tracer
from pullback.loops.step import Operands, traced_array
from pullback.tensor.tensor import Tensor

__all__ = ["with_aliases"]

_INPUT, _UNKNOWN = 0, -1


class _Origin(NamedTuple):
    """Memory that a last carry may have."""

    key: Any  # the node of the step that has it; for a loop inside: its node, and this for it
    step: int  # the step that makes it; _INPUT if it is there before, _UNKNOWN if any may make it


def with_aliases(
    tracer: Tracer, body: LoopBody, given: Operands, last: list[Tensor], length: int | None
) -> list[Tensor]:
    """The last carry, in which unchanged tensors are the first ones; notes what shares memory."""
    results = list(last)
    holders: dict[_Origin, list[Any]] = {}  # the arrays that have some memory
    for place, tensor in enumerate(last):
        if body.outputs[place] is body.carried[place]:
            results[place] = given.carry[place]
            continue
        made = traced_array(tracer, tensor)
        sources: list[Any] = []
        for origin in _origins(body, place, length):
            if origin not in holders:
                outside = origin.step == _INPUT
                found = _array_of(tracer, body, given, origin.key) if outside else None
                holders[origin] = [] if found is None else [found]
            sources += holders[origin]
            holders[origin].append(made)
        if len(sources) > 1 or any(map(_overlaps, _views(body, place))):
            tracer.picks.freeze([made, *sources])
        elif sources:
            tracer.picks.note_pick(made, sources[0], [])
    return results


def _origins(body: LoopBody, place: int, length: int | None) -> set[_Origin]:
    """The memory that a last carry may have."""
    path: list[int] = []
    for step in range(length or 0, 0, -1):
        if place in path:  # carries that go round: whole rounds change nothing
            ring = path[path.index(place) :]
            return {_Origin(body.carried[ring[step % len(ring)]], _INPUT)}
        path.append(place)
        found = _roots(body.outputs[place])
        if len(found) > 1:
            break
        (key,) = found
        if key not in body.carried:
            return {_Origin(key, _INPUT if _is_input(key) else step)}
        place = body.carried.index(key)
    else:
        if length is not None:
            return {_Origin(body.carried[place], _INPUT)}
    return _possible_origins(body, place)


def _possible_origins(body: LoopBody, place: int) -> set[_Origin]:
    """The memory that a carry may have after any number of steps."""
    origins: set[_Origin] = set()
    for reached in _reached(body, place):
        origins.add(_Origin(body.carried[reached], _INPUT))
        for key in _roots(body.outputs[reached]):
            if key not in body.carried:
                origins.add(_Origin(key, _INPUT if _is_input(key) else _UNKNOWN))
    return origins


def _reached(body: LoopBody, place: int) -> list[int]:
    """The carries that a last carry may be a view of, from this step or an earlier one."""
    found = [place]
    for reached in found:  # which grows meanwhile
        for key in _roots(body.outputs[reached]):
            if key in body.carried and body.carried.index(key) not in found:
                found.append(body.carried.index(key))
    return found


def _roots(node: Node) -> set[Any]:
    """The memory that a value of a step may have, after what loops in it do."""
    node = memory_of(node)
    inner = _inner_loop(node)
    if inner is None:
        return {node}
    call, body, place = inner
    found: set[Any] = set()
    for key, step in _origins(body, place, call.target.length):
        if step == _INPUT:
            found |= _roots(call.args[body.inputs.index(key)])
        else:
            found.add((call, key, step))
    return found


def _inner_loop(node: Node) -> tuple[Node, LoopBody, int] | None:
    """The loop inside of a step that a node is a last carry of: its node, body and the place."""
    if node.target is not getitem:
        return None
    call, place = node.args
    if not isinstance(call.target, LoopCall) or place >= len(call.target.body.carried):
        return None
    return call, call.target.body, place


def _views(body: LoopBody, place: int) -> Iterator[Node]:
    """The values of a step that a last carry may be."""
    for reached in _reached(body, place):
        node = body.outputs[reached]
        while "view_of" in node.meta:
            yield node
            node = node.meta["view_of"]
        inner = _inner_loop(node)
        if inner is not None:
            yield from _views(*inner[1:])


def _overlaps(node: Node) -> bool:
    """Whether several elements of a value have the same memory, as those of ``broadcast_to``."""
    meta = node.meta["tensor_meta"]
    pairs = zip(meta.shape, meta.strides, strict=True)
    return any(not stride and size > 1 for size, stride in pairs)


def _is_input(key: Any) -> bool:
    return isinstance(key, Node) and key.op in ("placeholder", "get_attr")


def _array_of(tracer: Tracer, body: LoopBody, given: Operands, node: Node) -> Any:
    """The array outside of the loop that an input of its step is, or is a slice of."""
    for inputs, tensors in ((body.carried, given.carry), (body.sliced, given.xs)):
        if node in inputs:
            return traced_array(tracer, tensors[inputs.index(node)])
    own = body.tracer
    assert isinstance(own, BodyTracer)
    if node.op == "get_attr":
        return own.captured[node.target]
    return next((value.value for inner, value in own.operands if inner is node), None)
