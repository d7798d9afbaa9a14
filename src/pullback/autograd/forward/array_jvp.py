"""The short forward road: tangents that nobody records are computed on raw arrays.

Most forward derivatives are of one level and are not differentiated again. Then an operator's plain
kernel runs, its forward formula runs on arrays (``array_formulas.py``), and the result carries the
tangent as an array (``carried.py``): no dispatch, and no tensors around what lies between. Every
other call goes the general way, ``dual.py``, which this must agree with.

A call is simple if each argument has at most one tangent, all of one level, without tangents or a
history of their own, and primals hold arrays and do not require grad; the last is known when the
kernel is linked (``register.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from pullback.autograd.forward.array_formulas import DeclinedError, Formula, Function, led
from pullback.autograd.forward.jvp_kernels import finish
from pullback.autograd.forward.lazy_tangent import Carried, carry_view, made, tangent_of
from pullback.autograd.forward.tangents import set_beside, zeros_like
from pullback.autograd.record.record import record_view
from pullback.autograd.record.unfused import view_again
from pullback.batching.rules import array_rule, tensor_rule
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import INFERENCE, MAPPING, TRANSFORM, get_state
from pullback.dispatch.table import OperatorEntry
from pullback.tensor.batched import BatchedArray, Levels
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import Meta
from pullback.tensor.tensor import Tensor, current_level_id, tag_level, wrap

__all__ = ["array_kernel"]

_ndarray = np.ndarray
_FLOAT64 = np.dtype(np.float64)
_MARKED = TRANSFORM | MAPPING


def array_kernel(
    entry: OperatorEntry,
    general: Function,
    stock: Function,
    jvp: Function,
    form: str,
    places: tuple[int, ...],
    sums: bool,
    is_view: bool,
) -> Function:
    """The kernel of an operator with one result, for dual tensors that hold arrays.

    `stock` is the kernel that computes it, and `general` takes the calls that are not simple.
    `form` is that of the forward formula; the other arguments are those of ``dual_kernel``.
    """
    if tensor_rule(entry.name) is not None:
        return general
    if is_view:
        return _view(entry.name.removeprefix("pullback::"), stock, general)
    formula = Formula(jvp, form)
    assert entry.schema is not None
    arguments = entry.schema.arguments.flat_all
    if not any(arguments[place].type.is_list_like() for place in places):
        if places == (0,):
            return _of_first(stock, formula, general)
        if places == (0, 1) and sums:
            return _of_first_two(stock, formula, general)
    return _of_any(stock, formula, places, sums, general)


def _raw(value: Any) -> Any:
    """An argument as a formula on arrays takes it."""
    if type(value) is Tensor:
        return value._array
    if type(value) is list:
        return [item._array if type(item) is Tensor else _raw(item) for item in value]
    return value


def _has_duals(values: Sequence[Any]) -> bool:
    for value in values:
        if type(value) is Tensor:
            if value._flags & DUAL:
                return True
        elif type(value) is list and _has_duals(value):
            return True
    return False


# --- kernels -------------------------------------------------------------------------------------


def _of_first(stock: Function, formula: Formula, general: Function) -> Function:
    """The kernel where only the first argument may have a tangent."""

    def call(self: Any, *rest: Any, **kwargs: Any) -> Any:
        at = tangent_of(self) if self._flags & DUAL else None
        others = (*rest, *kwargs.values()) if kwargs else rest
        modes = get_state().modes
        if at is None or modes & INFERENCE or (others and _has_duals(others)):
            return general(self, *rest, **kwargs)
        levels = at[3]
        if formula.declines and levels:
            return general(self, *rest, **kwargs)
        output = stock(self, *rest, **kwargs)
        raw: Any = [_raw(value) for value in others] if others else ()
        try:
            found = formula.of_one(len(levels), at[2], self._array, raw, output._array)
        except DeclinedError:
            return general(self, *rest, **kwargs)
        return _finish(output, at, found, at[2], None, modes)

    return call


def _of_first_two(stock: Function, formula: Formula, general: Function) -> Function:
    """The kernel where only the first two may, by a formula that leaves out those without one."""

    def call(self: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        at = first = second = None
        if self._flags & DUAL:
            at = tangent_of(self)
            if at is None:
                return general(self, other, *rest, **kwargs)
            first = at[2]
        if type(other) is Tensor and other._flags & DUAL:
            by = tangent_of(other)
            if by is None:
                return general(self, other, *rest, **kwargs)
            second = by[2]
            if at is None:
                at = by
            elif at[3] != by[3] or at[1] is not by[1]:
                if at[1] is not by[1] or (at[3] and by[3]):
                    return general(self, other, *rest, **kwargs)
                if by[3]:
                    at, first = by, led(first, len(by[3]))
                else:
                    second = led(second, len(at[3]))
        modes = get_state().modes
        if at is None or modes & INFERENCE or (formula.declines and at[3]):
            return general(self, other, *rest, **kwargs)
        if rest or kwargs:
            others = (*rest, *kwargs.values())
            if _has_duals(others):
                return general(self, other, *rest, **kwargs)
            output = stock(self, other, *rest, **kwargs)
            primals = [self._array, *[_raw(value) for value in (other, *others)]]
        else:
            output = stock(self, other)
            primals = [self._array, other._array if type(other) is Tensor else _raw(other)]
        try:
            found = formula.of_two(len(at[3]), primals, first, second, output._array)
        except DeclinedError:
            return general(self, other, *rest, **kwargs)
        return _finish(output, at, found, first, second, modes)

    return call


def _of_any(
    stock: Function, formula: Formula, places: tuple[int, ...], sums: bool, general: Function
) -> Function:
    """The kernel of any operator with one result."""

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        found = _common(values, places)
        rest = [value for place, value in enumerate(values) if place not in places]
        modes = get_state().modes
        if found is None or modes & INFERENCE or _has_duals(rest):
            return general(*args, **kwargs)
        at, given = found
        if formula.declines and at[3]:
            return general(*args, **kwargs)
        output = stock(*args, **kwargs)
        unread = places if formula.is_linear else ()
        primals = [None if p in unread else _raw(value) for p, value in enumerate(values)]
        parts = _as_formula_takes(given, at, values, places, sums)
        try:
            tangent = formula.of_any(len(at[3]), primals, parts, output._array)
        except DeclinedError:
            return general(*args, **kwargs)
        if type(tangent) is _ndarray:
            owns = tangent.base is None
            for part in given:
                if part is not None and (
                    part[2] is tangent or (not owns and np.may_share_memory(tangent, part[2]))
                ):
                    tangent = np.array(tangent)
        return _finish(output, at, tangent, None, None, modes)

    return call


def _common(
    values: list[Any], places: tuple[int, ...]
) -> tuple[Carried, list[Carried | None]] | None:
    """One of the tangents, a batched one if there is any, and all; None if levels differ."""
    found: Carried | None = None
    level: Any = None
    levels: Levels = ()
    given: list[Carried | None] = []
    for place in places:
        value = values[place]
        for item in value if type(value) is list else (value,):
            if type(item) is not Tensor or not item._flags & DUAL:
                given.append(None)
                continue
            at = tangent_of(item)
            if at is None:
                return None
            given.append(at)
            if at[1] is level and at[3] is levels:  # as a rule, from the second one on
                continue
            if found is None or (at[1] is level and not levels):
                found, level, levels = at, at[1], at[3]
            elif at[1] is not level or (at[3] and at[3] != levels):
                return None
    return None if found is None else (found, given)


def _as_formula_takes(
    given: list[Carried | None],
    held: Carried,
    values: list[Any],
    places: tuple[int, ...],
    sums: bool,
) -> list[Any]:
    """Tangents with zeros where there are none, unless they do without, and in lists as values."""
    start, levels, parts = 0, held[3], []
    for place in places:
        value = values[place]
        is_list = type(value) is list
        items = value if is_list else [value]
        some = given[start : start + len(items)]
        start += len(items)
        found = [
            at[2] if at is not None and at[3] is levels else _part(at, item, held, sums, is_list)
            for at, item in zip(some, items, strict=True)
        ]
        parts.append(found if is_list else found[0])
    return parts


def _part(at: Carried | None, item: Any, held: Carried, sums: bool, of_list: bool) -> Any:
    """One tangent, beside a batched one as it must then be; zeros if there is none."""
    levels = held[3]
    k = len(levels)
    if at is not None:
        return at[2] if at[3] == levels else led(at[2], k)
    if sums or not isinstance(item, Tensor):
        return None
    if of_list and k:  # items are joined, so every sample needs them
        return np.zeros(held[2].shape[:k] + item.shape, item.dtype)
    return led(zeros_like(item)._array, k)


def _view(name: str, stock: Function, general: Function) -> Function:
    """The kernel of an operator that makes a view: that of a tangent is a view of the tangent."""
    batched: Any = None  # its rule for batch axes, once it is needed

    def call(self: Any, *rest: Any, **kwargs: Any) -> Any:
        at = tangent_of(self) if self._flags & DUAL else None
        state = get_state()
        if at is None or state.modes & INFERENCE:
            return general(self, *rest, **kwargs)
        output = stock(self, *rest, **kwargs)
        level, levels = at[1], at[3]
        if not levels:
            part = stock(self._meta.tangents[level], *rest, **kwargs)
        else:
            nonlocal batched
            if batched is None:
                batched = array_rule(f"pullback::{name}") or _decline
            array = batched(len(levels), at[2], *rest, **kwargs)
            if array is NotImplemented:
                return general(self, *rest, **kwargs)
            if carry_view(output, self, at, array, state):
                output._flags |= DUAL
                return output
            step = (view_again, name, rest, kwargs)
            part = record_view(None, self._meta.tangents[level], BatchedArray(array, levels), step)
        if type(part._meta) is not type(output._meta):
            return general(self, *rest, **kwargs)  # one is a copy and the other is not
        set_beside(output, level, part)
        return output

    return call


def _decline(*_: Any, **__: Any) -> Any:
    """In the place of a missing rule."""
    return NotImplemented


# --- results -------------------------------------------------------------------------------------


def _finish(output: Tensor, at: Carried, found: Any, first: Any, second: Any, modes: int) -> Tensor:
    """Gives a new result its tangent; `found` is the array that a formula has returned.

    `at` is a tangent of the arguments, a batched one if there is any; `first` and `second` are
    those in whose memory the new one must not be.
    """
    # Every pushed operation comes through here, so little is left to other functions.
    array = output._array
    dtype, shape, levels = array.dtype, array.shape, at[3]
    if levels:
        shape = at[2].shape[: len(levels)] + shape
    if dtype is not _FLOAT64 and dtype.kind not in "fc":
        found = None  # no number of this kind has a derivative
    if (
        type(found) is not _ndarray
        or found.shape != shape
        or found.dtype is not dtype
        or found is first
        or found is second
        or (found.base is not None and _is_lent(found, first, second))
        or not found.flags.c_contiguous
        or not array.flags.c_contiguous
    ):
        found = _fitted(found, shape, array, first, second)
        if found is None or found.shape != shape or found.dtype is not dtype:
            return _finish_generally(output, at, found, modes)
    birth = None
    if modes & _MARKED:  # as tag_level does
        birth = current_level_id.get()
        counter: list[Any] = [0, birth]
        output._counter = counter
        if modes & MAPPING:
            counter.append(ref(output))
    output._meta = meta = Meta()
    meta.carried = (made, at[1], found, levels, birth)
    output._flags |= DUAL
    if modes & MAPPING and not levels:  # a write may have to replace its memory
        (tangent,) = meta.tangents.values()  # type: ignore[union-attr]
        tangent._counter.append(ref(tangent))  # type: ignore[union-attr]
    return output


def _is_lent(found: Any, first: Any, second: Any) -> bool:
    """Whether a new tangent lies in the memory of one that was given."""
    for array in (first, second):
        if array is not None and (found is array or np.may_share_memory(found, array)):
            return True
    return False


def _fitted(found: Any, shape: tuple[int, ...], result: Any, first: Any, second: Any) -> Any:
    """A tangent in memory of its own: samples one after the other, each as the result is.

    `shape` is what it should have; what has another one in the end broadcasts to it.
    """
    if found is None:
        return None
    found = np.asarray(found)
    k = len(shape) - result.ndim
    if found.ndim != len(shape) or found.shape[:k] != shape[:k]:
        found = np.broadcast_to(found, shape)
    order = layout_of(result)
    if k:
        order = (*range(k), *(k + axis for axis in order))
    if _is_lent(found, first, second) or 0 in found.strides or layout_of(found) != order:
        whole, found = found, empty_in_layout(found.shape, found.dtype, order)
        np.copyto(found, whole)
    return found


def _finish_generally(output: Tensor, at: Carried, found: Any, modes: int) -> Tensor:
    """The same for a tangent that is to be broadcast or converted, or is not there at all."""
    if modes & _MARKED:
        tag_level(output)
    if found is not None:
        tangent = wrap(BatchedArray(found, at[3]) if at[3] else found)
        finish(output, at[1], tag_level(tangent) if modes & _MARKED else tangent)
    return output
