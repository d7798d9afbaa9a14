"""Rules of indexing: by numbers and slices, by arrays, along an axis.

Batched index arrays are joined by an index array for each batch dimension; all of them together
index the whole array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import AutogradError
from pullback.kernels.batch_axes import (
    Array,
    Rule,
    batch_of,
    flat,
    full,
    is_constant,
    padded,
    shifted,
)
from pullback.operators.indexing import kernels as plain

__all__ = ["RULES", "data_dependent", "put_"]


def data_dependent(what: str) -> AutogradError:
    """The error for a result whose shape would differ between batch elements."""
    return AutogradError(
        f"vmap: We do not support batching operators that can output dynamic shape: {what} depends "
        f"on the values of each sample, so the batch_indices' results could differ in shape; use "
        f"where(mask, x, y) or a product with the mask, or call it outside vmap"
    )


def _getitem(k: int, x: Array, index: Any) -> Array:
    return plain.getitem(x, (slice(None),) * k + tuple(index))


def _getitem_backward(k: int, grad: Array, shape: Sequence[int], index: Any) -> Array:
    whole = (slice(None),) * k + tuple(index)
    return plain.getitem_backward(grad, (*grad.shape[:k], *shape), whole)


class _Picks(NamedTuple):
    """Arrays that pick from the whole, and where the picked axes stand.

    `whole` has an axis more for each mask that has none. `found` is the first place of the picked
    axes in what NumPy returns, `wanted` that in the result of a rule, `axes` how many there are.
    """

    whole: Array
    indices: list[Array | None]
    found: int
    wanted: int
    axes: int


def _numbers(k: int, x: Array, indices: Sequence[Array | None]) -> tuple[Array, list[Array | None]]:
    """Masks as the numbers of the elements that they are true for.

    A mask without axes picks from a new axis of length one, which the tensor gets as a view.
    """
    listed: list[Array | None] = []
    for index in indices:
        if index is None or index.dtype != bool:
            listed.append(index)
            continue
        if not is_constant(index, k):
            raise data_dependent("indexing with a mask")
        mask = index.reshape(index.shape[k:])
        if not mask.ndim:
            x = np.expand_dims(x, k + len(listed))
            listed.append(np.zeros((1,) * k + (int(mask),), np.intp))
            continue
        listed += [place.reshape((1,) * k + place.shape) for place in np.nonzero(mask)]
    return x, listed


def _picks(k: int, x: Array, indices: Sequence[Array | None]) -> _Picks:
    x, listed = _numbers(k, x, indices)
    given = [i for i in listed if i is not None]
    places = [place for place, i in enumerate(listed) if i is not None]
    adjacent = places[-1] - places[0] == len(places) - 1
    first = (
        places[0] if adjacent else 0
    )  # where NumPy puts the indexed axes without batch dimensions
    count = max(i.ndim for i in given) - k
    if all(is_constant(i, k) for i in given):
        own = [None if i is None else i.reshape(i.shape[k:]) for i in listed]
        return _Picks(x, [None] * k + own, k + first if adjacent else 0, k + first, count)
    fitted = iter(padded(k, *given))
    lengths = x.shape[:k]
    batch_indices = [
        np.arange(n).reshape((1,) * axis + (n,) + (1,) * (k - axis - 1 + count))
        for axis, n in enumerate(lengths)
    ]
    own = [None if i is None else next(fitted) for i in listed]
    # The index arrays of batch dimensions are in front, so NumPy puts all indexed axes in front.
    return _Picks(x, [*batch_indices, *own], k, k + first, count)


def _moved(x: Array, source: int, destination: int, count: int) -> Array:
    if source == destination:
        return x
    return np.moveaxis(x, range(source, source + count), range(destination, destination + count))


def _index(k: int, x: Array, indices: Sequence[Array | None]) -> Array:
    batch = batch_of(k, x, *(i for i in indices if i is not None))
    if x.shape[:k] != batch and not all(i is None or is_constant(i, k) for i in indices):
        x = np.broadcast_to(x, batch + x.shape[k:])
    picks = _picks(k, x, indices)
    found = plain.index(picks.whole, picks.indices)
    return _moved(found, picks.found, picks.wanted, picks.axes)


def put_(
    k: int, x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool
) -> Array:
    """Replaces elements of an array with full batch dimensions, or adds to them."""
    picks = _picks(k, x, indices)
    values = np.asarray(values)
    if values.ndim < k:
        values = values.reshape((1,) * k)
    ndim = picks.whole.ndim + picks.axes - sum(i is not None for i in picks.indices[k:])
    values = values.reshape(values.shape[:k] + (1,) * (ndim - values.ndim) + values.shape[k:])
    values = _moved(values, picks.wanted, picks.found, picks.axes)
    plain.index_put_(picks.whole, picks.indices, values, accumulate)
    return x


def _index_put(
    k: int,
    x: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = False,
) -> Array:
    batch = batch_of(k, x, values, *(i for i in indices if i is not None))
    dtype = np.result_type(x, values) if accumulate else x.dtype
    whole = np.array(np.broadcast_to(x, batch + x.shape[k:]), dtype=dtype, order="C")
    return put_(k, whole, indices, values, accumulate)


def _index_add(k: int, x: Array, axis: int, index: Array, source: Array) -> Array:
    if index.ndim - k != 1:
        raise ValueError(f"index_add: the index must have one axis, its shape is {index.shape[k:]}")
    lead = shifted(k, x.ndim - k, axis) - k
    return _index_put(k, x, [*[None] * lead, index], source, True)


def _take_along_axis(k: int, x: Array, indices: Array, axis: int | None) -> Array:
    if axis is None:
        return np.take_along_axis(flat(k, x), indices, -1)
    return np.take_along_axis(x, indices, shifted(k, x.ndim - k, axis))


def _put_along_axis(
    k: int, x: Array, indices: Array, values: Array, axis: int | None, accumulate: bool = False
) -> Array:
    batch = batch_of(k, x, indices, values)
    whole = np.broadcast_to(x, batch + x.shape[k:])
    target = flat(k, whole) if axis is None else whole
    if indices.ndim == target.ndim:
        indices = np.broadcast_to(indices, batch + indices.shape[k:])
    axis = k if axis is None else shifted(k, x.ndim - k, axis)
    _, fitted = padded(k, indices, values)
    return plain.put_along_axis(target, indices, fitted, axis, accumulate).reshape(whole.shape)


def _gather(k: int, x: Array, axis: int, index: Array) -> Array:
    is_number = index.ndim == k
    x, index = full(k, _as_vectors(k, x), _as_vectors(k, index))
    found = plain.gather(x, shifted(k, x.ndim - k, axis), index)
    return found[..., 0] if is_number else found


def _as_vectors(k: int, x: Array) -> Array:
    """Gives arrays without logical axes one of length 1."""
    return x if x.ndim > k else x[..., np.newaxis]


def _scattering(function: Any) -> Rule:
    def rule(
        k: int, x: Array, axis: int, index: Array, src: Array, *args: Any, **kwargs: Any
    ) -> Array:
        batch = batch_of(k, x, index, src)
        is_number = x.ndim == k
        x, index = _as_vectors(k, x), _as_vectors(k, index)
        x = np.broadcast_to(x, batch + x.shape[k:])
        index = np.broadcast_to(index, batch + index.shape[k:])
        _, src = padded(k, index, src)
        found = function(x, shifted(k, x.ndim - k, axis), index, src, *args, **kwargs)
        return found[..., 0] if is_number else found

    return rule


def _masked_fill(k: int, x: Array, mask: Array, value: Array) -> Array:
    if isinstance(value, np.ndarray) and value.ndim > k:
        raise ValueError(
            f"masked_fill: the value must be one number, not of shape {value.shape[k:]}"
        )
    if np.asarray(mask).dtype != bool:
        raise TypeError(f"masked_fill: the mask must be of bool, not of {np.asarray(mask).dtype}")
    x, mask, value = padded(k, x, mask, np.asarray(value).astype(x.dtype))
    return np.where(mask, value, x)


RULES: dict[str, Rule] = {
    "getitem": _getitem,
    "getitem_backward": _getitem_backward,
    "index": _index,
    "index_put": _index_put,
    "index_add": _index_add,
    "take_along_axis": _take_along_axis,
    "put_along_axis": _put_along_axis,
    "gather": _gather,
    "scatter": _scattering(plain.scatter),
    "scatter_add": _scattering(plain.scatter_add),
    "scatter_reduce": _scattering(plain.scatter_reduce),
    "masked_fill": _masked_fill,
}
