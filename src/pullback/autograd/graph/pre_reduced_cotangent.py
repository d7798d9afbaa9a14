"""``PreReducedCotangent``: the sums of a cotangent over the axes that its node unbroadcasts.

``points - means`` broadcasts its means; if the points are constant, it needs only the sum of its
cotangent over the broadcast axes. A product with this difference as a factor can sum its other
factor first, so that the cotangent is never computed at full size (gmm_d64_k5 -17 %).

The array loop creates it for products of large arrays, when the node at the other end of an edge
only unbroadcasts; no other node gets it. In the input buffer it has the shape of the full
cotangent, to which others can be added.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.node import Node, Output
from pullback.dispatch.modes import TAPE, get_state
from pullback.errors import AutogradError
from pullback.kernels.broadcasting import axes_to

__all__ = ["PreReducedCotangent", "reduced_shape", "require_full_cotangent"]


def reduced_shape(target: Node, grad: Any, factor: Any) -> tuple[int, ...] | None:
    """The shape to which a node sums a gradient, the product of two, before anything else.

    None if it does not. A hook would see the gradient, so a node that has some gets it whole; and
    in a closed level, where gradients and their tangents meet, all nodes do.
    """
    metadata = target._output_metadata
    if not target._only_sums or metadata.hooks is not None or get_state().modes & TAPE:
        return None
    if grad.dtype is not metadata.dtype or getattr(factor, "dtype", None) is not grad.dtype:
        return None
    first, second = target._edge0, target._edge1
    edge: Any = first if second is None else second
    if edge is None or (first is not None and second is not None):
        return None
    if type(edge) is Output or edge._outputs != 1:
        return None
    shape: tuple[int, ...] = edge._output_metadata.shape
    return shape if shape and shape != metadata.shape else None


def require_full_cotangent(node: Node, grad: Any) -> None:
    """Refuses to show sums to a hook, which was not there yet when they were made."""
    if type(grad) is PreReducedCotangent:
        raise AutogradError(
            f"{node.name()}: a hook was registered for its gradient while the backward pass was "
            "running, when only sums of this gradient had been computed; register the hook before "
            "the pass begins"
        )


class PreReducedCotangent:
    """The sums of a gradient over the axes along which its node repeats an operand.

    Attributes:
        total: the sums.
        shape: that of the gradient itself.
        dtype: that of both.
    """

    __slots__ = ("dtype", "shape", "total")

    def __init__(self, total: NDArray[Any], shape: tuple[int, ...]):
        self.total = total
        self.shape = shape
        self.dtype = total.dtype

    def __add__(self, other: Any) -> Self:
        return type(self)(self.total + _total(other, self.total.shape), self.shape)

    __radd__ = __add__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Implements ``array + summed`` and ``array += summed``; nothing is written."""
        if ufunc is not np.add or method != "__call__":
            return NotImplemented
        first, second = inputs
        return self + (second if first is self else first)

    def __neg__(self) -> Self:
        return type(self)(-self.total, self.shape)


def _total(grad: Any, shape: tuple[int, ...]) -> Any:
    """A gradient of full size summed to a shape that was repeated to become its own."""
    if type(grad) is PreReducedCotangent:
        return grad.total
    axes = axes_to(grad.shape, shape)
    assert axes is not None
    return grad.sum(axes, keepdims=True).reshape(shape)
