"""Second derivatives of scalar functions by one run: forward over reverse, on arrays.

The function runs once on aliases that require grad and carry tangents; the backward pass through
what it has recorded then gives gradients with tangents, which are products of the Hessian with the
tangents (``pullback.autograd.pushed``, ``pullback.autograd.dual_pass``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pullback.autograd.anomaly import is_anomaly_enabled
from pullback.autograd.dual_pass import Dual, run_on_duals
from pullback.autograd.level import in_forward_mode
from pullback.autograd.namespaces import arrays
from pullback.autograd.node import ends_of
from pullback.autograd.pull import Alias, Pull
from pullback.autograd.pushed import ClosedLevel, LeaveError, known
from pullback.autograd.rows import Rows, rows
from pullback.autograd.tangents import beside, tangents_of
from pullback.autograd.view import edge_of
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import get_state
from pullback.tensor.tensor import CPU_FLAGS, Tensor, fresh

__all__ = ["curvature", "curvatures"]


def curvature(
    call: Callable[[list[Tensor]], Any], leaves: Sequence[Tensor], vectors: Sequence[Tensor]
) -> list[Tensor] | None:
    """The Hessian of a scalar function times a vector, which like the argument is a list of parts.

    None where that takes the general way: the function then has to run again.
    """
    if not _is_plain((*leaves, *vectors)):
        return None
    pairs = zip(leaves, vectors, strict=True)
    arrays_ = [beside(leaf, vector)._array for leaf, vector in pairs]
    found = _run(call, leaves, arrays_, ClosedLevel(arrays))
    return None if found is None else [fresh(array) for array in found]


def curvatures(
    call: Callable[[list[Tensor]], Any], leaves: Sequence[Tensor], vectors: Sequence[Tensor]
) -> list[Tensor] | None:
    """The same for many vectors at once, which the first axis of `vectors` counts."""
    if not _is_plain((*leaves, *vectors)) or not len(vectors[0]._array):
        return None
    found = _run(call, leaves, [Rows(v._array) for v in vectors], ClosedLevel(rows))
    return None if found is None else [fresh(array) for array in found]


def _is_plain(tensors: Iterable[Tensor]) -> bool:
    """Whether there is nothing but real arrays, and nobody outside who could want more."""
    if get_state().modes or in_forward_mode() or is_anomaly_enabled():
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
) -> list[Any] | None:
    """The tangents of the gradients."""
    with level:
        aliases = [_alias(*pair, level) for pair in zip(leaves, tangents, strict=True)]
        try:
            result = call([alias.tensor for alias in aliases])
            products = _products(result, aliases, level)
        except (Exception, LeaveError):  # an error of the function's comes again
            products = None
    if level.is_left:  # although the function may have caught that, and gone on without
        products = None
    for alias in aliases:
        alias.end()
    return products


def _alias(leaf: Tensor, tangent: Any, level: ClosedLevel) -> Alias:
    """An input of the function, with its tangent."""
    alias = Alias(leaf, level, False)
    tensor = alias.tensor
    meta = known(level, tangent)
    meta.accumulator = tensor._meta.accumulator  # type: ignore[union-attr]
    tensor._meta = meta
    tensor._flags |= DUAL
    return alias


def _products(result: Any, aliases: list[Alias], level: ClosedLevel) -> list[Any] | None:
    if type(result) is not Tensor or result.shape != () or result.dtype.kind != "f":
        return None
    edge = edge_of(result)
    if edge is None:
        return None
    nodes = [alias.node for alias in aliases]
    found = run_on_duals([(*ends_of(edge), None)], nodes, level, False)
    if found is not None:
        taken = {id(_array_of(alias)) for alias in aliases}
        return [_product(found.get(alias.node), alias, taken) for alias in aliases]
    if level.xp is not arrays:
        return None
    pull = Pull([result], aliases)
    if pull.is_open:  # something else requires grad, which the products depend on too
        return None
    gradients = pull.run(None, create_graph=False, retain_graph=False)
    tangents = [tangents_of(gradient).get(level) for gradient in gradients]
    return [
        np.zeros(gradient.shape, gradient.dtype) if tangent is None else tangent._array
        for gradient, tangent in zip(gradients, tangents, strict=True)
    ]


def _array_of(alias: Alias) -> Any:
    """The memory of an input's tangent, or many."""
    own: Any = alias.tensor._meta
    return own.array.array if type(own.array) is Rows else own.array


def _product(gradient: Any, alias: Alias, taken: set[int]) -> Any:
    """The tangent of a gradient, in memory of its own: no input's and, like a sum's, no other's."""
    if type(gradient) is not Dual:
        return np.zeros_like(_array_of(alias))
    tangent = gradient.tangent
    array = tangent.array if type(tangent) is Rows else np.asarray(tangent)
    if array.base is not None or id(array) in taken:
        array = array.copy()
    taken.add(id(array))
    return array
