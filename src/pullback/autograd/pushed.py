"""Tangents beside what is recorded, as bare arrays, and only those that are needed.

``func.second`` runs a function in a level that is *closed*: its inputs carry tangents and require
grad at the same time, and nobody outside can differentiate either of them. There a tangent needs no
history, so forward formulas run on raw arrays, one tangent or many at once; and they run late. The
level only notes a result's formula, at a place that the object knows which every dual tensor has
(``Pushed``). A backward pass asks for the tangents of what nodes have saved; those of a loss, of
sums and averages are mostly never computed.

The level also notes what the backward pass can leave out. A node is *steady* if nothing that it has
saved has a tangent: then its formula, which is linear, does to the tangent of a gradient what it
does to the gradient. It is *straight* if everything behind it is steady too: then only the tangent
of its gradient matters to the tangents of the inputs' gradients.

Whoever else asks for a tangent finds it in the usual place. Many tangents have no such form: there
the level is left, by an exception, and the function runs again in the general way. A write in place
first computes all tangents, because their formulas read what is about to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from pullback.autograd.level import Level, TransformLevel
from pullback.autograd.namespaces import Namespace, arrays
from pullback.autograd.rows import DeclinedError, Rows
from pullback.dispatch.keys import DUAL
from pullback.kernels.quiet import begin_quiet, end_quiet
from pullback.tensor.levels import next_serial
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import Meta
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = [
    "ClosedLevel",
    "Later",
    "LeaveError",
    "Pushed",
    "beside",
    "known",
    "many_beside",
    "source_of",
    "tangent_array",
    "tangent_in",
]

_Function = Callable[..., Any]
_new = object.__new__
_ndarray = np.ndarray
_gone = wrap(np.zeros(()))  # in the place of a tangent that nobody may ask for any more


class LeaveError(BaseException):
    """Leaves a closed level; no code of the user's may take it for an error of its own."""


class ClosedLevel(TransformLevel):
    """A level whose tangents need no history, because nobody outside requires grad; it records.

    Attributes:
        xp: where forward formulas run: ``arrays``, or ``rows`` where there are many tangents.
        tangents: in the order of recording. One that has not been computed is a tuple: the forward
            formula, its arguments, the places of the tangents of those that may have one (None
            where one has none), and the result.
        settled: how many of these have certainly been computed.
        kinds: the nodes in the order of recording, after those of the inputs: True for a straight
            one, as inputs are, False for another steady one, else None.
        is_left: whether somebody has found that the function has to run in the general way.
    """

    __slots__ = ("is_left", "kinds", "settled", "tangents", "xp")

    def __init__(self, xp: Namespace) -> None:
        self.serial = next_serial()  # in line, because products with a Hessian come in thousands
        self.alive = self.forward = self.records = True
        self.saved = []
        self.xp = xp
        self.tangents: list[Any] = []
        self.settled = 0
        self.kinds: dict[Any, bool | None] = {}
        self.is_left = False

    def leave(self) -> NoReturn:
        """Gives the level up; a function that catches whatever is raised cannot hide that."""
        self.is_left = True
        raise LeaveError

    def tangent(self, place: int) -> Any:
        """A tangent, computed if need be, and before it whatever it is computed from."""
        tangents = self.tangents
        if type(tangents[place]) is tuple:
            wanted = [place]
            seen = {place}
            for number in wanted:  # which grows
                for source in tangents[number][2]:
                    if source is None or source in seen or type(tangents[source]) is not tuple:
                        continue
                    seen.add(source)
                    wanted.append(source)
            quiet = begin_quiet()
            try:
                for number in sorted(wanted):  # as recorded, so that sources come first
                    tangents[number] = _computed(self, *tangents[number])
            finally:
                end_quiet(quiet)
        return tangents[place]

    def settle(self) -> None:
        """Computes all tangents, before something that they are computed from changes."""
        for place in range(self.settled, len(self.tangents)):
            self.tangent(place)
        self.settled = len(self.tangents)

    def note(self, node: Any) -> None:
        """Notes a node with one output."""
        kinds = self.kinds
        for name in node._saves_tensors:
            if _may_change(getattr(node, name, None)):  # no value where none was needed
                kinds[node] = None
                return
        kinds[node] = all(edge is None or kinds.get(edge) for edge in node._edges)

    def end(self) -> None:
        """Lets go of the tangents, and of what they would be computed from."""
        self.alive = False
        for value in self.saved:
            value.tangents.pop(self, None)
        self.saved.clear()
        self.tangents.clear()
        self.kinds.clear()


def _may_change(value: Any) -> bool:
    """Whether something that a node has saved may have a tangent."""
    if value is None:
        return False
    if type(value) is Tensor:
        kind = type(value._array)
        return bool(value._flags & DUAL) or not (kind is _ndarray or kind in (int, float, bool))
    if type(value) is tuple:
        return any(map(_may_change, value))
    return True


class Pushed(Meta):
    """The rare state of a tensor that has just been computed: one tangent, which nobody has seen.

    It turns into an ordinary one, with a dict of tangents, as soon as somebody asks for that.

    Attributes:
        level: the level of the tangent.
        place: where the level has it.
    """

    level: ClosedLevel
    place: int

    @cached_property
    def tangents(self) -> dict[Any, Tensor]:  # type: ignore[override]
        """The tangent in its usual form."""
        found = _usual(self)
        self.__class__ = Meta  # type: ignore[assignment]  # from now on it may change by itself
        return found


def _usual(pushed: Pushed) -> dict[Any, Tensor]:
    """A tangent by its level; that of one which has ended is gone, and nobody looks at it."""
    level = pushed.level
    if not level.alive:
        return {level: _gone}
    if level.xp is not arrays:
        level.leave()
    return {level: fresh(level.tangent(pushed.place))}


class Later(dict[Any, Any]):
    """In the place of a dict of tangents, for this module to see: the one that a ``Pushed`` has."""

    __slots__ = ("pushed",)

    def __init__(self, pushed: Pushed):
        super().__init__()
        self.pushed = pushed

    def __iter__(self) -> Any:
        return iter(_usual(self.pushed))

    def __len__(self) -> int:
        return len(_usual(self.pushed))

    def __getitem__(self, key: Any) -> Any:
        return _usual(self.pushed)[key]

    def __contains__(self, key: Any) -> bool:
        return key in _usual(self.pushed)

    def items(self) -> Any:
        """The tangents by level."""
        return _usual(self.pushed).items()

    def keys(self) -> Any:
        """The levels."""
        return _usual(self.pushed).keys()

    def get(self, key: Any, default: Any = None) -> Any:
        """The tangent at a level."""
        return _usual(self.pushed).get(key, default)


# --- computing -----------------------------------------------------------------------------------


def _computed(
    level: ClosedLevel, jvp: _Function, primals: Any, sources: tuple[int | None, ...], result: Any
) -> Any:
    """What the formula of a tangent gives, whose sources have been computed."""
    xp, tangents = level.xp, level.tangents
    first = last = None if sources[0] is None else tangents[sources[0]]
    try:
        if len(sources) == 1:
            found = jvp(xp, *primals, first, result)
        else:
            last = None if sources[1] is None else tangents[sources[1]]
            found = jvp(xp, *primals, first, last, result)
    except Exception:  # a formula's: the function must not take it for the operator's
        level.leave()
    if xp is not arrays:
        return many_beside(result, found, (first, last))
    if type(found) is not _ndarray and found is not None:
        found = np.asarray(found)
    if (
        found is None
        or found.base is not None
        or found.dtype is not result.dtype
        or found.strides != result.strides
        or found.shape != result.shape
        or found is first
        or found is last
    ):
        found = beside(result, found)
    return found


def beside(result: Any, found: Any) -> Any:
    """A tangent in memory of its own, with the shape, dtype and layout of a result."""
    found = np.asarray(0 if found is None else found)
    is_narrow = found.dtype.kind == "c" and result.dtype.kind != "c"
    dtype = found.dtype if is_narrow else result.dtype
    made = empty_in_layout(result.shape, dtype, layout_of(result))
    np.copyto(made, found)
    return made


def many_beside(result: Any, found: Any, given: Iterable[Any]) -> Rows:
    """The same for many tangents, whose memory nobody writes to."""
    if type(found) is not Rows:
        count = next(len(part.array) for part in given if part is not None)
        found = Rows(np.broadcast_to(beside(result, found), (count, *result.shape)))
    array = found.array
    if found.shape != result.shape:
        missing = result.ndim - found.ndim
        array = array.reshape(array.shape[:1] + (1,) * missing + array.shape[1:])
        array = np.broadcast_to(array, array.shape[:1] + result.shape)
    if array.dtype is not result.dtype and (array.dtype.kind != "c" or result.dtype.kind == "c"):
        array = array.astype(result.dtype)
    return found if array is found.array else Rows(array)


def tangent_array(tensor: Tensor, level: Level) -> Any:
    """The tangent of a dual tensor as an array, or many; None if it has none at that level."""
    meta: Any = tensor._meta
    if type(meta) is Pushed and meta.level is level:
        return meta.level.tangent(meta.place)
    return tangent_in(meta.tangents, level)


def tangent_in(tangents: dict[Any, Tensor] | None, level: Level) -> Any:
    """The same, of tangents in their usual form."""
    if type(tangents) is Later and tangents.pushed.level is level:
        return tangents.pushed.level.tangent(tangents.pushed.place)
    tangent = None
    for at, found in (tangents or {}).items():
        if at is level:
            tangent = found
        elif at.alive:
            raise DeclinedError("tangents of several levels")
    if tangent is None:
        return None
    if tangent._flags & DUAL or type(tangent._array) is not _ndarray:
        raise DeclinedError("a tangent that is no array")
    return tangent._array


def known(level: ClosedLevel, array: Any) -> Pushed:
    """A tangent that has been computed."""
    made = _new(Pushed)
    made.level = level
    made.place = len(level.tangents)
    level.tangents.append(array)
    return made


def source_of(tensor: Tensor) -> Pushed | None:
    """The tangent of a dual tensor in the form of this module; None where it does not fit."""
    meta: Any = tensor._meta
    if type(meta) is Pushed:
        return meta if meta.level.alive else None
    tangents = meta.tangents
    if type(tangents) is Later:
        return tangents.pushed if tangents.pushed.level.alive else None
    if not tangents or len(tangents) > 1:
        return None
    ((level, tangent),) = tangents.items()
    if type(level) is not ClosedLevel or not level.alive:
        return None
    if tangent._flags & DUAL or type(tangent._array) is not _ndarray:
        return None
    return known(level, tangent._array)
