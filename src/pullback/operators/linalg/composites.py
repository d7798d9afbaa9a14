"""Linear algebra that is made of other operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf, prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.linalg import LinAlgError
from numpy.typing import DTypeLike

from pullback._generated import functions_linalg as linalg
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback._generated.functions_creation import _zeros_like
from pullback.kernels.errstate import errstate
from pullback.tensor.tensor import Tensor, has_values, wrap

__all__ = [
    "cond",
    "diagonal",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "outer",
    "tensorinv",
    "tensorsolve",
    "trace",
]


def outer(a: Tensor, b: Tensor) -> Tensor:
    """Products of each element of one vector with each of another."""
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"linalg.outer: shapes {a.shape} and {b.shape}; two vectors are needed")
    return products.outer(a, b)


def trace(x: Tensor, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal of matrices, which are the last two axes."""
    return products.trace(x, offset, -2, -1, dtype)


def diagonal(x: Tensor, *, offset: int = 0) -> Tensor:
    """A diagonal of matrices, which are the last two axes."""
    return shape.diagonal(x, offset, -2, -1)


def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """The inverse for tensordot, with the first axes as rows."""
    rows, columns = x.shape[:ind], x.shape[ind:]
    if ind <= 0 or prod(rows) != prod(columns):
        raise LinAlgError(
            f"linalg.tensorinv: shape {x.shape} with ind={ind}; the lengths before and after that "
            "axis must have the same product"
        )
    square = shape.reshape(x, (prod(rows), prod(columns)))
    return shape.reshape(linalg.linalg_inv(square), columns + rows)


def tensorsolve(a: Tensor, b: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The solution x of ``tensordot(a, x, x.ndim) = b``."""
    if axes is not None:
        last = [*normalize_axis_tuple(axes, a.ndim)]
        a = shape.permute_dims(a, [i for i in range(a.ndim) if i not in last] + last)
    unknown = a.shape[b.ndim :]
    if b.size != prod(unknown):
        raise LinAlgError(
            f"linalg.tensorsolve: shapes {a.shape} and {b.shape} do not match: {prod(unknown)} "
            f"unknowns and {b.size} equations"
        )
    square = shape.reshape(a, (b.size, prod(unknown)))
    return shape.reshape(linalg.linalg_solve(square, shape.reshape(b, (-1,))), unknown)


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors or of matrices: by the number of axes, and of `x` where none is given."""
    if axis is None and ord is None:
        return linalg.linalg_vector_norm(x, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else (*axis,)
    if len(axes) == 1:
        order = 2 if ord is None else ord
        if isinstance(order, str):
            raise ValueError(f"linalg.norm: ord={order!r} is for matrices; shape {x.shape} given")
        return linalg.linalg_vector_norm(x, axis=axes[0], keepdims=keepdims, ord=order)
    if len(axes) != 2:
        raise ValueError(
            f"linalg.norm: shape {x.shape} with axis={axis}; one or two axes are needed for ord"
        )
    row, column = normalize_axis_tuple(axes, x.ndim, allow_duplicate=True)
    if row == column:
        raise ValueError(f"linalg.norm: axis={axis} has the same axis twice")
    moved = x if (row, column) == (x.ndim - 2, x.ndim - 1) else shape.moveaxis(x, axes, (-2, -1))
    result = matrix_norm(moved, ord=ord)
    return shape.expand_dims(result, sorted((row, column))) if keepdims else result


def matrix_norm(x: Tensor, *, keepdims: bool = False, ord: Any = None) -> Tensor:
    """The norm of matrices, which are the last two axes; by default that of Frobenius."""
    if x.ndim < 2:
        raise ValueError(f"linalg.matrix_norm: shape {x.shape}; at least two axes are needed")
    order = "fro" if ord is None else ord if isinstance(ord, str) else float(ord)
    if order == "fro":
        return linalg.linalg_vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if order in ("nuc", 2.0, -2.0):
        values = linalg.linalg_svdvals(x)
        result = _SPECTRAL[order](values, axis=-1)
    elif order in _SUMS:
        extreme, axis = _SUMS[order]
        sums = linalg.linalg_vector_norm(x, axis=axis, ord=1)
        result = extreme(sums, axis=-1)
    else:
        raise ValueError(
            f"linalg.matrix_norm: ord={ord!r} is none of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
        )
    return shape.expand_dims(result, (-2, -1)) if keepdims else result


_SPECTRAL: dict[Any, Callable[..., Tensor]] = {
    "nuc": reduction.sum,
    2.0: reduction.max,
    -2.0: reduction.min,
}
_SUMS: dict[Any, tuple[Callable[..., Tensor], int]] = {
    1.0: (reduction.max, -2),
    -1.0: (reduction.min, -2),
    inf: (reduction.max, -1),
    -inf: (reduction.min, -1),
}


def cond(x: Tensor, p: Any = None) -> Tensor:
    """The condition number; infinite for singular matrices."""
    if 0 in x.shape[-2:]:
        raise LinAlgError(f"linalg.cond: shape {x.shape}; an empty matrix has no condition number")
    with errstate(all="ignore"):
        if p is None or p in (2, -2):
            values = linalg.linalg_svdvals(x)
            large, small = values[..., 0], values[..., -1]
            ratio = pointwise.divide(small, large) if p == -2 else pointwise.divide(large, small)
        else:
            ratio = pointwise.multiply(
                matrix_norm(x, ord=p), matrix_norm(linalg._inv_or_inf(x), ord=p)
            )
    known = pointwise.logical_not(reduction.any(pointwise.isnan(x), (-2, -1)))
    undefined = pointwise.logical_and(pointwise.isnan(ratio), known)
    if has_values(undefined) and not undefined._array.any():
        return ratio
    return pointwise._where(undefined, wrap(np.asarray(inf, ratio.dtype)), ratio)


def matrix_power(x: Tensor, n: int) -> Tensor:
    """A power of square matrices, by repeated squaring."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"linalg.matrix_power: shape {x.shape}; square matrices are needed")
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"linalg.matrix_power: n is {n!r}; an integer is needed") from None
    if n == 0:
        return pointwise.add(_zeros_like(x), np.eye(x.shape[-1], dtype=bool))
    square = linalg.linalg_inv(x) if n < 0 else x
    left, result = abs(int(n)), None
    while True:
        if left % 2:
            result = square if result is None else products.matmul(result, square)
        left //= 2
        if not left:
            break
        square = products.matmul(square, square)
    assert result is not None
    return pointwise.clone(result) if result is x else result


def multi_dot(arrays: list[Tensor]) -> Tensor:
    """The product of matrices, of which the first and last may be vectors."""
    shapes = " and ".join(str(a.shape) for a in arrays)
    if len(arrays) < 2:
        raise ValueError(f"linalg.multi_dot: {len(arrays)} given; at least two are needed")
    first, last = arrays[0], arrays[-1]
    middle = [
        shape.reshape(first, (1, -1)) if first.ndim == 1 else first,
        *arrays[1:-1],
        shape.reshape(last, (-1, 1)) if last.ndim == 1 else last,
    ]
    if any(a.ndim != 2 for a in middle):
        raise LinAlgError(
            f"linalg.multi_dot: shapes {shapes}; matrices are needed, or a vector at either end"
        )
    if any(a.shape[1] != b.shape[0] for a, b in pairwise(middle)):
        raise ValueError(f"linalg.multi_dot: shapes {shapes} do not match")
    sizes = [middle[0].shape[0], *(a.shape[1] for a in middle)]
    result = _multiplied(middle, _splits(sizes), 0, len(middle) - 1)
    kept = [n for n, a in zip(result.shape, (first, last), strict=True) if a.ndim == 2]
    return result if len(kept) == 2 else shape.reshape(result, kept)


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """The optimal splits of a chain of matrices, of sizes[i] x sizes[i + 1] each."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    best: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            }
            best[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[best[i, j]]
    return best


def _multiplied(chain: list[Tensor], splits: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = splits[i, j]
    left, right = _multiplied(chain, splits, i, k), _multiplied(chain, splits, k + 1, j)
    return products.matmul(left, right)
