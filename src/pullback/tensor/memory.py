"""Checks of memory: whether it is writable, and whether tensors or elements overlap.

They run before every in-place write, so they read shapes and strides only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import InplaceError
from pullback.kernels.layout import order_of
from pullback.tensor.payload import Payload

__all__ = [
    "Array",
    "check_cast",
    "check_fits",
    "check_no_partial_overlap",
    "check_writable",
    "empty_in_layout",
    "layout_of",
    "overlap_error",
    "overwrite",
    "owner_of",
]

Array = NDArray[Any]

_IN_ORDER = [tuple(range(ndim)) for ndim in range(65)]  # NumPy has 64 axes at most


def check_writable(array: Array, name: str) -> None:
    """Raises if elements of the target share memory, or the array is read-only."""
    flags = array.flags
    if not flags.forc and _overlaps_itself(array):
        raise overlap_error(name)
    if not flags.writeable:
        raise InplaceError(f"{name}: the memory of the tensor is read-only; clone() it first")


def overlap_error(name: str) -> InplaceError:
    """The error for a write where elements share memory."""
    return InplaceError(
        f"{name}: unsupported operation: more than one element of the written-to tensor refers to "
        f"a single memory location. clone() the tensor before writing to it."
    )


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements lie in the same place, as in an expanded tensor or sliding windows."""
    steps = zip(map(abs, array.strides), array.shape, strict=True)
    axes = sorted((stride, n) for stride, n in steps if n > 1)
    reach = array.itemsize
    for stride, n in axes:
        if stride < reach:
            break
        reach += stride * (n - 1)
    else:
        return False
    if axes[0][0] == 0 or not array.size:
        return bool(array.size)
    places = np.zeros(1, np.intp)  # interleaved strides: compare all offsets
    for stride, n in axes:
        places = np.add.outer(places, stride * np.arange(n)).ravel()
    return bool(np.diff(np.sort(places)).min() < array.itemsize)


def overwrite(target: Array, result: Array, name: str, lead: int = 0) -> None:
    """Copies the result of an in-place operator; errors leave out the first `lead` axes."""
    if result.shape != target.shape:
        check_fits(result.shape, target.shape, name, lead)
    if result.dtype is not target.dtype:
        check_cast(result.dtype, target.dtype, name)
    check_writable(target, name)
    target[...] = result


def check_fits(result: tuple[int, ...], target: tuple[int, ...], name: str, lead: int = 0) -> None:
    """Raises if a result does not broadcast to the target; leaves out the first `lead` axes."""
    found = np.broadcast_shapes(result, target)
    if found != target:
        raise InplaceError(
            f"{name}: output with shape {list(target[lead:])} doesn't match the broadcast shape "
            f"{list(found[lead:])}"
        )


def check_cast(result: np.dtype[Any], target: np.dtype[Any], name: str) -> None:
    """Raises if the result cannot be cast to the target's dtype."""
    if not np.can_cast(result, target, "same_kind"):
        raise InplaceError(
            f"{name}: result type {result} can't be cast to the type {target} of the tensor that "
            f"is written to"
        )


def check_no_partial_overlap(written: Array | Payload, read: Array | Payload) -> None:
    """Raises for an input that overlaps the written memory partially, not completely.

    Arrays with gaps are not checked, because exact overlap of strided arrays is hard to compute.
    The kernels of payloads check for themselves.
    """
    if isinstance(written, Payload) or isinstance(read, Payload):
        return
    if not written.size or not read.size or not (_is_dense(written) and _is_dense(read)):
        return
    first, second = _extent(written), _extent(read)
    if first == second:
        partial = written.strides != read.strides or written.shape != read.shape
    else:
        partial = first[0] < second[1] and second[0] < first[1]
    if partial:
        raise InplaceError(
            "unsupported operation: some elements of the input tensor and the written-to tensor "
            "refer to a single memory location. clone() one of them before writing."
        )


def _extent(array: Array) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


def _is_dense(array: Array) -> bool:
    """Whether the elements fill a contiguous range of memory, without overlap."""
    expected = array.itemsize
    for stride, n in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if n != 1:
            if stride != expected:
                return False
            expected *= n
    return True


def layout_of(array: Array) -> tuple[int, ...]:
    """The axes from the widest stride to the narrowest: the order in which memory runs."""
    try:
        if array.flags.c_contiguous:
            return _IN_ORDER[array.ndim]
    except AttributeError:  # a payload
        return array.layout  # type: ignore[attr-defined,no-any-return]
    return order_of(array.shape, array.strides)


def empty_in_layout(shape: tuple[int, ...], dtype: Any, layout: tuple[int, ...]) -> Array:
    """A dense array whose memory runs through the axes in a given order."""
    array = np.empty([shape[axis] for axis in layout], dtype)
    return array.transpose(np.argsort(layout)) if layout else array


def owner_of(array: Any) -> Any:
    """The array whose memory an array lies in; its own where it is no view."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array
