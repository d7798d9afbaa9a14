"""Reductions over axes, and running ones along an axis.

Called by generated kernels with arrays (or Python numbers in the place of one), and by derivative
formulas.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback.errors import UnsupportedDtypeError
from pullback.kernels.broadcasting import MIN_THREADED_SIZE, broadcast_ufunc, sum_huge
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.kernels.threads import MIN_THREADED_HEAVY_SIZE, spread

__all__ = [
    "Axes",
    "axes_of",
    "cummax",
    "cummin",
    "degrees_lost",
    "exclusive_cumprod",
    "logcumsumexp",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmax",
    "nanmin",
    "prod",
    "recurrence",
    "require_order",
    "shift",
    "std",
    "sum",
    "tie_weights",
    "ties",
    "var",
]

_ndarray = np.ndarray  # a local name is faster than an attribute of the module
_add: np.ufunc = np.add
_sum: Any = np.add.reduce
_multiply: np.ufunc = np.multiply

Axes = int | tuple[int, ...] | list[int] | None


def axes_of(axis: Axes) -> int | tuple[int, ...] | None:
    """Axes in the form that NumPy takes."""
    if axis is not None and isinstance(axis, list):
        # One axis by itself, which NumPy also takes for a number without axes.
        return axis[0] if len(axis) == 1 else tuple(axis)
    return axis


def require_order(name: str, dtype: np.dtype[Any]) -> None:
    """Refuses complex numbers, which have no order."""
    if dtype.kind == "c":
        raise UnsupportedDtypeError(
            f"{name}: not implemented for {dtype}, because complex numbers have no order; "
            "take their real part or absolute value first"
        )


def sum(
    x: NDArray[Any], axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
) -> Any:
    """The sum over some axes, or all."""
    if axis is not None:
        if type(axis) is list:
            axis = axes_of(axis)
        if type(x) is _ndarray and x.size >= MIN_THREADED_SIZE and dtype is None:
            return sum_huge(x, axis, keepdims)
    return _sum(x, axis, dtype, None, keepdims)  # names would cost, too


def mean(
    x: NDArray[Any], axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
) -> Any:
    """The arithmetic mean over some axes, or all."""
    is_double = type(x) is np.ndarray and dtype is None and x.dtype.char in "dD"
    if is_double and x.size and (axis is None or x.ndim):  # a number has no axis
        # NumPy's own function does the same in Python, with much that concerns other dtypes.
        total = _add.reduce(x, axes_of(axis), keepdims=keepdims)
        return total / (x.size // total.size)
    return np.mean(x, axis=axes_of(axis), dtype=dtype, keepdims=keepdims)


def prod(
    x: NDArray[Any], axis: Axes = None, keepdims: bool = False, *, dtype: DTypeLike | None = None
) -> Any:
    """The product over some axes, or all."""
    return _multiply.reduce(x, axis=axes_of(axis), dtype=dtype, keepdims=keepdims)


def degrees_lost(ddof: float, correction: float | None) -> float:
    """The one of two names for the same number that was given."""
    if correction is None:
        return ddof
    if ddof:
        raise ValueError(
            f"ddof and correction can't be provided simultaneously; got ddof={ddof} and "
            f"correction={correction}, which are two names for the same number"
        )
    return correction


def var(
    x: NDArray[Any],
    axis: Axes = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    correction: float | None = None,
) -> Any:
    """The variance over some axes, or all."""
    ddof = degrees_lost(ddof, correction)
    return np.var(x, axis=axes_of(axis), ddof=ddof, keepdims=keepdims)


def std(
    x: NDArray[Any],
    axis: Axes = None,
    keepdims: bool = False,
    *,
    ddof: float = 0,
    correction: float | None = None,
) -> Any:
    """The standard deviation over some axes, or all."""
    ddof = degrees_lost(ddof, correction)
    return np.std(x, axis=axes_of(axis), ddof=ddof, keepdims=keepdims)


def logsumexp(x: NDArray[Any], axis: Axes = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials; the largest one is taken out before the sum."""
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    axis = axes_of(axis)
    largest = np.maximum.reduce(x.real, axis, keepdims=True, initial=-np.inf)
    finite = np.isfinite(largest)
    if not finite.all():
        largest = np.where(finite, largest, x.real.dtype.type(0))
    before = get_settings()
    try:
        set_settings(QUIET)
        shares = np.asarray(broadcast_ufunc(np.subtract, x, largest))
        if shares.size >= MIN_THREADED_HEAVY_SIZE:
            shares = spread(np.exp, shares)
        else:
            np.exp(shares, out=shares)
        total = _add.reduce(shares, axis, keepdims=keepdims)
        return np.log(total) + largest.reshape(total.shape)
    finally:
        set_settings(before)


def exclusive_cumprod(x: NDArray[Any], axis: int, reverse: bool) -> NDArray[Any]:
    """The products of all elements before each one along an axis, or after each one."""
    shifted = shift(x, axis, -1 if reverse else 1, 1)
    if not reverse:
        return np.cumprod(shifted, axis=axis)
    return np.flip(np.cumprod(np.flip(shifted, axis), axis=axis), axis)


def shift(x: NDArray[Any], axis: int, by: int, fill: complex) -> NDArray[Any]:
    """The elements moved along an axis; what is moved in from outside is `fill`."""
    moved = np.full_like(x, fill)
    target, source = np.moveaxis(moved, axis, 0), np.moveaxis(x, axis, 0)
    if by >= 0:
        target[by:] = source[: len(source) - by]
    else:
        target[:by] = source[-by:]
    return moved


def recurrence(x: NDArray[Any], factor: NDArray[Any], axis: int, reverse: bool) -> NDArray[Any]:
    """The sequence ``y[k] = x[k] + factor[k] * y[k - 1]`` along an axis, or from its end."""
    dtype = np.result_type(x, factor)
    order = slice(None, None, -1 if reverse else 1)
    y, a = (np.array(np.moveaxis(z, axis, 0)[order], dtype, order="C") for z in (x, factor))
    _run(y, a)
    return np.ascontiguousarray(np.moveaxis(y[order], 0, axis))


def _run(y: NDArray[Any], a: NDArray[Any]) -> None:
    """Turns `y` into the sequence along its first axis; `a` is used up.

    A long and narrow one is cut into blocks that run side by side. Since all steps of a block
    together are one step of the same kind, what a block starts from is added afterwards.
    """
    length = len(y)
    if length <= 64 or y[0].size >= 256:
        for k in range(1, length):
            y[k] += a[k] * y[k - 1]
        return
    block = isqrt(length)
    whole = length - length % block
    ys, products = (z[:whole].reshape(-1, block, *z.shape[1:]).swapaxes(0, 1) for z in (y, a))
    for k in range(1, block):
        ys[k] += products[k] * ys[k - 1]
        products[k] *= products[k - 1]
    ends = ys[-1].copy()
    _run(ends, products[-1].copy())
    ys[:, 1:] += products[:, 1:] * ends[:-1]
    for k in range(whole, length):
        y[k] += a[k] * y[k - 1]


def max(x: NDArray[Any], axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest element over some axes, or all."""
    return _extreme("max", np.maximum, x, axis, keepdims)


def min(x: NDArray[Any], axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest element over some axes, or all."""
    return _extreme("min", np.minimum, x, axis, keepdims)


def nanmax(x: NDArray[Any], axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest element over some axes, or all, that is not NaN."""
    return _extreme("nanmax", np.fmax, x, axis, keepdims)


def nanmin(x: NDArray[Any], axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest element over some axes, or all, that is not NaN."""
    return _extreme("nanmin", np.fmin, x, axis, keepdims)


def _extreme(name: str, which: np.ufunc, x: NDArray[Any], axis: Axes, keepdims: bool) -> Any:
    x = np.asarray(x)
    if x.dtype.kind == "c":
        require_order(name, x.dtype)
    try:
        return which.reduce(x, axes_of(axis), keepdims=keepdims)
    except ValueError as error:
        if x.size:
            raise
        raise ValueError(
            f"{name}: no elements to choose from: shape {x.shape}, axis {axis}"
        ) from error


def ties(
    x: NDArray[Any], extreme: NDArray[Any], axis: Axes, keepdims: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """A mask of the elements that equal the extreme of their slice (or NaN), and their number."""
    axis = axes_of(axis)
    if not keepdims and x.ndim:
        extreme = np.expand_dims(extreme, tuple(range(x.ndim)) if axis is None else axis)
    tied = np.asarray(x == extreme)
    if np.isnan(extreme).any():
        tied |= np.isnan(x)
    return tied, np.asarray(np.add.reduce(tied, axis=axis, keepdims=True, dtype=x.dtype))


def tie_weights(x: NDArray[Any], extreme: NDArray[Any], axis: Axes, keepdims: bool) -> NDArray[Any]:
    """Shares of one among the elements of a slice that equal its extreme, or are NaN as it is."""
    tied, count = ties(x, extreme, axis, keepdims)
    return np.asarray(tied / count)


def logcumsumexp(x: NDArray[Any], axis: int) -> NDArray[Any]:
    """The logarithms of the running sums of exponentials along an axis."""
    return np.asarray(np.logaddexp.accumulate(x, axis=axis))


def cummax(x: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The running largest element along an axis, and where it is."""
    return _running("cummax", np.maximum, x, axis)


def cummin(x: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The running smallest element along an axis, and where it is."""
    return _running("cummin", np.minimum, x, axis)


def _running(
    name: str, which: np.ufunc, x: NDArray[Any], axis: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    require_order(name, x.dtype)
    values = which.accumulate(x, axis=axis)
    places = np.moveaxis(np.broadcast_to(np.arange(x.shape[axis]), _last(x, axis)), -1, axis)
    takes_over = (x == values) | np.isnan(x)
    indices = np.maximum.accumulate(np.where(takes_over, places, 0), axis=axis)
    return values, indices


def _last(x: NDArray[Any], axis: int) -> tuple[int, ...]:
    """The shape with an axis moved to the end."""
    return np.moveaxis(x, axis, -1).shape
