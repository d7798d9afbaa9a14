"""The backward pass through what a closed level has recorded: forward over reverse, on arrays.

It gives the tangents of gradients. ``closed_level.py`` tells what is known of every node; the
arithmetic is that of ``dual_numbers.py``. Whatever it meets that it cannot do, it leaves to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from pullback.autograd.engine.input_buffer import InputBuffers, accumulate, unbroadcast
from pullback.autograd.forward.batched_tangent import DeclinedError, Rows, rows
from pullback.autograd.forward.dual_array import Dual, Duals
from pullback.autograd.graph.node import Edge, Node, node_of, output_of, unpack_edge
from pullback.autograd.graph.slice_cotangent import SliceCotangent
from pullback.autograd.graph.views import EDGED, edge_of
from pullback.autograd.linearize.tangent_tape import ClosedLevel
from pullback.autograd.namespaces import Namespace, arrays
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["run_for_tangents"]

_ndarray = np.ndarray


def run_for_tangents(root: Edge, level: ClosedLevel, inputs: Sequence[Node]) -> InputBuffers | None:
    """The tangents of the gradients that arrive at the inputs of a closed level, from one result.

    The level has noted every node in the order of recording, so nobody has to look for the next
    one, and the graph dies with the function's result, so nothing is released. None where that
    cannot be done: then nobody has called anything of the user's.

    A node is *steady* if nothing that it has saved has a tangent: then its formula, which is
    linear, does to the tangent of a gradient what it does to the gradient, for rows and arrays
    alike. It is *straight* if everything behind it is steady too: then only the tangent of its
    gradient matters to the inputs', and it gets that instead of the gradient, or nothing.
    """
    before = get_settings()
    try:
        set_settings(QUIET)
        return _run_for_tangents(root, level, inputs)
    except Exception:  # whatever it is: other ways have it too, and tell it in their own words
        return None
    finally:
        set_settings(before)


def _run_for_tangents(root: Edge, level: ClosedLevel, inputs: Sequence[Node]) -> InputBuffers:
    """The pass itself, through all nodes but those of the inputs."""
    xp = _NotedDuals(level)
    kinds = _kinds(level, inputs)
    buffers: InputBuffers = {}
    pop = buffers.pop
    has_rows = level.xp is not arrays
    _begin(buffers, root, kinds)
    for node, is_straight in islice(reversed(kinds.items()), len(kinds) - len(inputs)):
        extras = node._output_metadata.extras
        if extras is not None and extras.hooks is not None and not extras.hooks.are_empty:
            raise DeclinedError("hooks")  # also of a node that is left out
        grad = pop(node, None)
        if grad is None:
            continue
        if is_straight is None or type(grad) is Dual:
            results = node.backward(xp, grad) if node._outputs == 1 else node.backward(xp, *grad)
        elif has_rows and type(grad) is Rows:
            results = node.backward(rows, grad)
        else:
            results = node.run(arrays, grad, True)
        arity = node._arity
        pairs: Any
        if arity == 1:
            pairs = ((node._edge0, results[0]),)
        elif arity == 2 and len(results) == 2:
            pairs = ((node._edge0, results[0]), (node._edge1, results[1]))
        else:
            pairs = zip(node._edges, results)  # noqa: B905 - may be one for both
        for target, part in pairs:
            if part is None or target is None:
                continue
            try:
                goes_straight = kinds[target]
            except KeyError:  # a further output; or a node that the level does not know
                goes_straight = kinds[node_of(target)]
            shown = part
            if type(part) is Dual:
                shown = part.tangent
                if goes_straight:
                    part = shown
            elif goes_straight and not is_straight:
                continue  # a gradient without a tangent
            metadata = target._output_metadata
            if shown.dtype is not metadata.dtype or shown.shape != metadata.shape:
                target, number = unpack_edge(target)
                part = _fitted(xp, node, target, number, part)
                if target._outputs != 1:
                    accumulate(buffers, target, number, part)
                    continue
            buffers[target] = buffers[target] + part if target in buffers else part
    for leaf in inputs:
        if leaf.is_watched:  # type: ignore[attr-defined]
            raise DeclinedError("hooks")
    return buffers


def _begin(buffers: InputBuffers, root: Edge, kinds: dict[Any, bool | None]) -> None:
    """Puts the gradient of the result in its place."""
    node, number = unpack_edge(root)
    assert node is not None
    if kinds[node]:
        return  # nothing that arrives there has a tangent
    seed = arrays.seed(*output_of(node, number))
    if node._outputs == 1:
        buffers[node] = seed
    else:
        accumulate(buffers, node, number, seed)


def _kinds(level: ClosedLevel, inputs: Sequence[Node]) -> dict[Any, bool | None]:
    """True for a straight node, as inputs are, False for another steady one, else None."""
    kinds: dict[Any, bool | None] = dict.fromkeys(inputs, True)
    kind_of = kinds.get
    for node, note in level.notes.items():  # one after another of any class, so little is asked
        rule = note[0]
        saves = rule.saves
        if saves is None:
            saves = rule.saves = bool(node._saves_tensors)
        if rule.tensors == 1:  # saves its argument or its result, which have tangents, or neither
            kinds[node] = None if saves else kind_of(node._edge0) or False
        elif rule.tensors == 2:
            one, two = node._edge0, node._edge1
            if one is not None and two is not None:
                kinds[node] = None if saves else (kind_of(one) and kind_of(two)) or False
                continue
            # What a node saves depends on the edges that it has: so it is found out only once
            # whether that is nothing but the other argument, which is a constant.
            is_first = one is None
            is_steady = rule.steady.get(is_first)
            if is_steady is None:
                is_steady = rule.steady[is_first] = _saves_constants(node)
            kinds[node] = kind_of(two if is_first else one) or False if is_steady else None
        elif node._outputs == 1 and _saves_constants(node):
            kinds[node] = all(edge is None or kind_of(edge) for edge in node._edges)
        else:
            kinds[node] = None
    return kinds


def _saves_constants(node: Node) -> bool:
    """Whether nothing that a node has saved has a tangent."""
    return all(_is_constant(getattr(node, name, None)) for name in node._saves_tensors)


def _is_constant(value: Any) -> bool:
    """Whether something that a node has saved has no tangent; bare arrays are results of nodes."""
    if type(value) is Tensor:
        edge = edge_of(value) if value._flags & EDGED else value._edge
        return edge is None and not isinstance(value._array, Payload)
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None


class _NotedDuals(Duals):
    """Formulas on dual numbers in a closed level, which knows the tangents of saved values."""

    _level: ClosedLevel

    def load(self, node: Node, value: Any, expected: Any) -> Any:
        """A saved input, checked; None where none was needed."""
        if type(value) is Tensor and value._edge is None:  # a constant, or an input of the function
            counter, array, meta = value._counter, value._array, value._meta
            if (
                (0 if counter is None else counter[0]) == expected
                and type(array) is _ndarray
                and (meta is None or not meta.detached)
            ):
                edge = edge_of(value) if value._flags & EDGED else None
                return array if edge is None else Dual(array, self._level.tangent(edge))
        return super().load(node, value, expected)

    def load_input(self, node: Any, name: str) -> Any:
        """The same in any form: mostly a bare array, of the result of another node."""
        value = getattr(node, name, None)
        if type(value) is _ndarray:
            alone = node._arity == 1  # as nearly always, and then there is nothing to look for
            edge = node._edge0 if alone else node._edges[node._inputs.index(name)]
            if edge._output_metadata.extras is None:  # nobody has written to it
                return Dual(value, self._level.tangent(edge))
        return super().load_input(node, name)

    def load_result(self, node: Any, name: str) -> Any:
        """A saved result, checked: mostly a bare array."""
        value = getattr(node, name, None)
        if type(value) is _ndarray and node._output_metadata.extras is None:
            return Dual(value, self._level.tangent(node))
        return super().load_result(node, name)

    def from_tensor(self, tensor: Tensor) -> Any:
        """What a tensor is in this namespace."""
        array = tensor._array
        if isinstance(array, Payload):
            raise DeclinedError("a value that is no array")
        edge = edge_of(tensor) if tensor._flags & EDGED else tensor._edge
        return array if edge is None else Dual(array, self._level.tangent(edge))


def _fitted(xp: Duals, source: Node, target: Node, number: int, part: Any) -> Any:
    """What a node has returned for an output of another, in the shape and dtype of that."""
    if type(part) is SliceCotangent:
        part = part.whole()
    space: Namespace = arrays
    if type(part) is Dual:
        space = xp
    elif type(part) is Rows:
        space = rows
    return unbroadcast(space, source, target, number, part)
