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
from pullback.autograd.engine.roots import RootCotangent
from pullback.autograd.forward.dual_array import DualArray
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.escapes import end_inputs, pending
from pullback.autograd.graph.node import Edge, Node, node_of, unpack_edge
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import TransformLevel, process_levels
from pullback.autograd.linearize.backward import TapeArrays, run_on_dual_arrays
from pullback.autograd.linearize.tangent_tape import TangentTape
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
    tape = TangentTape()
    found = _run(call, leaves, vectors, tape)
    if found is None and tape.is_left and by_tangents:
        return _by_tangents(call, leaves, vectors)
    return found


def curvatures(
    call: _Call, leaves: Sequence[Tensor], vectors: Sequence[Tensor]
) -> list[Tensor] | None:
    """The products with many vectors at once, which the first axis of `vectors` counts."""
    if not _are_plain(leaves, vectors) or not len(vectors[0]._array):
        return None
    found = _run(call, leaves, vectors, TangentTape((len(vectors[0]._array),)))
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
    call: _Call, leaves: Sequence[Tensor], vectors: Sequence[Tensor], tape: TangentTape
) -> _Found | None:
    """The value and the tangents of the gradients; None where the general path has to be taken.

    When the graph is released, tensors that have escaped from the function become constants.
    """
    inputs: list[Tensor] = []
    try:
        return _run_on_tape(call, leaves, vectors, tape, inputs)
    finally:
        is_held = False
        for tensor in inputs:  # constants from now on
            tensor._flags &= ~REQUIRES_GRAD
            is_held = is_held or tensor._meta.accumulator() is not None  # type: ignore[union-attr, misc]
        if is_held or pending:
            end_inputs(inputs)


def _run_on_tape(
    call: _Call,
    leaves: Sequence[Tensor],
    vectors: Sequence[Tensor],
    tape: TangentTape,
    inputs: list[Tensor],
) -> _Found | None:
    """The value and the tangents of the gradients; by two passes, if one for tangents fails.

    None where neither works, with ``tape.is_left`` as the reason or not. The leaves that the
    function is called with are appended to `inputs`.
    """
    nodes: list[Node] = []
    given: list[Any] = []
    found: dict[Node, Any] | None = None
    with tape:
        for leaf in leaves:
            node, array = _input(leaf, vectors[len(nodes)], tape)
            nodes.append(node)
            inputs.append(node.variable)
            given.append(array)
        value = call(inputs)
        edge = _edge_of_scalar(value)
        if edge is not None and not tape.is_left:
            roots = [RootCotangent(*unpack_edge(edge), None)]
            order = reversed(tape.tape)
            found = run_on_dual_arrays(roots, order, nodes, TapeArrays(tape), retain_graph=True)
    if found is not None:
        return _constant(value), _owned(found, nodes, given)
    if edge is not None and not tape.is_left and _has_hooks(edge):
        tape.leave_tape()
    if edge is None or tape.is_left or tape.batch_shape:
        return None
    products = _pulled_twice(value, vectors, [*map(_Made, inputs, nodes)])
    return None if products is None else (_constant(value), products)


def _constant(value: Tensor) -> Tensor:
    """The function's result without its history, which is closed."""
    made = wrap(value._array)
    if value._counter is not None or value._meta is not None:  # else the memory is its own
        share_counter(made, value)
    return made


def _input(leaf: Tensor, vector: Tensor, tape: TangentTape) -> tuple[AccumulateGrad, Any]:
    """An alias of an argument, by its node: made directly, as there is nothing outside. And its
    tangent, or those of all rows, as an array.
    """
    like, array = leaf._array, vector._array
    tensor = wrap(like)
    tensor._flags = _INPUT_FLAGS
    tensor._counter = counter = version_of(leaf)
    tape.inputs.append(counter)
    node = AccumulateGrad(tensor)
    tensor._meta = meta = Meta()
    meta.accumulator = ref(node)
    if tape.batch_shape:
        tape.tangents[node] = array
        return node, array
    if array.dtype is not like.dtype or (array.ndim > 1 and array.strides != like.strides):
        array = empty_in_layout(like.shape, like.dtype, layout_of(like))
        np.copyto(array, vector._array)
    tape.tangents[node] = array
    return node, array


def _edge_of_scalar(result: Any) -> Edge:
    """The edge of a function's result; None if it has none or is no real number."""
    if type(result) is not Tensor:
        return None
    array = result._array
    is_real = type(array) is np.ndarray and array.shape == () and array.dtype.kind == "f"
    return (result._edge or edge_of(result)) if is_real else None


def _owned(found: dict[Node, Any], nodes: list[Node], taken: list[Any]) -> list[Tensor]:
    """Tangents in memory of their own: no input's and, as those of a sum would have, no other's.

    `taken` are those of the inputs.
    """
    products: list[Tensor] = []
    for node in nodes:
        cotangent = found.get(node)
        if type(cotangent) is not DualArray:  # none has arrived, or one without a tangent
            products.append(fresh(np.zeros_like(taken[len(products)])))
            continue
        product = np.asarray(cotangent.tangent)
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
