"""The backward pass on dual arrays: forward over reverse, where nothing is recorded.

The general path runs such a pass on dual tensors. This one replaces it where the pass calls no user
code and nothing differentiates its result: cotangents and saved values are arrays or dual arrays.
It changes nothing before it is done, so whatever is unsupported is left to the general path.

It has a loop of its own, without captures, hooks and publishing of a task. The engine's general
loop on this namespace has not been measured.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from pullback.autograd.engine.input_buffer import InputBuffers, accumulate, unbroadcast
from pullback.autograd.engine.roots import RootCotangent
from pullback.autograd.forward.dual_array import DualArray, DualArrays
from pullback.autograd.forward.jvp_rule import UnsupportedFastPath
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import Node, output_of, unpack_edge
from pullback.autograd.graph.output_metadata import OutputExtras
from pullback.autograd.graph.slice_cotangent import SliceCotangent
from pullback.autograd.graph.views import EDGED, edge_of
from pullback.autograd.linearize.tangent_tape import TangentTape
from pullback.autograd.namespaces import arrays
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["DualArray", "DualArrays", "TapeArrays", "run_on_dual_arrays"]

_ndarray = np.ndarray


_saves_constants: dict[tuple[type[Node], bool], bool] = {}


class TapeArrays(DualArrays):
    """Formulas on dual arrays, with the tangents of saved values from a tangent tape."""

    _level: TangentTape

    def load_input(self, node: Any, name: str) -> Any:
        """A saved input, checked: mostly a bare array, the result of another node."""
        value = getattr(node, name, None)
        if type(value) is _ndarray:
            edge = node._edge0 if node._arity == 1 else node._edges[node._inputs.index(name)]
            if edge._output_metadata.extras is None:  # without in-place writes
                return self._dual(value, edge)
        return super().load_input(node, name)

    def load_result(self, node: Any, name: str) -> Any:
        """A saved result, checked: mostly a bare array."""
        value = getattr(node, name, None)
        if type(value) is _ndarray and node._output_metadata.extras is None:
            return self._dual(value, node)
        return super().load_result(node, name)

    def from_tensor(self, tensor: Tensor) -> Any:
        """An array, or a dual array for a tensor with a history."""
        array = tensor._array
        if isinstance(array, Payload):
            raise UnsupportedFastPath("a value that is no array")
        edge = edge_of(tensor) if tensor._flags & EDGED else tensor._edge
        return array if edge is None else self._dual(array, edge)

    def saves_constants(self, node: Node) -> bool:
        """Whether no saved value of a node has a tangent.

        What a node saves depends on the edges that it has, so for two arguments it is found out
        once for each class of nodes and constant argument.
        """
        key = type(node), node._arity == 2 and node._edge0 is None
        known = _saves_constants.get(key) if node._arity == 2 else None
        if known is None:
            saved = [getattr(node, name, None) for name in node._saves_tensors]
            known = all(map(self._is_constant, saved))
            if node._arity == 2:
                _saves_constants[key] = known
        return known

    def _is_constant(self, value: Any) -> bool:
        if type(value) is Tensor:
            edge = edge_of(value) if value._flags & EDGED else value._edge
            return edge is None and not isinstance(value._array, Payload)
        return value is None  # a bare array is the result of a node

    def run_on_arrays(self, node: Node, grad: Any) -> Any:
        """As the general method, by the node's function for arrays."""
        return node.run(arrays, grad, True)

    def _dual(self, array: Any, edge: Any) -> DualArray:
        tape = self._level
        return DualArray(array, tape.tangent(edge), len(tape.batch_shape))


def run_on_dual_arrays(
    roots: Sequence[RootCotangent],
    order: Iterable[Node],
    targets: Container[Node],
    xp: DualArrays,
    retain_graph: bool,
) -> dict[Node, Any] | None:
    """The cotangents that arrive at the targets, as arrays and dual arrays; None if unsupported.

    `order` has all inner nodes behind the roots, last recorded first. Leaves that are no targets
    do not require grad.
    """
    before = get_settings()
    try:
        set_settings(QUIET)
        buffers, done = _run(roots, order, xp)
        found = {leaf: grad for leaf, grad in buffers.items() if _is_target(leaf, targets)}
        if not retain_graph:
            for value in found.values():
                if type(value) is DualArray:
                    value.primal  # noqa: B018 - computed while the nodes have their saved values
    except Exception:  # of any kind: the general path raises it, too, with its own message
        return None
    finally:
        set_settings(before)
    if not retain_graph:
        for node in done:
            node.release()
    return found


def _run(
    roots: Sequence[RootCotangent], order: Iterable[Node], xp: DualArrays
) -> tuple[InputBuffers, list[Node]]:
    """Runs all nodes but leaves; the cotangents that are left, and the nodes that have run."""
    buffers: InputBuffers = {}
    done: list[Node] = []
    for node, number, seed in roots:
        grad = xp.seed(*output_of(node, number)) if seed is None else xp.from_tensor(seed)
        accumulate(buffers, node, number, grad)
    pop = buffers.pop
    for node in order:
        grad = pop(node, None)
        if grad is None:
            continue
        extras = node._output_metadata.extras
        if not node._is_plain or (extras is not None and _has_hooks(extras)):
            raise UnsupportedFastPath("user code")
        done.append(node)
        results = _run_node(node, xp, grad)
        arity = node._arity
        if arity == 1:
            edges: tuple[Any, ...] = (node._edge0,)
        else:
            edges = (node._edge0, node._edge1) if arity else node._edges
        for target, part in zip(edges, results, strict=True):
            if target is None or part is None:
                continue
            array, metadata = part, target._output_metadata
            if type(part) is DualArray:
                array = part.tangent[0] if part.batch_ndim else part.tangent
            if array.dtype is not metadata.dtype or array.shape != metadata.shape:
                if type(part) is SliceCotangent:
                    part = part.whole()
                target, number = unpack_edge(target)
                part = unbroadcast(xp, node, target, number, part)
                if target._outputs != 1:
                    accumulate(buffers, target, number, part)
                    continue
            buffers[target] = buffers[target] + part if target in buffers else part
    return buffers, done


def _run_node(node: Node, xp: DualArrays, grad: Any) -> Any:
    """The cotangents of a node's inputs.

    If no saved value has a tangent, the formula, which is linear, does to the tangent of a
    cotangent what it does to the cotangent; the latter is then computed only where it is needed.
    """
    if node._outputs != 1:
        return node.backward(xp, *grad)
    if node._saves_tensors and (
        node._arity == 1 or None not in node._edges or not xp.saves_constants(node)
    ):
        return node.backward(xp, grad)
    if type(grad) is not DualArray:
        return xp.run_on_arrays(node, grad)
    if grad.batch_ndim:
        return node.backward(xp, grad)
    found: list[DualArray | None] = []
    for tangent in xp.run_on_arrays(node, grad.tangent):
        if tangent is not None:
            if type(tangent) is SliceCotangent:
                tangent = tangent.whole()
            tangent = DualArray.with_lazy_primal(tangent, 0, (_primal, xp, node, grad, len(found)))
        found.append(tangent)
    return found


def _has_hooks(extras: OutputExtras) -> bool:
    return extras.hooks is not None and not extras.hooks.are_empty


def _primal(xp: DualArrays, node: Node, grad: DualArray, number: int) -> Any:
    found = xp.run_on_arrays(node, grad.primal)[number]
    return found.whole() if type(found) is SliceCotangent else found


def _is_target(leaf: Any, targets: Container[Node]) -> bool:
    """Whether a leaf is a target; raises where its gradient could be used elsewhere."""
    if not isinstance(leaf, AccumulateGrad):
        raise UnsupportedFastPath("a node that is not on the tape")
    if leaf.is_watched:
        raise UnsupportedFastPath("hooks")
    if leaf in targets:
        if type(leaf) is not AccumulateGrad:
            raise UnsupportedFastPath("a graph that goes on outside")
        return True
    if leaf.variable is None or leaf.variable._flags & REQUIRES_GRAD:
        raise UnsupportedFastPath("a graph with other leaves")
    return False
