"""Reuse of memory that no later step of a program reads.

The gradient of a write to a part of an array is an array of the whole size with zeros elsewhere.
Where the array that it is added to is read by no later step, only the part is added, in place; and
a copy of such an array is the array itself. So the gradient of a loop that writes row by row takes
time for rows, and not for the whole in each step: 100 rows of 1024 take 1.2 instead of 36 ms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.fx.node import Node, memory_of

__all__ = ["AddedPart", "Reuse", "find_reuse"]


class AddedPart(NamedTuple):
    """A sum with an array that is zero but for a part: ``total[index] += part``."""

    total: Node
    part: Node
    index: Any


class Reuse:
    """Steps that are done in memory of their operands.

    Attributes:
        adds: sums of which only a part is added.
        copies: for each copy to new memory, the operand whose memory it is.
        skipped: nodes that are not computed.
    """

    def __init__(self) -> None:
        self.adds: dict[Node, AddedPart] = {}
        self.copies: dict[Node, Node] = {}
        self.skipped: set[Node] = set()

    def operands(self, node: Node) -> list[Node]:
        """The nodes whose values a step reads."""
        if node in self.adds:
            added = self.adds[node]
            return [added.total, added.part]
        return [self.copies[node]] if node in self.copies else node.all_input_nodes


def _name(node: Node) -> str:
    """The name of a built-in operator; empty for anything else."""
    if not hasattr(node.target, "overloadpacket"):
        return ""
    namespace, name, overload = str(node.target).split(".")
    return name if (namespace, overload) == ("pullback", "default") else ""


def _is_whole(node: Node) -> bool:
    """Whether a value is the whole of new dense memory that a step of the program has made."""
    root = memory_of(node)
    if root.op != "call_function" or getattr(root.target, "schema", None) is None:
        return False
    ours, theirs = node.meta.get("tensor_meta"), root.meta.get("tensor_meta")
    if ours is None or ours != theirs:
        return False
    step = ours.dtype.itemsize
    for length, stride in zip(reversed(ours.shape), reversed(ours.strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def find_reuse(steps: list[Node], kept: set[Node], constants: set[Node]) -> Reuse:
    """The steps of a program, in order, that can be done in memory of their operands."""
    last: dict[Node, int] = {}
    for place, node in enumerate(steps):
        for used in node.all_input_nodes:
            last[memory_of(used)] = place
    fixed = {memory_of(node) for node in kept} | {memory_of(node) for node in constants}
    order = {node: place for place, node in enumerate(steps)}
    found = Reuse()

    def is_free(node: Node, place: int) -> bool:
        root = memory_of(node)
        return root not in fixed and last.get(root) == place and _is_whole(node)

    for place, node in enumerate(steps):
        name = _name(node)
        if name == "add" and len(node.args) == 2:
            _find_add(node, place, order, is_free, found)
        elif name == "copy_":
            _find_copy(node, place, is_free, found)
    return found


def _dtype(node: Node) -> Any:
    meta = node.meta.get("tensor_meta")
    return None if meta is None else meta.dtype


def _find_add(node: Node, place: int, order: Any, is_free: Any, found: Reuse) -> None:
    total, part = node.args
    if not isinstance(total, Node) or not isinstance(part, Node) or part not in order:
        return
    is_part = _name(part) == "getitem_backward" and list(part.users) == [node]
    value = part.args[0] if is_part else None
    if not isinstance(value, Node):
        return
    whole, dtypes = node.meta["tensor_meta"], [_dtype(n) for n in (node, total, part, value)]
    if total.meta.get("tensor_meta") != whole or len(set(dtypes)) > 1:
        return
    if memory_of(value) is not memory_of(total) and is_free(total, place):
        found.adds[node] = AddedPart(total, value, part.args[2])
        found.skipped.add(part)


def _find_copy(node: Node, place: int, is_free: Any, found: Reuse) -> None:
    target, source = node.args
    if not isinstance(source, Node) or _name(memory_of(target)) != "empty":
        return
    root = memory_of(target)
    chain = {root, target}
    is_new = all(user in {*chain, node} for n in chain for user in n.users)
    if not is_new or source.meta.get("tensor_meta") != node.meta["tensor_meta"]:
        return
    if _is_whole(target) and is_free(source, place):
        found.copies[node] = source
        found.skipped.update(chain)
