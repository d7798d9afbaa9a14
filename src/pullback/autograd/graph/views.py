"""Views: tensors that share memory with a base, and their edges in the graph.

A view shares its base's version counter and stores the step that makes it from the base::

    a = w * 1           a ── MulBackward0 ── w
    v = a[:2]           v: base a, step = "take [:2]", edge = the slicing, at version 0
    a.mul_(5)           a ── MulBackward0' ── MulBackward0 ── w        version 1
    v.grad_fn           the edge is of version 0: replay [:2] on a, store that edge with version 1

So a write does not search for the views of its tensor; a view whose base was written to makes its
edge anew when that is next read. What was computed from the old value keeps the old edge.
A write that was not recorded leaves the base's edge as it is, and then the view's edge holds too.

A write to a view goes the other way, to the base: see ``inplace.py``.

A view's own ``_edge`` slot stays empty, so that recording always comes through ``edge_of``. A view
of a tensor that does not require grad carries the flag PLAIN_VIEW: its base may come to require
grad by a later write, and calls with such a view look here first. A view that was made under
``no_grad`` has no edge either, and counts as requiring grad when its base does; gradients stop at
it.

Every view can be made again by itself, also one of several that one call has made (``unbind``), so
these may be written to like any other. PyTorch forbids that.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pullback._cpython import register_views
from pullback.autograd.graph.accumulate_grad import ended, leads_on, leaf_edge
from pullback.autograd.graph.node import Edge, Node, Output, edge_to, node_of, unpack_edge
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import INFERENCE, NormalModeGuard, get_state
from pullback.errors import InplaceError
from pullback.tensor.meta import Creation, Step, View
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import (
    CPU_FLAGS,
    TRACKED,
    Tensor,
    as_inference,
    share_counter,
    version_of,
    wrap,
)

__all__ = [
    "EDGED",
    "creation_now",
    "edge_of",
    "in_two_steps",
    "is_left_behind",
    "left_behind_error",
    "make_constant",
    "make_view",
    "move_retained",
    "refresh",
    "requires_grad",
    "settle",
    "view_of",
]

EDGED = REQUIRES_GRAD | PLAIN_VIEW  # flags without which a tensor has no edge


def view_of(tensor: Tensor) -> View | None:
    """The view state of a tensor; None if it is no view."""
    meta = tensor._meta
    return meta if type(meta) is View else None


@register_views
def make_view(
    parent: Tensor, array: NDArray[Any] | Payload, step: Step, node: Node | None, number: int = 0
) -> Tensor:
    """The tensor of an array that shares `parent`'s memory; `step` makes it from the parent."""
    tensor = wrap(array)
    if not parent._flags & TRACKED and node is None:
        return as_inference(tensor)
    share_counter(tensor, parent)
    above = parent._meta if type(parent._meta) is View else None
    tensor._meta = view = View()
    view.base = base = parent if above is None else above.base
    view.step = step if above is None else (in_two_steps, above.step, step)
    view.creation = creation_now()
    if above is not None and view.creation is Creation.RECORDED:
        view.creation = above.creation
    view.edge = None if node is None else edge_to(node, number)
    counter: list[Any] = tensor._counter  # type: ignore[assignment]  # shared above
    view.version = counter[0] if tensor._flags & TRACKED else 0
    view.base_edge = base._edge
    # The keys are the payload's own: a view may hold another kind of it than its parent.
    tensor._flags &= parent._flags | ~CPU_FLAGS
    tensor._flags |= PLAIN_VIEW if node is None else REQUIRES_GRAD
    return tensor


def creation_now() -> Creation:
    """The origin of a view that is made now."""
    state = get_state()
    if state.modes & INFERENCE:
        return Creation.INFERENCE
    return Creation.RECORDED if state.keep & REQUIRES_GRAD else Creation.NO_GRAD


def _version(view: Tensor) -> int:
    # An inference tensor that requires grad has views with a history, and no version.
    return version_of(view)[0] if view._flags & TRACKED else 0


def in_two_steps(xp: Any, base: Any, first: Step, second: Step) -> Any:
    """Makes a view of a view, from the base of both.

    Each step may itself be made of two, thousands deep, hence the loop instead of recursion.
    """
    if first[0] is not in_two_steps is not second[0]:
        return second[0](xp, first[0](xp, base, *first[1:]), *second[1:])
    steps = [second, first]
    while steps:
        function, *rest = steps.pop()
        if function is in_two_steps:
            steps += reversed(rest)
        else:
            base = function(xp, base, *rest)
    return base


def requires_grad(tensor: Tensor) -> bool:
    """Whether a tensor counts as requiring grad; a view without an edge does if its base does."""
    if ended:
        settle(tensor)
    if tensor._flags & REQUIRES_GRAD:
        return True
    if not tensor._flags & PLAIN_VIEW:
        return False
    refresh(tensor)
    view = tensor._meta
    base = view.base if type(view) is View else tensor
    return bool((tensor._flags | base._flags) & REQUIRES_GRAD)


def settle(tensor: Tensor) -> None:
    """Makes a constant of a tensor whose history leads only to inputs of ended transforms.

    See ``escapes.py``. Called only while ``accumulate.ended`` has entries.
    """
    view = view_of(tensor)
    node = node_of(tensor._edge if view is None else view.edge)
    if node is not None and not leads_on(node):
        make_constant(tensor)


def make_constant(tensor: Tensor) -> None:
    """Removes a tensor's history; a view of a base that requires grad keeps it."""
    view = view_of(tensor)
    version = _version(tensor)  # first: the counter may have to be read from the node
    if view is None:
        tensor._flags &= ~REQUIRES_GRAD
        tensor._edge = None
        return
    settle(view.base)
    if view.base._flags & REQUIRES_GRAD:  # by a later write to it: `refresh` updates the view
        return
    tensor._flags = tensor._flags & ~REQUIRES_GRAD | PLAIN_VIEW
    view.edge = view.base_edge = None
    view.version = version


def edge_of(tensor: Tensor) -> Edge:
    """The edge of a tensor: its node, its accumulator, or None."""
    edge: Edge = tensor._edge
    if edge is not None:
        return edge
    view = tensor._meta
    if type(view) is not View:
        if not tensor._flags & REQUIRES_GRAD:
            return None
        # A leaf that is used again has its accumulator, which takes no further call.
        known = None if view is None or view.accumulator is None else view.accumulator()
        return leaf_edge(tensor) if known is None else known
    counter = tensor._counter
    if type(counter) is not list or counter[0] != view.version:
        refresh(tensor)
    return leaf_edge(tensor) if view.edge is None else view.edge


def refresh(tensor: Tensor) -> None:
    """Brings a view's edge up to date with writes to its base since it was computed."""
    view = tensor._meta
    if type(view) is not View or not tensor._flags & TRACKED:
        return
    now = (version_of(tensor) if tensor._counter is None else tensor._counter)[0]
    if view.version == now:
        return
    base = view.base
    if is_left_behind(view):
        if not base._flags & REQUIRES_GRAD:
            return
        raise left_behind_error()
    if base._edge is None or base._edge is view.base_edge:  # written to without recording
        view.version = now
        return
    if view.creation is not Creation.RECORDED:
        is_inference = view.creation is Creation.INFERENCE
        after = "in normal mode" if is_inference else "with grad mode enabled"
        raise InplaceError(
            f"A view was created {view.creation.value} and its base or another view of its base "
            f"has been modified inplace {after}. Make the view in grad mode and by an operator, or "
            f"clone() it."
        )
    with NormalModeGuard(without_hooks=True):
        made = view.replay(tensors, base)
    again = view_of(made)
    assert again is not None
    if view.edge is not None and again.edge is not None:
        move_retained(view.edge, again.edge)
    view.edge = again.edge
    if again.edge is not None and not _is_alike(made, tensor):  # ``tensor.data`` was assigned since
        view.edge = Output(*unpack_edge(again.edge))
    view.base_edge = base._edge
    view.version = now
    tensor._flags |= REQUIRES_GRAD
    if not base._flags & DUAL:  # else ``tangents_of`` reads the flag, to add the base's tangents
        tensor._flags &= ~PLAIN_VIEW


def _is_alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def is_left_behind(view: View) -> bool:
    """Whether the base has changed its shape or memory since, so that `replay` no longer fits."""
    meta = view.base._meta
    return meta is not None and meta.reshaped > view.version


def left_behind_error() -> InplaceError:
    """The error for a view that would have to follow a base of another shape."""
    return InplaceError(
        "the base of a view has changed its own shape (squeeze_, transpose_, resize_, set_) after "
        "the view was made, so the view has no place in its history; make the view anew"
    )


def move_retained(old: Edge, new: Edge) -> None:
    """``retain_grad`` follows a tensor to its newest value; hooks stay with the old one."""
    node, number = unpack_edge(old)
    hooks = None if node is None else node._hooks
    if hooks is not None and number in hooks.retained:
        target, place = unpack_edge(new)
        assert target is not None
        target.make_hooks().retained[place] = hooks.retained.pop(number)
