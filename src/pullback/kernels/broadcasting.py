"""Broadcasting undone: sums of gradients, and of their products, over the axes that were repeated.

A product that is summed afterwards need not be made: ``einsum`` and the BLAS library read both
factors once, and write only what is left. Called by the array world of the formulas.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PRODUCT", "axes_to", "product_to", "sum_first"]

_Array = NDArray[Any]
_Shape = tuple[int, ...]

PRODUCT = 2048  # elements, from which a product is better not made
_REAL = "fd"  # what the BLAS library knows
_BLOCK = 4096  # elements that are added one after another; the sums of blocks are added in pairs
_LONG = 64  # elements of a row, from which a call of the BLAS library for each row pays
_ones = {char: np.ones(_BLOCK, char) for char in _REAL}


@lru_cache(maxsize=4096)
def axes_to(given: _Shape, shape: _Shape) -> tuple[int, ...] | None:
    """The axes along which a shape was repeated to become the given one; None if it was not.

    >>> axes_to((5, 2, 3), (2, 1)), axes_to((2, 3), (4,))
    ((0, 2), None)
    """
    lead = len(given) - len(shape)
    if lead < 0 or any(want not in (1, got) for got, want in zip(given[lead:], shape, strict=True)):
        return None
    return *range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 and given[lead + i] != 1]


def sum_first(x: _Array) -> Any:
    """The sum over the first axis; as a product with ones, which takes the rows as they lie.

    >>> sum_first(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    if x.ndim == 2 and x.dtype.char in _REAL and x.flags.c_contiguous and 0 < len(x) <= _BLOCK:
        return np.matmul(_ones[x.dtype.char][: len(x)], x)
    return np.add.reduce(x, 0)


def product_to(grad: _Array, factor: Any, shape: _Shape) -> Any:
    """``grad * factor``, summed to a shape that broadcasts to it where that is done in one go.

    >>> grad, factor = np.ones((2, 3)), np.array([1.0, 2.0, 3.0])
    >>> product_to(grad, factor, (2, 1))
    array([[6.],
           [6.]])
    """
    axes = axes_to(grad.shape, shape)
    if not axes or grad.dtype.char not in _REAL or getattr(factor, "dtype", None) != grad.dtype:
        return grad * factor
    if len(axes) == grad.ndim:
        return _total(grad, np.broadcast_to(factor, grad.shape)).reshape(shape)
    if axes == (grad.ndim - 1,) and grad.shape[-1] >= _LONG and factor.ndim:
        return np.vecdot(grad, factor).reshape(shape)
    every = [*range(grad.ndim)]
    kept = [axis for axis in every if axis not in axes]
    return np.einsum(grad, every, factor, every[grad.ndim - factor.ndim :], kept).reshape(shape)


def _total(a: _Array, b: _Array) -> Any:
    """The sum of all products, in blocks so that rounding errors stay as small as in a sum."""
    a, b = a.reshape(-1), b.reshape(-1)
    whole = a.size - a.size % _BLOCK
    rest = np.dot(a[whole:], b[whole:])
    if not whole:
        return rest
    blocks = np.vecdot(a[:whole].reshape(-1, _BLOCK), b[:whole].reshape(-1, _BLOCK))
    return np.add.reduce(blocks) + rest
