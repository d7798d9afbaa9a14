"""NumPy's functions that take arrays apart, join them, or apply a function along axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_shape as shape
from pullback._generated import functions_sorting as sorting
from pullback.interop.adapt import cast, into, typed
from pullback.interop.arguments import as_tensor, common_dtype, plain, raw, wrapped
from pullback.interop.views import einsum_view
from pullback.operators import array_functions
from pullback.operators.creation import functions_ranges as ranges
from pullback.operators.products import composites_einsum as einsums
from pullback.operators.shape import functions_padding as padding
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["append", "apply_along_axis", "apply_over_axes", "atleast_1d", "atleast_2d"]
__all__ += ["atleast_3d", "block", "broadcast_arrays", "choose", "dot", "einsum", "gradient"]
__all__ += ["intersect1d", "ix_", "meshgrid", "ndim", "nonzero", "pad", "piecewise", "select"]
__all__ += ["setdiff1d", "setxor1d", "shape_of", "size", "trim_zeros", "union1d", "unique"]
__all__ += ["unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "where"]


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """``numpy.where``: a choice, or with one argument the places where it holds."""
    if x is None and y is None:
        return tuple(sorting.nonzero(condition))
    return pointwise._where(condition, x, y)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """``numpy.choose``: Python's numbers among the choices do not widen the result's dtype."""
    if isinstance(choices, list | tuple):
        kind = common_dtype(choices)
        choices = [typed(choice, kind) for choice in choices]
    else:
        choices = shape.unbind(as_tensor(choices))
    return into(out, indexing.choose(as_tensor(a), choices, mode), "numpy.choose")


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """``numpy.select``: Python's numbers among the choices do not widen the result's dtype."""
    made = array_functions.select(condlist, choicelist, default)
    return typed(made, common_dtype([*choicelist, default]))


def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    """``numpy.append``, which makes arrays of numbers."""
    return shape.append(as_tensor(arr), as_tensor(values), axis)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """``numpy.dot``, which makes arrays of numbers."""
    return into(out, products.dot(as_tensor(a), as_tensor(b)), "numpy.dot")


def nonzero(a: Any) -> tuple[Tensor, ...]:
    """``numpy.nonzero``."""
    return tuple(sorting.nonzero(a))


def shape_of(a: Any) -> tuple[int, ...]:
    """``numpy.shape``."""
    return as_tensor(a).shape


def ndim(a: Any) -> int:
    """``numpy.ndim``."""
    return as_tensor(a).ndim


def size(a: Any, axis: Any = None) -> int:
    """``numpy.size``."""
    tensor = as_tensor(a)
    if axis is None:
        return tensor.size
    return math.prod(tensor.shape[one] for one in np.atleast_1d(axis))


def _joined(*arrays: Any) -> Tensor:
    """The elements of several arrays in a row."""
    return shape.concatenate([shape.reshape(as_tensor(a), -1) for a in arrays])


def atleast_1d(*arys: Any) -> Any:
    """``numpy.atleast_1d``."""
    return array_functions.atleast_1d(*arys)


def atleast_2d(*arys: Any) -> Any:
    """``numpy.atleast_2d``."""
    return array_functions.atleast_2d(*arys)


def atleast_3d(*arys: Any) -> Any:
    """``numpy.atleast_3d``."""
    return array_functions.atleast_3d(*arys)


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """``numpy.broadcast_arrays``."""
    del subok
    return array_functions.broadcast_arrays(*args)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """``numpy.unstack``."""
    return array_functions.unstack(x, axis)


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """``numpy.ix_``."""
    return ranges.ix_(*args)


def block(arrays: Any) -> Tensor:
    """``numpy.block``: nested lists joined along the last axis, the next along the one before."""
    depth = _depth(arrays)
    leaves = [as_tensor(leaf) for leaf in _leaves(arrays)]
    ndim = max(depth, *(leaf.ndim for leaf in leaves))

    def join(part: Any, level: int) -> Tensor:
        if not isinstance(part, list):
            leaf = as_tensor(part)
            return shape.reshape(leaf, (1,) * (ndim - leaf.ndim) + leaf.shape)
        return shape.concatenate([join(item, level - 1) for item in part], -level)

    made = join(arrays, depth)
    return made if depth else pointwise.clone(made)


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise TypeError("block: only lists can be used to arrange blocks, not tuples")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("block: lists cannot be empty")
    depths = {_depth(item) for item in arrays}
    if len(depths) > 1:
        raise ValueError("block: list depths are mismatched")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> Any:
    return itertools.chain(*map(_leaves, arrays)) if isinstance(arrays, list) else [arrays]


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``numpy.meshgrid``."""
    return array_functions.meshgrid(*xi, indexing=indexing, sparse=sparse, copy=copy)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """``numpy.gradient``."""
    return array_functions.gradient(f, *varargs, axis=axis, edge_order=edge_order)


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    """``numpy.piecewise``."""
    return array_functions.piecewise(as_tensor(x), condlist, funclist, *args, **kw)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """``numpy.pad``."""
    return padding.pad(array, plain(pad_width), mode, **kwargs)


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Tensor:
    """``numpy.apply_along_axis``: the function gets each line of an axis as a tensor."""
    tensor = as_tensor(arr)
    axis = normalize_axis_index(axis, tensor.ndim)
    lines = shape.moveaxis(tensor, axis, -1)
    outer = lines.shape[:-1]
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    made = [as_tensor(func1d(lines[place], *args, **kwargs)) for place in np.ndindex(*outer)]
    result = shape.reshape(shape.stack(made), outer + made[0].shape)
    inner = made[0].ndim
    here = tuple(range(len(outer), len(outer) + inner))
    return shape.moveaxis(result, here, tuple(range(axis, axis + inner))) if inner else result


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """``numpy.apply_over_axes``."""
    result = as_tensor(a)
    ndim = result.ndim
    for axis in np.atleast_1d(axes).tolist():
        axis = axis + ndim if axis < 0 else axis
        made = as_tensor(func(result, axis))
        result = made if made.ndim == result.ndim else shape.expand_dims(made, axis)
    return result


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """``numpy.einsum``."""
    if len(operands) == 2 and isinstance(operands[0], str) and out is None:
        view = einsum_view(operands[0], operands[1])
        if view is not None and kwargs.get("dtype") is None:
            return view
    made = einsums.einsum(*operands, optimize=optimize)
    if kwargs.get("dtype") is not None:
        made = cast(made, kwargs["dtype"], kwargs.get("casting", "safe"), "numpy.einsum")
    return into(out, made, "numpy.einsum")


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """``numpy.trim_zeros``: without the zeros at the front and back of each axis."""
    tensor = as_tensor(filt)
    sides = trim.lower()
    axes = range(tensor.ndim) if axis is None else normalize_axis_tuple(axis, tensor.ndim)
    places = np.nonzero(raw(tensor))
    bounds = [slice(None)] * tensor.ndim
    for one in axes:
        length = tensor.shape[one]
        found = places[one]
        if not found.size:
            bounds[one] = slice(length, length) if "f" in sides else slice(0, 0)
            continue
        start = int(found.min()) if "f" in sides else 0
        stop = int(found.max()) + 1 if "b" in sides else length
        bounds[one] = slice(start, stop)
    return tensor[tuple(bounds)]


# --- sets ----------------------------------------------------------------------------------------


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **options: Any,
) -> Any:
    """``numpy.unique``; each value passes its gradient to where it first occurs.

    >>> import pullback as pb
    >>> pb.unique(pb.tensor([2, 1, 2]), return_counts=True)
    (tensor([1, 2]), tensor([1, 2]))
    """
    tensor = as_tensor(ar)
    values, index, inverse, counts = np.unique(raw(tensor), True, True, True, axis=axis, **options)
    del values
    flat = shape.reshape(tensor, -1) if axis is None else tensor
    kept = indexing.take(flat, index, 0 if axis is None else axis)
    extra = [(return_index, index), (return_inverse, inverse), (return_counts, counts)]
    result = (kept, *(fresh(part) for wanted, part in extra if wanted))
    return result if len(result) > 1 else kept


def _picked(pool: Tensor, values: Any) -> Tensor:
    """Values that occur in a pool, each taken from where it first occurs."""
    known, first = np.unique(raw(pool), return_index=True)
    return indexing.take(pool, first[np.searchsorted(known, values)])


def _set_function(name: str) -> Callable[..., Any]:
    def call(ar1: Any, ar2: Any, *args: Any, **kwargs: Any) -> Any:
        pool = _joined(ar1, ar2)
        made = getattr(np, name)(plain(as_tensor(ar1)), plain(as_tensor(ar2)), *args, **kwargs)
        if name == "setdiff1d":  # whose values are of the first, in its dtype
            pool = shape.reshape(as_tensor(ar1), -1)
        if isinstance(made, tuple):
            return (_picked(pool, made[0]), *map(wrapped, made[1:]))
        return _picked(pool, made)

    call.__name__ = name
    return call


def _unique_function(name: str) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        tensor = as_tensor(x)
        pool = shape.reshape(tensor, -1)
        made = getattr(np, name)(raw(tensor))
        if not isinstance(made, tuple):
            return _picked(pool, made)
        return type(made)(_picked(pool, made[0]), *map(wrapped, made[1:]))

    call.__name__ = name
    return call


unique_all = _unique_function("unique_all")
unique_counts = _unique_function("unique_counts")
unique_inverse = _unique_function("unique_inverse")
unique_values = _unique_function("unique_values")
intersect1d = _set_function("intersect1d")
setdiff1d = _set_function("setdiff1d")
setxor1d = _set_function("setxor1d")
union1d = _set_function("union1d")
