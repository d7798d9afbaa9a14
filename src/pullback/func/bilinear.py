"""Bilinear maps, such as filters by signal and by weights, from three kernels on arrays.

A bilinear map y = f(x, w) belongs to a trilinear form t(x, w, y). Its transposes by x and by w are
the other two bilinear maps of that form, so that three kernels give derivatives of every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.func.primitive import Known, Primitive, conjugate
from pullback.tensor.tensor import Tensor

__all__ = ["Bilinear", "sum_of_products"]

_Kernel = Callable[..., Any]
_LEFT, _RIGHT, _RESULT = range(3)  # the spaces of x, w and y


def sum_of_products(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """The sum of the products of all elements, without a copy of views."""
    axes = list(range(a.ndim))
    return np.einsum(a, axes, b, axes, [])


class Bilinear:
    """A bilinear map of two tensors.

    Args:
        name: of the operation, for errors.
        forward: ``forward(x, w, **options)``, arrays to an array.
        to_left: ``to_left(w, y, **options)``, the transpose by x (not conjugated).
        to_right: ``to_right(x, y, **options)``, the transpose by w (not conjugated).

    All three get the same options, which have to say the shapes of what they return.

    >>> import numpy as np, pullback as pb
    >>> outer = Bilinear("outer", np.outer, lambda w, y: y @ w, lambda x, y: x @ y)
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> pb.autograd.grad(outer(x, [3.0, 4.0]).sum(), x)[0].tolist()
    [7.0, 7.0]
    """

    def __init__(self, name: str, forward: _Kernel, to_left: _Kernel, to_right: _Kernel):
        self._maps = [
            Primitive(name, kernel, partial(self._jvp, space), partial(self._vjp, space), "inputs")
            for space, kernel in enumerate((to_left, to_right, forward))
        ]

    def __call__(self, x: Any, w: Any, **options: Any) -> Any:
        """Applies the map to tensors and arrays."""
        return self._maps[_RESULT](x, w, **options)

    def to_left(self, w: Any, y: Any, **options: Any) -> Any:
        """Applies the transpose by x."""
        return self._maps[_LEFT](w, y, **options)

    def to_right(self, x: Any, y: Any, **options: Any) -> Any:
        """Applies the transpose by w."""
        return self._maps[_RIGHT](x, y, **options)

    def _jvp(self, space: int, known: Known, *tangents: Tensor | None) -> Any:
        found: Any = None
        for place, tangent in enumerate(tangents):
            if tangent is not None:
                inputs: list[Tensor] = list(known.inputs)
                inputs[place] = tangent
                term = self._maps[space](*inputs, **known.options)
                found = term if found is None else found + term
        return found

    def _vjp(self, space: int, known: Known, cotangent: Tensor) -> Sequence[Tensor | None]:
        spaces = [other for other in (_LEFT, _RIGHT, _RESULT) if other != space]
        found: list[Tensor | None] = [None, None]
        for place, (wanted, other) in enumerate((spaces, spaces[::-1])):
            if known.needs[place]:
                given = {space: cotangent, other: conjugate(known.inputs[1 - place])}
                inputs = [given[key] for key in sorted(given)]
                found[place] = self._maps[wanted](*inputs, **known.options)
        return found
