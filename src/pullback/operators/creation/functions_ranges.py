"""Evenly spaced numbers, and index arrays.

``linspace`` and its kin pass gradients to their ends where these are tensors. The index arrays are
integers, made to be used in ``x[...]``; only ``ix_`` takes other numbers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape_functions
from pullback.tensor.tensor import Tensor, as_operand, fresh, holds_number, is_true

__all__ = [
    "diag_indices",
    "geomspace",
    "indices",
    "ix_",
    "linspace",
    "logspace",
    "ravel_multi_index",
    "tril_indices",
    "triu_indices",
    "unravel_index",
]


def _fractions(num: int, endpoint: bool) -> NDArray[Any]:
    """Fractions from 0 to 1 (or below) of equally spaced points."""
    if num < 0:
        raise ValueError(f"the number of points may not be negative, it is {num}")
    steps = num - 1 if endpoint else num
    return np.arange(num) / steps if steps > 0 else np.zeros(num)


def _moved(made: Tensor, axis: int, dtype: DTypeLike | None) -> Tensor:
    """The points along another axis than the first, in another dtype."""
    made = made if axis == 0 else shape_functions.moveaxis(made, 0, axis)
    return made if dtype is None else pointwise._astype(made, np.dtype(dtype))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    device: str | None = None,
) -> Tensor:
    """So many numbers at equal distances from `start` to `stop`; gradients pass to both.

    >>> import pullback as pb
    >>> pb.linspace(0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    if device not in (None, "cpu"):
        raise ValueError(f"linspace: device must be 'cpu' or None, not {device!r}")
    if not isinstance(start, Tensor) and not isinstance(stop, Tensor):
        return fresh(np.linspace(start, stop, num, endpoint, dtype=dtype, axis=axis))
    first: Any = as_operand(start)
    last: Any = as_operand(stop)
    ndim = max(first.ndim, last.ndim)
    way = _spread(_fractions(num, endpoint), ndim, first, last)
    made = first * (1 - way) + last * way
    if dtype is not None and np.dtype(dtype).kind in "iu":
        made = pointwise.floor(made)  # as NumPy rounds here, and nowhere else
    return _moved(made, axis, dtype)


def _spread(fractions: NDArray[Any], ndim: int, first: Tensor, last: Tensor) -> Any:
    """Fractions along a new first axis, in the precision of the ends."""
    ends = [t._array if holds_number(t) else t.dtype for t in (first, last)]
    kind = np.result_type(*ends, np.float32(0)).type(0).real.dtype
    given = [t.dtype for t in (first, last) if not holds_number(t)]
    if all(dtype.kind not in "fc" for dtype in given):
        kind = np.dtype(float)
    return fresh(fractions.astype(kind).reshape((-1,) + (1,) * ndim))


def logspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    *,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Powers of `base` whose exponents are at equal distances; gradients pass to all three.

    >>> import pullback as pb
    >>> pb.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    made = pointwise.power(base, exponents)
    return made if dtype is None else pointwise._astype(made, np.dtype(dtype))


def geomspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """So many numbers with equal ratios from `start` to `stop`; gradients pass to both.

    >>> import pullback as pb
    >>> pb.geomspace(1.0, 8.0, 4).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    if not isinstance(start, Tensor) and not isinstance(stop, Tensor):
        return fresh(np.geomspace(start, stop, num, endpoint, dtype=dtype, axis=axis))
    first: Any = as_operand(start)
    last: Any = as_operand(stop)
    if any(is_true(reduction.any(pointwise.equal(end, 0))) for end in (first, last)):
        raise ValueError("geomspace: the ends may not be zero")
    way = _spread(_fractions(num, endpoint), max(first.ndim, last.ndim), first, last)
    return _moved(first * pointwise.power(last / first, way), axis, dtype)


# --- index arrays --------------------------------------------------------------------------------


def indices(dimensions: Sequence[int], dtype: DTypeLike = int, *, sparse: bool = False) -> Any:
    """The index of each element of a grid: one tensor, or a tuple of thin ones if `sparse`.

    >>> import pullback as pb
    >>> pb.indices((1, 2)).tolist()
    [[[0, 0]], [[0, 1]]]
    """
    made = np.indices(tuple(dimensions), dtype=dtype, sparse=sparse)  # type: ignore[call-overload]
    return tuple(map(fresh, made)) if sparse else fresh(made)


def ix_(*sequences: Any) -> tuple[Tensor, ...]:
    """Index arrays that together pick a grid of rows, columns and so on.

    Numbers that are no indices are spread out in the same way, and gradients reach them.

    >>> import pullback as pb
    >>> pb.arange(6).reshape(2, 3)[pb.ix_([0, 1], [0, 2])].tolist()
    [[0, 2], [3, 5]]
    """
    picks = [_picks(as_operand(s)) for s in sequences]
    after = range(len(picks) - 1, -1, -1)
    return tuple(
        shape_functions.reshape(pick, (1,) * before + (-1,) + (1,) * rest)
        for before, (pick, rest) in enumerate(zip(picks, after, strict=True))
    )


def _picks(given: Tensor) -> Tensor:
    """The values along one axis of a grid: numbers, or the indices that are true."""
    if given.ndim != 1:
        raise ValueError(f"ix_: Cross index must be 1 dimensional, not of shape {given.shape}")
    return given if given.dtype.kind in "fc" else fresh(np.ix_(given._array)[0])


def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """Index arrays of the main diagonal.

    >>> import pullback as pb
    >>> [i.tolist() for i in pb.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    return tuple(map(fresh, np.diag_indices(n, ndim)))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Index arrays of the part on and below a diagonal.

    >>> import pullback as pb
    >>> [i.tolist() for i in pb.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return tuple(map(fresh, np.tril_indices(n, k, m)))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Index arrays of the part on and above a diagonal.

    >>> import pullback as pb
    >>> [i.tolist() for i in pb.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return tuple(map(fresh, np.triu_indices(n, k, m)))


def unravel_index(places: Any, shape: Sequence[int]) -> tuple[Tensor, ...]:
    """Index arrays of elements that are counted in a row.

    >>> import pullback as pb
    >>> [i.tolist() for i in pb.unravel_index([1, 3], (2, 2))]
    [[0, 1], [1, 1]]
    """
    return tuple(map(fresh, np.unravel_index(as_operand(places)._array, tuple(shape))))


def ravel_multi_index(multi_index: Sequence[Any], shape: Sequence[int]) -> Tensor:
    """The places in a row of elements given by index arrays.

    >>> import pullback as pb
    >>> pb.ravel_multi_index(([0, 1], [1, 1]), (2, 2)).tolist()
    [1, 3]
    """
    arrays = tuple(as_operand(i)._array for i in multi_index)
    return fresh(np.ravel_multi_index(arrays, tuple(shape)))
