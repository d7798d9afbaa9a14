"""Tensors that a backward pass on raw arrays shows to code of the user's, and gets from it.

A hook or a custom backward may keep the gradient it is shown, or return a tensor that it, or a
node, has saved. The pass goes on with the bare array, and makes tensors of it again for the next
hook and for the caller. Whoever then writes to one of these has to be noticed by all the others:
an array gets the tensor it had before, if that is still there, and other tensors in the same memory
share its version counter.

Hooks and custom backwards call `expose` and `unwrap`; ``grad`` makes its results of what it knows.
Compiled backwards do without as long as nobody can hold what they show and get.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from pullback._cpython import ONE_HOLDER, count_references
from pullback.autograd.engine.current_task import current_graph_task
from pullback.autograd.namespaces import arrays
from pullback.tensor.memory import owner_of
from pullback.tensor.tensor import TRACKED, Tensor, fresh, register_alias, version_of

__all__ = ["Exposed", "Memory", "current_exposed", "expose", "unwrap"]

Memory = tuple[ReferenceType[Any], list[Any]]  # an array that owns memory, and its counter


class Exposed:
    """The tensors of one pass, as long as somebody holds them, and the counters of their memory."""

    def __init__(self) -> None:
        self.tensors: dict[int, ReferenceType[Tensor]] = {}  # by the identity of their arrays
        self.counters: dict[int, Memory] = {}  # by the identity of the arrays that own memory

    def note(self, tensor: Tensor) -> None:
        """Remembers where a tensor lies."""
        array = tensor._array
        self.tensors[id(array)] = ref(tensor)
        if type(array) is np.ndarray and tensor._flags & TRACKED:
            owner = array if array.base is None else owner_of(array)
            if type(owner) is np.ndarray:
                self.counters[id(owner)] = ref(owner), version_of(tensor)

    def knows(self, array: Any) -> bool:
        """Whether somebody holds a tensor in the memory of an array."""
        owner = array if array.base is None else owner_of(array)
        memory = self.counters.get(id(owner))
        if memory is not None and memory[0]() is owner and count_references(memory[1]) > ONE_HOLDER:
            return True
        held = self.tensors.get(id(array))
        known = None if held is None else held()
        return known is not None and known._array is array

    def tensor_of(self, array: Any) -> Tensor:
        """The tensor that a value had before, or a new one that counts with its neighbors."""
        held = self.tensors.get(id(array))
        known = None if held is None else held()
        if known is not None and known._array is array:
            return known
        tensor = fresh(array)
        if type(array) is np.ndarray and tensor._flags & TRACKED:
            owner = owner_of(array)
            memory = self.counters.get(id(owner))
            if memory is not None and memory[0]() is owner:
                counter = tensor._counter = memory[1]
                if len(counter) > 2:
                    register_alias(counter, tensor)
        self.note(tensor)
        return tensor


def current_exposed() -> Exposed:
    """What the running pass has handed over, beginning with its seeds; of no pass, nothing yet."""
    task = current_graph_task()
    if task is None:
        return Exposed()
    if task.exposed is None:
        task.exposed = Exposed()
        for _, _, seed in task.given_seeds:
            task.exposed.note(seed)
    return task.exposed  # type: ignore[no-any-return]


def expose(xp: Any, value: Any) -> Tensor | None:
    """A gradient as a tensor, for code of the user's."""
    if xp is arrays and value is not None:
        return current_exposed().tensor_of(value)
    return xp.to_tensor(value)  # type: ignore[no-any-return]


def unwrap(xp: Any, tensor: Tensor) -> Any:
    """A tensor from code of the user's, as the pass goes on with it."""
    if xp is arrays:
        current_exposed().note(tensor)
    return xp.from_tensor(tensor)
