"""``allow_mutation_on_saved_tensors``: a saved value is copied just before it is written over.

Built on saved-tensor hooks. What is packed is a ``_Held``, which knows the memory's version
counter; the check before every in-place write asks here whether a value on that counter is held.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self
from weakref import ref

from pullback.autograd.saved_hooks import saved_tensors_hooks
from pullback.dispatch.modes import MUTATION, StateGuard
from pullback.errors import AutogradError, AutogradUsageError
from pullback.tensor.tensor import Tensor, version_of, wrap

__all__ = ["allow_mutation_on_saved_tensors", "announce_write"]

_active: ContextVar[allow_mutation_on_saved_tensors | None] = ContextVar(
    "pullback_allow_mutation", default=None
)


class _Held:
    """A saved tensor: itself until somebody writes to its memory, a copy from then on."""

    __slots__ = ("counter", "tensor", "__weakref__")

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.counter = version_of(tensor)


class allow_mutation_on_saved_tensors:  # noqa: N801 - PyTorch's name
    """A block in which values that were saved for the backward pass may be written over.

    The backward pass has to run inside the block, too.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y * y).sum()
    ...     _ = y.add_(10)
    ...     z.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    def __init__(self) -> None:
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._guard = StateGuard(begin=MUTATION)
        self._held: dict[int, list[ref[_Held]]] = {}  # by the identity of the counter

    def _pack(self, tensor: Tensor) -> _Held:
        held = _Held(tensor)
        self._held.setdefault(id(held.counter), []).append(ref(held))
        return held

    def _unpack(self, held: _Held) -> Tensor:
        if _active.get() is not self:
            raise AutogradUsageError(
                "this graph was recorded in a block of allow_mutation_on_saved_tensors, and its "
                "backward has to run in the same block"
            )
        return held.tensor

    def before_write(self, tensor: Tensor) -> None:
        """Copies what is saved of a tensor's memory."""
        for reference in self._held.pop(id(tensor._counter), ()):
            held = reference()
            if held is not None and held.counter is tensor._counter:
                held.tensor = wrap(held.tensor._array.copy())

    def __enter__(self) -> Self:
        if _active.get() is not None:
            raise AutogradError("blocks of allow_mutation_on_saved_tensors cannot be nested")
        self._hooks.__enter__()
        self._guard.__enter__()
        _active.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _active.set(None)
        self._guard.__exit__(kind, error, trace)
        self._hooks.__exit__(kind, error, trace)
        self._held.clear()


def announce_write(tensor: Any) -> None:
    """Tells the block in force, if any, that a tensor's memory is about to be written to."""
    block = _active.get()
    if block is not None:
        block.before_write(tensor)
