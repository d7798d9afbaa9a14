"""Attaches the results of a ``Function`` to the graph.

a new tensor                    its history is the function's node
a view of an input              the same, and it may not be written to: the write would go to the
                                input's history and pass the function by
an input as it is               a new view of it, which can have a history of its own
an input that was changed       the same object, its history rewritten like after any write
not differentiable              no history
"""

from __future__ import annotations

import warnings
from typing import Any

from pullback.autograd.graph.inplace import rebase_history
from pullback.autograd.graph.node import Edge, describe_all, edge_to, unpack_edge
from pullback.autograd.graph.payload_nodes import mark
from pullback.autograd.graph.views import make_view, requires_grad, view_of
from pullback.autograd.levels import leave_tape
from pullback.autograd.namespaces import Namespace
from pullback.dispatch.keys import PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import AutoGradMode
from pullback.errors import AutogradError, InplaceError
from pullback.tensor.meta import Creation
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import NO_COUNTER, Tensor, share_counter, version_of, wrap

__all__ = ["wrap_outputs"]


def wrap_outputs(
    node: Any,
    args: tuple[Any, ...],
    output: Any,
    dirty: tuple[Any, ...],
    constant: tuple[Any, ...],
    records: bool,
) -> Any:
    """The results of a call as the user gets them; `node` is their history if it is recorded.

    `dirty` are the inputs that were changed, `constant` the outputs without a derivative.
    """
    outputs = output if isinstance(output, tuple) else (output,)
    _describe(node, outputs)
    inputs = [a for a in args if isinstance(a, Tensor)]
    made = [out for out in outputs if isinstance(out, Tensor)]
    if records and any(isinstance(t._array, Payload) for t in (*inputs, *made)):
        mark(node)
    _check_dirty(inputs, outputs, dirty, records)
    if dirty or (not records and any(node.needs_input_grad)):
        leave_tape()
    has_history = [
        records and isinstance(out, Tensor) and out.dtype.kind in "fc" and not _has(constant, out)
        for out in outputs
    ]
    kind = Creation.CUSTOM if sum(has_history) <= 1 else Creation.CUSTOM_SEVERAL
    done: dict[int, Any] = {}
    results = []
    for number, out in enumerate(outputs):
        if isinstance(out, Tensor) and id(out) not in done:
            edge = edge_to(node, number) if has_history[number] else None
            if _has(dirty, out) and _has(inputs, out):
                done[id(out)] = _changed(out, edge, _place(inputs, out))
            elif _has(inputs, out):
                done[id(out)] = _alias(out, edge, kind, records)
            else:
                done[id(out)] = _new(out, edge, kind, records)
        results.append(done.get(id(out), out) if isinstance(out, Tensor) else out)
    return tuple(results) if isinstance(output, tuple) else results[0]


def _has(tensors: Any, tensor: Tensor) -> bool:
    return any(t is tensor for t in tensors)


def _place(inputs: list[Tensor], tensor: Tensor) -> int:
    return next(place for place, t in enumerate(inputs) if t is tensor)


def _describe(node: Any, outputs: tuple[Any, ...]) -> None:
    node._outputs = len(outputs)
    describe_all(node, [out if isinstance(out, Tensor) else None for out in outputs])


def _check_dirty(
    inputs: list[Tensor], outputs: tuple[Any, ...], dirty: tuple[Any, ...], records: bool
) -> None:
    for tensor in dirty:
        if not _has(inputs, tensor):
            warnings.warn(
                "ctx.mark_dirty() is for inputs that were changed, and got a tensor that is none; "
                "it has no effect on others.",
                stacklevel=4,
            )
            continue
        if not _has(outputs, tensor):
            raise AutogradError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function, "
                "so that they get their new history."
            )
        view = view_of(tensor)
        base = tensor if view is None else view.base
        if records and requires_grad(tensor) and base._edge is None:
            what = "a leaf Variable" if view is None else "a view of a leaf Variable"
            raise InplaceError(
                f"{what} that requires grad has been used in an in-place operation: the Function "
                f"gave it to mark_dirty(). Pass a copy (clone()) to the Function."
            )
        tensors = sum(isinstance(out, Tensor) for out in outputs)
        if records and view is not None and tensors > 1:
            raise AutogradError(
                "If your Function modifies inplace an input that is a view of another Tensor, your "
                "Function cannot return more than one Tensor: the history goes to the view's base. "
                "Return one, or pass a clone()."
            )


def _changed(tensor: Tensor, edge: Edge, place: int) -> Tensor:
    """An input that was written to: the same object with a new history."""
    counter = version_of(tensor)
    if counter is not NO_COUNTER:
        counter[0] += 1
    if edge is not None:
        node, number = unpack_edge(edge)
        rebase_history(tensor, node, place, number)
    elif view_of(tensor) is None and tensor._edge is not None:
        tensor._edge = None  # the node of the old edge has the version counter
        tensor._flags &= ~REQUIRES_GRAD
    return tensor


def _alias(tensor: Tensor, edge: Edge, kind: Creation, records: bool) -> Tensor:
    """An input that is returned as it is: another object on the same memory."""
    if edge is None and records and requires_grad(tensor):  # marked as not differentiable
        alias = wrap(tensor._array)
        share_counter(alias, tensor)
        return alias
    with AutoGradMode(False):
        held = tensor._array
        array = held if isinstance(held, Payload) else held[...]
        alias = make_view(tensor, array, (_same,), None)
    return alias if edge is None else _given(alias, edge, kind)


def _same(xp: Namespace, base: Any) -> Any:
    return xp.reshape(base, base.shape)


def _new(tensor: Tensor, edge: Edge, kind: Creation, records: bool) -> Tensor:
    """A tensor that the function has made."""
    if edge is not None:
        return _given(tensor, edge, kind)
    if records and view_of(tensor) is None:
        version_of(tensor)  # while its node is known, if it has one
        tensor._edge = None
        tensor._flags &= ~REQUIRES_GRAD
    return tensor


def _given(tensor: Tensor, edge: Edge, kind: Creation) -> Tensor:
    """Makes an edge the history of a tensor."""
    tensor._flags = tensor._flags & ~PLAIN_VIEW | REQUIRES_GRAD
    view = view_of(tensor)
    if view is None:
        if tensor._edge is not None:
            version_of(tensor)  # before its node changes: saved copies share the counter
        tensor._edge = edge
        return tensor
    view.edge = edge
    view.creation = kind
    view.base_edge = view.base._edge
    view.version = version_of(tensor)[0]
    return tensor
