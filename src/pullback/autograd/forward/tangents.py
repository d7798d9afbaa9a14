"""Tangents: forward-mode derivatives that travel with the tensors.

A tensor with the flag DUAL carries tangents, one for each level that it depends on. Levels nest
like the dual numbers of dual numbers: with an inner level 2 in an outer level 1, a tensor is ::

    x + x1·e1 + (x2 + x21·e1)·e2      tangents {1: x1, 2: x2}, and x2 has tangents {1: x21}

so the tangent at a level is itself a tensor of the lower levels, and what an operator does at one
level is an ordinary computation of the levels below it (``dual.py``). Perturbations of different
levels cannot be confused, because each tangent stands under its own level.

Nodes keep the tangents of what they save, and a backward pass in forward mode runs on tensors, so
gradients have tangents: forward over reverse. Tangents live as long as their level: those of one
that has ended are skipped, and dropped when they are met.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback.autograd.graph.views import edge_of, is_left_behind, left_behind_error, view_of
from pullback.autograd.levels import Level
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import TRANSFORM, NormalModeGuard, StateGuard
from pullback.tensor.batched import BatchedArray
from pullback.tensor.memory import empty_in_layout, layout_of
from pullback.tensor.meta import View
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, fresh, meta_of, version_of, wrap

__all__ = [
    "below",
    "beside",
    "follow_base",
    "is_dual",
    "keep_tangents",
    "levels_of",
    "set_beside",
    "set_tangent",
    "split",
    "tangent_at",
    "tangents_of",
    "zeros_like",
]


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
    own = _own_tangents(tensor)
    for level, tangent in _own_tangents(view.base).items():
        if level not in own:
            if is_left_behind(view):
                raise left_behind_error()
            with NormalModeGuard(without_hooks=True):  # the first read may happen in no_grad
                part = view.replay(tensors, tangent)
            set_tangent(tensor, level, part)


def tangents_of(tensor: Tensor) -> dict[Level, Tensor]:
    """The tensor's tangents by level, of levels that are alive."""
    if tensor._flags & PLAIN_VIEW:
        follow_base(tensor)
    return _own_tangents(tensor)


def _own_tangents(tensor: Tensor) -> dict[Level, Tensor]:
    """As `tangents_of`, without those that a view has yet to get from its base."""
    if not tensor._flags & DUAL:
        return {}
    meta = meta_of(tensor)
    found = meta.tangents or {}
    for level in found:
        if not level.alive:
            found = meta.tangents = {at: t for at, t in found.items() if at.alive}
            break
    if not found:
        tensor._flags &= ~DUAL
    return found


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
    meta = meta_of(tensor)
    if meta.tangents is None:
        meta.tangents = {level: tangent}
    else:
        meta.tangents[level] = tangent
    tensor._flags |= DUAL


def beside(tensor: Tensor, tangent: Tensor) -> Tensor:
    """A tangent in memory that runs as its tensor's: what is a view of one, is one of the other."""
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


def below(tensor: Tensor, level: Level) -> Tensor:
    """The same value in the same place of the graph, with the tangents of lower levels only."""
    if not is_dual(tensor):
        return tensor
    primal = wrap(tensor._array)
    primal._flags = tensor._flags & ~(DUAL | PLAIN_VIEW)
    primal._counter = version_of(tensor)  # now: what saves the primal must find later writes
    if tensor._flags & REQUIRES_GRAD:
        primal._edge = edge_of(tensor)
    for at, tangent in tangents_of(tensor).items():
        if at.serial < level.serial:
            set_tangent(primal, at, tangent)
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
    if isinstance(tensor._array, Payload):
        return tensors.zeros_like(tensor)  # type: ignore[no-any-return]
    array = tensor._array
    if type(array) is not np.ndarray or array.flags.c_contiguous:
        return fresh(np.zeros(tensor.shape, tensor.dtype))
    zeros = empty_in_layout(array.shape, array.dtype, layout_of(array))
    zeros[...] = 0
    return fresh(zeros)


def levels_of(values: Iterable[Any]) -> list[Level]:
    """The levels at which some of the values have tangents, lowest first."""
    found: set[Level] = set()
    for value in values:
        if isinstance(value, list):
            found.update(levels_of(value))
        elif isinstance(value, Tensor) and value._flags & (DUAL | PLAIN_VIEW):
            found.update(tangents_of(value))
    return list(found) if len(found) < 2 else sorted(found, key=lambda level: level.serial)


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
