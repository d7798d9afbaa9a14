"""Tangents: forward-mode derivatives that travel with the tensors.

A tensor with the flag DUAL carries tangents, one for each level that it depends on. Levels nest
like the dual numbers of dual numbers: with an inner level 2 in an outer level 1, a tensor is ::

    x + x1·e1 + (x2 + x21·e1)·e2      tangents {1: x1, 2: x2}, and x2 has tangents {1: x21}

so the tangent at a level is itself a tensor of the lower levels, and what an operator does at one
level is an ordinary computation of the levels below it (``jvp_kernels.py``). Perturbations of
different levels cannot be confused, because each tangent stands under its own level.

Lazy tangents: most tangents are read once or twice, by formulas on arrays. They are kept as arrays
in the fields ``lazy_...`` of ``Meta`` and wrapped in a Tensor on first access to ``Meta.tangents``;
the memory is the same. A tangent that does not vary with every vmap level is never lazy: an
in-place write may have to replace its memory, and could not find it.

Nodes keep the tangents of what they save, and a backward pass in forward mode runs on tensors, so
gradients have tangents: forward over reverse. Tangents live as long as their level: those of one
that has ended are skipped, and dropped when they are met.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._cpython import ONE_HOLDER, count_references, find_views
from pullback._lazy import lazy_module
from pullback.autograd.graph.views import (
    edge_of,
    is_left_behind,
    left_behind_error,
    make_view,
    requires_grad,
    view_of,
)
from pullback.autograd.levels import Level
from pullback.autograd.modes import is_grad_enabled
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import TRANSFORM, NormalModeGuard, State, StateGuard
from pullback.tensor.batched import BATCHED_FLAGS, BatchedArray, Levels
from pullback.tensor.levels import active_levels
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import Creation, LazyTangents, Meta, View
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import CPU_FLAGS, TENSOR_TYPES, Tensor, fresh, version_of, wrap

if TYPE_CHECKING:
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")

__all__ = [
    "below",
    "beside",
    "carries_gradient",
    "follow_base",
    "is_dual",
    "keep_tangents",
    "levels_of",
    "read_tangent",
    "set_beside",
    "set_lazy_view",
    "set_tangent",
    "split",
    "strip_tangents",
    "tangent_at",
    "tangent_levels",
    "tangents_of",
    "write_tangent",
    "zeros_like",
]

_new = object.__new__
_PLAIN = (CPU_FLAGS, BATCHED_FLAGS)


def is_dual(tensor: Tensor) -> bool:
    """Whether a tensor has the flag DUAL, after a view has got the tangents of its base."""
    if tensor._flags & PLAIN_VIEW:
        follow_base(tensor)
    return bool(tensor._flags & DUAL)


def follow_base(tensor: Tensor) -> None:
    """Gives a view the tangents of its base, which may have become dual after the view was made.

    Called where tangents of a tensor with the flag PLAIN_VIEW are read: in-place writes do not
    update the views of a base.
    """
    view = view_of(tensor)
    if view is None or not view.base._flags & DUAL:
        return
    own = tangents_of(tensor, is_own=True)
    for level, tangent in tangents_of(view.base, is_own=True).items():
        if level not in own:
            if is_left_behind(view):
                raise left_behind_error()
            with NormalModeGuard(without_hooks=True):  # the first read may happen in no_grad
                part = view.replay(tensors, tangent)
            set_tangent(tensor, level, part)


def tangents_of(tensor: Tensor, is_own: bool = False) -> dict[Level, Tensor]:
    """The tensor's tangents by level, of levels that are alive.

    With `is_own`, without those that a view has yet to get from its base.
    """
    if tensor._flags & PLAIN_VIEW and not is_own:
        follow_base(tensor)
    if not tensor._flags & DUAL:
        return {}
    meta: Any = tensor._meta
    found: dict[Level, Tensor] = meta.tangents or {}
    for level in found:
        if not level.alive:
            found = meta.tangents = {at: t for at, t in found.items() if at.alive}
            break
    if not found:
        tensor._flags &= ~DUAL
    return found


def carries_gradient(tensor: Tensor) -> bool:
    """Whether a derivative is lost when only the tensor's values are used."""
    return bool(tangents_of(tensor)) or (requires_grad(tensor) and is_grad_enabled())


def tangent_at(tensor: Tensor, level: Level) -> Tensor | None:
    """The tensor's derivative at a level, as a number of all other levels."""
    found = tangents_of(tensor)
    tangent = found.get(level)
    above = {
        at: part
        for at, t in found.items()
        if at.serial > level.serial and (part := tangent_at(t, level)) is not None
    }
    if not above:
        return tangent
    tangent = zeros_like(tensor) if tangent is None else below(tangent, level)
    for at, part in above.items():
        set_tangent(tangent, at, part)
    return tangent


def set_tangent(tensor: Tensor, level: Level, tangent: Tensor) -> None:
    """Makes a tensor dual."""
    if tensor._meta is None:
        tensor._meta = meta = Meta()
        meta.tangents = {level: tangent}
    else:
        tangents = tensor._meta.tangents
        if tangents is None:
            tangents = tensor._meta.tangents = {}
        tangents[level] = tangent
    tensor._flags |= DUAL


def beside(tensor: Tensor, tangent: Tensor) -> Tensor:
    """A tangent in memory that runs as its tensor's: what is a view of one, is one of the other.

    The tangent of a complex tensor is complex, so that rules that take parts of it are right.
    """
    if tensor._array.dtype.kind == "c" and tangent._array.dtype.kind != "c":
        with StateGuard(end=TRANSFORM):
            tangent = tensors.astype(tangent, tensor._array.dtype)
    array, wanted = tangent._array, tensor._array
    if type(array) is type(wanted) is np.ndarray:
        if array.strides == wanted.strides:
            return tangent
        layout = layout_of(wanted)
        if layout_of(array) == layout and 0 not in array.strides:
            return tangent
    else:
        layout = _layout(wanted)
        if _runs_as(array, layout):
            return tangent
    with StateGuard(end=TRANSFORM):  # the copy is no business of the transforms around it
        return tensors.in_layout(tangent, layout)


def _layout(array: Any) -> tuple[int, ...]:
    return array.layout if isinstance(array, Payload) else layout_of(np.asarray(array))


def _runs_as(array: Any, layout: tuple[int, ...]) -> bool:
    """Whether memory runs through axes in an order; that of samples, one after the other."""
    if type(array) is BatchedArray:
        k = len(array.levels)
        return layout_of(array.array) == (*range(k), *(k + axis for axis in layout))
    return _layout(array) == layout


def set_beside(result: Tensor, level: Level, tangent: Tensor) -> None:
    """Makes a result dual; the tangent of a view is already one of its base's tangent."""
    is_view = type(result._meta) is View
    set_tangent(result, level, tangent if is_view else beside(result, tangent))


def strip_tangents(tensor: Tensor) -> Tensor:
    """The same value in the same place of the graph, without tangents.

    It shares the version counter from the beginning: what saves it must find later writes.
    """
    primal = _new(Tensor) if type(tensor) is Tensor else wrap(tensor._array)
    primal._array = tensor._array
    primal._flags = flags = tensor._flags & ~(DUAL | PLAIN_VIEW)
    primal._edge, primal._meta = tensor._edge, None
    primal._counter = tensor._counter or version_of(tensor)
    if flags & REQUIRES_GRAD:
        primal._edge = tensor._edge or edge_of(tensor)
    return primal


def below(tensor: Tensor, level: Level) -> Tensor:
    """The same value in the same place of the graph, with the tangents of lower levels only."""
    if tensor._flags & PLAIN_VIEW:
        follow_base(tensor)
    if not tensor._flags & DUAL:
        return tensor
    primal = strip_tangents(tensor)
    tangents: Any = tensor._meta.tangents  # type: ignore[union-attr]
    for at in tangents:
        if at.serial < level.serial and at.alive:
            set_tangent(primal, at, tangents[at])
    return primal


def split(tensor: Tensor, level: Level) -> tuple[Tensor, Tensor | None]:
    """The value and the derivative of a tensor at a level, each as a number of all other levels."""
    tangent = tangent_at(tensor, level)
    if tangent is None:
        return tensor, None
    primal = below(tensor, level)
    for at, part in tangents_of(tensor).items():
        if at.serial > level.serial:
            set_tangent(primal, at, split(part, level)[0])
    return primal, tangent


def zeros_like(tensor: Tensor) -> Tensor:
    """The tangent of something that does not depend on anything."""
    array: Any = tensor._array
    is_number = getattr(array, "number", None) is not None  # of Python's, in a traced program
    if isinstance(array, Payload) and not is_number:
        return tensors.zeros_like(tensor)  # type: ignore[no-any-return]
    if type(array) is not np.ndarray or array.flags.c_contiguous:
        return fresh(np.zeros(tensor.shape, tensor.dtype))
    zeros = empty_in_layout(array.shape, array.dtype, layout_of(array))
    zeros[...] = 0
    return fresh(zeros)


def levels_of(values: Iterable[Any]) -> list[Level]:
    """The levels at which some of the values have tangents, lowest first."""
    found: list[Level] = []
    for value in values:
        levels: Iterable[Level] = ()
        if isinstance(value, Tensor):
            if value._flags & (DUAL | PLAIN_VIEW):
                levels = tangents_of(value)
        elif isinstance(value, list):
            levels = levels_of(value)
        for level in levels:
            if level not in found:
                found.append(level)
    return found if len(found) < 2 else sorted(found, key=lambda level: level.serial)


def keep_tangents(value: Any, tensor: Tensor) -> None:
    """Lets a saved value keep the tangents of the tensor that it stands for.

    A value that outlasts in-place writes to the tensor (``outlasts_writes``) keeps copies: such a
    write changes the memory of the tensor's own tangents.
    """
    value.tangents = kept = dict(tangents_of(tensor))
    if value.outlasts_writes and kept:
        with StateGuard(end=TRANSFORM):  # an internal copy, without the checks of transforms
            for level, tangent in kept.items():
                kept[level] = tensors.clone(tangent)
    for level in value.tangents:
        level.saved.append(value)


# --- lazy tangents -------------------------------------------------------------------------------


def read_tangent(tensor: Tensor) -> tuple[Level, Any, Levels] | None:
    """The level, the array and the batch levels of a dual tensor's only tangent.

    None where formulas on arrays may not use it: there are several, or it has a history or tangents
    of its own, or does not vary with every vmap level.
    """
    meta: Any = tensor._meta
    array = meta.lazy_array
    if array is None:
        return _read_wrapped(meta.tangents)
    level, batch = meta.lazy_level, meta.lazy_batch
    if not level.alive or (batch and len(batch) != len(active_levels())):
        return None
    if type(meta) is View and not _is_plain(meta.base._meta, level):
        return None
    return level, array, batch


def _read_wrapped(tangents: Any) -> tuple[Level, Any, Levels] | None:
    """The same of tangents that are tensors."""
    try:
        ((level, tangent),) = tangents.items()
    except ValueError:  # none or several
        return None
    flags = tangent._flags
    if flags & PLAIN_VIEW:
        if tangent._meta.base._flags not in _PLAIN:
            return None
        flags &= ~PLAIN_VIEW
    array, batch = tangent._array, ()
    if flags == BATCHED_FLAGS:
        array, batch = array.array, array.levels
        if len(batch) != len(active_levels()):
            return None
    elif flags != CPU_FLAGS:
        return None
    return (level, array, batch) if level.alive else None


def _is_plain(meta: Any, level: Level) -> bool:
    """Whether the tangent of a view's base is still without tangents or a history of its own."""
    if meta.lazy_array is not None:
        return True
    tangent = meta.tangents.get(level)
    return tangent is not None and tangent._flags in _PLAIN


def tangent_levels(meta: Any) -> Any:
    """The levels of a tensor's tangents; None if it has none."""
    return meta.tangents if meta.lazy_array is None else (meta.lazy_level,)


def _wrap_tangent(meta: Any, array: Any) -> Tensor:
    """The tensor of a lazy tangent; that of a view as it would have been made with the view."""
    held = BatchedArray(array, meta.lazy_batch) if meta.lazy_batch else array
    if type(meta) is not View:
        tangent = wrap(held)
        if meta.lazy_birth is not None:
            tangent._counter = [0, meta.lazy_birth]
        return tangent
    base: Any = meta.base._meta
    whole = base.tangents.get(meta.lazy_level)
    if whole is None or not held.shares_memory(whole._array):  # the base has got another one since
        return wrap(held)
    tangent = make_view(whole, held, meta.step, None)
    view, above = view_of(tangent), view_of(whole)
    assert view is not None
    view.version, view.base_edge = meta.lazy_version, None
    recorded = Creation.RECORDED if above is None else above.creation
    view.creation = recorded if meta.lazy_state.keep & REQUIRES_GRAD else Creation.NO_GRAD
    return tangent


LazyTangents.wrap_with(_wrap_tangent)


def set_lazy_view(
    output: Tensor, parent: Tensor, found: tuple[Level, Any, Levels], array: Any, state: State
) -> bool:
    """Gives `output`, a view of `parent`, the batched `array` as its lazy tangent.

    `found` is the tangent of the parent. False, and nothing is done, unless the array is a view of
    the tangent of the views' base.
    """
    level, held, batch = found
    view, above, base = output._meta, parent._meta, array.base
    if type(view) is not View or base is None or (base is not held and base is not held.base):
        return False
    assert above is not None
    root: Any = view.base._meta
    if root is not above and above.lazy_array is None:
        return False  # its tangent need not be a view of the base's
    is_wrapped = root.lazy_array is None
    view.lazy_version = version_of(root.tangents[level])[0] if is_wrapped else 0
    view.lazy_level, view.lazy_batch, view.lazy_state = level, batch, state
    view.lazy_array = array
    return True


# --- in-place writes -----------------------------------------------------------------------------


def write_tangent(output: Tensor, level: Level, tangent: Tensor) -> None:
    """Gives a tensor that was written to the tangent of what was written."""
    held = tangents_of(output).get(level)
    view = view_of(output)
    with StateGuard(end=TRANSFORM):  # tangents may be captured, and follow all the same
        if held is not None and held.shape == tangent.shape:
            # The tangent that the user passed in follows the write, and so does that of a view's
            # base, whose memory it shares.
            undo_log.keep_history(level, held)
            tensors.copy_(held, tangent)
        elif view is not None:
            _write_through(output, view, level, tangent)
        else:
            tangent = beside(output, tangent)
            undo_log.mark_made(tangent)
            set_tangent(output, level, tangent)
            _update_views(output, 0)


def _write_through(output: Tensor, view: View, level: Level, tangent: Tensor) -> None:
    """A write to a view changes that part of its base's tangent; the rest is as it was, or zero."""
    if is_left_behind(view):
        raise left_behind_error()
    base = view.base
    whole = tangents_of(base).get(level)
    if whole is None:
        whole = zeros_like(base)
        undo_log.mark_made(whole)
        set_tangent(base, level, whole)
        _update_views(base, 1)
    part = view.replay(tensors, whole)
    undo_log.keep_history(level, part)
    tensors.copy_(part, tangent)
    set_tangent(output, level, part)


def _update_views(base: Tensor, but: int) -> None:
    """Gives the first tangent of a base to the views that it has already.

    `but` is the number of views that hold the version counter and need no tangent from here. A view
    of a tensor that does not require grad gets it when it is read, by its flag PLAIN_VIEW. There is
    no list of the others; they are found by the version counter that they share.
    """
    if base._counter is None or count_references(base._counter) <= ONE_HOLDER + but:
        return
    for tensor in find_views(base._counter):
        if (
            type(tensor) in TENSOR_TYPES
            and tensor._counter is base._counter
            and tensor._flags & REQUIRES_GRAD
        ):
            follow_base(tensor)
