"""Second derivatives of scalar functions by one run: forward over reverse, on arrays.

The function runs once on a tangent tape (``pullback.autograd.linearize.tangent_tape``). A backward
pass through the recorded graph (``pullback.autograd.linearize.backward``) gives gradients with
tangents: products of the Hessian with the tangents of the inputs. Where that is unsupported, two
backward passes through the same record give one such product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from pullback.autograd.debug.anomaly import is_anomaly_enabled
from pullback.autograd.engine.input_buffer import InputBuffers
from pullback.autograd.forward.batched_tangent import Rows, rows
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.escapes import end_inputs, pending
from pullback.autograd.graph.node import Edge, Node, node_of
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import TransformLevel, process_levels
from pullback.autograd.linearize.backward import run_for_tangents
from pullback.autograd.linearize.tangent_tape import ClosedLevel
from pullback.autograd.namespaces import arrays
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.errors import DerivativeMissingError
from pullback.func.forward import jvp
from pullback.func.reverse import grad_and_value
from pullback.func.vjp_graph import Alias, VjpGraph
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import Meta
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh, share_counter, version_of, wrap

__all__ = ["curvature", "curvatures"]

_Call = Callable[[list[Tensor]], Any]
_Found = tuple[Tensor, list[Tensor]]
_INPUT_FLAGS = CPU_FLAGS | REQUIRES_GRAD


def curvature(
    call: _Call, leaves: Sequence[Tensor], vectors: Sequence[Tensor], *, by_tangents: bool
) -> _Found | None:
    """The value of a scalar function, and its Hessian times a vector.

    Argument, vector and product are lists of tensors. Returns None if the general path is needed:
    the function then has to run again. If it registers hooks or turns recording off, the tangent of
    its gradient differs from the result of two backward passes: `by_tangents` selects the tangent.
    """
    if not _are_plain(leaves, vectors):
        return None
    level = ClosedLevel(arrays)
    found = _run(call, leaves, vectors, level)
    if found is None and level.is_left and by_tangents:
        return _by_tangents(call, leaves, vectors)
    return found


def curvatures(
    call: _Call, leaves: Sequence[Tensor], vectors: Sequence[Tensor]
) -> list[Tensor] | None:
    """The products with many vectors at once, which the first axis of `vectors` counts."""
    if not _are_plain(leaves, vectors) or not len(vectors[0]._array):
        return None
    found = _run(call, leaves, vectors, ClosedLevel(rows))
    return None if found is None else found[1]


def _are_plain(leaves: Sequence[Tensor], vectors: Sequence[Tensor]) -> bool:
    """Whether all are real arrays without history or tangents, outside of any mode."""
    if get_state().modes or process_levels or is_anomaly_enabled():
        return False
    for tensor in (*leaves, *vectors):
        if tensor._flags != CPU_FLAGS or tensor._array.dtype.kind != "f":
            return False
    return True


def _run(
    call: _Call, leaves: Sequence[Tensor], vectors: Sequence[Tensor], level: ClosedLevel
) -> _Found | None:
    """The value and the tangents of the gradients; None where the general path has to be taken.

    When the graph is released, tensors that have escaped from the function become constants.
    """
    inputs: list[Tensor] = []
    try:
        return _run_closed(call, leaves, vectors, level, inputs)
    finally:
        is_held = False
        for tensor in inputs:  # constants from now on
            tensor._flags &= ~REQUIRES_GRAD
            is_held = is_held or tensor._meta.accumulator() is not None  # type: ignore[union-attr, misc]
        if is_held or pending:
            end_inputs(inputs)


def _run_closed(
    call: _Call,
    leaves: Sequence[Tensor],
    vectors: Sequence[Tensor],
    level: ClosedLevel,
    inputs: list[Tensor],
) -> _Found | None:
    """The value and the tangents of the gradients; by two passes, if one for tangents fails.

    None where neither works, with ``level.is_left`` as the reason or not. The leaves that the
    function is called with are appended to `inputs`.
    """
    nodes: list[Node] = []
    given: list[Any] = []
    found: InputBuffers | None = None
    with level:
        for leaf in leaves:
            node, array = _input(leaf, vectors[len(nodes)], level)
            nodes.append(node)
            inputs.append(node.variable)
            given.append(array)
        value = call(inputs)
        edge = _edge_of_scalar(value)
        if edge is not None and not level.is_left:
            found = run_for_tangents(edge, level, nodes)
    if found is not None:
        return _constant(value), _owned(found, nodes, given)
    if edge is not None and not level.is_left and _has_hooks(edge):
        level.leave()
    if edge is None or level.is_left or level.xp is not arrays:
        return None
    products = _pulled_twice(value, vectors, [*map(_Made, inputs, nodes)])
    return None if products is None else (_constant(value), products)


def _constant(value: Tensor) -> Tensor:
    """The function's result without its history, which is closed."""
    made = wrap(value._array)
    if value._counter is not None or value._meta is not None:  # else the memory is its own
        share_counter(made, value)
    return made


def _input(leaf: Tensor, vector: Tensor, level: ClosedLevel) -> tuple[AccumulateGrad, Any]:
    """An alias of an argument, by its node: made directly, as there is nothing outside. And its
    tangent, or those of all rows, as an array.
    """
    like, array = leaf._array, vector._array
    tensor = wrap(like)
    tensor._flags = _INPUT_FLAGS
    tensor._counter = counter = version_of(leaf)
    level.inputs.append(counter)
    node = AccumulateGrad(tensor)
    tensor._meta = meta = Meta()
    meta.accumulator = ref(node)
    if level.xp is not arrays:
        level.tangents[node] = Rows(array)
        return node, array
    if array.dtype is not like.dtype or (array.ndim > 1 and array.strides != like.strides):
        array = empty_in_layout(like.shape, like.dtype, layout_of(like))
        np.copyto(array, vector._array)
    level.tangents[node] = array
    return node, array


def _edge_of_scalar(result: Any) -> Edge:
    """The edge of a function's result; None if it has none or is no real number."""
    if type(result) is not Tensor:
        return None
    array = result._array
    is_real = type(array) is np.ndarray and array.shape == () and array.dtype.kind == "f"
    return (result._edge or edge_of(result)) if is_real else None


def _owned(found: InputBuffers, nodes: list[Node], taken: list[Any]) -> list[Tensor]:
    """Tangents in memory of their own: no input's and, as those of a sum would have, no other's.

    `taken` are those of the inputs.
    """
    products: list[Tensor] = []
    for node in nodes:
        tangent = found.get(node)
        if tangent is None:
            products.append(fresh(np.zeros_like(taken[len(products)])))
            continue
        product = tangent.array if type(tangent) is Rows else np.asarray(tangent)
        is_taken = product.base is not None
        for other in taken:
            is_taken = is_taken or product is other
        taken.append(product)
        products.append(fresh(product.copy() if is_taken else product))
    return products


def _has_hooks(edge: Edge) -> bool:
    """Whether a backward pass would call hooks."""
    stack = [edge]
    seen: set[Node] = set()
    while stack:
        node = node_of(stack.pop())
        if node is None or node in seen:
            continue
        seen.add(node)
        hooks = node._output_metadata.hooks
        is_watched = isinstance(node, AccumulateGrad) and node.is_watched
        if is_watched or (hooks is not None and not hooks.are_empty):
            return True
        stack.extend(node._edges)
    return False


class _Made(Alias):
    """An input as the passes of other transforms want it."""

    __slots__ = ()

    def __init__(self, tensor: Tensor, node: Node):
        self.tensor = tensor
        self.node = node


def _pulled_twice(
    result: Tensor, vectors: Sequence[Tensor], inputs: list[_Made]
) -> list[Tensor] | None:
    """The gradient of the gradient's product with a vector; None where it could go on outside."""
    with TransformLevel(forward=False):
        pull = VjpGraph([result], inputs)
        if pull.is_open:
            return None
        slopes = pull.run(None, create_graph=True)
        return VjpGraph(slopes, inputs).run(vectors, create_graph=False, retain_graph=False)


def _by_tangents(call: _Call, leaves: Sequence[Tensor], vectors: Sequence[Tensor]) -> _Found | None:
    """The tangent of the gradient on tensors, by another run; None where it has no formula."""
    slope = grad_and_value(lambda parts: call(list(parts)))
    try:
        (_, value), (products, _) = jvp(slope, (list(leaves),), (list(vectors),))
    except DerivativeMissingError:
        return None
    return value, products
