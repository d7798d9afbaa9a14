"""Products that are made of other products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_shape as shape
from pullback._generated.functions_creation import _zeros_like
from pullback._generated.functions_linalg import linalg_cross
from pullback.tensor.tensor import Tensor

__all__ = ["cross", "inner", "kron", "polyval", "tensordot", "vdot"]


def vdot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of products of all elements, those of the first conjugated."""
    if a.size != b.size:
        raise ValueError(f"vdot: shapes {a.shape} and {b.shape} have different numbers of elements")
    flat = shape.reshape(a, (-1,)), shape.reshape(b, (-1,))
    return products.vecdot(*flat)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The sum of products over the last axes of both; of numbers, the product."""
    if not a.ndim or not b.ndim:
        return pointwise.multiply(a, b)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"inner: shapes {a.shape} and {b.shape} differ in the last axis")
    return products._tensordot(a, b, [a.ndim - 1], [b.ndim - 1])


def tensordot(a: Tensor, b: Tensor, axes: Any = None) -> Tensor:
    """The sum over the last axes of one and the first of the other, or over pairs of axes."""
    axes = 2 if axes is None else axes
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: axes={axes}, but shapes are {a.shape} and {b.shape}")
        return products._tensordot(a, b, list(range(a.ndim - axes, a.ndim)), list(range(axes)))
    first, second = axes
    return products._tensordot(a, b, _listed(first), _listed(second))


def _listed(axes: int | Sequence[int]) -> list[int]:
    return [axes] if isinstance(axes, int) else list(axes)


def kron(a: Tensor, b: Tensor) -> Tensor:
    """The Kronecker product; the one with fewer axes gets axes of length one in front."""
    ndim = max(a.ndim, b.ndim)
    big = (1,) * (ndim - a.ndim) + a.shape
    small = (1,) * (ndim - b.ndim) + b.shape
    left = shape.reshape(a, [n for pair in zip(big, (1,) * ndim, strict=True) for n in pair])
    right = shape.reshape(b, [n for pair in zip((1,) * ndim, small, strict=True) for n in pair])
    sizes = [m * n for m, n in zip(big, small, strict=True)]
    return shape.reshape(pointwise.multiply(left, right), sizes)


def cross(
    a: Tensor, b: Tensor, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The cross product of vectors with three components, along any axes."""
    if axis is not None:
        axisa = axisb = axisc = axis
    if axisa == axisb == axisc == -1:
        return linalg_cross(a, b)
    for x, own in ((a, axisa), (b, axisb)):
        if not -x.ndim <= own < x.ndim or x.shape[own] != 3:
            raise ValueError(
                f"cross: shapes {a.shape} and {b.shape} need length 3 along the axes {axisa} and "
                f"{axisb}"
            )
    if axisa != -1:
        a = shape.moveaxis(a, axisa, -1)
    if axisb != -1:
        b = shape.moveaxis(b, axisb, -1)
    product = linalg_cross(a, b)
    return product if axisc == -1 else shape.moveaxis(product, -1, axisc)


def polyval(p: Tensor, x: Tensor) -> Tensor:
    """A polynomial by Horner's rule; coefficients from the highest power down."""
    if p.ndim != 1:
        raise ValueError(f"polyval: coefficients of shape {p.shape}; a vector is needed")
    value = _zeros_like(x)
    for coefficient in shape.unbind(p):
        value = pointwise.add(pointwise.multiply(value, x), coefficient)
    return value
