"""``x[index]`` and ``x[index] = value``, as NumPy has them.

An index is taken apart before an operator sees it. Its basic part (integers, slices, new axes, an
ellipsis) is one `getitem`, a view. Where it has arrays, the basic part comes first, and the arrays
are given to `index` or `index_put_` as one tensor an axis::

    x[1:, None, i, ..., m]      getitem (1:, None, :, ..., :), then index [None, None, i, None, m]

An integer beside an array counts as an array, as in NumPy, so ``x[0, :, i]`` has the picked axis in
front. A tensor without axes that holds an integer is that integer. An ndarray without axes is an
integer too, but what it picks is a copy.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._generated import functions_indexing as indexing
from pullback._generated import functions_shape as shape
from pullback._generated import operators
from pullback._lazy import lazy_module
from pullback.autograd.graph.setitem import write_item
from pullback.autograd.graph.views import edge_of
from pullback.dispatch.modes import NUMBER_MODES, NUMPY, get_state
from pullback.kernels.error_context import ERRORS, named_error
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor, as_operand, has_numbers, has_values, wrap

if TYPE_CHECKING:
    from pullback.autograd.record import operator as record
    from pullback.autograd.record import record as results
else:
    results = lazy_module("pullback.autograd.record.record")
    record = lazy_module("pullback.autograd.record.operator")

__all__ = ["getitem", "iterate", "setitem"]

_WHOLE = slice(None)
_Ends = tuple[int | None, int | None, int | None]
_MOST = 1024
_slices: dict[_Ends, tuple[slice, Any]] = {}  # nodes keep their index: many have a few of them
_getitem_calls = operators.getitem.calls
_copy_calls = operators.copy_.calls
_ndarray = np.ndarray
_getitem: tuple[Any, ...] = ()  # our kernels, when they have been built
_copy: tuple[Any, ...] = ()


def getitem(self: Tensor, key: Any) -> Tensor:
    """``x[key]``: a view for integers, slices and new axes, a copy where arrays are in the key."""
    # The most frequent call in loops over elements, so it is dispatched here.
    basic = (key, ...) if type(key) is int else _basic(key)
    if basic is not None:
        flags, state = self._flags, get_state()
        try:
            kernel = _getitem_calls[state][flags]
        except KeyError:
            kernel = operators.getitem.link_call(flags)
        try:
            if state.modes & NUMBER_MODES and has_numbers(self, state.modes):
                return _in_numpy_mode(self, key, basic, kernel)
            return kernel(self, basic)  # type: ignore[no-any-return]
        except ERRORS as error:
            raise named_error(error, "getitem", self) from None
    plan = _take_apart(self, key)
    if plan.arrays is None:
        found = indexing._getitem(self, plan.basic)
        # As in NumPy, what is picked by an array is a copy, also by an array of one integer.
        if any(type(i) is np.ndarray for i in (key if type(key) is tuple else (key,))):
            return found.clone()
        return _element(found, key) if has_numbers(self, get_state().modes) else found
    viewed = indexing._getitem(self, plan.basic) if plan.basic else self
    picked = indexing._index(viewed, plan.arrays)
    if plan.gap is not None:
        picked = shape.squeeze(picked, picked.ndim - 1 - plan.gap)
    return _element(picked, key) if has_numbers(self, get_state().modes) else picked


def _in_numpy_mode(self: Tensor, key: Any, basic: tuple[Any, ...], kernel: Any) -> Tensor:
    """The same in modes in which a single element is a copy, as a number in NumPy is."""
    array = self._array
    if (
        kernel is (_getitem or _find_getitem())[0]
        and type(array) is _ndarray
        and len(basic) == array.ndim + 1  # an ellipsis ends it
        and (type(key) is int or (type(key) is tuple and _is_all_integers(key)))
    ):  # fast path: one node, and no view
        node = _getitem[2]()
        node._edge0 = self._edge or edge_of(self)
        node.self_shape = array.shape
        node.index = basic
        return results.recorded(node, array[basic].copy())
    return _element(kernel(self, basic), key)


def _is_all_integers(key: tuple[Any, ...]) -> bool:
    for item in key:  # noqa: SIM110 - a generator takes three times as long
        if type(item) is not int:
            return False
    return True


def _element(found: Tensor, key: Any) -> Tensor:
    """A copy of a single element, which is a number in NumPy; anything else as it is.

    What a key with an ellipsis picks is an array in NumPy too, and stays a view.
    """
    if found.ndim or key is ... or (type(key) is tuple and any(item is ... for item in key)):
        return found
    return found.clone()


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``: a write to a view, or of single elements; recorded like any write."""
    if type(value) is not Tensor:
        value = creation.asarray(value) if type(value) in (list, tuple) else as_operand(value)
    basic = (key, ...) if type(key) is int else _basic(key)
    if basic is not None:
        if _write_at_once(self, basic, value):
            return
        shares = value._counter is not None and value._counter is self._counter
        if shares and get_state().modes & NUMPY and _is_in_place(self, basic, value):
            return  # the second half of ``x[1:] += y``, which has written already
        target = indexing._getitem(self, basic)
        array = value._array
        # Fast path: an ndarray of the right shape needs no further checks.
        if type(array) is not np.ndarray or array.shape != target._array.shape:
            value = _without_leading_ones(value, target.ndim)
            if not value.ndim and value._counter is not None and value._counter is self._counter:
                value = value.clone()  # one element of this tensor, read before the write
        indexing.copy_(target, value)
        return
    plan = _take_apart(self, key)
    target = indexing._getitem(self, plan.basic) if plan.basic or plan.arrays is None else self
    if plan.arrays is None:
        indexing.copy_(target, _without_leading_ones(value, target.ndim))
        return
    if plan.gap is not None and value.ndim > plan.gap:
        value = shape.expand_dims(value, value.ndim - plan.gap)
    ndim = _picked_ndim(target, plan.arrays)
    indexing.index_put_(target, plan.arrays, _without_leading_ones(value, ndim))


def _is_in_place(self: Tensor, basic: tuple[Any, ...], value: Tensor) -> bool:
    """Whether a value lies already where it is to be written."""
    whole, array = self._array, value._array
    if type(whole) is not _ndarray or type(array) is not _ndarray:
        return False
    try:
        part = whole[basic]
    except IndexError:
        return False
    return bool(
        part.shape == array.shape
        and part.strides == array.strides
        and part.dtype == array.dtype
        and part.__array_interface__["data"] == array.__array_interface__["data"]
    )


def _write_at_once(self: Tensor, basic: tuple[Any, ...], value: Tensor) -> bool:
    """Fast path: view and write in one step, if the built-in kernels would run."""
    state, flags = get_state(), self._flags
    modes = state.modes
    if modes and modes != NUMPY:
        return False
    try:
        read = _getitem_calls[state][flags]
        write = _copy_calls[state][flags | value._flags]
    except KeyError:  # the first of its kind: they will be linked
        return False
    getitem_record, getitem_view, _ = _getitem or _find_getitem()
    if read is not getitem_record and read is not getitem_view:
        return False
    copy_record, copy_inplace, node_class = _copy or _find_copy()
    if write is copy_record:
        return write_item(self, basic, value, node_class, modes == NUMPY)
    return write is copy_inplace and write_item(self, basic, value, None, modes == NUMPY)


def _find_getitem() -> tuple[Any, Any, Any]:
    """Our kernels of ``getitem``, which has been called, and the class of its nodes."""
    global _getitem
    spec, built = record.BUILT["pullback::getitem"]
    _getitem = built.record, built.view, spec.node_class()
    return _getitem


def _find_copy() -> tuple[Any, Any, Any]:
    """The same of ``copy_``."""
    global _copy
    spec, built = record.BUILT["pullback::copy_"]
    _copy = built.record, built.inplace, spec.node_class()
    return _copy


def iterate(self: Tensor) -> Iterator[Tensor]:
    """The slices along the first axis, as views of one call."""
    if not self.ndim:
        raise TypeError("iteration over a tensor without axes: its shape is ()")
    parts = shape.unbind(self)
    if self.ndim == 1 and has_numbers(self, get_state().modes):
        return iter([part.clone() for part in parts])
    return iter(parts)


class _Plan:
    """An index taken apart.

    Attributes:
        basic: what to take as a view first; empty where that would change nothing.
        arrays: one index or None for each axis of that view; None where there are no arrays.
        gap: how many axes without an array follow an ellipsis that stands for no axis between
            arrays. Such an ellipsis still separates them, so an axis of length one replaces it.
    """

    __slots__ = ("arrays", "basic", "gap")

    def __init__(self, basic: tuple[Any, ...], arrays: list[Any] | None, gap: int | None = None):
        self.basic = basic
        self.arrays = arrays
        self.gap = gap


def _basic(key: Any) -> tuple[Any, ...] | None:
    """A key of plain integers, slices and the like as a tuple with one ellipsis, or None.

    The ellipsis makes an array also of a single element.
    """
    if type(key) is slice:
        ends = _ends(key)
        return None if ends is None else _slices.get(ends) or _remember(ends)
    is_open = True
    if type(key) is not tuple:
        key = (key,)
    for item in key:
        if type(item) is slice:
            if _ends(item) is None:
                return None
        elif item is ...:
            if not is_open:
                return None
            is_open = False
        elif type(item) is not int and item is not None:
            return None
    return (*key, ...) if is_open else key


def _ends(item: slice) -> _Ends | None:
    """Start, stop and step of a slice, if these are plain integers."""
    start, stop, step = item.start, item.stop, item.step
    if (
        (type(start) is int or start is None)
        and (type(stop) is int or stop is None)
        and (step is None or type(step) is int)
    ):
        return start, stop, step
    return None


def _remember(ends: _Ends) -> tuple[slice, Any]:
    """Caches the index of a single slice."""
    if len(_slices) >= _MOST:  # e.g. a sliding window
        _slices.clear()
    index = _slices[ends] = (slice(*ends), ...)
    return index


def _take_apart(self: Tensor, key: Any) -> _Plan:
    items = [_item(item) for item in (key if type(key) is tuple else (key,))]
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not any(isinstance(item, Tensor) for item in items):
        return _Plan(tuple(items), None)
    basic: list[Any] = []
    arrays: list[Any] = []
    gap_at = None
    around = zip([None, *items], items, [*items[1:], None], strict=False)
    for before, item, after in around:
        if isinstance(item, Tensor):
            basic += [_WHOLE] * _axes_of(item)
            arrays.append(item)
        elif isinstance(item, int):
            basic.append(_WHOLE)
            arrays.append(wrap(np.asarray(item)))
        elif item is not Ellipsis:
            basic.append(item)
            arrays.append(None)
        elif length := self.ndim - sum(map(_axes_of, items)):
            basic += [_WHOLE] * length
            arrays += [None] * length
        elif isinstance(before, Tensor | int) and isinstance(after, Tensor | int):
            gap_at = len(arrays)
            basic.append(None)
            arrays.append(None)
    changes = any(item != _WHOLE for item in basic)
    gap = None if gap_at is None else sum(i is None for i in arrays[gap_at + 1 :])
    return _Plan(tuple(basic) if changes else (), arrays, gap)


def _item(item: Any) -> Any:
    """One part of an index: an int, a slice, None, Ellipsis, or a tensor."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return _plain_slice(item)
    if isinstance(item, Tensor):
        is_number = not item.ndim and item.dtype.kind in "iu" and has_values(item)
        return item.item() if is_number else item
    if hasattr(item, "__pullback_index__"):  # a number of a program that is traced
        return item.__pullback_index__()
    if isinstance(item, bool | np.bool | list | tuple | range | np.ndarray):
        array = np.asarray(item)
        if not array.size and not isinstance(item, np.ndarray):
            array = array.astype(np.intp)
        if not array.ndim and array.dtype.kind in "iu":
            return array.item()
        return wrap(array.copy() if isinstance(item, np.ndarray) else array)
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are "
            f"valid indices, not {type(item).__name__}"
        ) from None


def _plain_slice(item: slice) -> slice:
    """A slice of ints: a tensor as bound would be held, and could change."""
    if not any(isinstance(bound, Tensor) for bound in (item.start, item.stop, item.step)):
        return item
    bounds = (item.start, item.stop, item.step)
    return slice(*(None if bound is None else operator.index(bound) for bound in bounds))


def _axes_of(item: Any) -> int:
    """The number of axes of the tensor that a part of an index covers; an ellipsis the rest."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor) and item.dtype.kind == "b":
        return item.ndim
    return 1


def _picked_ndim(target: Tensor, arrays: list[Any]) -> int:
    """The number of axes of the elements at index arrays."""
    given = [i for i in arrays if i is not None]
    kept = target.ndim - sum(map(_axes_of, given))
    return kept + max(1 if i.dtype.kind == "b" else i.ndim for i in given)


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    """A value with no more axes than what it is written to, where these have length one."""
    extra = value.ndim - ndim
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        return shape.reshape(value, value.shape[extra:])
    return value


for _name, _method in {
    "__getitem__": getitem,
    "__setitem__": setitem,
    "__iter__": iterate,
}.items():
    setattr(Tensor, _name, _method)
