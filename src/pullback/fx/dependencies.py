"""Dependencies of a traced graph outside: values that were read, gradients, options, objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.fx.loop_call import LoopCall
from pullback.fx.node import Node
from pullback.tensor.tensor import ContentVersion, Tensor

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["GradSlot", "Guard", "Note", "Option", "is_of_array", "is_of_arrays"]


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


def is_of_array(origin: Tensor | None) -> bool:
    """Whether a captured value is a plain array, or a tensor of one that is an operand."""
    return origin is None or type(origin._counter) is ContentVersion


def is_of_arrays(node: Node, tracer: Tracer) -> bool:
    """Whether a value is computed from plain arrays alone, one of which a tensor stands for.

    In a function of tensors that is not traced, it is an array.
    """
    found = False
    waiting, seen = [node], {node}
    while waiting:
        node = waiting.pop()
        sources = node.all_input_nodes
        if node.op == "get_attr":
            origin = tracer.origins.get(node.target)
            if not is_of_array(origin):
                return False
            found |= id(origin) in tracer.stand_ins
        elif not sources or isinstance(node.target, LoopCall):
            return False
        waiting += [source for source in sources if source not in seen]
        seen.update(sources)
    return found
