"""Dependencies of a traced graph outside: values that were read, gradients, options, objects."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.fx.node import Node
from pullback.tensor.tensor import Tensor

__all__ = ["GradSlot", "Guard", "Note", "Option"]


class Guard(NamedTuple):
    """A value that the program has read: its graph is right only where the value is the same."""

    node: Node
    value: Any  # an array or a Python number
    what: str
    line: str


class GradSlot:
    """``.grad`` of a captured leaf that a program reads or sets.

    Attributes:
        leaf: the tensor.
        before: its gradient before the program ran.
        is_read: whether the program depends on `before`; it does not if it sets it first.
    """

    __slots__ = ("before", "is_read", "leaf")

    def __init__(self, leaf: Tensor, before: Tensor | None, is_read: bool):
        self.leaf = leaf
        self.before = before
        self.is_read = is_read


class Note(NamedTuple):
    """An object in a dict from outside that a graph depends on."""

    owner: dict[str, Any]
    key: str
    value: Any


class Option(NamedTuple):
    """A Python number in a dict from outside, or in a tuple that is, which is an input."""

    owner: dict[str, Any]
    key: str
    item: int | None  # the place in a tuple

    def now(self) -> Any:
        """The value that it has now."""
        value = self.owner.get(self.key)
        if self.item is None:
            return value
        return value[self.item] if type(value) is tuple and self.item < len(value) else None
