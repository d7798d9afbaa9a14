"""In-place writes: checks before them, and the recording of their history.

A write to a tensor replaces its edge by the node of the write; nodes that used the old value keep
the old edge. A write to a view is a write to a part of its base::

    a[:2].mul_(10)      a ── CopySlices ──┬── a's old edge
                                          └── the other inputs of mul_

``CopySlices`` takes the gradient of the whole base, runs the node of the write on the part that
belongs to the view, and puts what it returns for the overwritten value in that part's place.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pullback._lazy import lazy_module
from pullback.autograd.graph.node import (
    Edge,
    Node,
    Output,
    edge_to,
    node_of,
    sequence_counter,
    unpack_edge,
)
from pullback.autograd.graph.output_metadata import intern_metadata
from pullback.autograd.graph.saved_mutation import announce_write
from pullback.autograd.graph.views import (
    edge_of,
    is_left_behind,
    left_behind_error,
    move_retained,
    refresh,
    requires_grad,
)
from pullback.autograd.levels import check_capture
from pullback.autograd.namespaces import Namespace, arrays, tensors
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import (
    INFERENCE,
    MUTATION,
    NUMPY,
    TRANSFORM,
    NormalModeGuard,
    get_state,
)
from pullback.errors import InferenceError, InplaceError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.memory import (
    check_cast,
    check_no_partial_overlap,
    check_writable,
    empty_in_layout,
    layout_of,
    overwrite,
)
from pullback.tensor.meta import Creation, Step, View
from pullback.tensor.tensor import NO_COUNTER, TRACKED, Tensor, version_of, wrap

if TYPE_CHECKING:
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")

__all__ = [
    "CopySlices",
    "check_inplace",
    "inference_write_error",
    "leaf_error",
    "rebase_history",
    "write",
    "write_by",
    "write_out",
]

_ndarray = np.ndarray


def check_inplace(tensor: Tensor, records: bool, *inputs: Tensor | None) -> None:
    """Refuses a write that autograd forbids, before anything has changed.

    `records` says whether the write is to be recorded: grad mode is on and something requires grad.
    `inputs` are the other tensors that the operation reads.
    """
    state = get_state()
    modes = state.modes
    if not tensor._flags & TRACKED and not modes & INFERENCE:
        raise inference_write_error()
    counter = tensor._counter
    if counter is not None:
        for other in inputs:
            if other is not None and other._counter is counter and other is not tensor:
                check_no_partial_overlap(tensor._array, other._array)
    if modes & (MUTATION | NUMPY | TRANSFORM):
        if modes & TRANSFORM:
            check_capture(tensor)
        if modes & NUMPY:
            undo_log.log_write(tensor)
        announce_write(tensor)
    if modes & INFERENCE or not state.keep & REQUIRES_GRAD:
        return
    view = tensor._meta
    if type(view) is View:
        base = view.base
        if (
            base._edge is None
            or view.creation is not Creation.RECORDED
            or (base._meta is not None and is_left_behind(view))
        ):  # else there is nothing to say against it
            _check_view(tensor, view, records)
    elif tensor._flags & REQUIRES_GRAD and tensor._edge is None:
        raise leaf_error("a leaf Variable", "used in an in-place operation")


def inference_write_error() -> InferenceError:
    """The error for a write to an inference tensor where versions matter."""
    return InferenceError(
        "Inplace update to inference tensor outside InferenceMode is not allowed: it has no "
        "version counter. Write to a clone() of it, or inside inference_mode()."
    )


def leaf_error(what: str, how: str) -> InplaceError:
    """The error for a write to a leaf that requires grad."""
    return InplaceError(
        f"{what} that requires grad is being {how}. Write to a copy (clone()), or update it inside "
        f"no_grad()."
    )


def _check_view(tensor: Tensor, view: View, records: bool) -> None:
    needs_grad = tensor._flags & REQUIRES_GRAD or requires_grad(tensor)
    if not (records or needs_grad):
        return
    if is_left_behind(view):
        raise left_behind_error()
    if view.creation is not Creation.RECORDED:
        raise _creation_error(view)
    if needs_grad and view.base._edge is None:
        raise leaf_error("a view of a leaf Variable", "used in an in-place operation")


def _creation_error(view: View) -> InplaceError:
    """The error for a write to a view that was made where writes would be lost."""
    if view.creation is Creation.INFERENCE:
        return InplaceError(
            "A view was created in inference mode and is being modified inplace in normal mode. "
            "Make the view outside of inference mode, or clone() it."
        )
    if view.creation is Creation.NO_GRAD:
        return InplaceError(
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. Make the view outside no_grad, or write inside it."
        )
    node, number = unpack_edge(view.edge)
    origin = "A tensor" if node is None else f"Output {number} of {_operation_name(node)}"
    if view.creation is Creation.CUSTOM_SEVERAL:
        return InplaceError(
            f"{origin} is a view and is being modified inplace. This view is the output of a "
            f"function that returns multiple views: a custom Function. clone() it first."
        )
    return InplaceError(
        f"{origin} is a view and is being modified inplace. This view was created inside a custom "
        f"Function (or because an input was returned as-is). The write would bypass its backward; "
        f"clone() it first."
    )


def _operation_name(node: Node) -> str:
    """The name of the operation that a node records, without the ending of nodes."""
    return node.name().rstrip("0123456789").removesuffix("Backward")


@uninterrupted_entry
def write(tensor: Tensor, array: NDArray[Any], name: str) -> None:
    """Writes a result to a tensor's own memory, and increments its version.

    No interrupt comes between the two: the version check of nodes that have saved the tensor always
    finds the write.
    """
    target = tensor._array
    counter = tensor._counter
    if counter is None:
        counter = version_of(tensor)
    if array is not target:  # else the kernel has checked and written by itself
        if (
            type(array) is type(target) is _ndarray
            and array.shape == target.shape
            and array.dtype is target.dtype
            and target.flags.carray
        ):
            target[...] = array  # as most writes; there is nothing to check
        else:
            try:
                overwrite(target, array if type(array) is _ndarray else np.asarray(array), name)
            except KeyboardInterrupt:
                if counter is not NO_COUNTER:
                    counter[0] += 1
                raise
    if counter is not NO_COUNTER:
        counter[0] += 1
        if len(counter) > 1:  # else it has no log
            undo_log.confirm_write(counter)


def write_by(ufunc: np.ufunc, tensor: Tensor, name: str, *operands: Any) -> Any:
    """Has a NumPy function write its result into a tensor's memory; that memory, or the result."""
    target = tensor._array
    check_writable(target, name)
    if tensor._counter is None:  # so that `write` finds it without a call
        version_of(tensor)
    try:
        return ufunc(*operands, out=target)
    except (FloatingPointError, KeyboardInterrupt):
        version_of(tensor)[0] += 1  # some elements may be written: saved values are out of date
        raise
    except (TypeError, ValueError):
        return ufunc(*operands)  # of another shape or kind, which `write` words an error for


def write_out(result: Any, out: Tensor, name: str) -> Tensor:
    """Writes a result to the tensor that a caller passed as ``out=``.

    A write like any other: it is recorded if the result has a history, so nothing is lost.
    """
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}: out= takes a tensor, not {type(out).__name__}")
    if out.shape != result.shape:
        raise ValueError(
            f"{name}: out= has shape {out.shape}, but the result has shape {result.shape}"
        )
    check_cast(result.dtype, out.dtype, name)
    return tensors.copy_(out, result)  # type: ignore[no-any-return]


class CopySlices(Node):
    """A write to a view, seen from its base."""

    __slots__ = ("_edges", "fn", "layout", "maker", "number", "place", "step", "__weakref__")
    _saves: ClassVar[tuple[str, ...]] = ("fn", "step")
    _sees_buffers: ClassVar[bool] = True

    def __init__(self, base: Tensor, step: Step, fn: Node, place: int, number: int):
        self.fn = fn
        self.step = step  # makes the view
        self.place = place  # of the overwritten value among the inputs of `fn`
        self.number = number  # of the written value among its outputs
        # A view of the base is a view of its gradient only if the memory runs the same way.
        held = base._array
        if type(held) is _ndarray:
            self.layout = layout_of(held)
            self.maker = None
        else:
            self.layout = held.layout
            self.maker = held.maker()
        edge = base._edge or edge_of(base)
        if fn._arity and place == 0:  # as nearly always; it spares a call
            self._edges = (edge,) if fn._arity == 1 else (edge, fn._edge1)
        else:
            self._edges = (*fn._edges[:place], edge, *fn._edges[place + 1 :])
        if fn._erases:  # then the zeros that it would return for the old value are not needed
            fn._edge0 = None  # type: ignore[misc]  # a slot of those that erase
        self._seq = sequence_counter()()
        self._output_metadata = intern_metadata(held.shape, held.dtype)

    @property
    def is_ours(self) -> bool:
        """Whether it calls no code of the user's."""
        return self.fn._is_plain

    def replay(self, xp: Namespace, base: Any) -> Any:
        """The part of something of the base's shape that belongs to the view."""
        step = self.step
        return step[0](xp, base, *step[1:])

    def release(self) -> None:
        """Lets go of what the write itself saved."""
        self.fn.release()

    def view_edge(self) -> Edge:
        """The place in the graph of the written part: that of the view, made again."""
        metadata = self._output_metadata
        make = self.maker or partial(empty_in_layout, metadata.shape, metadata.dtype, self.layout)
        base = wrap(make())
        base._edge = self
        base._counter = [0]  # it is not the memory that was written to
        base._flags |= REQUIRES_GRAD
        with NormalModeGuard(without_hooks=True):
            return edge_of(self.replay(tensors, base))

    def backward(self, xp: Namespace, *grads: Any) -> tuple[Any, ...]:
        """The base's gradient with the view's part replaced, and those of the other inputs."""
        (grad,) = grads
        if grad is None:
            return (None,) * len(self._edges)
        return self._replace(xp, xp.in_layout(grad, self.layout))

    def run_on(
        self, grad: Any, buffers: dict[Node, Any], owned: set[Node], keep: bool
    ) -> tuple[Any, ...]:
        """``run`` on a gradient that may be written to if no other object holds it."""
        if not (self in owned and type(grad) is _ndarray and layout_of(grad) == self.layout):
            grad = arrays.in_layout(grad, self.layout)
        base = node_of(self._edges[self.place])
        if base is not None and base not in buffers:
            before = [node_of(edge) for edge in self._edges[: self.place]]
            if base not in before:
                owned.add(base)  # what it gets is new, or was ours
        fn = self.fn
        if fn._outputs != 1:
            results = self._replace(arrays, grad)
            if not keep:
                self.release()
            return results
        step = self.step
        part = step[0](arrays, grad, *step[1:])
        gradients = [*fn.run(arrays, part.copy("K"), keep)]
        new = gradients[self.place]
        if new is None:
            part.fill(0)
        else:
            part[...] = new
        gradients[self.place] = grad
        return tuple(gradients)

    def _replace(self, xp: Namespace, whole: Any) -> tuple[Any, ...]:
        part = self.replay(xp, whole)
        parts = [None] * self.fn._outputs
        parts[self.number] = xp.clone(part)
        results = list(self.fn.backward(xp, *parts))
        new = results[self.place]
        if xp is arrays:
            part[...] = 0 if new is None else new
        else:
            xp.copy_(part, xp.zeros_like(part) if new is None else new)
        results[self.place] = whole
        return tuple(results)


def rebase_history(tensor: Tensor, node: Node, place: int = 0, number: int = 0) -> None:
    """Makes `node`, a recorded write, the history of the tensor that was written to.

    `place` says which input of the node the overwritten value is, `number` which output the new.
    """
    view = tensor._meta
    if type(view) is View:
        base = view.base
        old = base._edge
        # The node keeps the edge of the view's old value; the base's own history goes on with it.
        base._edge = CopySlices(base, view.step, node, place, number)
        base._flags = base._flags & ~PLAIN_VIEW | REQUIRES_GRAD
        tensor._flags = tensor._flags & ~PLAIN_VIEW | REQUIRES_GRAD
        if old is not None and (type(old) is Output or old._output_metadata.extras is not None):
            move_retained(old, base._edge)
        if tensor._meta is not None and tensor._meta.retains_grad:  # else when it is next used
            refresh(tensor)
        return
    old = tensor._edge
    tensor._edge = edge_to(node, number)
    tensor._flags |= REQUIRES_GRAD
    if old is not None:
        move_retained(old, tensor._edge)
