"""``SliceCotangent``: a cotangent that is zero outside of a slice, stored without the zeros.

A program that reads a large tensor element by element returns one cotangent for each element. The
engine adds each in its place, so that the work grows with the slices, not with the whole tensor.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.graph.node import Node, OneEdge

__all__ = ["SliceCotangent", "SliceNode", "add_slice"]

_ndarray = np.ndarray
_zeros = np.zeros


def add_slice(whole: NDArray[Any], index: Any, grad: Any) -> None:
    """Adds to the elements at a basic index.

    >>> whole = np.zeros(3)
    >>> add_slice(whole, (1, ...), np.float64(2.0))
    >>> whole
    array([0., 2., 0.])
    """
    if type(grad) is _ndarray:
        part = whole[index]
        if type(part) is _ndarray:
            part += grad
            return
    elif index and index[-1] is Ellipsis:
        index = index[:-1]  # numbers are added several times as fast as arrays of one element
    whole[index] += grad


class SliceCotangent:
    """A gradient that is zero except at a basic index.

    Attributes:
        shape: that of the whole.
        dtype: one that nothing else has, so that it never passes for a gradient that fits.
    """

    __slots__ = ("grad", "index", "shape")
    dtype = "part"

    def __init__(self, grad: Any, shape: tuple[int, ...], index: Any):
        self.grad = grad
        self.shape = shape
        self.index = index

    def whole(self) -> NDArray[Any]:
        """The gradient at full size.

        >>> SliceCotangent(np.ones(2), (4,), (slice(1, 3), ...)).whole()
        array([0., 1., 1., 0.])
        """
        whole = np.zeros(self.shape, self.grad.dtype)
        whole[self.index] = self.grad
        return whole

    def add_to(self, whole: NDArray[Any]) -> None:
        """Adds the part to a gradient that may be written to."""
        add_slice(whole, self.index, self.grad)


class SliceNode(OneEdge):
    """The node of basic indexing, whose ``run`` returns a `SliceCotangent`."""

    __slots__ = ()
    _is_direct: ClassVar[bool] = False
    _sees_buffers: ClassVar[bool] = True

    index: Any
    self_shape: tuple[int, ...]

    def run_on(
        self, grad: Any, buffers: dict[Node, Any], owned: set[Node], keep: bool
    ) -> tuple[Any, ...]:
        """Adds the gradient to that of the whole at once, or makes one of it."""
        target: Any = self._edge0
        if target in buffers:
            held = buffers[target]
            if type(held) is not _ndarray or grad.dtype is not held.dtype:
                return self.run(None, grad, keep)
            if target not in owned:
                buffers[target] = held = np.array(held)
                owned.add(target)
            if type(grad) is _ndarray and type(part := held[self.index]) is _ndarray:
                part += grad
            else:
                add_slice(held, self.index, grad)
            return ()
        if target is None or grad.dtype is not target._output_metadata.dtype:
            return self.run(None, grad, keep)
        owned.add(target)
        whole = _zeros(self.self_shape, grad.dtype)
        whole[self.index] = grad
        return (whole,)
