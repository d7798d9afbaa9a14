"""Second derivatives of scalar functions by one run: forward over reverse, on arrays.

The function runs once on aliases that require grad and carry tangents; the backward pass through
what it has recorded then gives gradients with tangents, which are products of the Hessian with the
tangents (``pullback.autograd.pushed``, ``pullback.autograd.dual_pass``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from pullback.autograd.accumulate import AccumulateGrad
from pullback.autograd.anomaly import is_anomaly_enabled
from pullback.autograd.buffers import Buffers
from pullback.autograd.dual_pass import run_for_tangents
from pullback.autograd.level import process_levels
from pullback.autograd.namespaces import arrays
from pullback.autograd.pull import Alias, Pull
from pullback.autograd.pushed import ClosedLevel, LeaveError, known
from pullback.autograd.rows import Rows, rows
from pullback.autograd.tangents import beside, tangents_of
from pullback.autograd.view import edge_of
from pullback.dispatch.keys import DUAL, REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh, version_of, wrap

__all__ = ["curvature", "curvatures"]

_INPUT_FLAGS = CPU_FLAGS | REQUIRES_GRAD | DUAL


def curvature(
    call: Callable[[list[Tensor]], Any], leaves: Sequence[Tensor], vectors: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]] | None:
    """What a scalar function returns, and its Hessian times a vector.

    Argument, vector and product are lists of parts. None where that takes the general way: the
    function then has to run again.
    """
    if not (_is_plain(leaves) and _is_plain(vectors)):
        return None
    tangents = []
    for leaf, vector in zip(leaves, vectors, strict=True):
        like, array = leaf._array, vector._array
        if array.strides != like.strides:
            array = beside(leaf, vector)._array
        tangents.append(array if array.dtype is like.dtype else array.astype(like.dtype))
    return _run(call, leaves, tangents, ClosedLevel(arrays))


def curvatures(
    call: Callable[[list[Tensor]], Any], leaves: Sequence[Tensor], vectors: Sequence[Tensor]
) -> list[Tensor] | None:
    """The products with many vectors at once, which the first axis of `vectors` counts."""
    if not (_is_plain(leaves) and _is_plain(vectors)) or not len(vectors[0]._array):
        return None
    found = _run(call, leaves, [Rows(vector._array) for vector in vectors], ClosedLevel(rows))
    return None if found is None else found[1]


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether there is nothing but real arrays, and nobody outside who could want more."""
    if get_state().modes or process_levels or is_anomaly_enabled():
        return False
    for tensor in tensors:
        if tensor._flags != CPU_FLAGS or tensor._array.dtype.kind != "f":
            return False
    return True


def _run(
    call: Callable[[list[Tensor]], Any],
    leaves: Sequence[Tensor],
    tangents: Sequence[Any],
    level: ClosedLevel,
) -> tuple[Tensor, list[Tensor]] | None:
    """The value, and the tangents of the gradients."""
    inputs: list[_Input] = []
    with level:
        for leaf, tangent in zip(leaves, tangents, strict=True):
            inputs.append(_Input(leaf, tangent, level))
        try:
            value = call([made.tensor for made in inputs])
            products = _products(value, inputs, level)
        except (Exception, LeaveError):  # an error of the function's comes again
            products = None
    for made in inputs:
        made.end()
    if products is None or level.is_left:  # which the function may have caught, and gone on
        return None
    return value, [fresh(array) for array in products]


class _Input(Alias):
    """An input of the function, with its tangent: made directly, as there is nothing outside."""

    __slots__ = ("array",)

    def __init__(self, leaf: Tensor, tangent: Any, level: ClosedLevel):
        self.array = tangent.array if type(tangent) is Rows else tangent
        self.tensor = tensor = wrap(leaf._array)
        tensor._flags = _INPUT_FLAGS
        tensor._counter = version_of(leaf)
        level.inputs.append(tensor._counter)
        meta = tensor._meta = known(level, tangent)
        node = self.node = AccumulateGrad(tensor)
        meta.accumulator = ref(node)
        level.kinds[node] = True


def _products(result: Any, inputs: list[_Input], level: ClosedLevel) -> list[Any] | None:
    """The same as arrays, from what the function has returned."""
    if type(result) is not Tensor:
        return None
    array = result._array
    edge = edge_of(result)
    if edge is None or array.shape != () or array.dtype.kind != "f":
        return None
    found = run_for_tangents(edge, level)
    if found is not None:
        return _owned(found, inputs)
    if level.xp is not arrays:
        return None
    pull = Pull([result], inputs)
    if pull.is_open:  # something else requires grad, which the products depend on too
        return None
    gradients = pull.run(None, create_graph=False, retain_graph=False)
    tangents = [tangents_of(gradient).get(level) for gradient in gradients]
    return [
        np.zeros(gradient.shape, gradient.dtype) if tangent is None else tangent._array
        for gradient, tangent in zip(gradients, tangents, strict=True)
    ]


def _owned(found: Buffers, inputs: list[_Input]) -> list[Any]:
    """Tangents in memory of their own: no input's and, as those of a sum would have, no other's."""
    products: list[Any] = []
    for made in inputs:
        tangent = found.get(made.node)
        if tangent is None:
            products.append(np.zeros_like(made.array))
            continue
        product = tangent.array if type(tangent) is Rows else np.asarray(tangent)
        is_taken = product.base is not None
        for other in inputs:
            is_taken = is_taken or product is other.array
        for taken in products:
            is_taken = is_taken or product is taken
        products.append(product.copy() if is_taken else product)
    return products
