"""Rules written by hand: reductions by trees, and changes of shape that dask has itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from pullback.dask.array import DASK_BITS, DaskArray, constant, unique_name
from pullback.dask.blocks import Call, run_kernel
from pullback.dask.plans import axes_of, elementwise
from pullback.dispatch.table import ENTRIES
from pullback.tensor.tensor import as_operand, wrap

__all__ = [
    "broadcast_to",
    "constant_pad",
    "diagonal",
    "getitem",
    "getitem_backward",
    "joined",
    "loss",
    "mean",
    "moved",
    "ones_like",
    "parted",
    "reduction",
    "reshape",
    "tie_weights",
    "trace",
    "transposed",
    "var",
    "zeros_like",
]

_Found = list[DaskArray] | None


def _apply(name: str, *args: Any, **kwargs: Any) -> DaskArray:
    """Calls another operator on payloads and numbers."""
    operator = ENTRIES[f"pullback::{name}"].operator
    given, named = operator.bind(
        tuple(wrap(a) if isinstance(a, DaskArray) else a for a in args), kwargs
    )
    found: DaskArray = operator.below(DASK_BITS)(*given, **named)._array
    return found


def _self(call: Call) -> DaskArray:
    held = call.args[0]._array
    assert isinstance(held, DaskArray)
    return held


# --- reductions -----------------------------------------------------------------------------------


class _Reducer:
    """A reduction of the operators on one block, or on the results of several."""

    def __init__(self, name: str, options: dict[str, Any]):
        self.operator = ENTRIES[f"pullback::{name}"].operator
        self.options = options

    def __call__(self, x: Any, axis: Any, keepdims: bool) -> Any:
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        options = {**self.options, "axis": axes, "keepdims": keepdims}
        args, kwargs = self.operator.bind((wrap(np.asarray(x)),), options)
        args = [axes if isinstance(value, list) else value for value in args]
        kwargs = {key: axes if key == "axis" else value for key, value in kwargs.items()}
        return run_kernel(self.operator, args, kwargs)

    def __dask_tokenize__(self) -> str:
        return unique_name("reduce")


def _tree(
    x: DaskArray, axes: Sequence[int], keepdims: bool, dtype: Any, chunk: _Reducer, tree: _Reducer
) -> DaskArray:
    """Reduces blocks, and then their results in groups."""
    shape = tuple(
        1 if axis in axes else n for axis, n in enumerate(x.shape) if keepdims or axis not in axes
    )
    if not axes:
        return DaskArray(da.blockwise(
            chunk, tuple(range(x.ndim)), x.array, tuple(range(x.ndim)), axis=(), keepdims=True,
            name=unique_name("reduce"), dtype=dtype, meta=np.empty((0,) * x.ndim, dtype),
        ), x.shape)  # fmt: skip
    made = da.reduction(
        x.array, chunk, tree, axis=tuple(axes), keepdims=keepdims, dtype=dtype, concatenate=True,
        meta=np.empty((0,) * len(shape), dtype),
    )  # fmt: skip
    return DaskArray(made, shape)


def _repeats(x: DaskArray, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes if x.is_repeated(axis))


def _full_length(x: DaskArray, axes: Sequence[int]) -> DaskArray:
    """The payload without repetition along some axes."""
    pairs = zip(x.shape, x.array.shape, strict=True)
    shape = [n if axis in axes else m for axis, (n, m) in enumerate(pairs)]
    if tuple(shape) == x.array.shape:
        return x
    return DaskArray(da.broadcast_to(x.array, tuple(shape)), x.shape)


def reduction(call: Call) -> _Found:
    """Reductions whose result is the same reduction of their results on blocks."""
    x, (result,) = _self(call), call.results
    if 0 in x.shape:
        return None
    axes = axes_of(call.argument("axis"), x.ndim)
    keepdims = call.argument("keepdims")
    name = call.name
    options: dict[str, Any] = {}
    if name in ("sum", "prod"):
        options = {"dtype": result.dtype}
    if name == "linalg_vector_norm":
        options = {"ord": call.argument("ord")}
        if options["ord"] == 0:
            return None
    if name in ("prod", "linalg_vector_norm"):
        x = _full_length(x, axes)
    combine = "sum" if name == "count_nonzero" else name
    again = _Reducer(combine, {} if name == "count_nonzero" else options)
    found = _tree(x, axes, keepdims, result.dtype, _Reducer(name, options), again)
    times = _repeats(x, axes)
    if times > 1 and name in ("sum", "count_nonzero"):
        found = _apply("mul", found, as_operand(times))
    elif times > 1 and name == "logsumexp":
        found = _apply("add", found, as_operand(math.log(times)))
    return [found]


def mean(call: Call) -> _Found:
    """The sum of all elements, divided by their number."""
    x, (result,) = _self(call), call.results
    axes = axes_of(call.argument("axis"), x.ndim)
    if 0 in x.shape or result.dtype == np.float16:
        return None
    plain = DaskArray(x.array)  # the mean along a repeated axis is that of its only element
    reducer = _Reducer("sum", {"dtype": result.dtype})
    found = _tree(plain, axes, call.argument("keepdims"), result.dtype, reducer, reducer)
    count = math.prod(plain.shape[axis] for axis in axes)
    return [DaskArray(_apply("div", found, as_operand(count)).array, result.shape)]


def var(call: Call) -> _Found:
    """`var` and `std` by two passes: the mean, and the squares of the gaps."""
    x = _self(call)
    axes = axes_of(call.argument("axis"), x.ndim)
    correction = call.argument("correction")
    ddof = call.argument("ddof") if correction is None else correction
    count = math.prod(x.shape[axis] for axis in axes) - ddof
    if 0 in x.shape or count <= 0 or x.dtype.kind not in "fc" or x.dtype == np.float16:
        return None
    mean = _apply("mean", x, list(axes), True)
    gap = _apply("abs", _apply("sub", x, mean))
    total = _apply("sum", _apply("mul", gap, gap), list(axes), call.argument("keepdims"))
    found = _apply("div", total, as_operand(count))
    return [_apply("sqrt", found) if call.name == "std" else found]


def tie_weights(call: Call) -> _Found:
    """Shares of the elements that are the extreme one along axes."""
    x, extreme = (t._array for t in call.tensors())
    if not isinstance(x, DaskArray) or not isinstance(extreme, DaskArray) or 0 in x.shape:
        return None
    axes = axes_of(call.argument("axis"), x.ndim)
    if not call.argument("keepdims"):
        ones = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
        extreme = _apply("reshape", extreme, ones)
    tied = _apply("eq", x, extreme)
    if x.dtype.kind in "fc":
        both = _apply("logical_and", _apply("isnan", x), _apply("isnan", extreme))
        tied = _apply("logical_or", tied, both)
    count = _apply("sum", tied, list(axes), True)
    found = _apply("div", tied, count)
    return [found if found.dtype == call.results[0].dtype else
            _apply("astype", found, call.results[0].dtype)]  # fmt: skip


def loss(call: Call) -> _Found:
    """Losses: element by element, and then the reduction."""
    how = call.argument("reduction")
    if how == "none":
        return elementwise(call)
    options = {**call.kwargs, "reduction": "none"}
    found = _apply(call.name, *call.args, **options)
    if how not in ("mean", "sum"):
        return None
    return [_apply(how, found, None, False)]


def _ints(given: Any) -> tuple[int, ...]:
    """A list of numbers, for which one number may stand."""
    return (given,) if isinstance(given, int) else tuple(given)


# --- shapes ---------------------------------------------------------------------------------------


def zeros_like(call: Call) -> _Found:
    """Zeros without a task for each block."""
    (result,) = call.results
    return [constant(0, result.shape, result.dtype)]


def ones_like(call: Call) -> _Found:
    """Ones without a task for each block."""
    (result,) = call.results
    return [constant(1, result.shape, result.dtype)]


def reshape(call: Call) -> _Found:
    """Axes of length one come and go without a task; other changes are dask's."""
    x, (result,) = _self(call), call.results
    if call.name == "reshape" and call.argument("order") != "C":
        return None
    return _reshaped(x, result.shape)


def _reshaped(x: DaskArray, shape: tuple[int, ...]) -> _Found:
    long = [axis for axis, n in enumerate(x.shape) if n != 1]
    if [x.shape[axis] for axis in long] == [n for n in shape if n != 1]:
        lengths = iter(long)
        index: list[Any] = [slice(None) if n != 1 else 0 for n in x.shape]
        array = x.array[tuple(index)] if 0 in index else x.array
        places = [next(lengths) if n != 1 else None for n in shape]
        if None in places:
            array = array[tuple(None if place is None else slice(None) for place in places)]
        return [DaskArray(array, shape)]
    if 0 in shape:
        return [constant(0, shape, x.dtype)]
    if x.array.size == 1:
        return [DaskArray(x.array.reshape((1,) * len(shape)), shape)]
    try:
        return [DaskArray(x.whole().reshape(shape), shape)]
    except NotImplementedError:  # dask merges and splits axes, and no more
        return None


def transposed(call: Call) -> _Found:
    """Axes in another order."""
    x, (result,) = _self(call), call.results
    order = list(range(x.ndim))
    if call.name == "permute_dims":
        axes = call.argument("axes")
        order = order[::-1] if axes is None else list(axes_of(axes, x.ndim))
    elif call.name == "matrix_transpose":
        order[-2:] = order[:-3:-1]
    elif call.name == "swapaxes":
        a, b = (call.argument(name) % x.ndim for name in ("axis1", "axis2"))
        order[a], order[b] = order[b], order[a]
    else:
        source = axes_of(call.argument("source"), x.ndim)
        target = axes_of(call.argument("destination"), x.ndim)
        order = [axis for axis in order if axis not in source]
        for place, axis in sorted(zip(target, source, strict=True)):
            order.insert(place, axis)
    return [DaskArray(da.transpose(x.array, order), result.shape)]


def broadcast_to(call: Call) -> _Found:
    """New and repeated axes, which cost no tasks."""
    x, (result,) = _self(call), call.results
    new = len(result.shape) - x.ndim
    array = x.array[(None,) * new] if new else x.array
    if 0 in result.shape:
        return [constant(0, result.shape, x.dtype)]
    return [DaskArray(array, result.shape)]


def diagonal(call: Call) -> _Found:
    """`diagonal`, by dask."""
    x, (result,) = _self(call), call.results
    if 0 in result.shape:
        return None
    a, b = (call.argument(name) for name in ("axis1", "axis2"))
    return [DaskArray(da.diagonal(x.whole(), call.argument("offset"), a, b), result.shape)]


def _wholes(call: Call, name: str) -> list[Any]:
    """The tensors of a list as dask arrays of the result's dtype."""
    arrays = []
    for tensor in call.argument(name):
        held = tensor._array
        array = held.whole() if isinstance(held, DaskArray) else np.array(held)
        if not isinstance(held, DaskArray):
            array = da.from_array(array, chunks=-1, name=unique_name("constant"))
        arrays.append(array.astype(call.results[0].dtype))
    return arrays


def joined(call: Call) -> _Found:
    """`concatenate` and `stack`."""
    axis = call.argument("axis")
    if axis is None:
        return None
    join = da.concatenate if call.name == "concatenate" else da.stack
    return [DaskArray(join(_wholes(call, "tensors"), axis=axis), call.results[0].shape)]


def parted(call: Call) -> _Found:
    """`split` and `unbind`."""
    x = _self(call)
    axis = call.argument("axis") % x.ndim
    lengths = [1 if call.name == "unbind" else result.shape[axis] for result in call.results]
    if sum(lengths) != x.shape[axis]:
        return None
    found, begin = [], 0
    for n, result in zip(lengths, call.results, strict=True):
        span: Any = begin if call.name == "unbind" else slice(begin, begin + n)
        if x.is_repeated(axis):
            span = 0 if call.name == "unbind" else slice(None)
        found.append(DaskArray(x.array[(slice(None),) * axis + (span,)], result.shape))
        begin += n
    return found


def moved(call: Call) -> _Found:
    """Operators that dask has with the same arguments."""
    x, (result,) = _self(call), call.results
    if 0 in result.shape:
        return None
    array = x.whole()
    if call.name == "flip":
        array = da.flip(array, axes_of(call.argument("axis"), x.ndim))
    elif call.name == "roll":
        axis, shift = call.argument("axis"), call.argument("shift")
        if axis is None:
            return None
        array = da.roll(array, _ints(shift), _ints(axis))
    elif call.name == "tile":
        array = da.tile(array, _ints(call.argument("reps")))
    elif call.name == "repeat":
        repeats, axis = _ints(call.argument("repeats")), call.argument("axis")
        if axis is None or len(repeats) != 1:
            return None
        array = da.repeat(array, repeats[0], axis)
    else:
        array = getattr(da, call.name)(array, call.argument("k"))
    return [DaskArray(array, result.shape)]


def constant_pad(call: Call) -> _Found:
    """Blocks of a number around an array."""
    x, (result,) = _self(call), call.results
    widths, values = call.argument("widths"), call.argument("values")
    if any(n < 0 for n in widths) or 0 in x.shape:
        return None
    array = x.whole()
    for axis in reversed(range(x.ndim)):  # later axes first: earlier ones fill less
        array = _padded(array, axis, widths[2 * axis : 2 * axis + 2], values[2 * axis :])
    return [DaskArray(array.astype(result.dtype), result.shape)]


def _padded(array: Any, axis: int, widths: Sequence[int], values: Sequence[Any]) -> Any:
    """Blocks of one number before and after an axis."""
    if not any(widths):
        return array
    parts = [array]
    for place, (width, value) in enumerate(zip(widths, values, strict=False)):
        if width:
            chunks = (*array.chunks[:axis], (width,), *array.chunks[axis + 1 :])
            shape = tuple(map(sum, chunks))
            made = da.full(shape, value, dtype=array.dtype, chunks=chunks, name=unique_name("pad"))
            parts.insert(len(parts) * place, made)
    return da.concatenate(parts, axis=axis)


# --- indexing -------------------------------------------------------------------------------------


def _full_index(index: Any, ndim: int) -> list[Any]:
    """A basic index with one entry for each axis, and None for new ones."""
    listed = list(index) if isinstance(index, tuple | list) else [index]
    used = sum(1 for i in listed if i is not None and i is not Ellipsis)
    spread: list[Any] = [slice(None)] * (ndim - used)
    if any(i is Ellipsis for i in listed):
        place = next(n for n, i in enumerate(listed) if i is Ellipsis)
        return listed[:place] + spread + listed[place + 1 :]
    return listed + spread


def getitem(call: Call) -> _Found:
    """Basic indexing: numbers, slices and new axes."""
    x, (result,) = _self(call), call.results
    if 0 in result.shape:
        return [constant(0, result.shape, x.dtype)]
    found: list[Any] = []
    axis = 0
    for i in _full_index(call.argument("index"), x.ndim):
        if i is None:
            found.append(None)
            continue
        repeated = x.is_repeated(axis)
        if isinstance(i, slice):
            found.append(slice(None) if repeated else i)
        else:
            found.append(0 if repeated else int(i))
        axis += 1
    return [DaskArray(x.array[tuple(found)], result.shape)]


class _Unslice:
    """Zeros of a length, with the elements at a slice given; of blocks with a whole axis."""

    def __init__(self, axis: int, length: int, where: slice):
        self.axis, self.length, self.where = axis, length, where

    def __call__(self, x: Any) -> Any:
        shape = (*x.shape[: self.axis], self.length, *x.shape[self.axis + 1 :])
        made = np.zeros(shape, x.dtype)
        made[(slice(None),) * self.axis + (self.where,)] = x
        return made

    def __dask_tokenize__(self) -> str:
        return unique_name("unslice")


def getitem_backward(call: Call) -> _Found:
    """Zeros around the elements that a basic index has picked."""
    x, (result,) = _self(call), call.results
    shape = result.shape
    if 0 in shape or 0 in x.shape:
        return [constant(0, shape, x.dtype)] if 0 in x.shape else None
    index = _full_index(call.argument("index"), len(shape))
    keep: list[Any] = []  # the axes of the operand in terms of the result
    for i in index:
        if i is None:
            keep.append(0)
        elif isinstance(i, slice):
            keep.append(slice(None))
    place = 0
    expanded: list[Any] = []
    held = x.array[tuple(keep)] if 0 in keep else x.array
    full = [n for n, k in zip(x.shape, keep, strict=True) if isinstance(k, slice)]
    lengths: list[int] = []
    for i in (i for i in index if i is not None):
        if isinstance(i, slice):
            expanded.append(slice(None))
            lengths.append(full[place])
            place += 1
        else:
            expanded.append(None)
            lengths.append(1)
    held = held[tuple(expanded)] if None in expanded else held
    for axis, i in enumerate(i for i in index if i is not None):
        n = shape[axis]
        begin, end, step = i.indices(n) if isinstance(i, slice) else (i % n, i % n + 1, 1)
        if lengths[axis] == n and step == 1:
            continue
        if held.shape[axis] != lengths[axis]:
            grown = (*held.shape[:axis], lengths[axis], *held.shape[axis + 1 :])
            held = da.broadcast_to(held, grown)
        if step == 1:
            held = _padded(held, axis, (begin, n - begin - lengths[axis]), (0, 0))
            continue
        held = held.rechunk({axis: -1})
        chunks = (*held.chunks[:axis], (n,), *held.chunks[axis + 1 :])
        where = slice(begin, None if end < 0 else end, step)
        held = held.map_blocks(_Unslice(axis, n, where), chunks=chunks, dtype=held.dtype,
                               meta=held._meta, name=unique_name("unslice"))  # fmt: skip
    return [DaskArray(held, shape)]


def trace(call: Call) -> _Found:
    """The sum of a diagonal."""
    x, (result,) = _self(call), call.results
    axes = (call.argument("axis1"), call.argument("axis2"))
    lines = DaskArray(da.diagonal(x.whole(), call.argument("offset"), *axes))
    if 0 in lines.shape:
        return None
    return [_apply("sum", lines, [-1], False, dtype=result.dtype)]
