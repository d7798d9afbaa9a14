"""Shapes of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback.kernels.shape_spec import (
    Shape,
    Shaped,
    Spec,
    axis_of,
    broadcast,
    in_row,
    promoted,
    reduced,
)
from pullback.operators.products.kernels import check_vectors, mismatch

__all__ = [
    "convolve",
    "cross",
    "dot",
    "einsum",
    "matmul",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


def _sides(name: str, a: Any, b: Any) -> tuple[Shape, Shape]:
    """The axes that stay of two factors whose inner lengths match."""
    x, y = np.shape(a), np.shape(b)
    if not x or not y or x[-1] != y[-2:][0]:
        raise ValueError(f"{name}: {mismatch(a, b)}")
    return x[:-1], (*y[:-2], *y[-1:]) if len(y) > 1 else ()


def matmul(a: Shaped, b: Shaped) -> Spec:
    """Rows of the first and columns of the second; the axes before them broadcast."""
    _sides("matmul", a, b)
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"matmul: {mismatch(a, b)}") from None
    rows = a.shape[-2:-1] if a.ndim > 1 else ()
    return Spec((*batch, *rows, *(b.shape[-1:] if b.ndim > 1 else ())))


def dot(a: Any, b: Any) -> Spec:
    """All axes but the inner ones."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return Spec(broadcast(a, b))
    left, right = _sides("dot", a, b)
    return Spec((*left, *right))


def vecdot(a: Shaped, b: Shaped, *, axis: int = -1) -> Spec:
    """The other axes, which broadcast."""
    lengths = [x.shape[axis_of(x, axis)] for x in (a, b)]
    if lengths[0] != lengths[1]:
        raise ValueError(f"vecdot: shapes {a.shape} and {b.shape} differ along axis {axis}")
    return Spec(np.broadcast_shapes(*(reduced(x.shape, axis, False) for x in (a, b))))


def outer(a: Any, b: Any) -> Spec:
    """One row for each element of the first."""
    return Spec((*in_row(a), *in_row(b)))


def tensordot(a: Shaped, b: Shaped, axes_a: Sequence[int], axes_b: Sequence[int]) -> Spec:
    """The axes that are not summed over."""
    summed = []
    for x, axes in ((a, axes_a), (b, axes_b)):
        try:
            summed.append([x.shape[axis] for axis in axes])
        except IndexError:
            summed.append([])
    if summed[0] != summed[1] or len(summed[0]) != len(axes_a) or len(axes_a) != len(axes_b):
        raise ValueError(
            f"tensordot: shapes {a.shape} and {b.shape} do not match over the axes "
            f"{tuple(axes_a)} and {tuple(axes_b)}"
        )
    left = reduced(a.shape, tuple(axes_a), False)
    return Spec((*left, *reduced(b.shape, tuple(axes_b), False)))


def einsum(subscripts: str, operands: Sequence[Shaped], *, optimize: bool = False) -> Spec:  # noqa: ARG001
    """The axes that the subscripts leave."""
    given, _, kept = subscripts.replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for labels, x in zip(given.split(","), operands, strict=True):
        if len(labels) != x.ndim:
            raise _einsum_error(subscripts, operands)
        for label, n in zip(labels, x.shape, strict=True):
            known = lengths.get(label, 1)
            if n != known and 1 not in (n, known):
                raise _einsum_error(subscripts, operands)
            lengths[label] = n if known == 1 else known
    return Spec(tuple(lengths[label] for label in kept))


def _einsum_error(subscripts: str, operands: Sequence[Shaped]) -> ValueError:
    shapes = " and ".join(str(np.shape(x)) for x in operands)
    return ValueError(f"einsum: {subscripts!r} does not fit shapes {shapes}")


def cross(a: Shaped, b: Shaped, *, axis: int = -1) -> Spec:
    """Three components along an axis; the others broadcast."""
    if not all(-x.ndim <= axis < x.ndim and x.shape[axis] == 3 for x in (a, b)):
        raise ValueError(f"cross: shapes {a.shape} and {b.shape} need length 3 along axis {axis}")
    common = np.broadcast_shapes(*(reduced(x.shape, axis, False) for x in (a, b)))
    place = axis % (len(common) + 1)
    return Spec((*common[:place], 3, *common[place:]), promoted(a, b))


def trace(
    x: Shaped,
    offset: int = 0,  # noqa: ARG001 - which diagonal
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,  # noqa: ARG001 - the kernel decides
) -> Spec:
    """The axes that have no diagonal."""
    if x.ndim < 2:
        raise ValueError(f"trace: diag requires an array of at least two dimensions, not {x.shape}")
    return Spec(reduced(x.shape, (axis1, axis2), False))


def convolve(a: Shaped, v: Shaped, mode: str = "full") -> Spec:
    """As long as both together, as the longer one, or as where they overlap in full."""
    check_vectors("convolve", a, v)
    long, short = max(a.size, v.size), min(a.size, v.size)
    lengths = {"full": long + short - 1, "same": long, "valid": long - short + 1}
    return Spec((lengths.get(mode, 0),))  # the array function refuses any other mode
