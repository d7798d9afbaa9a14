"""Forward-mode kernels: they run an operator and then its JVP rule.

Calls with a dual tensor are linked to ``make_jvp_kernel``. The operator runs once and records what
it must; then its rule runs at every level, lowest first, on primals and tangents of the lower
levels (``tangents.py`` defines levels). Formulas call ordinary operators, so tangents can be
differentiated backwards too.

Most tangents have one level and are not differentiated again. ``make_array_kernel`` is the fast
path for them: the operator's plain kernel runs, its rule runs on arrays, and the result gets a lazy
tangent, without dispatch and without tensors in between. Its condition: each argument has at most
one tangent, all of one level, without tangents or a history of their own, and primals hold arrays
and do not require grad (the last is known when the kernel is linked, ``record/register.py``). Every
other call takes the general path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any
from weakref import ref

import numpy as np

from pullback.autograd.forward.jvp_rule import (
    Function,
    JvpRule,
    UnsupportedFastPath,
    fit_tangent,
    lead,
    unwrap,
)
from pullback.autograd.forward.tangents import (
    below,
    keep_tangents,
    levels_of,
    read_tangent,
    set_beside,
    set_lazy_view,
    set_tangent,
    strip_tangents,
    tangents_of,
    write_tangent,
    zeros_like,
)
from pullback.autograd.graph.inplace import CopySlices
from pullback.autograd.graph.node import node_of
from pullback.autograd.graph.saved import saved_output
from pullback.autograd.levels import Level
from pullback.autograd.namespaces import arrays, tensors
from pullback.autograd.record.record import record_view
from pullback.autograd.record.unfused import view_again
from pullback.batching.rules import array_rule
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import INFERENCE, MAPPING, TRANSFORM, get_state
from pullback.errors import DerivativeMissingError
from pullback.tensor.batched import BatchedArray, Levels
from pullback.tensor.meta import Meta, View
from pullback.tensor.tensor import TENSOR_TYPES, Tensor, current_level_id, tag_level, wrap

__all__ = ["make_array_kernel", "make_jvp_kernel", "make_view_kernel"]

_ndarray = np.ndarray
_FLOAT64 = np.dtype(np.float64)
_MARKED = TRANSFORM | MAPPING


# --- the general path ----------------------------------------------------------------------------


def make_jvp_kernel(rule: JvpRule, base: Function, is_inplace: bool) -> Function:
    """The kernel that runs `base`, the operator's kernel without tangents, and its rule on tensors.

    `is_inplace` says that the first argument is written to: the formula needs its old value. A
    tangent of an argument without a derivative raises: the formula would leave it out.
    """
    if rule.function is None:
        raise DerivativeMissingError(
            f"Trying to use forward AD with {rule.name}, which does not support it because it has "
            f"not been implemented yet"
        )
    places, skips_none, refused = rule.places, rule.skips_none, rule.refused
    *is_read, reads_results = rule.reads()
    function, unread = rule.function, [None] * rule.result_count()
    is_all = places == tuple(range(len(is_read)))

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        if refused:
            _check_refused(rule, values)
        levels = levels_of(values if is_all else [values[place] for place in places])
        if is_inplace and levels:
            copy = tensors.clone(values[0])
            values = [_before_write(value, values[0], copy) for value in values]
        results = base(*args, **kwargs)
        outputs = results if isinstance(results, tuple) else (results,)
        for level in levels:
            given = [_tangent(values[place], level, skips_none) for place in places]
            primals = _below(values, level, is_read)
            bare = [_below_result(o, level) for o in outputs] if reads_results else unread
            found = function(tensors, *primals, *given, *bare)
            for output, tangent in zip(outputs, found if results is outputs else (found,)):  # noqa: B905
                _set_tangent(output, level, tangent, given, is_inplace)
        if levels:
            _remember_tangents(outputs, is_inplace)
        return results

    return call


def _check_refused(rule: JvpRule, values: list[Any]) -> None:
    for place, missing in rule.refused:
        if isinstance(values[place], Tensor) and tangents_of(values[place]):
            raise DerivativeMissingError(
                f"Trying to use forward AD with {rule.name}: the derivative for {missing!r} is not "
                f"implemented"
            )


def _before_write(value: Any, target: Tensor, copy: Tensor) -> Any:
    """An argument as it is before a write to `target`: a copy of what shares its memory."""
    if value is target:
        return copy
    if isinstance(value, list):
        return [_before_write(item, target, copy) for item in value]
    shares = isinstance(value, Tensor) and value._counter is target._counter is not None
    return tensors.clone(value) if shares else value


def _tangent(value: Any, level: Level, skips_none: bool) -> Any:
    """The tangent of an argument; where it has none, zeros, or None if the formula skips that."""
    if isinstance(value, Tensor):
        tangent = value._meta.tangents.get(level) if value._flags & DUAL else None  # type: ignore[union-attr]
        return zeros_like(value) if tangent is None and not skips_none else tangent
    if isinstance(value, list):
        return [_tangent(item, level, skips_none) for item in value]
    return None


def _below(values: list[Any], level: Level, is_read: Iterable[bool] = repeat(True)) -> list[Any]:
    """Arguments without the tangents of a level and of those above it; None for unread ones."""
    primals: list[Any] = []
    for value, is_needed in zip(values, is_read, strict=False):
        if not is_needed:
            value = None
        elif isinstance(value, Tensor):
            if value._flags & (DUAL | PLAIN_VIEW):
                value = below(value, level)
        elif isinstance(value, list):
            value = _below(value, level)
        primals.append(value)
    return primals


def _below_result(output: Any, level: Level) -> Any:
    """The same of a result, always as a new tensor.

    Nodes of its tangent may save it, and the result itself, which holds the tangent, would close a
    reference cycle.
    """
    if isinstance(output, Tensor):
        return below(output, level) if output._flags & DUAL else strip_tangents(output)
    if isinstance(output, list):
        return [_below_result(item, level) for item in output]
    return output


def _set_tangent(
    output: Any, level: Level, tangent: Any, given: list[Any], is_inplace: bool
) -> None:
    """Gives a result its tangent, in the result's shape and dtype and in memory of its own."""
    if tangent is None:
        return
    if isinstance(output, list):
        for item, part in zip(output, tangent, strict=True):
            _set_tangent(item, level, part, given, is_inplace)
        return
    if not isinstance(output, Tensor) or output._array.dtype.kind not in "fc":
        return
    counter = None if type(output._meta) is View else tangent._counter
    for other in given:
        if tangent is other or (counter is not None and getattr(other, "_counter", 0) is counter):
            tangent = tensors.clone(tangent)
    wanted, array = output._array, tangent._array
    if array.shape != wanted.shape:
        # A copy: several elements in one place of memory could not be written to.
        tangent = tensors.clone(tensors.broadcast_to(tangent, list(output.shape)))
    dtype = wanted.dtype
    if array.dtype is not dtype and (array.dtype.kind != "c" or dtype.kind == "c"):
        tangent = tensors.astype(tangent, dtype)
    array = tangent._array
    if is_inplace:
        write_tangent(output, level, tangent)
    elif type(array) is type(wanted) is _ndarray and array.strides == wanted.strides:
        set_tangent(output, level, tangent)  # as `set_beside` would
    else:
        set_beside(output, level, tangent)


def _remember_tangents(outputs: Any, is_inplace: bool) -> None:
    """Has a node that saves its own results keep their tangents, which they got after that."""
    node: Any = None
    for output in outputs:
        if node is None and isinstance(output, Tensor) and output._flags & REQUIRES_GRAD:
            if type(output._meta) is not View:
                node = node_of(output._edge)
            elif is_inplace:  # a new view's node saves no result; a written one's is the write's
                node = node_of(output._meta.base._edge)
                node = node.fn if isinstance(node, CopySlices) else node
    if node is None or (node._is_single and not node._saves_results):
        return
    for name in node._saves_tensors:
        value: Any = getattr(node, name, None)
        if type(value) in TENSOR_TYPES or (
            type(value) is _ndarray and name not in node._saves_results
        ):
            continue  # an input
        value = saved_output(node, name)
        if hasattr(value, "tangents") and value.number is not None:
            keep_tangents(value, outputs[value.number])


# --- the fast path on arrays ---------------------------------------------------------------------


def make_array_kernel(rule: JvpRule, stock: Function, general: Function) -> Function:
    """The kernel of an operator with one result, for dual tensors that hold arrays.

    `stock` computes the result; `general` takes the calls that do not meet the condition above.
    """
    arguments, skips_none, function = rule.arguments(), rule.skips_none, rule.function
    count = len(rule.places)
    is_flat = rule.has_only_tensors() and rule.places == tuple(range(count))
    has_options = is_flat and len(arguments) > count
    assert function is not None

    def call(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        level: Any = None
        batch: Levels = ()
        primals: list[Any] = []
        tangents: list[Any] = []
        is_uniform = is_flat  # one level, one batch, no zeros: then this loop is enough
        for value in values[:count] if has_options else values:
            tangent = None
            if type(value) in TENSOR_TYPES:
                primals.append(value._array)
                if value._flags & DUAL:
                    found = read_tangent(value)
                    if found is None:
                        return general(*args, **kwargs)
                    at, tangent, levels = found
                    if level is None:
                        level, batch, first = at, levels, tangent
                    elif at is not level or levels is not batch:
                        is_uniform = False
            else:
                primals.append(value)
            tangents.append(tangent)
            if tangent is None and not skips_none:
                is_uniform = False
        if not is_uniform or level is None:
            gathered = _gather(rule, values)
            if gathered is None:
                return general(*args, **kwargs)
            level, batch, first, primals, tangents = gathered
        elif has_options:
            primals.extend(values[count:])
        modes = get_state().modes
        if modes & INFERENCE or (batch and rule.lacks_batching):
            return general(*args, **kwargs)
        output = stock(*args, **kwargs) if kwargs else stock(*args)
        if not batch:
            tangent = function(arrays, *primals, *tangents, output._array)
            return _finish(output, tangent, level, batch, (), tangents, modes)
        try:
            tangent = rule.apply(arrays, primals, tangents, (output._array,), len(batch))
        except UnsupportedFastPath:
            return general(*args, **kwargs)
        return _finish(output, tangent, level, batch, first.shape[: len(batch)], tangents, modes)

    return call


def _gather(
    rule: JvpRule, values: Sequence[Any]
) -> tuple[Level, Levels, Any, list[Any], list[Any]] | None:
    """The level and batch levels of the tangents, one that has the batch axes, primals, tangents.

    For all calls: with lists, zeros, and tangents without the batch axes that others have. None if
    a call does not meet the condition of the fast path.
    """
    level: Any = None
    batch: Levels = ()
    known: dict[int, Any] = {}
    for place, value in enumerate(values):
        for item in value if type(value) is list else (value,):
            if type(item) not in TENSOR_TYPES or not item._flags & DUAL:
                continue
            found = read_tangent(item) if place in rule.places else None
            if found is None:  # not for arrays, or the formula would leave it out
                return None
            at, array, levels = known[id(item)] = found
            if level is None or (at is level and not batch):
                level, batch, first = at, levels, array
            elif at is not level or (levels and levels != batch):
                return None
    if level is None:
        return None
    k = len(batch)

    def tangent_of(item: Any, is_in_list: bool) -> Any:
        if id(item) in known:
            _, tangent, levels = known[id(item)]
            return tangent if levels == batch else lead(tangent, k)
        if rule.skips_none or not isinstance(item, Tensor):
            return None
        if is_in_list and k:  # items are joined, so the whole batch needs them
            return np.zeros(first.shape[:k] + item.shape, item.dtype)
        return lead(zeros_like(item)._array, k)

    tangents = [
        [tangent_of(v, True) for v in value] if type(value) is list else tangent_of(value, False)
        for value in [values[place] for place in rule.places]
    ]
    return level, batch, first, [unwrap(value) for value in values], tangents


def make_view_kernel(rule: JvpRule, stock: Function, general: Function) -> Function:
    """The kernel of an operator that makes a view: that of a tangent is a view of the tangent."""
    batched: Any = None  # its batching rule, once it is needed

    def call(self: Any, *rest: Any, **kwargs: Any) -> Any:
        found = read_tangent(self) if self._flags & DUAL else None
        state = get_state()
        if found is None or state.modes & INFERENCE:
            return general(self, *rest, **kwargs)
        output = stock(self, *rest, **kwargs)
        level, held, batch = found
        if not batch:
            part = stock(self._meta.tangents[level], *rest, **kwargs)
        else:
            nonlocal batched
            if batched is None:
                batched = array_rule(f"pullback::{rule.name}") or (lambda *_, **__: NotImplemented)
            array = batched(len(batch), held, *rest, **kwargs)
            if array is NotImplemented:
                return general(self, *rest, **kwargs)
            if set_lazy_view(output, self, found, array, state):
                output._flags |= DUAL
                return output
            step = (view_again, rule.name, rest, kwargs)
            part = record_view(None, self._meta.tangents[level], BatchedArray(array, batch), step)
        if type(part._meta) is not type(output._meta):
            return general(self, *rest, **kwargs)  # one is a copy and the other is not
        set_beside(output, level, part)
        return output

    return call


def _finish(
    output: Tensor,
    tangent: Any,
    level: Level,
    batch: Levels,
    batch_shape: tuple[int, ...],
    given: list[Any],
    modes: int,
) -> Tensor:
    """Gives a new result its lazy tangent, as ``fit_tangent`` makes it; None if it has none."""
    # Every pushed operation comes through here, so little is left to other functions.
    array = output._array
    dtype, shape = array.dtype, array.shape
    if dtype is not _FLOAT64 and dtype.kind not in "fc":
        tangent = None  # no number of this kind has a derivative
    is_fit = type(tangent) is _ndarray and tangent.base is None and tangent.dtype is dtype
    for other in given:
        is_fit = is_fit and other is not tangent
    if (
        not is_fit
        or tangent.shape != (batch_shape + shape if batch else shape)
        or (tangent.ndim > 1 and not (tangent.flags.c_contiguous and array.flags.c_contiguous))
    ):
        if tangent is not None:
            tangent = fit_tangent(tangent, batch_shape, array, given)
        if tangent is None or tangent.dtype is not dtype:
            if modes & _MARKED:
                tag_level(output)
            if tangent is not None:  # a complex tangent of a real result
                wrapped = wrap(BatchedArray(tangent, batch) if batch else tangent)
                set_beside(output, level, tag_level(wrapped) if modes & _MARKED else wrapped)
            return output
    birth = None
    if modes & _MARKED:  # as tag_level does
        birth = current_level_id.get()
        counter: list[Any] = [0, birth]
        output._counter = counter
        if modes & MAPPING:
            counter.append(ref(output))
    output._meta = meta = Meta()
    meta.lazy_level = level
    if batch:
        meta.lazy_batch = batch
    meta.lazy_birth = birth
    meta.lazy_array = tangent
    output._flags |= DUAL
    if modes & MAPPING and not batch:  # a write may have to replace its memory
        (wrapped,) = meta.tangents.values()  # type: ignore[union-attr]
        wrapped._counter.append(ref(wrapped))  # type: ignore[union-attr]
    return output
