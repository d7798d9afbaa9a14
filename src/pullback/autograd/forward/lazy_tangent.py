"""Tangents that nobody has seen as tensors yet: what the short forward road leaves with a result.

Most tangents are read once or twice by formulas, which want arrays. So a result carries its tangent
as a tuple, and becomes a tensor with a dict of tangents only when somebody asks for that
(``Meta.tangents``)::

    (make, level, array, levels, ...)     make(carried) is the tensor

`levels` are those of a batched tangent, whose array has as many axes in front; () if it is none.
The rest is for `make`. The memory is the same in both forms. A tangent that does not vary with
every level of mapping is never carried: a write may have to replace its memory, and could not find
it. Called by ``dual_arrays.py``.
"""

from __future__ import annotations

from typing import Any

from pullback.autograd.graph.views import make_view, view_of
from pullback.autograd.levels import Level
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import State
from pullback.tensor.batched import BATCHED_FLAGS, BatchedArray
from pullback.tensor.levels import active_levels
from pullback.tensor.meta import Creation, Meta, View
from pullback.tensor.tensor import CPU_FLAGS, Tensor, version_of, wrap

__all__ = ["Carried", "carry_view", "levels_in", "made", "tangent_of"]

Carried = tuple[Any, ...]

_PLAIN = (CPU_FLAGS, BATCHED_FLAGS)


def tangent_of(tensor: Tensor) -> Carried | None:
    """The only tangent of a dual tensor, if formulas on arrays may have it."""
    meta: Any = tensor._meta
    carried: Carried | None = meta.carried
    if carried is None:
        return _tangent_in(meta.tangents)
    levels = carried[3]
    if not carried[1].alive or (levels and len(levels) != len(active_levels())):
        return None
    if carried[0] is _made_view and not _is_plain(carried[4]._meta, carried[1]):
        return None
    return carried


def _tangent_in(tangents: Any) -> Carried | None:
    """The same of tangents in their usual form."""
    try:
        ((level, tangent),) = tangents.items()
    except ValueError:  # none or several
        return None
    flags = tangent._flags
    if flags & PLAIN_VIEW:
        if tangent._meta.base._flags not in _PLAIN:
            return None
        flags &= ~PLAIN_VIEW
    array, levels = tangent._array, ()
    if flags == BATCHED_FLAGS:
        array, levels = array.array, array.levels
        # Where it does not vary with all levels, the result needs a mark: left to the general way.
        if len(levels) != len(active_levels()):
            return None
    elif flags != CPU_FLAGS:
        return None
    return (None, level, array, levels) if level.alive else None


def _is_plain(meta: Any, level: Level) -> bool:
    """Whether the tangent of a view's base is still without tangents or a history of its own."""
    if meta.carried is not None:
        return True
    tangent = meta.tangents.get(level)
    return tangent is not None and tangent._flags in _PLAIN


def made(carried: Carried) -> Tensor:
    """The tensor of a carried tangent; the tuple ends with its place of birth, if it has one."""
    _, _, array, levels, birth = carried
    tangent = wrap(BatchedArray(array, levels) if levels else array)
    if birth is not None:
        tangent._counter = [0, birth]
    return tangent


def _made_view(carried: Carried) -> Tensor:
    """The tensor of the tangent of a view, as it would have been made with the view."""
    _, level, array, levels, base, step, state, version = carried
    whole = base._meta.tangents.get(level)
    part = BatchedArray(array, levels)
    if whole is None or not part.shares_memory(whole._array):  # the base has got another one since
        return wrap(part)
    tangent = make_view(whole, part, step, None)
    view, above = view_of(tangent), view_of(whole)
    assert view is not None
    view.version, view.base_edge = version, None
    recorded = Creation.RECORDED if above is None else above.creation
    view.creation = recorded if state.keep & REQUIRES_GRAD else Creation.NO_GRAD
    return tangent


def carry_view(output: Tensor, of: Tensor, at: Carried, array: Any, state: State) -> bool:
    """Has a view of a dual tensor carry a view of its tangent `at`, if it is one."""
    view: Any = output._meta
    held, base = at[2], array.base
    if type(view) is not View or base is None or (base is not held and base is not held.base):
        return False
    level, root = at[1], view.base
    whole: Any = root._meta
    if root is not of and at[0] is not _made_view:
        return False  # its tangent need not be a view of the base's
    version = 0 if whole.carried is not None else version_of(whole.tangents[level])[0]
    view.carried = (_made_view, level, array, at[3], root, view.step, state, version)
    return True


def levels_in(meta: Meta) -> Any:
    """The levels of a tensor's tangents; None if it has none at all."""
    return meta.tangents if meta.carried is None else (meta.carried[1],)
