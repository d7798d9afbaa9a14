"""Saved values whose memory was written over, rebuilt from the undo log of the version counter.

``saved.py`` calls this module where the version check fails. A rebuilt tensor has the edge that the
saving node has for it, the tangents that it had then, and a version counter of its own, because it
is not the memory that was written to. Without a log, or after a write that the log has missed, the
version error is raised.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import Edge, Node
from pullback.autograd.graph.saved import SavedOutput, restore_tangents, version_error
from pullback.autograd.graph.undo_log import find_log, physical
from pullback.autograd.graph.views import requires_grad, view_of
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import NormalModeGuard
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, meta_of, wrap

__all__ = ["rebuild_array", "rebuild_content", "rebuild_input", "rebuild_output"]

_Tangents = dict[Any, Tensor]


def rebuild_input(node: Node, value: Tensor, expected: int) -> Tensor:
    """A saved input as it was at a version."""
    tensor, time = _rebuild(node, value, value._array, value._counter, expected)
    edge = _saved_edge(node, value, expected)
    if edge is not None:
        tensor._flags |= REQUIRES_GRAD
        if isinstance(edge, AccumulateGrad):
            meta_of(tensor).accumulator = ref(edge)  # it stays a leaf, with the leaf's node
        else:
            tensor._edge = edge
    if value._flags & (DUAL | PLAIN_VIEW):
        restore_tangents(tensor, _rebuild_tangents(node, tangents_of(value), time))
    return tensor


def rebuild_array(node: Node, value: Tensor, expected: int) -> Any:
    """The array, or payload, of a saved input as it was at a version."""
    return _rebuild(node, value, value._array, value._counter, expected)[0]._array


def rebuild_output(node: Node, value: SavedOutput) -> tuple[Tensor, _Tangents | None]:
    """A saved result as it was when it was saved, without its edge, and its tangents."""
    tensor, time = _rebuild(node, value, value.array, value.counter, value.version)
    tangents = value.tangents
    return tensor, None if tangents is None else _rebuild_tangents(node, tangents, time)


def rebuild_content(tensor: Tensor, version: int) -> Any:
    """The array, or payload, that a tensor had at a version; None if no log has it."""
    return _content(tensor._array, tensor._counter, version)


def _content(held: Any, counter: Any, version: int) -> Any:
    log = find_log(counter) if type(counter) is list else None
    array = physical(held)
    if log is None or array is None or log.end != counter[0]:
        return None
    content = log.rebuild(version, array)
    if content is None:
        return None
    inner: Any = held.array if type(held) is BatchedArray else held
    if inner is not array:
        place = log.places.get(version)
        if place is None:  # it was no traced memory then
            return None
        content = inner.rebuilt(content, place)
    return BatchedArray(content, held.levels) if inner is not held else content


def _rebuild(node: Node, value: Any, held: Any, counter: Any, version: int) -> tuple[Tensor, int]:
    """A tensor of the content that memory had at a version, and the time when it was replaced."""
    content = _content(held, counter, version)
    if content is None:
        raise version_error(node, value, version)
    tensor = wrap(content)
    tensor._counter = [0]
    return tensor, counter[1].log.time_of(version)


def _saved_edge(node: Any, value: Tensor, expected: int) -> Edge:
    """The edge that a node has for an input that it saved."""
    for name, edge in zip(node._edge_names, node._edges, strict=False):
        held = getattr(node, name, None)
        if held is value or held is value._array:
            return edge  # type: ignore[no-any-return]
    for name in node._saves_tensors:
        held = getattr(node, name, None)
        if type(held) is tuple and len(held) == len(node._edges):  # the only input is a list
            for one, edge in zip(held, node._edges, strict=True):
                if one is value:
                    return edge  # type: ignore[no-any-return]
    saved: dict[int, Edge] = getattr(node, "_saved_edges", {})  # of a custom function
    if id(value) in saved:
        return saved[id(value)]
    if not requires_grad(value):
        return None
    raise version_error(node, value, expected)


def _rebuild_tangents(node: Node, tangents: _Tangents, time: int) -> _Tangents:
    """Tangents as they were at a time; without those that were made later."""
    found = {}
    for level, tangent in tangents.items():
        counter = tangent._counter
        log = find_log(counter) if type(counter) is list else None
        if log is None:
            found[level] = tangent
        elif log.made <= time and level.alive:
            found[level] = _rebuild_tangent(node, level, tangent, log.version_at(time), time)
    return found


def _rebuild_tangent(node: Node, level: Any, tangent: Tensor, version: int, time: int) -> Tensor:
    counter: Any = tangent._counter
    log = find_log(counter)
    assert log is not None
    if version == counter[0] == log.end:
        return tangent
    view = view_of(tangent)
    if view is not None:  # its history is that of its base
        base = _rebuild_tangent(node, level, view.base, version, time)
        with NormalModeGuard(without_hooks=True):
            return view.replay(tensors, base)  # type: ignore[no-any-return]
    made, _ = _rebuild(node, tangent, tangent._array, counter, version)
    edge = log.tangents.get(level, {}).get(version)
    if edge is not None:
        made._edge = edge
        made._flags |= REQUIRES_GRAD
    if tangent._flags & (DUAL | PLAIN_VIEW):
        restore_tangents(made, _rebuild_tangents(node, tangents_of(tangent), time))
    return made
