"""Shapes of what is ordered, searched and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.kernels.shape_spec import (
    Shaped,
    Spec,
    axis_of,
    in_row,
    promoted,
    reduced,
    with_length,
)
from pullback.operators.reduction.kernels import require_order

__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "isin",
    "kthvalue",
    "mode",
    "ranked",
    "searchsorted",
    "sort",
    "topk",
]


def sort(
    x: Shaped,
    axis: int | None = -1,
    *,
    descending: bool = False,  # noqa: ARG001 - the order
    stable: bool = True,  # noqa: ARG001 - the order
) -> Spec:
    """The same shape; without an axis, all elements in a row."""
    return Spec(in_row(x) if axis is None else x.shape)


argsort = sort


def argpartition(x: Shaped, kth: int | Sequence[int], axis: int | None = -1) -> Spec:
    """As many indices as elements."""
    lengths = in_row(x) if axis is None else x.shape
    n = lengths[0] if axis is None else lengths[axis_of(x, axis)]
    if not all(-n <= k < n for k in np.atleast_1d(kth).tolist()):
        raise ValueError(f"argpartition: kth(={kth}) out of bounds ({n})")
    return Spec(lengths, np.dtype(np.intp))


def topk(
    x: Shaped,
    k: int,
    axis: int = -1,
    largest: bool = True,  # noqa: ARG001 - the order
    sorted: bool = True,  # noqa: ARG001 - the order
) -> tuple[Spec, Spec]:
    """So many elements along an axis, and where they are."""
    n = x.shape[axis_of(x, axis)]
    if not 0 <= k <= n:
        raise ValueError(
            f"topk: k must be from 0 to {n}, the length of axis {axis} of shape {x.shape}, but is "
            f"{k}"
        )
    require_order("topk", x.dtype)
    shape = with_length(x, axis, k)
    return Spec(shape, x.dtype), Spec(shape, np.dtype(np.intp))


def kthvalue(x: Shaped, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Spec, Spec]:
    """One element along an axis, and where it is."""
    require_order("kthvalue", x.dtype)
    n = x.shape[axis_of(x, axis)]
    if not 1 <= k <= n:
        raise ValueError(
            f"kthvalue: k must be from 1 to {n}, the length of axis {axis} of shape {x.shape}, but "
            f"is {k}"
        )
    shape = reduced(x.shape, axis, keepdims)
    return Spec(shape, x.dtype), Spec(shape, np.dtype(np.intp))


def mode(x: Shaped, axis: int = -1, keepdims: bool = False) -> tuple[Spec, Spec]:
    """One element along an axis, and where it is."""
    require_order("argsort", x.dtype)
    if not x.shape[axis_of(x, axis)]:
        raise ValueError(f"mode: axis {axis} of shape {x.shape} has no elements")
    shape = reduced(x.shape, axis, keepdims)
    return Spec(shape, x.dtype), Spec(shape, np.dtype(np.intp))


def ranked(x: Shaped, ranks: Shaped, skip_nan: bool) -> Spec:  # noqa: ARG001 - which one it is
    """One index for each rank in each line."""
    return Spec((*x.shape[:-1], ranks.shape[-1]), np.dtype(np.intp))


def searchsorted(x: Shaped, v: Any, side: str = "left", sorter: Shaped | None = None) -> Spec:
    """One place for each element."""
    if x.ndim != 1:
        raise ValueError(f"searchsorted: object too deep for desired array, its shape is {x.shape}")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', not {side!r}")
    if sorter is not None and sorter.shape != x.shape:
        raise ValueError(f"searchsorted: sorter.size must equal input array size, {x.size}")
    return Spec(np.shape(v), np.dtype(np.intp))


def digitize(x: Any, bins: Shaped, right: bool = False) -> Spec:  # noqa: ARG001 - which end counts
    """One bin for each element."""
    if promoted(x).kind == "c":
        raise TypeError("digitize: x may not be complex")
    if bins.ndim != 1:
        raise ValueError(f"digitize: object too deep for desired array, bins are {bins.shape}")
    return Spec(np.shape(x), np.dtype(np.intp))


def isin(
    x: Any,
    test_elements: Any,  # noqa: ARG001 - values
    *,
    assume_unique: bool = False,  # noqa: ARG001 - how it is computed
    invert: bool = False,  # noqa: ARG001 - values
) -> Spec:
    """One truth value for each element."""
    return Spec(np.shape(x), np.dtype(bool))
