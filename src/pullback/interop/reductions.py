"""Reductions with NumPy's whole signatures: ``where=``, ``initial=``, ``mean=``, ``out=``.

An element that `where` leaves out is replaced by one that changes nothing, such as 0 in a sum, so
its gradient is zero even where it is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback.interop.adapt import into
from pullback.interop.arguments import as_tensor, entry, given
from pullback.tensor.tensor import Tensor

__all__ = ["all", "any", "cumprod", "cumsum", "dtype_with", "max", "mean", "min", "prod", "sum"]
__all__ += ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "std", "var"]

_NONE = np._NoValue


def _kept(keepdims: Any) -> bool:
    return keepdims is not _NONE and bool(keepdims)


def dtype_with(out: Any, a: Any) -> Any:
    """The dtype in which NumPy adds elements into an array; None without an array."""
    target = out[0] if type(out) is tuple else out
    return None if target is None else np.result_type(as_tensor(a).dtype, target.dtype)


def _masked(a: Any, where: Any, neutral: Any) -> Tensor:
    """The elements, with a neutral one where the mask leaves one out."""
    tensor = as_tensor(a)
    if where is True or where is _NONE:
        return tensor
    _check_mask(where)
    kind = tensor.dtype.kind
    if kind == "b" and isinstance(neutral, int):
        tensor = pointwise._astype(tensor, np.dtype(int))
    elif not (kind == "u" and isinstance(neutral, int)) and not np.can_cast(
        np.asarray(neutral).dtype, tensor.dtype, "same_kind"
    ):
        tensor = pointwise._astype(tensor, np.dtype(float))
    fill = np.asarray(neutral, tensor.dtype)
    return pointwise._where(where, tensor, fill)


def _check_mask(where: Any) -> None:
    """As in NumPy, other numbers than booleans are no mask."""
    kind = as_tensor(where).dtype
    if kind.kind != "b":
        raise TypeError(f"where must be of dtype bool, not {kind}; write a comparison: x > 0")


def _count(a: Any, where: Any, axis: Any, keepdims: Any) -> Tensor:
    mask = shape.broadcast_to(as_tensor(where), as_tensor(a).shape)
    return reduction.sum(mask, axis, _kept(keepdims))


def _started(function: Callable[..., Any], made: Any, initial: Any) -> Any:
    """A sum or product that begins with `initial`, in the dtype of the result."""
    if not given(initial):
        return made
    return function(made, pointwise._astype(entry(initial, made.dtype), made.dtype))


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.sum``."""
    dtype = dtype_with(out, a) if dtype is None else dtype
    made = reduction.sum(_masked(a, where, 0), axis, _kept(keepdims), dtype=dtype)
    return into(out, _started(pointwise.add, made, initial), "numpy.sum")


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.prod``."""
    dtype = dtype_with(out, a) if dtype is None else dtype
    made = reduction.prod(_masked(a, where, 1), axis, _kept(keepdims), dtype=dtype)
    return into(out, _started(pointwise.multiply, made, initial), "numpy.prod")


def _running(name: str) -> Callable[..., Any]:
    """``numpy.cumsum`` and ``numpy.cumprod``."""
    operator = getattr(reduction, name)

    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        dtype = dtype_with(out, a) if dtype is None else dtype
        return into(out, operator(as_tensor(a), axis, dtype=dtype), f"numpy.{name}")

    call.__name__ = name
    return call


cumsum, cumprod = _running("cumsum"), _running("cumprod")


def _extreme(
    name: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    """The largest or smallest element; `initial` takes part, and stands where nothing else does."""
    tensor = as_tensor(a)
    reduce = getattr(reduction, name)
    pair = pointwise.maximum if name.endswith("max") else pointwise.minimum
    if where is not True and where is not _NONE:
        if not given(initial):
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask "
                f"one has to specify 'initial'"
            )
        _check_mask(where)
        tensor = pointwise._where(
            where, tensor, pointwise._astype(entry(initial, tensor.dtype), tensor.dtype)
        )
    if not given(initial):
        return into(out, reduce(tensor, axis, _kept(keepdims)), f"numpy.{name}")
    start = pointwise._astype(entry(initial, tensor.dtype), tensor.dtype)
    axes = range(tensor.ndim) if axis is None or not tensor.ndim else np.atleast_1d(axis).tolist()
    if 0 in [tensor.shape[i] for i in axes]:
        lengths = reduction.sum(tensor, axis, _kept(keepdims)).shape
        made = shape.reshape(shape.broadcast_to(start, lengths), lengths, copy=True)
    else:
        made = pair(reduce(tensor, axis, _kept(keepdims)), start)
    return into(out, made, f"numpy.{name}")


def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.max``."""
    return _extreme("max", a, axis, out, keepdims, initial, where)


def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.min``."""
    return _extreme("min", a, axis, out, keepdims, initial, where)


def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NONE, *, where: Any = True
) -> Any:
    """``numpy.all``."""
    return into(out, reduction.all(_truth(a, where, True), axis, _kept(keepdims)), "numpy.all")


def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NONE, *, where: Any = True
) -> Any:
    """``numpy.any``."""
    return into(out, reduction.any(_truth(a, where, False), axis, _kept(keepdims)), "numpy.any")


def _truth(a: Any, where: Any, neutral: bool) -> Any:
    masked = where is not True and where is not _NONE
    return _masked(pointwise.not_equal(a, 0), where, neutral) if masked else a


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    *,
    where: Any = True,
) -> Any:
    """``numpy.mean``."""
    if dtype is None and as_tensor(a).dtype.kind in "fc":
        dtype = dtype_with(out, a)
    if where is True or where is _NONE:
        made = reduction.mean(as_tensor(a), axis, _kept(keepdims), dtype=dtype)
    else:
        tensor = as_tensor(a)
        if dtype is None and tensor.dtype.kind in "biu":  # integers of which the sum overflows
            tensor = pointwise._astype(tensor, np.dtype(float))
        total = sum(tensor, axis, dtype, keepdims=keepdims, where=where)
        made = _divide(total, _count(a, where, axis, keepdims))
    return into(out, made, "numpy.mean")


def _freedom(ddof: Any, correction: Any) -> Any:
    if not given(correction):
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NONE,
    *,
    where: Any = True,
    mean: Any = _NONE,
    correction: Any = _NONE,
) -> Any:
    """``numpy.var``; gradients pass through the mean that is given, too."""
    tensor = as_tensor(a)
    tensor = tensor if dtype is None else pointwise._astype(tensor, np.dtype(dtype))
    free = _freedom(ddof, correction)
    if (where is True or where is _NONE) and not given(mean):
        return into(out, reduction.var(tensor, axis, _kept(keepdims), ddof=free), "numpy.var")
    if where is _NONE:
        where = True
    center = mean if given(mean) else _mean_of(tensor, axis, where)
    apart = pointwise.abs(_masked(tensor - center, where, 0))
    total = sum(apart * apart, axis, keepdims=keepdims)
    count = pointwise.maximum(_count(a, where, axis, keepdims) - free, 0)
    return into(out, _divide(total, count), "numpy.var")


def _mean_of(a: Any, axis: Any, where: Any) -> Any:
    return mean(a, axis, keepdims=True, where=where)


def _divide(total: Any, count: Any) -> Any:
    """A sum divided by numbers of elements, in the precision of the sum."""
    if total.dtype.kind in "fc":
        count = pointwise._astype(as_tensor(count), np.finfo(total.dtype).dtype)
    return total / count


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NONE,
    *,
    where: Any = True,
    mean: Any = _NONE,
    correction: Any = _NONE,
) -> Any:
    """``numpy.std``."""
    if (where is True or where is _NONE) and not given(mean):
        tensor = as_tensor(a)
        tensor = tensor if dtype is None else pointwise._astype(tensor, np.dtype(dtype))
        free = _freedom(ddof, correction)
        return into(out, reduction.std(tensor, axis, _kept(keepdims), ddof=free), "numpy.std")
    made = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return into(out, pointwise.sqrt(made), "numpy.std")


# --- without NaN ---------------------------------------------------------------------------------


def _numbers(a: Any, where: Any) -> Any:
    """Mask of the elements that are not NaN and that `where` selects."""
    numbers = pointwise.logical_not(pointwise.isnan(a))
    return numbers if where is True or where is _NONE else pointwise.logical_and(numbers, where)


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.nansum``."""
    return sum(a, axis, dtype, out, keepdims, initial, _numbers(a, where))


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.nanprod``."""
    return prod(a, axis, dtype, out, keepdims, initial, _numbers(a, where))


def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.nanmax``."""
    return _nan_extreme("max", a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    initial: Any = _NONE,
    where: Any = True,
) -> Any:
    """``numpy.nanmin``."""
    return _nan_extreme("min", a, axis, out, keepdims, initial, where)


def _nan_extreme(
    name: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    if not given(initial) and (where is True or where is _NONE):
        made = getattr(reduction, f"nan{name}")(a, axis, _kept(keepdims))
        return into(out, made, f"numpy.nan{name}")
    return _extreme(name, a, axis, out, keepdims, initial, _numbers(a, where))


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NONE,
    *,
    where: Any = True,
) -> Any:
    """``numpy.nanmean``."""
    return mean(a, axis, dtype, out, keepdims, where=_numbers(a, where))


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NONE,
    *,
    where: Any = True,
    mean: Any = _NONE,
    correction: Any = _NONE,
) -> Any:
    """``numpy.nanvar``."""
    free = _freedom(ddof, correction)
    return var(a, axis, dtype, out, free, keepdims, where=_numbers(a, where), mean=mean)


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NONE,
    *,
    where: Any = True,
    mean: Any = _NONE,
    correction: Any = _NONE,
) -> Any:
    """``numpy.nanstd``."""
    free = _freedom(ddof, correction)
    if (where is True or where is _NONE) and not given(mean) and dtype is None:
        return into(out, reduction.nanstd(a, axis, _kept(keepdims), ddof=free), "numpy.nanstd")
    return std(a, axis, dtype, out, free, keepdims, where=_numbers(a, where), mean=mean)
