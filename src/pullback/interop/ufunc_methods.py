"""``np.add.reduce``, ``accumulate``, ``outer``, ``reduceat`` and ``at`` on tensors.

Sums, products, extremes and the like have operators of their own. Every other function of two
arguments is folded step by step, as NumPy defines these methods, so all of them differentiate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback.interop import reductions
from pullback.interop.adapt import into, typed
from pullback.interop.arguments import as_tensor, given, holds_gradient, lost_in_array, plain
from pullback.interop.ufuncs import UFUNCS, ufunc_name
from pullback.tensor.methods.indexing import getitem, setitem
from pullback.tensor.tensor import Tensor

__all__ = ["METHODS"]

_REDUCE: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.logical_and: reductions.all,
    np.logical_or: reductions.any,
}
_ACCUMULATE: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: reduction.cumsum,
    np.multiply: reduction.cumprod,
    np.maximum: lambda x, axis: reduction.cummax(x, axis)[0],
    np.minimum: lambda x, axis: reduction.cummin(x, axis)[0],
}


def _two_arguments(ufunc: np.ufunc, method: str) -> None:
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError(f"{method} only supported for binary functions")


def _folding_dtypes(ufunc: np.ufunc, tensor: Tensor, dtype: Any) -> tuple[Any, Any]:
    """The dtypes of the result and of the elements in a fold by NumPy, which raises for some."""
    signature = (None if dtype is None else np.dtype(dtype), None, None)
    found = ufunc.resolve_dtypes((None, tensor.dtype, None), signature=signature, reduction=True)
    return found[0], found[1]


def _axes(axis: Any, ndim: int) -> list[int]:
    """Axes as numbers from zero, the last first."""
    if axis is None or (not ndim and axis in (0, -1)):  # which NumPy allows for a number
        return [*range(ndim)][::-1]
    return sorted(normalize_axis_tuple(axis, ndim), reverse=True)


def _reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    _two_arguments(ufunc, "reduce")
    tensor = as_tensor(array)
    known = _REDUCE.get(ufunc)
    if given(initial) and ufunc in (np.logical_and, np.logical_or):
        known = None
    if known is None:
        result = _folded(ufunc, tensor, axis, dtype, keepdims, initial, where)
    else:
        if initial is None:
            _check_not_empty(ufunc, tensor, axis)
        options: dict[str, Any] = {"initial": initial} if given(initial) else {}
        if where is not True:
            options["where"] = where
        if ufunc in (np.add, np.multiply):
            options["dtype"] = reductions.dtype_with(out, array) if dtype is None else dtype
        elif ufunc in (np.maximum, np.minimum):
            tensor = typed(tensor, dtype)
        result = known(tensor, axis=axis, keepdims=keepdims, **options)
    return into(out, result, f"{ufunc_name(ufunc)}.reduce")


def _check_not_empty(ufunc: np.ufunc, tensor: Tensor, axis: Any) -> None:
    """Raises for a reduction over an axis of length zero, which has no first element."""
    if 0 in [tensor.shape[a] for a in _axes(axis, tensor.ndim)]:
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
        )


def _folded(
    ufunc: np.ufunc,
    tensor: Tensor,
    axis: Any,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Tensor:
    """All elements of some axes, combined from the first to the last."""
    axes = sorted(_axes(axis, tensor.ndim))
    kind, element_kind = _folding_dtypes(ufunc, tensor, dtype)
    if len(axes) > 1:  # which NumPy refuses where the order of the elements matters
        ufunc.reduce(np.ones((1,) * tensor.ndim, element_kind), axis=tuple(axes))
    start = initial if given(initial) else ufunc.identity if initial is np._NoValue else None
    if start is None and where is not True:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where "
            f"mask one has to specify 'initial'"
        )
    tensor = typed(tensor, element_kind)
    parts, masks = _lines(tensor, axes), [True]
    if where is not True:
        masks = _lines(shape.broadcast_to(as_tensor(where), tensor.shape), axes)
    # An identity may change the result of one element: hypot(0, -3) is 3. One that is infinite,
    # of logaddexp, does not, but its derivative is not defined beside another infinity.
    begins = not parts or (len(parts) == 1 and start != -np.inf)
    if start is not None and (given(initial) or where is not True or begins):
        lengths = tuple(n for i, n in enumerate(tensor.shape) if i not in axes)
        first = typed(start, kind)
        parts, masks = [shape.broadcast_to(first, lengths), *parts], [True, *masks]
    if not parts:
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
        )
    result = typed(parts[0], kind)
    for part, mask in zip(
        parts[1:], itertools.chain(masks[1:], itertools.repeat(True)), strict=False
    ):
        new = typed(UFUNCS[ufunc](result, part), kind)
        result = new if mask is True else pointwise._where(mask, new, result)
    return shape.expand_dims(result, tuple(axes)) if keepdims else result


def _lines(tensor: Tensor, axes: list[int]) -> list[Any]:
    """The slices at every place of some axes, in NumPy's order: the first axis runs fastest."""
    parts = [tensor]
    for removed, axis in enumerate(axes):
        parts = [piece for part in parts for piece in shape.unbind(part, axis - removed)]
    return parts


def _one_axis(ufunc: np.ufunc, method: str, axis: Any, ndim: int) -> int:
    """The only axis of a method that has no order of elements along several ones."""
    axes = _axes(axis, ndim)
    if not ndim:
        raise TypeError(f"cannot {method} on a scalar")
    if len(axes) != 1:
        raise ValueError(f"{ufunc_name(ufunc)}.{method} does not allow multiple axes")
    return axes[0]


def _accumulate(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    _two_arguments(ufunc, "accumulate")
    tensor = as_tensor(array)
    axis = _one_axis(ufunc, "accumulate", axis, tensor.ndim)
    known = _ACCUMULATE.get(ufunc)
    if known is not None:
        result = known(typed(tensor, dtype), axis=axis)
    else:
        kind, element_kind = _folding_dtypes(ufunc, tensor, dtype)
        kept: list[Tensor] = []
        for part in shape.unbind(typed(tensor, element_kind), axis):
            kept.append(typed(UFUNCS[ufunc](kept[-1], part) if kept else part, kind))
        result = shape.stack(kept, axis) if kept else typed(tensor, kind)
    return into(out, result, f"{ufunc_name(ufunc)}.accumulate")


def _reduceat(
    ufunc: np.ufunc, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    _two_arguments(ufunc, "reduceat")
    tensor = as_tensor(array)
    axis = _one_axis(ufunc, "reduceat", axis, tensor.ndim)
    places = np.asarray(plain(indices)).tolist()
    length = tensor.shape[axis]
    parts = []
    for start, stop in zip(places, [*places[1:], length], strict=False):
        if not 0 <= start < length:
            raise IndexError(
                f"index {start} out-of-bounds in {ufunc.__name__}.reduceat [0, {length})"
            )
        stop = stop if stop > start else start + 1  # NumPy's rule for places that do not rise
        piece = getitem(tensor, (slice(None),) * axis + (slice(start, stop),))
        # As in NumPy, a piece starts with its first element, not with an identity.
        parts.append(_reduce(ufunc, piece, axis, dtype, initial=None))
    if parts:
        made = shape.stack(parts, axis)
    else:
        made = typed(getitem(tensor, (slice(None),) * axis + (slice(0),)), dtype)
    return into(out, made, f"{ufunc_name(ufunc)}.reduceat")


def _outer(ufunc: np.ufunc, first: Any, second: Any, **options: Any) -> Any:
    _two_arguments(ufunc, "outer")
    a, b = as_tensor(first), as_tensor(second)
    return ufunc(shape.reshape(a, a.shape + (1,) * b.ndim), b, **options)


def _at(ufunc: np.ufunc, array: Any, indices: Any, values: Any = None) -> None:
    """Writes in place; an element that is named twice is written to twice."""
    if not isinstance(array, Tensor):
        if holds_gradient(values):
            raise lost_in_array(f"{ufunc_name(ufunc)}.at")
        ufunc.at(array, plain(indices), *([] if values is None else [plain(values)]))
        return
    function = UFUNCS[ufunc]
    entries = indices if isinstance(indices, tuple) else (indices,)
    is_sum = ufunc in (np.add, np.subtract) and _is_exact_in(array.dtype, values)
    if is_sum and entries and all(map(_has_integers, entries)):
        # Places that are data stay data: a graph of the program is right for others, too.
        change = _change(ufunc, as_tensor(values), array.dtype)
        indexing.index_put_(array, [as_tensor(entry) for entry in entries], change, accumulate=True)
        return
    places = np.asarray(np.arange(array.size).reshape(array.shape)[plain(indices)])
    flat = places.reshape(-1)
    operands = []
    if values is not None:
        spread = shape.broadcast_to(as_tensor(values), places.shape)
        operands.append(shape.reshape(spread, -1))
    if not array.ndim:
        array = shape.reshape(array, 1)  # a view, whose element can be named more than once
    if is_sum:
        change = _change(ufunc, operands[0], array.dtype)
        numbers = [as_tensor(i) for i in np.unravel_index(flat, array.shape)]
        indexing.index_put_(array, numbers, change, accumulate=True)
        return
    ranks = _ranks(flat)
    for rank in range(int(ranks.max(initial=-1)) + 1):
        turn = np.flatnonzero(ranks == rank)
        where = np.unravel_index(flat[turn], array.shape)
        new = function(getitem(array, where), *(indexing.take(v, turn) for v in operands))
        setitem(array, where, pointwise._astype(new, array.dtype))


def _is_exact_in(dtype: np.dtype[Any], values: Any) -> bool:
    """Whether values can be converted before they are added, and not each sum after it.

    NumPy adds 0.5 to an element of integers as a float and truncates each sum.
    """
    if values is None or dtype.kind == "b":
        return False
    kind = np.result_type(dtype, as_tensor(values).dtype).kind
    return kind == dtype.kind or {kind, dtype.kind} == {"i", "u"}


def _change(ufunc: np.ufunc, values: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """The values to add, converted before the sign, which truth values and unsigned ones lack."""
    values = pointwise._astype(values, dtype)
    return values if ufunc is np.add else pointwise.negative(values)


def _has_integers(index: Any) -> bool:
    if isinstance(index, Tensor | np.ndarray):
        return index.dtype.kind in "iu"
    return isinstance(index, int | np.integer) and not isinstance(index, bool)


def _ranks(flat: Any) -> Any:
    """The number of earlier occurrences of each index; equal ranks can be written together."""
    order = np.argsort(flat, kind="stable")
    run = flat[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, run.size), bool), run[1:] != run[:-1]]))
    lengths = np.diff(np.append(starts, run.size))
    ranks = np.empty_like(flat)
    ranks[order] = np.arange(run.size) - np.repeat(starts, lengths)
    return ranks


METHODS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "reduceat": _reduceat,
    "outer": _outer,
    "at": _at,
}
