"""The kernels of operators in a closed level: they record, and note or compute tangents.

``register.py`` links calls with dual tensors that require grad to them. ``pushed.py`` tells what a
closed level is; in any other, these kernels leave the call to the general ones of ``dual.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pullback.autograd.namespaces import ForwardFormula, arrays
from pullback.autograd.node import node_of
from pullback.autograd.pushed import (
    ClosedLevel,
    Many,
    Pushed,
    beside,
    computed,
    known,
    many_beside,
    source_of,
)
from pullback.autograd.rows import Rows
from pullback.autograd.saved import SavedOutput, saved_output
from pullback.dispatch.keys import DUAL
from pullback.kernels.quiet import begin_quiet, end_quiet
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["pushed_kernel"]

_Function = Callable[..., Any]
_new = object.__new__


def pushed_kernel(
    record: _Function, general: _Function, formula: ForwardFormula, is_view: bool
) -> _Function:
    """The kernel of an operator for dual tensors that require grad.

    `record` computes and records; `general` takes the calls of levels that are not closed.
    """
    if formula.jvp is None or formula.refused:
        return general
    if formula.is_simple():
        if formula.places == (0,):
            return _of_first(record, general, formula.jvp, is_view)
        if formula.places == (0, 1) and formula.sums and formula.arity() == 2 and not is_view:
            return _of_two(record, general, formula.jvp)
    return _of_any(record, general, formula)


def _of_first(record: _Function, general: _Function, jvp: _Function, is_view: bool) -> _Function:
    """The kernel of an operator whose first argument is its only tensor."""

    def call(self: Any, *rest: Any, **kwargs: Any) -> Any:
        source = self._meta
        if type(source) is not Pushed:
            source = source_of(self)
            if source is None:
                return general(self, *rest, **kwargs)
        output = record(self, *rest, **kwargs)
        if kwargs:
            rest = (*rest, *kwargs.values())
        rule = (jvp, (self._array, *rest), (source,), output._array)
        if is_view and type(output._meta) is View:
            return _view(output, source, rule)
        return _push(output, source.level, rule)

    return call


def _of_two(record: _Function, general: _Function, jvp: _Function) -> _Function:
    """The kernel of an operator of two tensors, whose formula leaves out what has no tangent."""

    def call(self: Any, other: Any) -> Any:
        first: Any = self._meta if self._flags & DUAL else None
        second: Any = other._meta if other._flags & DUAL else None
        if first is not None and type(first) is not Pushed:
            first = source_of(self)
            if first is None:
                return general(self, other)
        if second is not None and type(second) is not Pushed:
            second = source_of(other)
            if second is None:
                return general(self, other)
        level = (second if first is None else first).level
        if second is not None and second.level is not level:
            return general(self, other)
        output = record(self, other)
        rule = (jvp, (self._array, other._array), (first, second), output._array)
        return _push(output, level, rule)

    return call


def _of_any(record: _Function, general: _Function, formula: ForwardFormula) -> _Function:
    """The kernel of any other operator; its formula runs at once."""
    jvp, places, sums = formula.jvp, formula.places, formula.sums
    assert jvp is not None

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        sources = [_sources(values[place]) for place in places]
        levels = {source.level for each in sources for source in each if source is not None}
        level = levels.pop() if len(levels) == 1 else None
        if level is None:
            return general(*args, **kwargs)
        given = [_given(values[p], each, sums) for p, each in zip(places, sources, strict=True)]
        results = record(*args, **kwargs)
        outputs = results if isinstance(results, tuple) else (results,)
        quiet = begin_quiet()
        try:
            found = jvp(level.xp, *map(_raw, values), *given, *map(_raw, outputs))
        except Exception:  # a formula's: the function must not take it for the operator's
            level.leave()
        finally:
            end_quiet(quiet)
        found = found if isinstance(results, tuple) else (found,)
        for output, part in zip(outputs, found, strict=True):
            _give(output, part, level, given)
        return results

    return call


_misfit: Any = Pushed()
_misfit.level = None


def _sources(value: Any) -> list[Any]:
    """The tangents of an argument, one tensor or several; one that does not fit has no level."""
    found: list[Any] = []
    for item in value if type(value) is list else (value,):
        if type(item) is Tensor and item._flags & DUAL:
            source = source_of(item)
            found.append(_misfit if source is None else source)
        else:
            found.append(None)
    return found


def _given(value: Any, sources: list[Any], sums: bool) -> Any:
    """The tangent of an argument as a formula takes it: zeros, or None, where it has none."""
    if type(value) is list:
        return [_given(item, [s], sums) for item, s in zip(value, sources, strict=True)]
    if sources[0] is not None:
        return computed(sources[0])
    return None if sums or type(value) is not Tensor else np.zeros_like(value._array)


def _raw(value: Any) -> Any:
    """An argument or a result as a formula on arrays takes it."""
    if type(value) is Tensor:
        return value._array
    return [_raw(item) for item in value] if type(value) is list else value


def _give(output: Any, found: Any, level: ClosedLevel, given: list[Any]) -> None:
    """Gives a result the tangent that a formula has returned."""
    if type(output) is list:
        for item, part in zip(output, found, strict=True):
            _give(item, part, level, given)
        return
    if found is None or output._array.dtype.kind not in "fc":
        return
    if type(output._meta) is View:
        _give_view(output, found, level)
        return
    result, many = output._array, level.xp is not arrays
    found = many_beside(result, found, _flat(given)) if many else beside(result, found)
    meta = output._meta = known(level, found)
    output._flags |= DUAL
    node = node_of(output._edge)
    if node is not None:
        _keep(node, meta, output)


def _flat(given: list[Any]) -> Iterable[Any]:
    for part in given:
        if type(part) is list:
            yield from _flat(part)
        elif type(part) is Rows:
            yield part


def _push(output: Any, level: ClosedLevel, rule: tuple[Any, ...]) -> Any:
    """Notes how the tangent of a new result is computed."""
    node = output._edge
    if node is None:  # integers have no tangent
        return output
    meta = _new(Pushed)
    meta.level = level
    meta.rule = rule
    output._meta = meta
    output._flags |= DUAL
    level.pushed.append(meta)
    if node._counted:
        _keep(node, meta, output)
    return output


def _keep(node: Any, pushed: Pushed, output: Tensor) -> None:
    """Has a node that saves its own result keep the tangent."""
    level = pushed.level
    for name in node._saves_tensors:
        value = saved_output(node, name)
        if type(value) is SavedOutput and value.array is output._array:
            array = computed(pushed)
            many = level.xp is not arrays
            value.tangents = Many(pushed) if many else {level: fresh(array)}
            level.saved.append(value)


def _view(output: Any, source: Pushed, rule: tuple[Any, ...]) -> Any:
    """Gives a view the same view of the tangent."""
    jvp, primals, _, result = rule
    level = source.level
    try:
        _give_view(output, jvp(level.xp, *primals, computed(source), result), level)
    except Exception:
        level.leave()
    return output


def _give_view(output: Any, part: Any, level: ClosedLevel) -> None:
    """Gives a view its tangent: a view of its base's, which lies in memory as the base does."""
    many = level.xp is not arrays
    output._meta.tangents = Many(known(level, part)) if many else {level: fresh(part)}
    output._flags |= DUAL
