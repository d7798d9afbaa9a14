"""Tensors that a backward pass on raw arrays exposes to user code, and gets from it.

A hook or a custom backward may keep the gradient that it gets, or return a tensor that it, or a
node, has saved. The pass continues with the bare array, and makes tensors of it again for the next
hook and for the caller. A write to one of them must reach the version counters of all: an array
gets the tensor that it had before, if that still exists, and other tensors in the same memory share
its version counter.

Hooks and custom backwards call `expose` and `unwrap`; ``grad`` calls `to_tensors`. Compiled
backwards call neither as long as no other object holds the tensors that they get and return.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from pullback._cpython import ONE_HOLDER, count_references
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.graph.output_metadata import VersionCounter
from pullback.autograd.namespaces import Namespace, arrays
from pullback.dispatch.modes import get_state
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import (
    TRACKED,
    Tensor,
    as_subclass,
    exposes_subclass,
    fresh,
    register_alias,
    version_of,
    wrap,
)

__all__ = ["Exposed", "current_exposed", "expose", "to_tensors", "unwrap"]

_ndarray = np.ndarray


class Exposed:
    """The tensors of one pass, as long as they exist, and the version counters of their memory."""

    def __init__(self) -> None:
        self.tensors: dict[int, ReferenceType[Tensor]] = {}  # by the id of their arrays
        # By the id of the arrays that own memory: the owner, the version counter.
        self.memories: dict[int, tuple[ReferenceType[NDArray[Any]], VersionCounter]] = {}

    def note(self, tensor: Tensor) -> None:
        """Registers a tensor and its memory."""
        array = tensor._array
        self.tensors[id(array)] = ref(tensor)
        if type(array) is _ndarray and tensor._flags & TRACKED:
            owner = array if array.base is None else owner_of(array)
            if type(owner) is _ndarray:
                self.memories[id(owner)] = ref(owner), version_of(tensor)

    def holds(self, array: NDArray[Any]) -> bool:
        """Whether a tensor in the memory of an array still exists."""
        owner = array if array.base is None else owner_of(array)
        memory = self.memories.get(id(owner))
        if memory is not None and memory[0]() is owner and count_references(memory[1]) > ONE_HOLDER:
            return True
        return self._known(array) is not None

    def _known(self, array: NDArray[Any]) -> Tensor | None:
        held = self.tensors.get(id(array))
        known = None if held is None else held()
        return known if known is not None and known._array is array else None

    def tensor_of(self, array: NDArray[Any]) -> Tensor:
        """The tensor that an array had before, or a new one with the counter of its memory."""
        known = self._known(array)
        if known is not None:
            return known
        tensor = fresh(array)
        if type(array) is _ndarray and tensor._flags & TRACKED:
            owner = owner_of(array)
            reference, counter = self.memories.get(id(owner), (None, None))
            if reference is not None and counter is not None and reference() is owner:
                tensor._counter = counter
                if len(counter) > 2:
                    register_alias(counter, tensor)
        if exposes_subclass.get():
            as_subclass(tensor)
        self.note(tensor)
        return tensor


def current_exposed() -> Exposed:
    """The tensors of the current pass, its given seeds to begin with; without a pass, none."""
    task = current_graph_task()
    if task is None:
        return Exposed()
    if task.exposed is None:
        task.exposed = Exposed()
        for seed in task.given_seeds:
            task.exposed.note(seed)
    return task.exposed  # type: ignore[no-any-return]


def expose(xp: Namespace, value: Any) -> Tensor | None:
    """A cotangent of a pass as a tensor, for user code."""
    if xp is arrays and value is not None:
        return current_exposed().tensor_of(value)
    tensor: Tensor | None = xp.to_tensor(value)
    return as_subclass(tensor) if tensor is not None and exposes_subclass.get() else tensor


def unwrap(xp: Namespace, tensor: Tensor) -> Any:
    """A tensor from user code as a cotangent of the pass."""
    if xp is arrays:
        current_exposed().note(tensor)
    return xp.from_tensor(tensor)


def to_tensors(
    exposed: Exposed | None, xp: Namespace, found: list[Any], seeds: list[Tensor]
) -> list[Tensor | None]:
    """The results of a pass as tensors; of a result that is a given seed, or was exposed, that one.

    A cotangent that arrived at two inputs is one array, and one tensor.
    """
    if xp is not arrays:
        return [xp.to_tensor(value) for value in found]
    if exposed is None and not seeds and not get_state().modes:
        made: list[Tensor | None] = []
        for value in found:
            if type(value) is not _ndarray or value.base is not None:
                break
            made.append(wrap(value))
        else:
            if len({*map(id, found)}) == len(found):
                return made
    if exposed is None:
        exposed = Exposed()
        for seed in seeds:
            exposed.note(seed)
    return [None if value is None else exposed.tensor_of(value) for value in found]
