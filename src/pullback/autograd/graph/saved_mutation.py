"""``allow_mutation_on_saved_tensors``: a saved value is copied just before it is written over.

Built on saved-tensor hooks. The pack hook returns a ``_Held``, which has the version counter of the
saved tensor's memory. The check before every in-place write calls ``announce_write``, which copies
the values that are saved from the memory with that counter.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Self
from weakref import ref

from pullback.autograd.graph.saved_hooks import saved_tensors_hooks
from pullback.dispatch.modes import MUTATION, StateGuard
from pullback.errors import AutogradError, AutogradUsageError, SavedVersionError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.tensor import ContentVersion, Tensor, version_of, wrap

__all__ = ["allow_mutation_on_saved_tensors", "announce_write"]

_active: ContextVar[allow_mutation_on_saved_tensors | None] = ContextVar(
    "pullback_allow_mutation", default=None
)


class _Held:
    """A saved tensor: itself until its memory is written to, a copy from then on."""

    __slots__ = ("counter", "tensor", "version", "__weakref__")

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.counter = version_of(tensor)
        self.version = self.counter[0]


def _checked(held: _Held) -> Tensor:
    """The saved tensor; raises if it was written to outside of a block."""
    tensor = held.tensor
    if tensor._counter is held.counter and held.counter[0] != held.version:
        if type(held.counter) is ContentVersion:
            why = (
                "is a NumPy array that the program wrote to after the operation. Compute with a "
                "copy (array.copy()), or write to a new array."
            )
        else:
            why = "was written to after the block in which it was saved"
        raise SavedVersionError(
            "one of the variables needed for gradient computation has been modified by an "
            f"inplace operation: a saved value of shape {list(tensor.shape)} {why}"
        )
    return tensor


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
        self._hooks: saved_tensors_hooks | None = None  # inside: they refer to the block
        self._guard = StateGuard(begin=MUTATION)
        self._held: dict[int, list[ref[_Held]]] = {}  # by the identity of the counter

    def _pack(self, tensor: Tensor) -> _Held:
        alone = wrap(tensor._array)  # without its node, which holds what is packed here
        alone._counter = version_of(tensor)
        held = _Held(alone)
        self._held.setdefault(id(held.counter), []).append(ref(held))
        return held

    def _unpack(self, held: _Held) -> Tensor:
        if _active.get() is not self:
            raise AutogradUsageError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was recorded; run the backward in the same block"
            )
        return _checked(held)

    def before_write(self, tensor: Tensor) -> None:
        """Copies what is saved of a tensor's memory."""
        for reference in self._held.pop(id(tensor._counter), ()):
            held = reference()
            if held is not None and held.counter is tensor._counter:
                held.tensor = wrap(held.tensor._array.copy())

    def __enter__(self) -> Self:
        if _active.get() is not None:
            raise AutogradError("allow_mutation_on_saved_tensors contexts cannot be nested")
        hooks = saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._begin(hooks)
        return self

    @uninterrupted_entry
    def _begin(self, hooks: saved_tensors_hooks) -> None:
        """Begins the block after its hooks were entered; ends them if it is interrupted."""
        self._hooks = hooks
        try:
            self._guard.__enter__()
            try:
                _active.set(self)
            except BaseException:
                _active.set(None)
                self._guard.__exit__(None, None, None)
                raise
        except BaseException:
            hooks.__exit__(None, None, None)
            raise

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hooks, self._hooks = self._hooks, None
        assert hooks is not None
        try:
            _active.set(None)
        finally:
            try:
                self._guard.__exit__(kind, error, trace)
            finally:
                try:
                    hooks.__exit__(kind, error, trace)
                finally:
                    self._held.clear()


def announce_write(tensor: Tensor) -> None:
    """Has the active block, if any, copy what is saved of memory before a write to it."""
    block = _active.get()
    if block is not None:
        block.before_write(tensor)
