"""Kernels that read or write elements at integer indices or boolean masks.

Functions whose name ends in an underscore write to their first argument and return it; they check
everything before they write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any, TypeVar, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import NDArray

from pullback.errors import InplaceError
from pullback.kernels.layout import copy_in_order
from pullback.kernels.platform import NUMPY

__all__ = [
    "Array",
    "Indices",
    "check_index",
    "check_reduction",
    "copy_",
    "fill_",
    "gather",
    "getitem",
    "getitem_backward",
    "index",
    "index_add",
    "index_put",
    "index_put_",
    "last_writes",
    "masked_fill",
    "picked_sums",
    "put_along_axis",
    "put_grid",
    "reach",
    "scatter",
    "scatter_add",
    "scatter_grid",
    "scatter_reduce",
    "take_along_axis",
    "zero_",
]

Array = NDArray[Any]
Indices = Sequence[Array | None]

_F = TypeVar("_F", bound=Callable[..., Array])

_FLOAT64 = np.dtype(np.float64)
_INTP = np.dtype(np.intp)
_ndarray = np.ndarray  # a global: looking up a name in NumPy's module is slow


def getitem(x: Array, index: Any) -> Array:
    """Basic indexing; an array even where NumPy would return a scalar."""
    result = x[index]
    return result if type(result) is _ndarray else x[(*index, Ellipsis)]


def getitem_backward(grad: Array, shape: Sequence[int], index: Any) -> Array:
    """Zeros of a shape, with the elements at an index given."""
    result = np.zeros(shape, grad.dtype)
    result[index] = grad
    return result


def _whole(indices: Indices) -> tuple[Any, ...]:
    """The index as NumPy writes it: None among our indices takes the whole axis."""
    return tuple(slice(None) if i is None else i for i in indices)


def _in_order(indices: Indices) -> tuple[Any, ...]:
    """The index of an assignment, such that the last of several values for one element remains.

    NumPy walks through index arrays in the order of memory. Where that order is another, as in a
    reversed view, a copy gives the order of the elements.
    """
    return tuple(
        slice(None) if i is None else i if i.flags.c_contiguous else np.ascontiguousarray(i)
        for i in indices
    )


def last_writes(shape: Sequence[int], indices: Indices) -> Array | None:
    """A mask of the values of an assignment that no later value overwrites; None if all remain.

    The mask broadcasts to the shape of the elements at the index. Masks and single integers name no
    element twice, so nothing is computed for them. For the others, each value is numbered, and the
    numbers are assigned to the same index and read back.

    >>> last_writes((3,), [np.array([0, -3, 1])])
    array([False,  True,  True])
    """
    given = [i for i in indices if i is not None]
    integers = [i for i in given if i.dtype.kind != "b"]
    if all(i.size <= 1 for i in integers) or (len(integers) == 1 and _is_rising(integers[0])):
        return None
    lengths: list[int] = []  # of the indexed axes; 1 for the others, which do not matter
    for i in indices:
        axes = 1 if i is None or i.dtype.kind != "b" else i.ndim
        lengths += [1] if i is None else shape[len(lengths) : len(lengths) + axes]
    lengths += [1] * (len(shape) - len(lengths))
    where = _in_order(indices)
    if len(integers) == len(given):  # no duplicates: found by counting, in a third of the time
        named = np.zeros(lengths, bool)
        named[where] = True
        if np.count_nonzero(named) == prod(np.broadcast_shapes(*(i.shape for i in given))):
            return None
    owners = np.empty(lengths, np.intp)
    numbers = owners[where]
    numbers = np.arange(numbers.size).reshape(numbers.shape)
    owners[where] = numbers
    return np.asarray(owners[where] == numbers)


def _is_rising(places: Array) -> bool:
    """Whether indices rise strictly, and all count from the same end of the axis."""
    if places.ndim != 1 or not (places[0] >= 0 or places[-1] < 0):
        return False
    return bool((places[1:] > places[:-1]).all())


def _check_empty(function: _F) -> _F:
    """A decorator: the indices of an array without elements are checked, too.

    NumPy checks them itself since version 2.3; before that it warns, and returns an empty result.
    """
    if NUMPY >= (2, 3):
        return function

    @wraps(function)
    def call(x: Array, indices: Indices, *args: Any, **kwargs: Any) -> Array:
        if not x.size:
            _check_bounds(x.shape, indices)
        return function(x, indices, *args, **kwargs)

    return cast(_F, call)


def _check_bounds(shape: tuple[int, ...], indices: Indices) -> None:
    """Raises for integers outside of their axis; NumPy itself raises for too many indices."""
    axis = 0
    for places in indices:
        is_mask = places is not None and places.dtype == bool
        if places is not None and not is_mask and axis < len(shape):
            size = shape[axis]
            wrong = places[(places < -size) | (places >= size)]
            if wrong.size:
                raise IndexError(
                    f"index {wrong[0]} is out of bounds for axis {axis} with size {size}"
                )
        axis += places.ndim if places is not None and is_mask else 1


@_check_empty
def index(x: Array, indices: Indices) -> Array:
    """The elements at arrays of integers or truth values."""
    if len(indices) > 1 and type(last := indices[-1]) is np.ndarray and last.dtype is _INTP:
        axis = len(indices) - 1
        # Empty arrays and too many indices are left to NumPy's indexing, which raises the error.
        if x.size and axis < x.ndim and all(i is None for i in indices[:axis]):
            # `take` is faster, and lays the result out in memory in the order of its axes.
            return x.take(last, axis)
    return np.asarray(x[_whole(indices)])


def index_put(x: Array, indices: Indices, values: Array, accumulate: bool = False) -> Array:
    """A copy with some elements replaced or added to."""
    dtype = np.result_type(x, values) if accumulate else x.dtype
    return _put(copy_in_order(x, dtype), indices, values, accumulate)


def index_put_(x: Array, indices: Indices, values: Array, accumulate: bool = False) -> Array:
    """Replaces some elements, or adds to them."""
    _check_distinct(x, "index_put_")
    return _put(x, indices, values, accumulate)


def _check_distinct(x: Array, name: str) -> None:
    """Refuses to write where several elements share memory."""
    steps = zip(x.shape, x.strides, strict=True)
    if x.size and any(stride == 0 and n > 1 for n, stride in steps):
        raise InplaceError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers "
            f"to a single memory location. clone() the tensor before writing to it."
        )


@_check_empty
def _put(x: Array, indices: Indices, values: Array, accumulate: bool) -> Array:
    if not accumulate:
        x[_in_order(indices)] = values
        return x
    where = _whole(indices)
    if any(i is not None and i.dtype != bool for i in indices):
        _add_at(x, indices, where, np.asarray(values))
    else:  # truth values name no element twice
        x[where] += values
    return x


def _add_at(x: Array, indices: Indices, where: tuple[Any, ...], values: Array) -> None:
    """Adds values at an index; elements that it names twice are added to twice."""
    lead = next(axis for axis, i in enumerate(indices) if i is not None)
    given = [i for i in indices[lead:] if i is not None and i.dtype.kind in "iu"]
    end = lead + len(given)
    if end != len(indices) or not x.flags.c_contiguous or not x.size:
        np.add.at(x, where, values)
        return
    # NumPy's loop over single numbers is several times faster than that over parts of an array.
    lengths = x.shape[lead:end]
    picked = _picked(given, lengths)
    if picked is None:
        np.add.at(x, where, values)  # raises the error
        return
    before, after = x.shape[:lead], x.shape[end:]
    flat = picked.reshape(-1)
    if before:
        flat = (np.arange(prod(before)).reshape(-1, 1) * prod(lengths) + flat).reshape(-1)
    if after:
        flat = (flat.reshape(-1, 1) * prod(after) + np.arange(prod(after))).reshape(-1)
    shape = before + picked.shape + after
    spread = values if values.shape == shape else np.broadcast_to(values, shape)
    np.add.at(x.reshape(-1), flat, spread.reshape(-1))


def _picked(given: list[Array], lengths: tuple[int, ...]) -> Array | None:
    """The places that an index names, as numbers in the order of memory; None if one is outside."""
    if len(given) == 1 and given[0].size:
        (places,), (length,) = given, lengths
        low, high = int(np.minimum.reduce(places, None)), int(np.maximum.reduce(places, None))
        if not -length <= low <= high < length:
            return None
        places = places.astype(np.intp, copy=False)
        return places if low >= 0 else np.where(places < 0, places + length, places)
    try:
        wrapped = [np.where(i < 0, i + n, i) for i, n in zip(given, lengths, strict=True)]
        return np.asarray(np.ravel_multi_index(tuple(wrapped), lengths))
    except ValueError:
        return None


def picked_sums(values: Array, shape: tuple[int, ...], indices: Indices) -> Array | None:
    """Zeros of a shape, with values added at an index that is one array of integers; else None.

    ``np.bincount`` is two to four times as fast as ``np.add.at``, but only for double precision.

    >>> picked_sums(np.array([1.0, 2.0, 4.0]), (3,), [np.array([0, 2, 0])])
    array([5., 0., 2.])
    """
    axis = len(indices) - 1
    places = indices[axis]
    if places is None or places.dtype.kind not in "iu" or not values.size:
        return None
    if values.dtype is not _FLOAT64 or any(i is not None for i in indices[:axis]):
        return None
    length, before, after = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    flat = places.astype(_INTP, copy=False).reshape(-1)
    if np.minimum.reduce(flat) < 0:
        flat = np.where(flat < 0, flat + length, flat)
    if before > 1:
        flat = (np.arange(0, before * length, length).reshape(-1, 1) + flat).reshape(-1)
    if after > 1:
        flat = (flat.reshape(-1, 1) * after + np.arange(after)).reshape(-1)
    return np.bincount(flat, values.reshape(-1), before * length * after).reshape(shape)


def copy_(x: Array, src: Any) -> Array:
    """The values that overwrite a tensor, in its dtype."""
    if type(src) is not np.ndarray and not isinstance(src, np.ndarray):
        return np.asarray(src, x.dtype)  # a Python number that does not fit raises here
    is_apart = src.base is None and x is not src and x.base is not src  # as most sources are
    if not is_apart and np.may_share_memory(x, src) and _overlaps(x, src):
        raise InplaceError(
            "copy_: unsupported operation: some elements of the input tensor and the written-to "
            "tensor refer to a single memory location. clone() the input before writing."
        )
    return src if src.dtype is x.dtype else src.astype(x.dtype, copy=False)


def _overlaps(x: Array, src: Array) -> bool:
    """Whether two arrays share some memory, other than all of it in the same places."""
    if x.__array_interface__["data"] == src.__array_interface__["data"] and (
        x.strides == src.strides and x.shape == src.shape
    ):
        return False
    try:
        return np.shares_memory(x, src, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:  # then no error: NumPy copies correctly in any case
        return False


def fill_(x: Array, value: Any) -> Array:
    """Overwrites all elements with one number."""
    if np.ndim(value):
        raise ValueError(f"fill_: the value must be one number, not of shape {np.shape(value)}")
    if isinstance(value, np.ndarray):  # its gradient would be counted once for each repetition
        _check_distinct(x, "fill_")
    x[...] = value
    return x


def zero_(x: Array) -> Array:
    """Overwrites all elements with zero."""
    x[...] = 0
    return x


def masked_fill(x: Array, mask: Array, value: Array) -> Array:
    """A copy with one number wherever a mask is true."""
    if np.ndim(value):
        raise ValueError(
            f"masked_fill: the value must be one number, not of shape {np.shape(value)}"
        )
    if np.asarray(mask).dtype != bool:
        raise TypeError(f"masked_fill: the mask must be of bool, not of {np.asarray(mask).dtype}")
    value = np.asarray(value).astype(x.dtype)
    return np.where(mask, value, x)


def _grid(lengths: Sequence[int], axis: int, indices: Array) -> tuple[Any, ...]:
    """The index that pairs each index along one axis with its own place along the others."""
    if not np.issubdtype(indices.dtype, np.integer):
        raise IndexError(f"the indices must be integers, not {indices.dtype}")
    grid: list[Array] = []
    for a, n in enumerate(lengths):
        spread = (1,) * a + (-1,) + (1,) * (len(lengths) - a - 1)
        grid.append(indices if a == axis else np.arange(n).reshape(spread))
    return tuple(grid)


def take_along_axis(x: Array, indices: Array, axis: int | None = -1) -> Array:
    """One element for each index."""
    return np.take_along_axis(np.asarray(x), np.asarray(indices), axis)


def put_along_axis(
    x: Array, indices: Array, values: Any, axis: int | None = -1, accumulate: bool = False
) -> Array:
    """A copy with one element for each index replaced or added to."""
    dtype = np.result_type(x, values) if accumulate else x.dtype
    result = np.array(x, dtype=dtype, order="C")
    target = result.reshape(-1) if axis is None else result
    _put(target, put_grid(target.shape, indices, axis), values, accumulate)
    return result


def put_grid(lengths: Sequence[int], indices: Array, axis: int | None) -> tuple[Any, ...]:
    """The index of `put_along_axis` for a tensor of some lengths, which for axis None is flat."""
    place = 0 if axis is None else normalize_axis_index(axis, len(lengths))
    if indices.ndim != len(lengths):
        raise ValueError(
            f"put_along_axis: indices of shape {indices.shape} must have as many axes as the "
            f"tensor of shape {tuple(lengths)}"
        )
    return _grid(lengths, place, indices)


def check_index(name: str, x: Any, axis: int, index: Any) -> int:
    """Refuses an index that has more places along other axes than the tensor; gives the axis."""
    if not -max(x.ndim, 1) <= axis < max(x.ndim, 1):
        raise np.exceptions.AxisError(axis, x.ndim, name)
    axis %= max(x.ndim, 1)
    pairs = enumerate(zip(index.shape, x.shape, strict=False))
    if max(index.ndim, 1) != max(x.ndim, 1) or any(n > m for a, (n, m) in pairs if a != axis):
        raise ValueError(
            f"{name}: an index of shape {index.shape} does not fit a tensor of shape {x.shape} "
            f"along axis {axis}; the other axes may not be longer"
        )
    if not np.issubdtype(index.dtype, np.integer):
        raise IndexError(f"{name}: the indices must be integers, not {index.dtype}")
    return axis


def scatter_grid(name: str, x: Array, axis: int, index: Array) -> tuple[Any, ...]:
    """As `_grid`, for an index that may be shorter than the tensor along the other axes.

    A tensor or an index without axes counts as a vector of one element, as in PyTorch.
    """
    axis = check_index(name, x, axis, index)
    index = _as_vector(index)
    return _grid(index.shape, axis, index)


def _as_vector(x: Array) -> Array:
    """A number as a vector that shares its memory; what has axes is returned as it is."""
    return x if x.ndim else x.reshape(1)


def gather(x: Array, axis: int, index: Array) -> Array:
    """One element for each index."""
    picked = np.asarray(_as_vector(x)[scatter_grid("gather", x, axis, index)])
    return picked if index.ndim else picked.reshape(())


def scatter(x: Array, axis: int, index: Array, src: Any) -> Array:
    """A copy with one element for each index replaced."""
    grid = scatter_grid("scatter", x, axis, index)
    result = copy_in_order(x)
    _put(_as_vector(result), grid, src, accumulate=False)
    return result


def scatter_add(x: Array, axis: int, index: Array, src: Any) -> Array:
    """A copy with one element for each index added to."""
    grid = scatter_grid("scatter_add", x, axis, index)
    result = copy_in_order(x, np.result_type(x, src))
    _put(_as_vector(result), grid, src, accumulate=True)
    return result


# What combines two elements of a group, and a number that changes nothing, where there is one.
_REDUCTIONS: dict[str, tuple[np.ufunc, int | None]] = {
    "sum": (np.add, 0),
    "prod": (np.multiply, 1),
    "mean": (np.add, 0),
    "amax": (np.maximum, None),
    "amin": (np.minimum, None),
}


def check_reduction(reduce: str, dtype: np.dtype[Any]) -> None:
    """Refuses a name that is no reduction, and one that has no meaning for the elements."""
    if reduce not in _REDUCTIONS:
        raise ValueError(
            f"scatter_reduce: reduce must be one of {', '.join(_REDUCTIONS)}, not {reduce!r}"
        )
    if dtype.kind == "c" and reduce in ("amax", "amin"):
        raise TypeError(f"scatter_reduce: {dtype} has no order, so that {reduce} is not defined")
    if dtype.kind == "b" and reduce == "mean":
        raise TypeError("scatter_reduce: mean is not defined for bool; cast to numbers first")


def reach(lengths: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """The beginning of an array of some lengths, as far as an index of a shape reaches."""
    if len(lengths) != len(shape):
        return ()
    return tuple(slice(m if n > m else None) for n, m in zip(lengths, shape, strict=True))


def scatter_reduce(
    x: Array, axis: int, index: Array, src: Any, reduce: str, *, include_self: bool = True
) -> Array:
    """A copy in which each element is combined with those of a source whose index names it."""
    src = np.asarray(src)
    result = copy_in_order(x, np.result_type(x, src))
    check_reduction(reduce, result.dtype)
    grid = scatter_grid("scatter_reduce", x, axis, index)
    src = src[reach(src.shape, index.shape)]
    combine, neutral = _REDUCTIONS[reduce]
    if not include_self:  # a number that is combined with itself changes no extreme
        _as_vector(result)[grid] = src if neutral is None else neutral
    combine.at(_as_vector(result), grid, src)
    if reduce == "mean":
        count = np.full(x.shape, int(include_self))
        np.add.at(_as_vector(count), grid, 1)
        divide = np.floor_divide if result.dtype.kind in "iu" else np.true_divide
        divide(result, np.maximum(count, 1), out=result, casting="unsafe")
    return result


def index_add(x: Array, axis: int, index: Array, source: Any) -> Array:
    """A copy with slices of one axis added to."""
    if index.ndim != 1:
        raise ValueError(f"index_add: the index must have one axis, its shape is {index.shape}")
    axis = normalize_axis_index(axis, x.ndim)
    result = copy_in_order(x, np.result_type(x, source))
    return _put(result, [*[None] * axis, index], source, accumulate=True)
