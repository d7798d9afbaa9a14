"""The intermediate representation of compiled programs: a graph of a dozen primitive operations.

A program is a ``Graph`` of ``Node`` objects in single static assignment: each node has a static
shape and dtype, is never changed, and stands once in the graph (hash-consing: a second request for
the same operation on the same operands returns the first node). The order of ``Graph.nodes`` is an
order of execution. A value has no memory and no layout: it is a sequence of elements in C order.
Memory, views that share it, and in-place writes exist only before lowering (``lower.py``) and after
the choice of memory by the emitters. ``interpret.py`` computes a graph with NumPy, and defines by
that what each operation means; the emitters are tested against it.

Operations (``node.op``), with ``node.attrs``:

``input`` (index,)
    The index-th array given to the program.
``const`` ()
    ``node.value``: a C-contiguous array that nothing writes to.
``view`` (place,)
    The elements of its first input at a ``Place``: ``x.flat[offset + sum(i_a * strides_a)]``.
    Covers reshape, transpose, slices, diagonals and broadcasting (stride 0). Strides may be
    negative; all positions are inside the input. With ``place.step`` != 0 there is a second input,
    an int64 scalar `k`, and the offset is ``offset + k * step`` (a row for each iteration).
``elementwise`` (function,)
    A function of ``elementwise.py``, which also says what dtypes its operands have. They all have
    the node's shape exactly (broadcasting is a ``view``). ``cast`` converts to the node's dtype.
``reduce`` (combiner, axes)
    ``sum``, ``prod``, ``max``, ``min``, ``all`` or ``any`` over axes, which vanish from the shape.
    The dtype is the operand's. ``max`` and ``min`` propagate NaN; of zero elements they are refused
    before lowering.
``matmul`` ()
    ``a @ b`` of (..., m, k) and (..., k, n) with equal leading axes; of one float or complex dtype.
``update`` (kind, place)
    A copy of the first input in which the elements at the place are replaced by (``"set"``), or
    increased by (``"add"``), the second input, whose shape is ``place.shape``. The positions of a
    place are all different. A third input with ``place.step``, as in ``view``.
``assemble`` (places,)
    Zeros of the node's shape with each input at its place; places do not overlap.
``take`` ()
    ``x.flat[positions]``: the second input is int64 and has the node's shape. Positions outside are
    clamped: the lowering adds a check to ``Graph.checks`` where that can happen.
``put`` (kind,)
    A copy of the first input in which the elements at flat positions (second input, int64) are set
    to, or increased by, the elements of the third input, one after the other in C order. Positions
    outside are clamped.
``iota`` ()
    int64 numbers 0, 1, ..., n - 1.
``loop`` (loop,)
    A ``Loop``: a body that runs many times. Its value is a tuple; ``pick`` reads it.
``opaque`` (call,)
    An operator that runs as its eager kernel, see ``opaque.py``; its value is an array or a tuple.
``pick`` (index,)
    One item of the tuple of a ``loop`` or ``opaque`` node.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Copy",
    "Graph",
    "Loop",
    "Node",
    "Place",
    "c_strides",
    "copy_nodes",
    "is_number",
    "needed_by",
    "whole_place",
]

_SMALL_CONSTANT = 64  # elements up to which equal constants are one node


class Place(NamedTuple):
    """Positions in the elements of a value: ``offset + k * step + sum(i_a * strides_a)``.

    ``k`` is the index input of the node, which it has if `step` is not zero.
    """

    offset: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    step: int = 0

    def positions(self, index: int = 0) -> NDArray[np.int64]:
        """All positions, as an array of the place's shape."""
        found = np.full(self.shape, self.offset + index * self.step, np.int64)
        for axis, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            along = [1] * len(self.shape)
            along[axis] = length
            found += (np.arange(length) * stride).reshape(along)
        return found

    @property
    def normalized(self) -> Place:
        """The same positions with stride 0 for axes of length 1, so that equal places are equal."""
        pairs = zip(self.shape, self.strides, strict=True)
        return self._replace(strides=tuple(0 if n == 1 else s for n, s in pairs))

    @property
    def extent(self) -> tuple[int, int]:
        """The lowest and the highest position."""
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(0, e) for e in ends)
        return low, self.offset + sum(max(0, e) for e in ends)


@functools.lru_cache(maxsize=4096)
def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of C order, in elements; 0 for axes of length 1, as in ``Place.normalized``.

    >>> c_strides((2, 3, 4))
    (12, 4, 1)
    """
    found = []
    step = 1
    for length in reversed(shape):
        found.append(0 if length == 1 else step)
        step *= length
    return tuple(reversed(found))


@functools.lru_cache(maxsize=4096)
def whole_place(shape: tuple[int, ...]) -> Place:
    """The place of all elements in C order."""
    return Place(0, c_strides(shape), shape)


class Loop(NamedTuple):
    """A loop; the attribute of a ``loop`` node.

    The node's inputs are the first values of the carried values, then invariants. The body's inputs
    are the iteration (int64 scalar), the carried values, the invariants. The body's outputs are the
    next carried values, then values that are stacked. The node's value is the tuple of the last
    carried values, then arrays of shape ``(length, *shape)``.

    A loop of length None runs as long as its first carried value, a bool scalar, is true; it stacks
    nothing.
    """

    length: int | None
    body: Graph
    carried: int

    @property
    def stacked(self) -> int:
        """The number of stacked values."""
        return len(self.body.outputs) - self.carried


class Node:
    """One operation; compared and hashed by identity."""

    __slots__ = ("attrs", "dtype", "id", "inputs", "op", "shape", "size", "value")

    def __init__(
        self,
        number: int,
        op: str,
        inputs: tuple[Node, ...],
        attrs: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        value: Any = None,
    ):
        self.id = number
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.shape = shape
        self.size = prod(shape)
        self.dtype = dtype
        self.value = value

    @property
    def function(self) -> str:
        """The function of an ``elementwise`` node; empty for others."""
        return str(self.attrs[0]) if self.op == "elementwise" else ""

    @property
    def place(self) -> Place:
        """The place of a ``view`` or ``update``."""
        found: Place = self.attrs[-1]
        return found

    def __repr__(self) -> str:
        operands = [f"%{node.id}" for node in self.inputs]
        operands += [_text(attr) for attr in self.attrs]
        if self.op == "const":
            operands = [np.array2string(self.value, threshold=6).replace("\n", "")]
        return f"%{self.id}: {self.dtype.name}{list(self.shape)} = {self.op}({', '.join(operands)})"


def _text(attr: Any) -> str:
    if isinstance(attr, Place):
        step = f", step={attr.step}" if attr.step else ""
        return f"offset={attr.offset}, strides={list(attr.strides)}{step}"
    if isinstance(attr, Loop):
        times = "while true" if attr.length is None else f"{attr.length} times"
        return f"{times} {len(attr.body.nodes)} operations"
    return str(attr)


def is_number(node: Node) -> bool:
    """Whether a node is one constant number in all elements."""
    base = node.inputs[0] if node.op == "view" else node
    return base.op == "const" and base.size == 1


def needed_by(nodes: Iterable[Node], without: Container[int] = ()) -> set[int]:
    """The ids of some nodes and of all nodes that these need; but for some, and what they need."""
    found: set[int] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.id not in found and node.id not in without:
            found.add(node.id)
            stack.extend(node.inputs)
    return found


class Graph:
    """Nodes in an order of execution.

    Attributes:
        nodes: all nodes.
        inputs: the ``input`` nodes, in the order of the program's arrays.
        outputs: the nodes of the results.
        checks: bool scalars that have to be true; else the results are not valid and the caller
            runs the program eagerly (which raises the error that is due).
        effects: opaque nodes that have to run although no result needs them.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Node] = []
        self.outputs: list[Node] = []
        self.checks: list[Node] = []
        self.effects: list[Node] = []
        self._known: dict[Any, Node] = {}

    def add(
        self,
        op: str,
        inputs: Iterable[Node] = (),
        attrs: tuple[Any, ...] = (),
        shape: tuple[int, ...] = (),
        dtype: np.dtype[Any] | None = None,
        *,
        unique: bool = False,
    ) -> Node:
        """The node of an operation: a new one, or the equal one that is there.

        `unique` makes a new one in any case (opaque calls that draw random numbers).
        """
        operands = tuple(inputs)
        dtype = operands[0].dtype if dtype is None else dtype
        key = (op, tuple([node.id for node in operands]), attrs, shape, dtype.char)
        if not unique:
            known = self._known.get(key)
            if known is not None:
                return known
        node = Node(len(self.nodes), op, operands, attrs, shape, dtype)
        self.nodes.append(node)
        if not unique:
            self._known[key] = node
        return node

    def add_copy(self, node: Node, inputs: Iterable[Node] = ()) -> Node:
        """The node of another graph's operation, which is no ``input``, on operands of this one."""
        if node.op == "const":
            return self.const(node.value)
        is_unique = node.op in ("opaque", "loop")
        return self.add(node.op, inputs, node.attrs, node.shape, node.dtype, unique=is_unique)

    def find(
        self,
        op: str,
        inputs: tuple[Node, ...],
        attrs: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Node | None:
        """The node of an operation if there is one."""
        return self._known.get((op, tuple([n.id for n in inputs]), attrs, shape, dtype.char))

    def input(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Node:
        """Adds an input."""
        node = self.add("input", (), (len(self.inputs),), shape, dtype)
        self.inputs.append(node)
        return node

    def const(self, value: Any, dtype: np.dtype[Any] | None = None) -> Node:
        """The node of a constant array, which is copied unless it is read-only."""
        array = np.asarray(value, dtype)
        key: Any = None
        if array.size <= _SMALL_CONSTANT:
            key = ("const", array.shape, array.dtype.char, array.tobytes())
            known = self._known.get(key)
            if known is not None:
                return known
        array = np.array(array, order="C")
        array.flags.writeable = False
        node = Node(len(self.nodes), "const", (), (), array.shape, array.dtype, array)
        self.nodes.append(node)
        if key is not None:
            self._known[key] = node
        return node

    def live(self) -> list[Node]:
        """The nodes that results, checks and effects need, and all inputs, in order."""
        needed = needed_by([*self.outputs, *self.checks, *self.effects, *self.inputs])
        return [node for node in self.nodes if node.id in needed]

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        for node in self.live():
            yield f"{indent}{node!r}"
            if node.op == "loop":
                yield from node.attrs[0].body._lines(indent + "    ")
        results = ", ".join(f"%{node.id}" for node in self.outputs)
        yield f"{indent}return {results}"


class Copy(NamedTuple):
    """A part of a graph as a graph of its own.

    Attributes:
        graph: the new graph, without outputs.
        inputs: the nodes of the old graph that are its inputs, in their order.
        made: its nodes by the ids of those that they are copies of.
    """

    graph: Graph
    inputs: list[Node]
    made: dict[int, Node]


def copy_nodes(
    nodes: Iterable[Node], inputs: Iterable[Node] = (), zeros: Container[int] = ()
) -> Copy:
    """A graph of some nodes, in order; `inputs`, and other operands than these, are its inputs.

    Operands that are constants, numbers or ranges are copied, and no inputs; those whose ids are
    among `zeros` are constants.
    """
    copy = Copy(Graph(), [], {})

    def add_input(node: Node) -> None:
        copy.inputs.append(node)
        copy.made[node.id] = copy.graph.input(node.shape, node.dtype)

    def operand(node: Node) -> Node:
        if node.id in zeros:
            return copy.graph.const(np.zeros(node.shape, node.dtype))
        if node.id not in copy.made:
            if node.op in ("const", "iota") or is_number(node):
                made = copy.graph.add_copy(node, [operand(x) for x in node.inputs])
                copy.made[node.id] = made
            else:
                add_input(node)
        return copy.made[node.id]

    for node in inputs:
        add_input(node)
    for node in nodes:
        if node.id not in copy.made:
            copy.made[node.id] = copy.graph.add_copy(node, [operand(x) for x in node.inputs])
    return copy
