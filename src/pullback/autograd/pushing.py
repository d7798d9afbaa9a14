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
    Later,
    Pushed,
    beside,
    known,
    many_beside,
    source_of,
)
from pullback.autograd.rows import Rows
from pullback.autograd.saved import SavedOutput, output_from, saved_output
from pullback.dispatch.keys import DUAL
from pullback.kernels.quiet import begin_quiet, end_quiet
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor, fresh, version_of

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
            if formula.arity() == 1 and not is_view:
                return _of_one(record, general, formula.jvp)
            return _of_first(record, general, formula.jvp, is_view)
        if formula.places == (0, 1) and formula.sums and formula.arity() == 2 and not is_view:
            return _of_two(record, general, formula.jvp)
    return _of_any(record, general, formula)


# Every operation of a function comes through one of the next three, which therefore do in line what
# they have in common: a new result notes how its tangent is computed, and its node what it saves.


def _of_one(record: _Function, general: _Function, jvp: _Function) -> _Function:
    """The kernel of an operator whose only argument is a tensor."""

    def call(self: Any) -> Any:
        source = self._meta
        if type(source) is not Pushed or not source.level.alive:
            source = source_of(self)
            if source is None:
                return general(self)
        output = record(self)
        node = output._edge
        if node is None:  # integers have no tangent
            return output
        level = source.level
        tangents = level.tangents
        meta = output._meta = _new(Pushed)
        meta.level = level
        meta.place = len(tangents)
        tangents.append((jvp, (self._array,), (source.place,), output._array))
        output._flags |= DUAL
        kinds = level.kinds
        if not node._saves_tensors:
            kinds[node] = kinds.get(node._edge0) or False
        else:  # it has saved the argument or the result, and both have tangents
            kinds[node] = None
            if node._saves_results:
                _keep(node, meta, output)
        return output

    return call


# The operator's own arguments, because ``*args`` and ``**kwargs`` would take twice as long.
_OF_FIRST = """def call(self{parameters}):
    pb_source = self._meta
    if pb_type(pb_source) is not pb_Pushed or not pb_source.level.alive:
        pb_source = pb_source_of(self)
        if pb_source is None:
            return pb_general(self{passed})
    return pb_push(pb_record(self{passed}), pb_source, (self._array{values}))
"""


def _of_first(record: _Function, general: _Function, jvp: _Function, is_view: bool) -> _Function:
    """The kernel of an operator whose first argument is its only tensor."""

    def push(output: Any, source: Pushed, primals: tuple[Any, ...]) -> Any:
        level = source.level
        if is_view and type(output._meta) is View:
            return _view(output, level, source.place, (jvp, primals, output._array))
        node = output._edge
        if node is None:
            return output
        tangents = level.tangents
        meta = output._meta = _new(Pushed)
        meta.level = level
        meta.place = len(tangents)
        tangents.append((jvp, primals, (source.place,), output._array))
        output._flags |= DUAL
        kinds = level.kinds
        if not node._saves_tensors:
            kinds[node] = kinds.get(node._edge0) or False
        else:
            kinds[node] = None
            if node._saves_results:
                _keep(node, meta, output)
        return output

    made: Any = record
    code = made.__code__
    count = code.co_argcount
    positional = [f"pb_{place}" for place in range(1, count)]
    named = list(code.co_varnames[count : count + code.co_kwonlyargcount])
    parameters = [*positional, *(["*", *named] if named else [])]
    passed = [*positional, *(f"{name}={name}" for name in named)]
    texts = {"parameters": parameters, "passed": passed, "values": [*positional, *named, ""]}
    source = _OF_FIRST.format(**{key: ", ".join(["", *text]) for key, text in texts.items()})
    space: dict[str, Any] = {
        "pb_type": type,
        "pb_Pushed": Pushed,
        "pb_source_of": source_of,
        "pb_general": general,
        "pb_record": record,
        "pb_push": push,
    }
    exec(compile(source, f"<pushed {made.__name__}>", "exec"), space)
    call: Any = space["call"]
    call.__defaults__, call.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
    return call  # type: ignore[no-any-return]


def _of_two(record: _Function, general: _Function, jvp: _Function) -> _Function:
    """The kernel of an operator of two tensors, whose formula leaves out what has no tangent."""
    # What a node saves depends on the edges it has, so that of two cases it is found out only once
    # whether it is steady: that of a constant in the first place, and that of one in the second.
    is_steady: dict[bool, bool] = {}

    def call(self: Any, other: Any) -> Any:
        first: Any = self._meta if self._flags & DUAL else None
        second: Any = other._meta if other._flags & DUAL else None
        if first is not None and (type(first) is not Pushed or not first.level.alive):
            first = source_of(self)
            if first is None:
                return general(self, other)
        if second is not None and (type(second) is not Pushed or not second.level.alive):
            second = source_of(other)
            if second is None:
                return general(self, other)
        if second is None:
            level = first.level
            sources = (first.place, None)
        else:
            level = second.level
            if first is None:
                sources = (None, second.place)
            elif first.level is level:
                sources = (first.place, second.place)
            else:
                return general(self, other)
        output = record(self, other)
        node = output._edge
        if node is None:
            return output
        tangents = level.tangents
        meta = output._meta = _new(Pushed)
        meta.level = level
        meta.place = len(tangents)
        tangents.append((jvp, (self._array, other._array), sources, output._array))
        output._flags |= DUAL
        one, two, kinds = node._edge0, node._edge1, level.kinds
        if not node._saves_tensors:
            is_straight = (one is None or kinds.get(one)) and (two is None or kinds.get(two))
            kinds[node] = is_straight or False
        elif (one is None and first is None) or (two is None and second is None):
            place = one is None
            if place not in is_steady:
                level.note(node)
                is_steady[place] = kinds[node] is not None
            else:
                found = kinds.get(two if place else one) or False
                kinds[node] = found if is_steady[place] else None
        else:  # two that change, although one of them may not require grad
            kinds[node] = None
        if node._saves_results:
            _keep(node, meta, output)
        return output

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
            _note(output, level)
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
        return sources[0].level.tangent(sources[0].place)
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


def _keep(node: Any, pushed: Pushed, output: Tensor) -> None:
    """Has a node that saves its own result keep the tangent."""
    for name in node._saves_tensors:
        value = getattr(node, name, None)  # no value where none was needed
        if value is output._array and name in node._saves_results:  # the bare array of one
            value = output_from(value, version_of(output))
            setattr(node, name, value)
        else:
            value = saved_output(node, name)
        if type(value) is SavedOutput and value.array is output._array:
            value.tangents = Later(pushed)
            pushed.level.saved.append(value)


def _note(output: Any, level: ClosedLevel) -> None:
    """Has the level note the node of a result."""
    if type(output) is list:
        for item in output:
            _note(item, level)
        return
    node = node_of(output._meta.edge if type(output._meta) is View else output._edge)
    if node is not None:
        if node._is_single:
            level.note(node)
        else:
            level.kinds[node] = None


def _view(output: Any, level: ClosedLevel, place: int, rule: tuple[Any, ...]) -> Any:
    """Gives a view the same view of the tangent."""
    jvp, primals, result = rule
    try:
        _give_view(output, jvp(level.xp, *primals, level.tangent(place), result), level)
    except Exception:
        level.leave()
    _note(output, level)
    return output


def _give_view(output: Any, part: Any, level: ClosedLevel) -> None:
    """Gives a view its tangent: a view of its base's, which lies in memory as the base does."""
    many = level.xp is not arrays
    output._meta.tangents = Later(known(level, part)) if many else {level: fresh(part)}
    output._flags |= DUAL
