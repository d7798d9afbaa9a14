"""``Part``: the gradient of a slice, before anybody has made zeros of the whole's size for it.

A program that reads a large tensor element by element gets as many gradients, each for one element.
The engine adds a part to the whole gradient in its place, so the work is that of the parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Part"]

_ndarray = np.ndarray


class Part:
    """A gradient that is zero except at a basic index.

    Attributes:
        shape: that of the whole.
        dtype: none, so that it never passes for a gradient of the right kind.
    """

    __slots__ = ("grad", "index", "shape")
    dtype = None

    def __init__(self, grad: Any, shape: tuple[int, ...], index: Any):
        self.grad = grad
        self.shape = shape
        self.index = index

    def whole(self) -> NDArray[Any]:
        """The gradient at full size.

        >>> Part(np.ones(2), (4,), (slice(1, 3), ...)).whole()
        array([0., 1., 1., 0.])
        """
        whole = np.zeros(self.shape, self.grad.dtype)
        whole[self.index] = self.grad
        return whole

    def add_to(self, whole: NDArray[Any]) -> None:
        """Adds the part to a gradient that may be written to."""
        grad, index = self.grad, self.index
        if type(grad) is _ndarray:
            part = whole[index]
            if type(part) is _ndarray:
                part += grad
                return
        elif index and index[-1] is Ellipsis:
            index = index[:-1]  # numbers are added several times as fast as arrays of one element
        whole[index] += grad
