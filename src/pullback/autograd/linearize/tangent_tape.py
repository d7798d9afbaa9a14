"""A level in which operations are noted, so that tangents can be computed afterwards.

``func.second`` runs a function in a level that is *closed*: nobody outside can differentiate what
happens in it. The function runs as in any transform of reverse mode. Beside every node that is
recorded the level notes the forward formula of the operation with its arguments and its result.
A backward pass then asks for the tangents of what nodes have saved, one tangent or many at once;
those of a loss, of sums and averages are mostly never computed. They are arrays without history.

A node that nobody has noted, be it a custom function's or a write's, has no tangents, and a pass
that meets one is given up: everything that the notes say is known to be whole, or is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from pullback.autograd.forward.batched_tangent import Rows
from pullback.autograd.forward.jvp_rule import JvpRule
from pullback.autograd.graph.node import Node, Output, edge_to
from pullback.autograd.graph.output_metadata import OutputExtras
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import TransformLevel
from pullback.autograd.namespaces import Namespace
from pullback.dispatch.modes import TAPE, TRANSFORM
from pullback.interrupts import uninterrupted_entry
from pullback.kernels.errstate import QUIET, get_settings, set_settings
from pullback.tensor.levels import next_serial
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.tensor import Tensor

__all__ = ["ClosedLevel", "Note", "Rule", "raw"]

_ndarray = np.ndarray


class Rule:
    """How the tangents of an operator's results are computed.

    Attributes:
        tensors: the number of arguments that are tensors and come first, if no other is one and
            there is one result: one or two. Else None, and the notes are of tensors, not of arrays.
        formula: the operator's forward formula.
        jvp: its function.
        saves: whether its nodes save tensors; None as long as no node has been seen.
        steady: whether nodes save only constants, by whether the constant is the first of two
            arguments; as far as that has been seen.
    """

    __slots__ = ("formula", "jvp", "saves", "steady", "tensors")

    def __init__(self, formula: JvpRule, tensors: int | None):
        assert formula.function is not None
        self.formula = formula
        self.jvp = formula.function
        self.tensors = tensors
        self.saves: bool | None = None
        self.steady: dict[bool, bool] = {}


Note = tuple[Rule, Any, Any]  # with the arguments, and the result or results


class ClosedLevel(TransformLevel):
    """A transform of reverse mode that takes notes.

    Attributes:
        xp: where forward formulas run: ``arrays``, or ``rows`` where there are many tangents.
        notes: by node, in the order of recording.
        tangents: those that have been computed, and those of the inputs, by edge.
        is_left: whether something has happened that tangents see and recorded history does not.
    """

    __slots__ = ("_settled", "is_left", "notes", "tangents", "xp")
    modes = TRANSFORM | TAPE

    def __init__(self, xp: Namespace) -> None:
        self.serial = next_serial()  # in line, because products with a Hessian come in thousands
        self.alive = self.records = True
        self.forward = False
        self.saved = []
        self.xp = xp
        self.notes: dict[Node, Note] = {}
        self.tangents: dict[Any, Any] = {}
        self.is_left = False
        self._settled: Node | None = None  # the last node that had a tangent before a write

    @uninterrupted_entry
    def end(self) -> None:
        """Lets go of the tangents, and of what they would be computed from."""
        self.alive = False
        self.notes.clear()
        self.tangents.clear()

    def settle(self) -> None:
        """Computes all tangents, before something that they are computed from changes.

        A note that gives none is taken back: later it might give a wrong one.
        """
        notes, last = self.notes, self._settled
        try:
            pending = list(takewhile(lambda node: node is not last, reversed(notes)))
        except RuntimeError:  # another thread notes something at this moment
            pending = [*notes][::-1]
        before = get_settings()
        try:
            set_settings(QUIET)
            for node in reversed(pending):
                try:
                    self.tangent(node)
                except Exception:  # the function must not take it for its own
                    notes.pop(node, None)
        finally:
            set_settings(before)
        self._settled = next((node for node in pending if node in notes), last)

    def leave(self) -> None:
        """Notes that the notes are not everything."""
        self.is_left = True

    def tangent(self, edge: Any) -> Any:
        """The tangent of a result; a KeyError where nobody has noted how to compute it."""
        tangents = self.tangents
        if edge not in tangents:
            wanted = [edge]
            while wanted:  # in turns, because recursion would be too deep for long chains
                last = wanted[-1]
                sources = None if last in tangents else self._compute(last)
                if sources is None:
                    wanted.pop()
                else:
                    wanted.extend(sources)
        return tangents[edge]

    def _compute(self, edge: Any) -> Sequence[Any] | None:
        """Computes the tangent of a result; or returns arguments whose tangents it takes first."""
        tangents = self.tangents
        node = edge.node if type(edge) is Output else edge
        rule, values, result = self.notes[node]
        second = None
        if rule.tensors == 1:
            source = node._edge0
            if source not in tangents:
                return (source,)
            first = tangents[source]
            found = rule.jvp(self.xp, *values, first, result)
        elif rule.tensors == 2:
            to_first, to_second = node._edge0, node._edge1
            if to_first is not None and to_first not in tangents:
                return (to_first,)
            if to_second is not None and to_second not in tangents:
                return (to_second,)
            first = None if to_first is None else tangents[to_first]
            second = None if to_second is None else tangents[to_second]
            found = rule.jvp(self.xp, *values, first, second, result)
        else:
            sources = [each for each in node._edges if each is not None and each not in tangents]
            if sources:
                return sources
            for number, tangent in enumerate(_tangents_of_all(self, rule.formula, values, result)):
                tangents[edge_to(node, number)] = tangent
            if edge not in tangents:  # else it would be asked for again and again
                raise KeyError(edge)
            return None
        metadata = node._output_metadata
        if metadata.extras is not None and _is_written(
            metadata.extras
        ):  # where nobody could tell the level of it
            raise KeyError(node)
        if (  # as it nearly always is
            type(found) is _ndarray
            and found.base is None
            and found.dtype is metadata.dtype
            and found.shape == metadata.shape
            and (found.ndim < 2 or found.strides == result.strides)
            and found is not first
            and found is not second
        ):
            tangents[node] = found
        else:
            tangents[node] = _beside(result, found, (first, second))
        return None


def _is_written(extras: OutputExtras) -> bool:
    """Whether the only output of a node has been written to, by its version counter."""
    counter = extras.version_counters.get(0)
    return counter is not None and counter[0] > 0


def _tangents_of_all(
    level: ClosedLevel, formula: JvpRule, values: list[Any], results: Any
) -> list[Any]:
    """The tangents of all results of any operator; None for one of integers."""
    assert formula.function is not None
    given = [_given(level, values[place], formula.skips_none) for place in formula.places]
    is_several = type(results) is tuple
    outputs = results if is_several else (results,)
    found = formula.function(level.xp, *map(raw, values), *given, *outputs)
    parts = found if is_several else (found,)
    if len(outputs) == 1 and type(outputs[0]) is list:
        outputs, parts = outputs[0], parts[0]
    sources = list(_flat(given))
    return [
        _beside(result, part, sources) if result.dtype.kind in "fc" else None
        for result, part in zip(map(np.asarray, outputs), parts, strict=True)
    ]


def _given(level: ClosedLevel, value: Any, sums: bool) -> Any:
    """The tangent of an argument as a formula takes it: zeros, or None, where it has none."""
    if type(value) is list:
        return [_given(level, item, sums) for item in value]
    if type(value) is not Tensor:
        return None
    edge = edge_of(value)
    if edge is not None:
        return level.tangents[edge]
    return None if sums else np.zeros_like(value._array)


def _flat(given: list[Any]) -> Iterator[Any]:
    for part in given:
        if type(part) is list:
            yield from _flat(part)
        else:
            yield part


def raw(value: Any) -> Any:
    """An argument or a result as a formula on arrays takes it."""
    if type(value) is Tensor:
        return value._array
    if isinstance(value, tuple):
        return tuple(map(raw, value))
    return [raw(item) for item in value] if type(value) is list else value


def _beside(result: Any, found: Any, given: Sequence[Any]) -> Any:
    """What a formula has given, as the tangent of a result: in memory of its own, in the shape,
    dtype and layout of the result. `given` are the tangents that went in."""
    for tangent in given:
        if type(tangent) is Rows:
            return _many_beside(result, found, len(tangent.array))
    found = np.asarray(0 if found is None else found)
    is_narrow = found.dtype.kind == "c" and result.dtype.kind != "c"
    dtype = found.dtype if is_narrow else result.dtype
    made = empty_in_layout(result.shape, dtype, layout_of(result))
    np.copyto(made, found)
    return made


def _many_beside(result: Any, found: Any, count: int) -> Rows:
    """The same for many tangents, whose memory nobody writes to."""
    if type(found) is not Rows:
        found = Rows(np.broadcast_to(_beside(result, found, ()), (count, *result.shape)))
    array = found.array
    if found.shape != result.shape:
        missing = result.ndim - found.ndim
        array = array.reshape(array.shape[:1] + (1,) * missing + array.shape[1:])
        array = np.broadcast_to(array, array.shape[:1] + result.shape)
    if array.dtype is not result.dtype and (array.dtype.kind != "c" or result.dtype.kind == "c"):
        array = array.astype(result.dtype)
    return found if array is found.array else Rows(array)
