"""Tangents beside what is recorded, as bare arrays, and only those that are needed.

``func.second`` runs a function in a level that is *closed*: its inputs carry tangents and require
grad at the same time, and nobody outside can differentiate either of them. There a tangent needs no
history, so forward formulas run on raw arrays, one tangent or many at once; and they run late. A
result only notes its formula, in the object that every dual tensor has (``Pushed``). A backward
pass asks for the tangents of what nodes have saved; those of a loss, of sums and averages are
mostly never computed.

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
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import Meta
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = [
    "ClosedLevel",
    "LeaveError",
    "Many",
    "Pushed",
    "beside",
    "computed",
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
        pushed: what has tangents, in the order of recording.
        settled: how many of these have been computed.
        is_left: whether somebody has found that the function has to run in the general way.
    """

    __slots__ = ("is_left", "pushed", "settled", "xp")

    def __init__(self, xp: Namespace) -> None:
        super().__init__(forward=True)
        self.records = True
        self.xp = xp
        self.pushed: list[Pushed] = []
        self.settled = 0
        self.is_left = False

    def leave(self) -> NoReturn:
        """Gives the level up; a function that catches whatever is raised cannot hide that."""
        self.is_left = True
        raise LeaveError

    def settle(self) -> None:
        """Computes all tangents, before something that they are computed from changes."""
        for each in self.pushed[self.settled :]:
            computed(each)
        self.settled = len(self.pushed)

    def end(self) -> None:
        """Lets go of the tangents, and of what they would be computed from."""
        super().end()
        for each in self.pushed:
            if type(each) is Pushed:
                each.rule = ()
                each.array = None
                each.__class__ = Meta  # type: ignore[assignment]
                each.tangents = {self: _gone}  # as of any level that has ended
        self.pushed.clear()


class Pushed(Meta):
    """The rare state of a tensor that has just been computed: one tangent, which nobody has seen.

    It turns into an ordinary one, with a dict of tangents, as soon as somebody asks for that.

    Attributes:
        level: the level of the tangent.
        array: the tangent; None as long as it has not been computed.
        rule: how to compute it: the forward formula, its arguments, the objects of those that may
            have tangents (None for one without), and the result.
    """

    level: ClosedLevel
    array: Any = None
    rule: tuple[Any, ...] = ()

    @cached_property
    def tangents(self) -> dict[Any, Tensor]:  # type: ignore[override]
        """The tangent in its usual form."""
        if self.level.xp is not arrays:
            self.level.leave()
        array = computed(self)
        self.__class__ = Meta  # type: ignore[assignment]  # from now on it may change by itself
        return {self.level: fresh(array)}


class Many(dict[Any, Any]):
    """In the place of a view's tangents where these are many: to be seen by this module only."""

    __slots__ = ("pushed",)

    def __init__(self, pushed: Pushed):
        super().__init__()
        self.pushed = pushed

    def _levels(self, *_: Any) -> Any:
        if self.pushed.level.alive:
            self.pushed.level.leave()
        return {self.pushed.level: _gone}

    def __iter__(self) -> Any:
        return iter(self._levels())

    def __len__(self) -> int:
        return len(self._levels())

    def items(self) -> Any:
        """The tangents by level."""
        return self._levels().items()

    def keys(self) -> Any:
        """The levels."""
        return self._levels().keys()

    def get(self, key: Any, default: Any = None) -> Any:
        """The tangent at a level."""
        return self._levels().get(key, default)


# --- computing -----------------------------------------------------------------------------------


def computed(pushed: Pushed) -> Any:
    """The tangent, computed if need be, and before it whatever it is computed from."""
    if pushed.array is None:
        quiet = begin_quiet()
        try:
            stack = [pushed]
            while stack:
                last = stack[-1]
                if last.array is None:
                    waiting = len(stack)
                    for source in last.rule[2]:
                        if source is not None and source.array is None:
                            stack.append(source)
                    if len(stack) > waiting:
                        continue
                    _compute(last)
                del stack[-1]
        finally:
            end_quiet(quiet)
    return pushed.array


def _compute(pushed: Pushed) -> None:
    """Runs the formula of a tangent, whose sources have been computed."""
    jvp, primals, sources, result = pushed.rule
    given = [None if source is None else source.array for source in sources]
    xp = pushed.level.xp
    try:
        found = jvp(xp, *primals, *given, result)
    except Exception:  # a formula's: the function must not take it for the operator's
        pushed.level.leave()
    if xp is not arrays:
        found = many_beside(result, found, given)
    else:
        if type(found) is not _ndarray and found is not None:
            found = np.asarray(found)
        if (
            found is None
            or found.base is not None
            or found.dtype is not result.dtype
            or found.strides != result.strides
            or found.shape != result.shape
            or found is given[0]
            or found is given[-1]
        ):
            found = beside(result, found)
    pushed.array = found
    pushed.rule = ()


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
        return computed(meta)
    return tangent_in(meta.tangents, level)


def tangent_in(tangents: dict[Any, Tensor] | None, level: Level) -> Any:
    """The same, of tangents in their usual form."""
    if type(tangents) is Many:
        return tangents.pushed.array if tangents.pushed.level is level else None
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
    made.array = array
    level.pushed.append(made)
    return made


def source_of(tensor: Tensor) -> Pushed | None:
    """The tangent of a dual tensor in the form of this module; None where it does not fit."""
    meta: Any = tensor._meta
    if type(meta) is Pushed:
        return meta
    tangents = meta.tangents
    if type(tangents) is Many:
        return tangents.pushed if tangents.pushed.level.alive else None
    if not tangents or len(tangents) > 1:
        return None
    ((level, tangent),) = tangents.items()
    if type(level) is not ClosedLevel or not level.alive:
        return None
    if tangent._flags & DUAL or type(tangent._array) is not _ndarray:
        return None
    return known(level, tangent._array)
