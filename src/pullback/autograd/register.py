"""Puts the generated kernels into the operators' tables, and links the recording ones.

At an autograd key the table holds one linked function: the kernel below when nothing is to be
recorded, the generated recording kernel when everything below it is ours, and a general one that
records around whatever a user has registered underneath. Where saved-tensor hooks or anomaly mode
want to see what is recorded, the kernel is wrapped; nowhere else is there a trace of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pullback.autograd.anomaly import is_anomaly_enabled, remember_call
from pullback.autograd.dual import dual_kernel
from pullback.autograd.inplace import CopySlices
from pullback.autograd.namespaces import arrays, tensors
from pullback.autograd.record import attach
from pullback.autograd.saved_hooks import pack_inputs, pack_outputs
from pullback.autograd.view import edge_of, requires_grad, view_of
from pullback.dispatch import fallthrough_kernel
from pullback.dispatch.keys import (
    DUAL,
    PLAIN_VIEW,
    REQUIRES_GRAD,
    DispatchKey,
    after_autograd,
)
from pullback.dispatch.modes import INFERENCE, SAVED_HOOKS, get_state
from pullback.dispatch.table import Kernel, OperatorEntry
from pullback.tensor.tensor import Tensor, as_inference

__all__ = ["Function", "register", "register_composite"]

Function = Callable[..., Any]


def register(
    entry: OperatorEntry,
    *,
    cpu: Function,
    function: Function,
    array_function: Function | None = None,
    record: Function | None = None,
    node: Function | None = None,
    view: Function | None = None,
    inplace: Function | None = None,
    jvp: Function | None = None,
    tangents: tuple[int, ...] = (),
    differentiable: tuple[bool, ...] = (True,),
) -> None:
    """Registers what the generator made for one operator."""
    name = entry.name.removeprefix("pullback::").replace(".", "_")
    setattr(tensors, name, function)
    if array_function is not None:
        setattr(arrays, name, array_function)
    entry.kernels[DispatchKey.CPU] = [Kernel(cpu, DispatchKey.CPU, linker=_cpu_linker(cpu))]
    below = view or inplace
    if below is not None:
        entry.kernels[DispatchKey.ADInplaceOrView] = [Kernel(below, DispatchKey.ADInplaceOrView)]
    key = DispatchKey.Autograd
    if record is None:
        kernel = Kernel(fallthrough_kernel, key, fallthrough=True)
    else:
        dual = partial(dual_kernel, name, jvp=jvp, places=tangents, written=inplace is not None)
        link = _linker(below or cpu, record, node, differentiable, dual)
        kernel = Kernel(record, key, linker=link, goes_on_with=after_autograd)
    entry.kernels[key] = [kernel]


def register_composite(entry: OperatorEntry, function: Function, kernel: Function) -> None:
    """Registers an operator that is made of others."""
    name = entry.name.removeprefix("pullback::").replace(".", "_")
    setattr(tensors, name, function)
    key = DispatchKey.CompositeImplicitAutograd
    entry.kernels[key] = [Kernel(kernel, key)]


def _linker(
    stock: Function,
    record: Function,
    node: Function | None,
    differentiable: tuple[bool, ...],
    dual: Function,
) -> Callable[[Any, int], Function]:
    def link(operator: Any, flags: int) -> Function:
        if flags & PLAIN_VIEW:
            return _refreshing(operator)
        if flags & DUAL:
            return dual(link(operator, flags & ~DUAL))  # type: ignore[no-any-return]
        below = operator.below(flags & after_autograd)
        if not flags & REQUIRES_GRAD:
            return below  # type: ignore[no-any-return]
        watched = bool(get_state().modes & SAVED_HOOKS) or is_anomaly_enabled()
        if node is not None and (watched or below is not stock):
            return _around(below, node, differentiable)
        return _watching(record) if watched else record

    return link


def _cpu_linker(cpu: Function) -> Callable[[Any, int], Function]:
    """Links the plain kernel; in inference mode, what it makes are inference tensors."""

    def untracked(*args: Any, **kwargs: Any) -> Any:
        results = cpu(*args, **kwargs)
        if get_state().modes & INFERENCE:  # the link may be used by a redispatch elsewhere
            for result in results if isinstance(results, tuple | list) else (results,):
                if isinstance(result, Tensor) and not any(result is value for value in args):
                    as_inference(result)
        return results

    def link(operator: Any, flags: int) -> Function:  # noqa: ARG001 - any operator, any flags
        return untracked if get_state().modes & INFERENCE else cpu

    return link


def _refreshing(operator: Any) -> Function:
    """Looks after views whose base may have been written to, then calls what fits them now."""
    entry: OperatorEntry = operator.entry

    def call(*args: Any, **kwargs: Any) -> Any:
        flags = 0
        for value in (*args, *kwargs.values()):
            for tensor in value if isinstance(value, list) else (value,):
                if isinstance(tensor, Tensor):
                    wanted = requires_grad(tensor)  # brings the view's edge up to date, too
                    flags |= tensor._flags | (REQUIRES_GRAD if wanted else 0)
        flags &= ~PLAIN_VIEW
        kernel = entry.calls.get(get_state(), {}).get(flags) or entry.link_call(flags)
        return kernel(*args, **kwargs)

    return call


def _around(below: Function, make_node: Function, differentiable: tuple[bool, ...]) -> Function:
    """Records a call whose result another kernel computes."""

    def call(*args: Any, **kwargs: Any) -> Any:
        node = make_node(*args, **kwargs)
        pack_inputs(node)
        results = below(*args, **kwargs)
        attach(node, results, differentiable)
        save_outputs = getattr(node, "save_outputs", None)
        if save_outputs is not None:
            save_outputs(*(results if isinstance(results, tuple) else (results,)))
            pack_outputs(node)
        if is_anomaly_enabled():
            remember_call(node)
        return results

    return call


def _watching(record: Function) -> Function:
    """A kernel that writes or makes views, with what it records seen by hooks and anomaly mode."""

    def call(*args: Any, **kwargs: Any) -> Any:
        results = record(*args, **kwargs)
        for tensor in results if isinstance(results, list) else [results]:
            node = _recorded_node(tensor)
            if node is None:
                continue
            pack_outputs(node.fn if isinstance(node, CopySlices) else node)
            if is_anomaly_enabled():
                remember_call(node)
        return results

    return call


def _recorded_node(tensor: Tensor) -> Any:
    """The node of the newest record on a tensor; of a written view, that on its base."""
    view = view_of(tensor)
    if view is not None and view.base._edge is not None and view.base._edge is not view.base_edge:
        return view.base._edge[0]
    return edge_of(tensor)[0]
