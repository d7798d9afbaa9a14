"""The short forward road: tangents that nobody records are computed on raw arrays.

Most forward derivatives are of one level and are not differentiated again. Then an operator's plain
kernel runs, its forward formula runs on arrays (``array_formulas.py``), and the tangent is put in a
tensor: no dispatch, and no tensors around what lies between. Every other call goes the general way,
``dual.py``, which this must agree with.

A call is simple if each argument has at most one tangent, all of one level, without tangents or a
history of their own, and primals hold arrays and do not require grad; the last is known when the
kernel is linked (``register.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from pullback.autograd.around import view_again
from pullback.autograd.array_formulas import DeclinedError, Formula, Function, samples
from pullback.autograd.dual import finish
from pullback.autograd.level import Level
from pullback.autograd.record import record_view
from pullback.autograd.tangents import set_beside, zeros_like
from pullback.autograd.view import creation_now, make_view
from pullback.batching.rules import tensor_rule
from pullback.dispatch.keys import DUAL, PLAIN_VIEW
from pullback.dispatch.modes import INFERENCE, MAPPING, TRANSFORM, get_state
from pullback.dispatch.table import OperatorEntry
from pullback.tensor.batched import BATCHED_FLAGS, BatchedArray
from pullback.tensor.levels import active_levels
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import Meta, Step, View
from pullback.tensor.tensor import CPU_FLAGS, Tensor, birthplace, born_here, share_counter, wrap

__all__ = ["array_kernel"]

_new = object.__new__
_ndarray = np.ndarray
_PLAIN = (CPU_FLAGS, BATCHED_FLAGS)
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


def _tangent_of(tensor: Tensor) -> tuple[Level, Tensor] | None:
    """The only tangent of a dual tensor, if a simple call may have it."""
    try:
        ((level, tangent),) = tensor._meta.tangents.items()  # type: ignore[union-attr]
    except ValueError:  # none or several
        return None
    flags = tangent._flags
    if flags & PLAIN_VIEW:
        if tangent._meta.base._flags not in _PLAIN:  # type: ignore[union-attr]
            return None
        flags &= ~PLAIN_VIEW
    if flags == BATCHED_FLAGS:
        # Where it does not vary with all levels, the result needs a mark: left to the general way.
        is_simple = len(tangent._array.levels) == len(active_levels())
    else:
        is_simple = flags == CPU_FLAGS
    return (level, tangent) if is_simple and level.alive else None


def _raw(value: Any) -> Any:
    """An argument as a formula on arrays takes it."""
    if type(value) is Tensor:
        return value._array
    if type(value) is list:
        return [_raw(item) for item in value]
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
        at = _tangent_of(self) if self._flags & DUAL else None
        others = (*rest, *kwargs.values()) if kwargs else rest
        modes = get_state().modes
        if at is None or modes & INFERENCE or (others and _has_duals(others)):
            return general(self, *rest, **kwargs)
        level, tangent = at
        held = tangent._array
        if formula.declines and type(held) is BatchedArray:
            return general(self, *rest, **kwargs)
        output = stock(self, *rest, **kwargs)
        raw: Any = [_raw(value) for value in others] if others else ()
        try:
            found = formula.of_one(held, self._array, raw, output._array)
        except DeclinedError:
            return general(self, *rest, **kwargs)
        return _finish(output, level, found, held, (held,), modes)

    return call


def _of_first_two(stock: Function, formula: Formula, general: Function) -> Function:
    """The kernel where only the first two may, by a formula that leaves out those without one."""

    def call(self: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        at = first = second = held = None
        if self._flags & DUAL:
            at = _tangent_of(self)
            if at is None:
                return general(self, other, *rest, **kwargs)
            first = held = at[1]._array
        if type(other) is Tensor and other._flags & DUAL:
            by = _tangent_of(other)
            if by is None or (at is not None and at[0] is not by[0]):
                return general(self, other, *rest, **kwargs)
            at, second = by, by[1]._array
            if type(held) is not BatchedArray:
                held = second
            elif type(second) is BatchedArray and second.levels != held.levels:
                return general(self, other, *rest, **kwargs)
        others = (*rest, *kwargs.values()) if kwargs else rest
        modes = get_state().modes
        if at is None or modes & INFERENCE or (others and _has_duals(others)):
            return general(self, other, *rest, **kwargs)
        if formula.declines and type(held) is BatchedArray:
            return general(self, other, *rest, **kwargs)
        output = stock(self, other, *rest, **kwargs)
        primals = [self._array, _raw(other)]
        if others:
            primals += [_raw(value) for value in others]
        try:
            found = formula.of_two(held, primals, first, second, output._array)
        except DeclinedError:
            return general(self, other, *rest, **kwargs)
        return _finish(output, at[0], found, held, (first, second), modes)

    return call


def _of_any(
    stock: Function, formula: Formula, places: tuple[int, ...], sums: bool, general: Function
) -> Function:
    """The kernel of any operator with one result."""

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        at = _common(values, places)
        rest = [value for place, value in enumerate(values) if place not in places]
        modes = get_state().modes
        if at is None or modes & INFERENCE or _has_duals(rest):
            return general(*args, **kwargs)
        level, held, given = at
        if formula.declines and type(held) is BatchedArray:
            return general(*args, **kwargs)
        output = stock(*args, **kwargs)
        primals = [_raw(value) for value in values]
        parts = _as_formula_takes(given, held, values, places, sums)
        try:
            found = formula.of_any(held, primals, parts, output._array)
        except DeclinedError:
            return general(*args, **kwargs)
        return _finish(output, level, found, held, given, modes)

    return call


def _common(values: list[Any], places: tuple[int, ...]) -> tuple[Level, Any, list[Any]] | None:
    """The level of all tangents, one of them, a batched one if there is any, and all of them."""
    level = held = None
    given: list[Any] = []
    for place in places:
        value = values[place]
        for item in value if type(value) is list else (value,):
            if type(item) is not Tensor or not item._flags & DUAL:
                given.append(None)
                continue
            at = _tangent_of(item)
            if at is None or level not in (None, at[0]):
                return None
            level, part = at[0], at[1]._array
            given.append(part)
            if type(held) is not BatchedArray:
                held = part
            elif type(part) is BatchedArray and part.levels != held.levels:
                return None
    return None if level is None else (level, held, given)


def _as_formula_takes(
    given: list[Any], held: Any, values: list[Any], places: tuple[int, ...], sums: bool
) -> list[Any]:
    """Tangents with zeros where there are none, unless they do without, and in lists as values."""
    found = iter(given)

    def one(item: Any, of_list: bool = False) -> Any:
        part = next(found)
        if part is not None or sums or not isinstance(item, Tensor):
            return part
        if of_list and type(held) is BatchedArray:  # items are joined, so every sample needs them
            shape = held.array.shape[: len(held.levels)] + item.shape
            return BatchedArray(np.zeros(shape, item.dtype), held.levels)
        return zeros_like(item)._array

    return [
        [one(item, True) for item in values[place]]
        if type(values[place]) is list
        else one(values[place])
        for place in places
    ]


def _view(name: str, stock: Function, general: Function) -> Function:
    """The kernel of an operator that makes a view: that of a tangent is a view of the tangent."""

    def call(self: Any, *rest: Any, **kwargs: Any) -> Any:
        at = _tangent_of(self) if self._flags & DUAL else None
        if at is None or get_state().modes & INFERENCE:
            return general(self, *rest, **kwargs)
        level, tangent = at
        held = tangent._array
        output = stock(self, *rest, **kwargs)
        if type(held) is not BatchedArray:
            part = stock(tangent, *rest, **kwargs)
        else:
            try:
                array = getattr(samples(len(held.levels)), name)(held.array, *rest, **kwargs)
            except DeclinedError:
                return general(self, *rest, **kwargs)
            part = _view_of_samples(tangent, array, (view_again, name, rest, kwargs))
        if type(part._meta) is not type(output._meta):
            return general(self, *rest, **kwargs)  # one is a copy and the other is not
        set_beside(output, level, part)
        return output

    return call


def _view_of_samples(tangent: Tensor, array: Any, step: Step) -> Tensor:
    """The tensor of an array that was made as a view of a batched tangent."""
    held = tangent._array
    whole, part = held.array, BatchedArray(array, held.levels)
    base, meta = array.base, tangent._meta
    if base is None or (base is not whole and base is not whole.base):
        return record_view(None, tangent, part, step)
    if meta is not None:
        return make_view(tangent, part, step, None)
    # As make_view does for a tensor that is no view itself.
    made = _new(Tensor)
    made._array = part
    made._flags = BATCHED_FLAGS | PLAIN_VIEW
    made._edge = None
    share_counter(made, tangent)
    made._meta = view = View()
    view.base, view.step, view.edge, view.base_edge = tangent, step, None, None
    view.version = made._counter[0]  # type: ignore[index]
    view.creation = creation_now()
    return made


# --- results -------------------------------------------------------------------------------------


def _finish(
    output: Tensor, level: Level, found: Any, held: Any, given: Sequence[Any], modes: int
) -> Tensor:
    """Gives a new result its tangent; `found` is the array that a formula has returned.

    `held` is a tangent of the arguments, a batched one if there is any, and `given` are all.
    """
    # Every pushed operation comes through here, so little is left to other functions.
    array = output._array
    shape = array.shape
    if type(held) is BatchedArray:
        shape = held.array.shape[: len(held.levels)] + shape
    dtype = array.dtype
    if dtype.kind not in "fc":
        found = None  # no number of this kind has a derivative
    if (
        type(found) is not _ndarray
        or found.shape != shape
        or found.dtype is not dtype
        or not found.flags.c_contiguous
        or not array.flags.c_contiguous
        or _is_lent(found, given)
    ):
        found = _fitted(found, shape, array, given)
        if found is None or found.shape != shape or found.dtype is not dtype:
            return _finish_generally(output, level, found, held, modes)
    tangent = _new(Tensor)
    tangent._edge = tangent._counter = tangent._meta = None
    if modes & _MARKED:  # as born_here does, for two new tensors at once
        birth = birthplace.get()
        output._counter, tangent._counter = [0, birth], [0, birth]
        if modes & MAPPING:
            output._counter.append(ref(output))
    if type(held) is BatchedArray:  # it varies with all levels already, and will have no others
        tangent._array = payload = _new(BatchedArray)
        payload.array = found
        payload.levels = held.levels
        tangent._flags = BATCHED_FLAGS
    else:
        tangent._array = found
        tangent._flags = CPU_FLAGS
        if modes & MAPPING:
            tangent._counter.append(ref(tangent))  # type: ignore[union-attr]
    output._meta = meta = Meta()
    meta.tangents = {level: tangent}
    output._flags |= DUAL
    return output


def _is_lent(found: Any, given: Sequence[Any]) -> bool:
    """Whether a new tangent lies in the memory of one that was given."""
    owns = found.base is None
    for part in given:
        if part is not None:
            array = part.array if type(part) is BatchedArray else part
            if found is array or (not owns and np.may_share_memory(found, array)):
                return True
    return False


def _fitted(found: Any, shape: tuple[int, ...], result: Any, given: Sequence[Any]) -> Any:
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
    if _is_lent(found, given) or 0 in found.strides or layout_of(found) != order:
        whole, found = found, empty_in_layout(found.shape, found.dtype, order)
        np.copyto(found, whole)
    return found


def _finish_generally(output: Tensor, level: Level, found: Any, held: Any, modes: int) -> Tensor:
    """The same for a tangent that is to be broadcast or converted, or is not there at all."""
    if modes & _MARKED:
        born_here(output)
    if found is not None:
        tangent = wrap(BatchedArray(found, held.levels) if type(held) is BatchedArray else found)
        finish(output, level, born_here(tangent) if modes & _MARKED else tangent)
    return output
