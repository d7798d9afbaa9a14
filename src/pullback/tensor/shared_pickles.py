"""Pickles of tensors in shared memory that are sent to other processes.

Loaded when a tensor is first moved to shared memory, because it imports ``multiprocessing``.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from pullback.kernels import shared_memory
from pullback.tensor.tensor import Tensor, meta_of, wrap

__all__ = ["is_in_shared_memory", "move_to_shared_memory"]


def is_in_shared_memory(tensor: Tensor) -> bool:
    """Whether other processes see the elements of a tensor."""
    return shared_memory.find_part(tensor._array) is not None


def move_to_shared_memory(tensor: Tensor) -> Tensor:
    """A tensor with the same elements in shared memory, without a graph."""
    return wrap(shared_memory.share(tensor._array))


def _rebuild(part: shared_memory.SharedPart, requires_grad: bool, role: str) -> Tensor:
    made = wrap(shared_memory.attach(part))
    if role:
        meta_of(made).role = role
    return made.requires_grad_() if requires_grad else made


def _reduce(tensor: Tensor) -> Any:
    """The pickle for another process: a place in shared memory, if the tensor is there."""
    part = shared_memory.find_part(tensor._array)
    if part is None:
        return tensor.__reduce_ex__(2)
    role = "" if tensor._meta is None else tensor._meta.role
    return _rebuild, (part, tensor.requires_grad, role)


ForkingPickler.register(Tensor, _reduce)
