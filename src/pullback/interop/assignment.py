"""NumPy's functions that write into an array: ``np.copyto``, ``np.put``, ``np.fill_diagonal`` …

On a tensor each is an in-place operator, which records history. On a plain ndarray they work as
ever, unless a gradient would be lost in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shape
from pullback.interop.arguments import as_tensor, entry, holds_gradient, lost_in_array, plain, raw
from pullback.tensor.methods.indexing import setitem
from pullback.tensor.tensor import Tensor

__all__ = ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]


def _in_array(function: Any, name: str, target: Any, *rest: Any, **options: Any) -> None:
    """The write into something that is no tensor."""
    if holds_gradient([*rest, *options.values()]):
        raise lost_in_array(name)
    function(target, *plain(list(rest)), **plain(options))


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Copies values into a tensor, where a mask holds, as ``numpy.copyto`` does.

    >>> import pullback as pb
    >>> x = pb.zeros(3)
    >>> copyto(x, [1.0, 2.0, 3.0], where=[True, False, True])
    >>> x.tolist()
    [1.0, 0.0, 3.0]
    """
    if not isinstance(dst, Tensor):
        return _in_array(np.copyto, "numpy.copyto", dst, src, casting=casting, where=where)
    weak = type(src) in (bool, int, float, complex)
    source = as_tensor(src)
    if not weak and not np.can_cast(source.dtype, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {source.dtype!r} to {dst.dtype!r} according to the rule "
            f"{casting!r}"
        )
    source = pointwise._astype(source, dst.dtype)
    if where is True:
        indexing.copy_(dst, source)
        return None
    mask = raw(shape.broadcast_to(as_tensor(where), dst.shape))
    values = shape.broadcast_to(source, dst.shape)
    setitem(dst, mask, indexing._index(values, [as_tensor(mask)]))
    return None


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Writes values to elements that are counted in a row, as ``numpy.put`` does.

    >>> import pullback as pb
    >>> x = pb.zeros((2, 2))
    >>> put(x, [3, 0], [5.0, 6.0])
    >>> x.tolist()
    [[6.0, 0.0], [0.0, 5.0]]
    """
    if not isinstance(a, Tensor):
        return _in_array(np.put, "numpy.put", a, ind, v, mode)
    indexing.put_(a, ind, entry(v, a.dtype), mode)
    return None


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    """Writes one value for each index, along an axis, as ``numpy.put_along_axis`` does.

    >>> import pullback as pb
    >>> x = pb.zeros(3)
    >>> put_along_axis(x, [2, 0], [5.0, 6.0], 0)
    >>> x.tolist()
    [6.0, 0.0, 5.0]
    """
    if not isinstance(arr, Tensor):
        return _in_array(np.put_along_axis, "numpy.put_along_axis", arr, indices, values, axis=axis)
    indexing.put_along_axis_(arr, indices, entry(values, arr.dtype), axis)
    return None


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Writes values to the main diagonal, as ``numpy.fill_diagonal`` does.

    >>> import pullback as pb
    >>> x = pb.zeros((2, 2))
    >>> fill_diagonal(x, [1.0, 2.0])
    >>> x.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if not isinstance(a, Tensor):
        return _in_array(np.fill_diagonal, "numpy.fill_diagonal", a, val, wrap)
    indexing.fill_diagonal_(a, entry(val, a.dtype), wrap)
    return None


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Writes the values in their order, over and over, where a mask holds, as ``numpy.place`` does.

    >>> import pullback as pb
    >>> x = pb.zeros(4)
    >>> place(x, [True, False, True, True], [1.0, 2.0])
    >>> x.tolist()
    [1.0, 0.0, 2.0, 1.0]
    """
    if not isinstance(arr, Tensor):
        return _in_array(np.place, "numpy.place", arr, mask, vals)
    places = np.flatnonzero(np.broadcast_to(plain(mask), arr.shape))
    values = shape.reshape(entry(vals, arr.dtype), -1)
    if not values.size and places.size:
        raise ValueError("Cannot insert from an empty array!")
    return _put_flat(arr, places, values, np.arange(places.size))


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Writes the values' elements of the same number where a mask holds: ``numpy.putmask``.

    >>> import pullback as pb
    >>> x = pb.zeros(4)
    >>> putmask(x, pb.tensor([True, False, True, True]), [1.0, 2.0])
    >>> x.tolist()
    [1.0, 0.0, 1.0, 2.0]
    """
    if not isinstance(a, Tensor):
        return _in_array(np.putmask, "numpy.putmask", a, mask, values)
    flags = np.asarray(plain(mask), bool)
    if flags.shape != a.shape:
        raise ValueError("putmask: mask and data must be the same size")
    places = np.flatnonzero(flags)
    return _put_flat(a, places, shape.reshape(entry(values, a.dtype), -1), places)


def _put_flat(target: Tensor, places: Any, values: Tensor, numbers: Any) -> None:
    """Writes to elements by number; values are taken by number too, over and over."""
    if places.size and values.size:
        picked = indexing.take(values, numbers % values.size)
        where = np.unravel_index(places, target.shape)
        setitem(target, where, pointwise._astype(picked, target.dtype))
