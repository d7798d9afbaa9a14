"""Groups of element-wise operators that become one loop of machine code.

Only programs that write to no memory are fused, so that any order that respects the data flow is
right. A group has one shape and one dtype. It is closed when a node outside of it needs one of its
results; results that no node outside needs never reach memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from pullback.fx.node import Node
from pullback.tensor.tensor import as_operand

__all__ = ["ARITHMETIC", "LIBRARY", "Group", "find_groups"]

_COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
_LOGICAL = {"logical_and", "logical_not", "logical_or"}
_ONE_OPERAND = {"abs", "broadcast_to", "clone", "neg", "reciprocal", "sqrt", "square"}
_SEVERAL_OPERANDS = {"add", "div", "maximum", "minimum", "mul", "sub", "where"}
ARITHMETIC = frozenset(_COMPARISONS | _LOGICAL | _ONE_OPERAND | _SEVERAL_OPERANDS)
"""Operators that are a few instructions for each element."""
_TRIGONOMETRIC = {"atan2", "cos", "cosh", "sin", "sinh", "tan", "tanh"}
LIBRARY = frozenset(_TRIGONOMETRIC | {"exp", "expm1", "log", "log1p", "pow"})
"""Operators that call the C library: only for few elements, where NumPy's vectors do not pay."""
_FEW_ELEMENTS = 32
_NUMBERS = (bool, int, float)
_MOST_OPERANDS = 24
_LARGEST_INTEGER = 1 << 24  # that every floating-point dtype has


class Group:
    """Nodes that one loop computes.

    Attributes:
        shape, dtype: of all results that are no truth values.
        nodes: the members, in order.
        inputs: nodes outside whose values it reads.
        outputs: the members that are needed outside.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.shape = shape
        self.dtype = dtype
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: list[Node] = []

    def add(self, node: Node) -> None:
        """Adds a member."""
        members = set(self.nodes)
        for used in node.all_input_nodes:
            if used not in members:
                self.inputs[used] = None
        self.nodes.append(node)

    def find_outputs(self, needed: set[Node], kept: set[Node]) -> list[Node]:
        """Sets `outputs`; returns members that are views outside, as nodes that follow expect.

        A broadcast is no memory of its own: its strides are zero, and those of views of it.
        """
        own = set(self.nodes)
        wanted = [
            node
            for node in self.nodes
            if node in kept or any(user in needed and user not in own for user in node.users)
        ]
        views = [node for node in wanted if _name(node) == "broadcast_to"]
        found = {node for node in wanted if node not in views}
        for view in views:
            source = view.args[0]
            while source in own and _name(source) == "broadcast_to":
                views.insert(0, source)
                source = source.args[0]
            if source in own:
                found.add(source)
        self.outputs = [node for node in self.nodes if node in found]
        return list(dict.fromkeys(views))


def _name(node: Node) -> str:
    return str(node.target.overloadpacket.__name__)


def find_groups(
    nodes: list[Node], needed: set[Node], kept: set[Node]
) -> Iterator[tuple[Node | None, Group | None]]:
    """The program as single nodes and groups, in an order in which it can run.

    `kept` are nodes whose values are results or guards.
    """
    open_groups: dict[Any, Group] = {}
    member: dict[Node, Group] = {}

    def close(groups: list[Group]) -> Iterator[tuple[Node | None, Group | None]]:
        for group in groups:
            del open_groups[group.shape, group.dtype]
            for node in group.nodes:
                del member[node]
            views = group.find_outputs(needed, kept)
            if len(group.nodes) > 1 and group.outputs:
                yield None, group
                yield from ((node, None) for node in views)
            else:
                for node in group.nodes:
                    yield node, None

    for node in nodes:
        if node not in needed or node.op in ("placeholder", "output"):
            continue
        key = _key(node)
        own = open_groups.get(key) if key is not None else None
        used = {member[n]: None for n in node.all_input_nodes if n in member}
        yield from close([group for group in used if group is not own])
        if key is None:
            yield node, None
            continue
        own = open_groups.get(key)
        if own is not None and len(own.inputs) > _MOST_OPERANDS:
            yield from close([own])
            own = None
        if own is None:
            own = open_groups[key] = Group(*key)
        own.add(node)
        member[node] = own
    yield from close(list(open_groups.values()))


def _key(node: Node) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """The shape and dtype of the group that a node can be in; None if it cannot be in any."""
    packet = getattr(node.target, "overloadpacket", None)
    meta = node.meta.get("tensor_meta")
    if packet is None or meta is None or node.kwargs or node.target.namespace != "pullback":
        return None
    name = packet.__name__
    few = prod(meta.shape) <= _FEW_ELEMENTS
    if (name not in ARITHMETIC and not (name in LIBRARY and few)) or not prod(meta.shape):
        return None
    if not _is_dense(meta) and name != "broadcast_to":
        return None
    operands = node.args[:1] if name == "broadcast_to" else node.args
    dtypes = {_dtype(value) for value in operands} - {"number"}
    floats = dtypes - {np.dtype(bool)}
    if None in dtypes or len(floats) > 1 or not all(map(_fits, operands)):
        return None
    dtype = next(iter(floats), np.dtype(np.float64))
    if dtype not in (np.float64, np.float32) or (name in LIBRARY and dtype != np.float64):
        return None
    if name == "where" and _dtype(node.args[0]) != np.dtype(bool):
        return None
    if name.startswith("logical") and floats:
        return None
    is_arithmetic = name not in _COMPARISONS | _LOGICAL
    if is_arithmetic and name not in ("clone", "broadcast_to", "where") and not floats:
        return None  # arithmetic of truth values
    expected = np.dtype(bool) if not is_arithmetic else meta.dtype
    if meta.dtype != expected or meta.dtype not in (dtype, np.dtype(bool)):
        return None
    if meta.dtype == bool and is_arithmetic and floats:
        return None
    if name == "where" and (np.dtype(bool) in {_dtype(v) for v in node.args[1:]}):
        return None
    return meta.shape, dtype


def _is_dense(meta: Any) -> bool:
    step = meta.dtype.itemsize
    for length, stride in zip(reversed(meta.shape), reversed(meta.strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def _dtype(value: Any) -> Any:
    """The dtype of an operand, ``"number"`` for one without, None if it is no operand."""
    if isinstance(value, Node):
        if value.target is as_operand:
            return "number"
        meta = value.meta.get("tensor_meta")
        return None if meta is None else meta.dtype
    return "number" if type(value) in _NUMBERS else None


def _fits(value: Any) -> bool:
    return type(value) is not int or abs(value) <= _LARGEST_INTEGER
