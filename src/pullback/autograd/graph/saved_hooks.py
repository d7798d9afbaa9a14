"""Hooks for saved values: ``saved_tensors_hooks`` and what is built on it.

While hooks are in force the thread's state has the mode SAVED_HOOKS, and operators are linked to
kernels that send what a node saves through here. A packed value is kept as whatever `pack_hook`
returned, beside the tensor's place in the graph; its version is not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self
from weakref import ref

from pullback.autograd.forward.tangents import is_dual, keep_tangents
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.node import Node, Output, unpack_edge
from pullback.autograd.graph.saved import (
    SavedOutput,
    load_output_tensor,
    output_edge,
    restore_tangents,
)
from pullback.autograd.graph.views import edge_of
from pullback.autograd.levels import forbid_in_transform
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import SAVED_HOOKS, AutoGradMode, StateGuard, get_state
from pullback.errors import AutogradError, AutogradTypeError
from pullback.interrupts import VariableGuard, uninterrupted_entry
from pullback.tensor.constants import is_constant
from pullback.tensor.tensor import Tensor, meta_of, version_of, wrap

__all__ = [
    "Hooks",
    "Packed",
    "current_hooks",
    "disable_saved_tensors_hooks",
    "pack_inputs",
    "pack_outputs",
    "packed",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]

_active: ContextVar[tuple[Hooks, ...]] = ContextVar("pullback_saved_hooks", default=())
_disabled: ContextVar[str | None] = ContextVar("pullback_saved_hooks_disabled", default=None)


class Packed:
    """A saved tensor that went through hooks."""

    __slots__ = ("_edge", "_output", "_requires_grad", "_unpack", "_value", "number", "tangents")
    outlasts_writes = True  # hooks may have copied the value, and there is no version check

    def __init__(self, tensor: Tensor, hooks: Hooks, output: SavedOutput | None):
        pack, self._unpack = hooks
        self._requires_grad = bool(tensor._flags & REQUIRES_GRAD)
        # For the node's own output an edge would be a reference cycle.
        self._output = None if output is None else (output.number, output.slices)
        self.number = None if output is None else output.number
        self.tangents: dict[Any, Tensor] | None = None
        if is_dual(tensor):
            keep_tangents(self, tensor)
        self._edge = edge_of(tensor) if self._requires_grad and output is None else None
        tracked = version_of(tensor)
        before = tracked[0]
        with AutoGradMode(False), StateGuard(end=SAVED_HOOKS):
            self._value = pack(tensor)
        if tracked[0] != before:
            raise AutogradError(
                "A saved tensor pack hook is modifying its input in place; write to a clone() of it"
            )

    def unpack(self, node: Node) -> Tensor:
        """The result of the unpack hook, with the history of the saved tensor."""
        unpacked = self._unpack(self._value)
        if not isinstance(unpacked, Tensor):
            raise AutogradTypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(unpacked).__name__}"
            )
        tensor = wrap(unpacked._array)
        tensor._counter = version_of(unpacked)  # it need not have the memory of the node's result
        if self._requires_grad:
            tensor._flags |= REQUIRES_GRAD
            edge = self._edge if self._output is None else output_edge(node, *self._output)
            assert edge is not None
            metadata = edge._output_metadata
            if metadata.is_small_float64 and (
                metadata.shape != tensor.shape or metadata.dtype != tensor.dtype
            ):
                edge = Output(*unpack_edge(edge))  # as an edge, the node would speak for the tensor
            if isinstance(edge, AccumulateGrad):
                meta_of(tensor).accumulator = ref(edge)  # it stays a leaf, with the leaf's node
            else:
                tensor._edge = edge
        restore_tangents(tensor, self.tangents)
        return tensor


def current_hooks() -> Hooks | None:
    """The hooks in force: the innermost ones."""
    return _active.get()[-1] if get_state().modes & SAVED_HOOKS else None


def packed(tensor: Tensor, hooks: Hooks, output: SavedOutput | None = None) -> Any:
    """A saved value after its hooks; None and Python numbers need none."""
    if tensor is None or is_constant(tensor):
        return tensor
    return Packed(tensor, hooks, output)


def pack_inputs(node: Node) -> None:
    """Sends the inputs that a node has saved through the hooks in force, if there are any."""
    hooks = current_hooks()
    if hooks is None:
        return
    for name in node._saves_tensors:
        value = getattr(node, name, None)
        if isinstance(value, Tensor):
            setattr(node, name, packed(value, hooks))
        elif type(value) is tuple:
            setattr(node, name, tuple(packed(tensor, hooks) for tensor in value))


def pack_outputs(node: Node) -> None:
    """Sends the results that a node has saved through the hooks in force, if there are any."""
    hooks = current_hooks()
    if hooks is None:
        return
    for name in node._saves_tensors:
        value = getattr(node, name, None)
        if isinstance(value, SavedOutput):
            setattr(node, name, packed(load_output_tensor(node, value), hooks, value))


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """A block in which what nodes save is packed by one function and unpacked by another.

    Args:
        pack_hook: takes each tensor that is saved; what it returns is stored instead.
        unpack_hook: takes what was stored, each time that it is needed, and returns a tensor.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: t.numpy(force=True).tolist(), pb.tensor):
    ...     y = pb.sin(x)
    >>> y.grad_fn._saved_self.tolist()
    [1.0, 2.0]
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._entered: tuple[Any, ...] = ()  # guards of each entry, and the tuple before it

    def __enter__(self) -> Self:
        message = _disabled.get()
        if message is not None:
            raise AutogradError(message)
        forbid_in_transform(
            "saved_tensors_hooks",
            "transforms don't support saved tensor hooks inside: enter it outside of the transform",
        )
        self.begin()
        return self

    def begin(self) -> None:
        """Enters the block without the check that hooks are allowed: these have no side effects."""
        guard = StateGuard(begin=SAVED_HOOKS)
        hooks = VariableGuard(_active, (*_active.get(), (self.pack_hook, self.unpack_hook)))
        hooks.__enter__()
        try:
            guard.__enter__()
        except BaseException:
            hooks.__exit__(None, None, None)
            raise
        self._entered = (hooks, guard, self._entered)

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hooks, guard, self._entered = self._entered
        try:
            guard.__exit__(kind, error, trace)
        finally:
            hooks.__exit__(kind, error, trace)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """A block in which saved values are kept in the CPU's memory, where they are anyway.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu"):
        self.pin_memory = pin_memory
        self.device_type = device_type
        # Detached: an output with its history would hold the node that holds it.
        super().__init__(lambda tensor: tensor.detach(), lambda stored: stored)


class disable_saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """A block in which ``saved_tensors_hooks`` raises an error with a given message.

    >>> with disable_saved_tensors_hooks("no hooks"), save_on_cpu():  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
        ...
    pullback.errors.AutogradError: no hooks...
    """

    def __init__(self, error_message: str):
        self.error_message = error_message
        self._entered: tuple[Any, ...] = ()  # the guard of each entry, and the tuple before it

    def __enter__(self) -> Self:
        if _active.get():
            raise AutogradError(self.error_message)
        guard = VariableGuard[str | None](_disabled, self.error_message)
        guard.__enter__()
        self._entered = (guard, self._entered)
        return self

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        guard, self._entered = self._entered
        guard.__exit__(kind, error, trace)
