"""The forward road of an operator: it runs as ever, and then its forward formula.

Calls with a dual tensor are linked to the kernel below. The operator runs once and records what it
must; then its formula runs for every level, lowest first, on primals and tangents of the lower
levels (``tangents.py`` tells what levels are). Formulas call ordinary operators, so tangents can be
differentiated backwards too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._cpython import ONE_HOLDER, count_references, find_views
from pullback.autograd.forward.tangents import (
    below,
    beside,
    follow_base,
    keep_tangents,
    levels_of,
    set_beside,
    set_tangent,
    tangents_of,
    zeros_like,
)
from pullback.autograd.graph.inplace import CopySlices
from pullback.autograd.graph.node import node_of
from pullback.autograd.graph.saved import saved_output
from pullback.autograd.graph.views import edge_of, is_left_behind, left_behind_error, view_of
from pullback.autograd.levels import Level
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import TRANSFORM, StateGuard
from pullback.errors import DerivativeMissingError
from pullback.tensor.batched import BatchedArray
from pullback.tensor.meta import View
from pullback.tensor.tensor import Tensor, version_of

__all__ = ["Function", "dual_kernel", "finish", "remember_tangents", "write_tangent"]

Function = Callable[..., Any]

_new = object.__new__
_NONE: Any = object()  # stands for the level of a tensor without tangents


def _tell_views(base: Tensor, but: int) -> None:
    """Gives the first tangent of a base to the views that it has already.

    `but` is the number of views that hold the version counter and need no tangent from here. A view
    of a tensor that does not require grad gets it when it is read, by its flag PLAIN_VIEW. There is
    no list of the others; they are found by the version counter that they share.
    """
    if base._counter is None or count_references(base._counter) <= ONE_HOLDER + but:
        return
    for tensor in find_views(base._counter):
        if (
            type(tensor) is Tensor
            and tensor._counter is base._counter
            and tensor._flags & REQUIRES_GRAD
        ):
            follow_base(tensor)


def dual_kernel(
    name: str,
    base: Function,
    jvp: Function | None,
    places: tuple[int, ...],
    written: bool,
    sums: bool,
    is_several: bool,
    refused: tuple[tuple[int, str], ...] = (),
) -> Function:
    """Runs an operator and its forward formula.

    `places` are the positions of the arguments that may have tangents; `written` says that the
    first argument is written to, so that the formula needs what it was before; `sums` says that
    the formula leaves out the terms of arguments whose tangent is None. `is_several` says that the
    result is no single tensor. A tangent at a place of `refused` raises: the formula would leave it
    out.
    """
    if jvp is None:
        raise DerivativeMissingError(
            f"Trying to use forward AD with {name}, which does not support it because it has not "
            f"been implemented yet"
        )

    kernel = general = _at_every_level(base, jvp, places, written, sums)
    if not written and not is_several:
        kernel = _at_one_level(base, jvp, places, sums, general)
        if places == (0,):
            kernel = _of_first(base, jvp, kernel)
        elif places == (0, 1) and sums:
            kernel = _of_first_two(base, jvp, kernel)
    return _refusing(kernel, name, refused) if refused else kernel


def _refusing(kernel: Function, name: str, refused: tuple[tuple[int, str], ...]) -> Function:
    """A kernel that raises where an argument without a derivative has a tangent."""

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        for place, missing in refused:
            if isinstance(values[place], Tensor) and tangents_of(values[place]):
                raise DerivativeMissingError(
                    f"Trying to use forward AD with {name}: the derivative for {missing!r} is not "
                    f"implemented"
                )
        return kernel(*args, **kwargs)

    return call


def _at_every_level(
    base: Function, jvp: Function, places: tuple[int, ...], written: bool, sums: bool
) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        levels = levels_of(values[place] for place in places)
        if written and levels:
            values = _before_write(values)
        results = base(*args, **kwargs)
        outputs = results if isinstance(results, tuple) else (results,)
        for level in levels:
            given = [_tangents(values[place], level, sums) for place in places]
            primals = [_below(value, level) for value in values]
            found = jvp(tensors, *primals, *given, *(_result_below(out, level) for out in outputs))
            found = found if isinstance(results, tuple) else (found,)
            for output, tangent in zip(outputs, found, strict=True):
                if any(_is_lent(tangent, t, output) for t in given):
                    tangent = tensors.clone(tangent)  # each tangent has memory of its own
                _give(output, level, tangent, written)
        if levels:
            remember_tangents(outputs, written)
        return results

    return call


def _at_one_level(
    base: Function, jvp: Function, places: tuple[int, ...], sums: bool, general: Function
) -> Function:
    """The same for one result and, as nearly always, one level: without lists and loops."""

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        level = _only_level(values, places)
        if level is None:
            return general(*args, **kwargs)
        output = base(*args, **kwargs)
        given: list[Any] = []
        for place in places:
            value = values[place]
            if type(value) is not Tensor:
                given.append(None)
            elif value._flags & DUAL:
                given.append(value._meta.tangents[level])  # type: ignore[union-attr, index]
            else:
                given.append(None if sums else zeros_like(value))
        primals = [_bare(v) if type(v) is Tensor and v._flags & DUAL else v for v in values]
        tangent = jvp(tensors, *primals, *given, _bare(output))
        if any(_is_lent(tangent, other, output) for other in given):
            tangent = tensors.clone(tangent)
        _give(output, level, tangent, False)
        if output._flags & REQUIRES_GRAD:
            remember_tangents((output,), False)
        return output

    return call


def _of_first(base: Function, jvp: Function, general: Function) -> Function:
    """The same where only the first argument may have a tangent."""

    def call(self: Any, *rest: Any, **kwargs: Any) -> Any:
        level, given = _single(self)
        if given is None or not level.alive:
            return general(self, *rest, **kwargs)
        output = base(self, *rest, **kwargs)
        tangent = jvp(tensors, _bare(self), *rest, *kwargs.values(), given, _bare(output))
        if _is_lent(tangent, given, output):
            tangent = tensors.clone(tangent)
        finish(output, level, tangent)
        return output

    return call


def _of_first_two(base: Function, jvp: Function, general: Function) -> Function:
    """The same where only the first two may, by a formula that leaves out those without one."""

    def call(self: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        level, self_t = _single(self)
        at, other_t = _single(other)
        if level is None or at is None or not (level is at or level is _NONE or at is _NONE):
            return general(self, other, *rest, **kwargs)
        if level is _NONE:
            level = at
        if level is _NONE or not level.alive:
            return general(self, other, *rest, **kwargs)
        output = base(self, other, *rest, **kwargs)
        primals = (
            self if self_t is None else _bare(self),
            other if other_t is None else _bare(other),
        )
        tangent = jvp(tensors, *primals, *rest, *kwargs.values(), self_t, other_t, _bare(output))
        if tangent is self_t or tangent is other_t:
            tangent = tensors.clone(tangent)
        finish(output, level, tangent)
        return output

    return call


def _is_lent(tangent: Any, given: Any, output: Any) -> bool:
    """Whether a tangent lies in the memory of one that was given, although the output is new."""
    if tangent is given:
        return tangent is not None
    if type(tangent) is not Tensor or type(given) is not Tensor:
        return False
    return tangent._counter is given._counter is not None and type(output._meta) is not View


def _single(value: Any) -> tuple[Any, Any]:
    """The only level and tangent of a tensor; `_NONE` if it has none, and None if it has more."""
    if type(value) is not Tensor:
        return None, None
    if not value._flags & DUAL:
        return _NONE, None
    tangents = value._meta.tangents  # type: ignore[union-attr]
    if not tangents or len(tangents) > 1:
        return None, None
    return next(iter(tangents.items()))


def finish(output: Any, level: Level, tangent: Any) -> None:
    """Gives a new result its tangent; nothing to be done but that, as a rule."""
    if tangent is None:
        return
    array, wanted = tangent._array, output._array
    shape = array.array.shape[len(array.levels) :] if type(array) is BatchedArray else array.shape
    if shape == wanted.shape and array.dtype is wanted.dtype and array.dtype.kind in "fc":
        set_beside(output, level, tangent)
    else:
        _give(output, level, tangent, False)
    if output._flags & REQUIRES_GRAD:
        remember_tangents((output,), False)


def _only_level(values: list[Any], places: tuple[int, ...]) -> Level | None:
    """The level of all tangents, if there is just one, and no list among the arguments."""
    level: Level | None = None
    for place in places:
        value = values[place]
        if type(value) is Tensor:
            if value._flags & DUAL:
                tangents = value._meta.tangents  # type: ignore[union-attr]
                for at in tangents or ():
                    if level is None and at.alive:
                        level = at
                    elif at is not level:
                        return None
        elif type(value) is list:
            return None
    return level


def _bare(tensor: Tensor) -> Tensor:
    """The same value in the same place of the graph, without any tangent.

    JVP rules are called with such a tensor in place of the result, too: nodes of the tangent may
    save it, and the result itself, which holds the tangent, would close a reference cycle.
    It has the tensor's counter from the beginning: some kernels save a tensor, not a bare array,
    and would not find a counter that only the tensor gets by a later write.
    """
    bare = _new(Tensor)
    bare._array = tensor._array
    bare._flags = flags = tensor._flags & ~(DUAL | PLAIN_VIEW)
    bare._edge, bare._meta = tensor._edge, None
    bare._counter = tensor._counter or version_of(tensor)
    if flags & REQUIRES_GRAD and tensor._edge is None:
        bare._edge = edge_of(tensor)
    return bare


def _before_write(values: list[Any]) -> list[Any]:
    """Arguments as they are now, although the first one is about to be written to."""
    target = values[0]
    copy = tensors.clone(target)
    return [_unwritten(value, target, copy) for value in values]


def _unwritten(value: Any, target: Tensor, copy: Tensor) -> Any:
    """An argument as it is before a write to `target`: a copy of what shares its memory."""
    if value is target:
        return copy
    if isinstance(value, list):
        return [_unwritten(item, target, copy) for item in value]
    shares = isinstance(value, Tensor) and value._counter is target._counter is not None
    return tensors.clone(value) if shares else value


def _below(value: Any, level: Level) -> Any:
    if isinstance(value, Tensor):
        return below(value, level)
    if isinstance(value, list):
        return [_below(item, level) for item in value]
    return value


def _result_below(output: Any, level: Level) -> Any:
    """As `_below`, of a result: always a new tensor, for the reason given at `_bare`."""
    if isinstance(output, list):
        return [_result_below(item, level) for item in output]
    if not isinstance(output, Tensor):
        return output
    return below(output, level) if output._flags & DUAL else _bare(output)


def _tangents(value: Any, level: Level, sparse: bool) -> Any:
    """The tangent of a value at a level; where it has none, zeros, or None if that will do."""
    if isinstance(value, list):
        return [_tangents(item, level, sparse) for item in value]
    if not isinstance(value, Tensor):
        return None
    tangent = tangents_of(value).get(level)
    return zeros_like(value) if tangent is None and not sparse else tangent


def _give(output: Any, level: Level, tangent: Any, written: bool) -> None:
    if isinstance(output, list):
        for item, part in zip(output, tangent, strict=True):
            _give(item, level, part, written)
        return
    if tangent is None or not isinstance(output, Tensor) or output._array.dtype.kind not in "fc":
        return
    wanted, array = output._array, tangent._array
    if array.shape != wanted.shape:
        # A copy: several elements in one place of memory could not be written to.
        tangent = tensors.clone(tensors.broadcast_to(tangent, list(output.shape)))
    if array.dtype != wanted.dtype and (array.dtype.kind != "c" or wanted.dtype.kind == "c"):
        tangent = tensors.astype(tangent, wanted.dtype)
    if not written:
        set_beside(output, level, tangent)
        return
    write_tangent(output, level, tangent)


def write_tangent(output: Tensor, level: Level, tangent: Tensor) -> None:
    """Gives a tensor that was written to the tangent of what was written."""
    held = tangents_of(output).get(level)
    view = view_of(output)
    with StateGuard(end=TRANSFORM):  # tangents may be captured, and follow all the same
        if held is not None and held.shape == tangent.shape:
            # The tangent that the user handed in follows the write, and so does that of a view's
            # base, whose memory it shares.
            tensors.copy_(held, tangent)
        elif view is not None:
            _write_through(output, view, level, tangent)
        else:
            set_tangent(output, level, beside(output, tangent))
            _tell_views(output, 0)


def _write_through(output: Tensor, view: View, level: Level, tangent: Tensor) -> None:
    """A write to a view changes that part of its base's tangent; the rest is as it was, or zero."""
    if is_left_behind(view):
        raise left_behind_error()
    base = view.base
    whole = tangents_of(base).get(level)
    if whole is None:
        whole = zeros_like(base)
        set_tangent(base, level, whole)
        _tell_views(base, 1)
    part = view.replay(tensors, whole)
    tensors.copy_(part, tangent)
    set_tangent(output, level, part)


def remember_tangents(outputs: Any, written: bool) -> None:
    """Has a node that saves its own results keep their tangents, which they got after that."""
    node = next((n for out in outputs if (n := _node_of(out, written)) is not None), None)
    for name in () if node is None else node._saves_tensors:
        value: Any = saved_output(node, name)
        if hasattr(value, "tangents") and value.number is not None:
            keep_tangents(value, outputs[value.number])


def _node_of(output: Any, written: bool) -> Any:
    """The node that has just been recorded for a result; of a written view, the write's own."""
    if not isinstance(output, Tensor) or not output._flags & REQUIRES_GRAD:
        return None
    view = view_of(output)
    if view is not None and not written:
        return None  # a new view, and no node of a view saves its result
    node: Any = node_of(output._edge if view is None else view.base._edge)
    return node.fn if isinstance(node, CopySlices) else node
