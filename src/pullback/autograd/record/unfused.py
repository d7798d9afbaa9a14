"""Versions, views and history around kernels that are not ours.

The generated kernels compute on arrays and keep the books in one function. Where another kernel
computes (a user's, or one for payloads), the linkers of ``register.py`` take the functions of this
module instead: they run the kernel, with nothing above it in force, and then do for its results
what the generated kernel would have done. Recording with saved-tensor hooks or in anomaly mode
comes through here as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.debug.anomaly import is_anomaly_enabled, remember_call
from pullback.autograd.graph.inplace import check_inplace, rebase_history
from pullback.autograd.graph.node import Node, describe, next_sequence_number
from pullback.autograd.graph.payload_nodes import mark
from pullback.autograd.graph.saved_hooks import pack_inputs, pack_outputs
from pullback.autograd.graph.views import view_of
from pullback.autograd.namespaces import Namespace
from pullback.autograd.record.record import attach, record_view, record_views
from pullback.dispatch.modes import AutoDispatchBelowADInplaceOrView
from pullback.tensor.tensor import NO_COUNTER, Tensor, version_of

if TYPE_CHECKING:
    from pullback.autograd.graph import undo_log
else:
    undo_log = lazy_module("pullback.autograd.graph.undo_log")

__all__ = [
    "Function",
    "alone",
    "record_around",
    "record_view_around",
    "record_write_around",
    "view_again",
    "view_around",
    "write_around",
]

Function = Callable[..., Any]


def alone(kernel: Function) -> Function:
    """A kernel during which nothing is recorded or tracked, whatever operators it calls."""
    if getattr(kernel, "works_alone", False):  # it calls none, and says so
        return kernel

    def call(*args: Any, **kwargs: Any) -> Any:
        with AutoDispatchBelowADInplaceOrView():
            return kernel(*args, **kwargs)

    return call


def record_around(
    below: Function, make_node: Function, differentiable: tuple[bool, ...], marks: bool
) -> Function:
    """Records a call whose result another kernel computes; `marks` says that payloads are in it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        node = make_node(*args, **kwargs)
        if marks:
            mark(node)
        pack_inputs(node)
        results = below(*args, **kwargs)
        attach(node, results, differentiable)
        _finish(node, results, node)
        return results

    return call


def _finish(node: Node, results: Any, newest: Any) -> None:
    """Keeps what the formulas read of the results, and where the call came from.

    `newest` is the node that now is the history of what was written to; elsewhere the same.
    """
    save_outputs = getattr(node, "save_outputs", None)
    if save_outputs is not None:
        save_outputs(*(results if isinstance(results, tuple) else (results,)))
        pack_outputs(node)
    if is_anomaly_enabled():
        remember_call(newest)


# --- in-place operators --------------------------------------------------------------------------


def write_around(kernel: Function) -> Function:
    """Checks and counts a write that another kernel does; a write counts once."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_inplace(self, False, *_others(args, kwargs))
        counter = version_of(self)
        before = 0 if counter is NO_COUNTER else counter[0]
        kernel(self, *args, **kwargs)
        if counter is not NO_COUNTER:
            undo_log.collapse_writes(counter, before)
        return self

    return call


def record_write_around(below: Function, make_node: Function, marks: bool) -> Function:
    """Records a write that another kernel does."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_inplace(self, True, *_others(args, kwargs))
        node = make_node(self, *args, **kwargs)
        if marks:
            mark(node)
        pack_inputs(node)  # now: an input may lie in the memory that is about to change
        below(self, *args, **kwargs)
        if self.dtype.kind in "fc":
            node._seq = next_sequence_number()
            describe(node, self.shape, self.dtype)
            rebase_history(self, node)
            view = view_of(self)
            newest = node if view is None else view.base._edge
            if marks and newest is not node:
                mark(newest)
            _finish(node, self, newest)
        return self

    return call


def _others(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]


# --- views ---------------------------------------------------------------------------------------


def view_around(kernel: Function, name: str) -> Function:
    """Notes the base of views that another kernel makes."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        results = kernel(self, *args, **kwargs)
        return _as_views(None, self, results, name, args, kwargs)

    return call


def record_view_around(kernel: Function, make_node: Function, name: str, marks: bool) -> Function:
    """Records views that another kernel makes."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        node = make_node(self, *args, **kwargs)
        if marks:
            mark(node)
        pack_inputs(node)
        results = kernel(self, *args, **kwargs)
        views = _as_views(node, self, results, name, args, kwargs)
        _finish(node, views, node)
        return views

    return call


def _as_views(node: Node | None, parent: Tensor, results: Any, *step: Any) -> Any:
    """Notes how to make results again: by the operator of a name, with these arguments."""
    if isinstance(results, list | tuple):
        arrays = [result._array for result in results]
        return record_views(node, parent, arrays, (_one_again, *step))
    return record_view(node, parent, results._array, (view_again, *step))


def view_again(xp: Namespace, base: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Makes a view again by the operator of a name, in a namespace."""
    return getattr(xp, name)(base, *args, **kwargs)


def _one_again(xp: Namespace, base: Any, name: str, args: Any, kwargs: Any, number: int) -> Any:
    return view_again(xp, base, name, args, kwargs)[number]
