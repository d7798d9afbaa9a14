"""The kernels of a graph: loops over fused work, their order, and the values in memory.

Element-wise work is grouped by *level* and *space*. The space of a node is the shape that loops run
over, without axes of length 1: its own, or that of its operand for a reduction. A level ends where
a value is needed as a whole, through memory: an operand of another space, a reduction's result, a
view. All nodes of one level and space become one nest of loops, in which they read each other in
registers. Matrix products and writes are kernels of their own.

Nodes without memory: scalar constants, ``iota`` and views of it are numbers known from the loops'
indices; views are other strides of their base; truth values are computed again where they are read,
and parts of writes where they are written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pullback.compiled.llvm.arrays.gemm import uses_loops
from pullback.compiled.lowering.ir import Graph, Node, is_number, whole_place

__all__ = ["FUSED", "Kernel", "Plan", "make_plan", "space_of", "squeeze", "strip"]

FUSED = frozenset(["elementwise", "reduce", "take"])
"""Operations that run inside of loops beside others."""
_LEAVES = frozenset(["input", "const"])
_CHEAP = frozenset(["add", "subtract", "multiply", "negative", "cast"])
_CHEAP_INDICES = _CHEAP | {"where"}
_SINGLE = frozenset(["matmul", "update", "assemble", "put"])


@dataclass
class Kernel:
    """Nodes that one function computes.

    Attributes:
        kind: "nest", or the operation of its only node.
        space: the shape of the loops of a nest.
        nodes: in order. A view in a nest is a copy.
        stored: those of them that are written to memory.
    """

    kind: str
    space: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    stored: list[Node] = field(default_factory=list)


@dataclass
class Plan:
    """Kernels in order.

    Attributes:
        kernels: in order of execution.
        outputs: the nodes whose memory is that of the program's results: the graph's outputs and
            checks, or copies of them where they are inputs, views or repeated.
        last_use: the number of the last kernel that reads a node's memory.
        virtual: nodes that are computed where they are read.
    """

    kernels: list[Kernel]
    outputs: list[Node]
    last_use: dict[Node, int]
    virtual: set[Node]


def squeeze(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without axes of length 1."""
    return tuple(n for n in shape if n != 1)


def space_of(node: Node) -> tuple[int, ...]:
    """The shape of the loops that compute a node."""
    return squeeze(node.inputs[0].shape if node.op == "reduce" else node.shape)


def _is_reshaped(node: Node) -> bool:
    """Whether a view has the elements of its base in the same order, axes of length 1 aside."""
    base = node.inputs[0]
    return (
        node.op == "view"
        and len(node.inputs) == 1
        and node.place == whole_place(node.shape)
        and squeeze(node.shape) == squeeze(base.shape)
    )


def strip(node: Node, virtual: set[Node]) -> Node:
    """The node that a view shows which only adds or removes axes of length 1."""
    while node in virtual and node.op == "view" and not is_number(node) and _is_reshaped(node):
        node = node.inputs[0]
    return node


class _Reads(NamedTuple):
    """The nodes that a node reads.

    Attributes:
        registers: values of its own space, read element by element: in registers where they are
            computed in the same nest.
        memory: all that is read through a view, by position or by a kernel of its own.
    """

    registers: set[Node]
    memory: set[Node]


class _Planner:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.live = graph.live()
        self.outputs = self._own_outputs([*graph.outputs, *graph.checks])
        self.virtual = self._find_virtual()
        self.kernels: dict[Any, Kernel] = {}
        self.key: dict[Node, Any] = {}
        self.level: dict[Node, int] = {}
        self.reads: dict[Node, _Reads] = {}

    def _own_outputs(self, outputs: list[Node]) -> list[Node]:
        """The outputs, with copies of those that have no memory of their own."""
        found: list[Node] = []
        number = len(self.graph.nodes)
        for node in outputs:
            if node.op in ("input", "const", "iota", "view") or node in found:
                is_view = node.op == "view"
                inputs = node.inputs if is_view else (node,)
                attrs = node.attrs if is_view else (whole_place(node.shape),)
                node = Node(number, "view", inputs, attrs, node.shape, node.dtype)
                number += 1
                self.live.append(node)
            found.append(node)
        return found

    # --- values without memory --------------------------------------------------------------------

    def _find_virtual(self) -> set[Node]:
        """Views, numbers, truth values that only loops read, and some parts of writes."""
        found = set()
        for node in self.live:
            is_view = node.op == "view"
            is_truth = node.op == "elementwise" and node.dtype.kind == "b"
            is_truth |= node.function == "cast" and node.inputs[0].dtype.kind == "b"
            if is_view or is_truth or is_number(node) or node.op == "iota":
                found.add(node)
        found |= self._find_parts(found)
        found -= set(self.outputs)
        for node in reversed(self.live):
            if node.op == "view":
                needed = [x for x in node.inputs[:1] if not self._is_readable(node, x, found)]
            elif node.op == "take":
                needed = [x for x in node.inputs[:1] if x.op != "const"]
            elif node.op == "matmul":
                is_loop = uses_loops(node)
                needed = [x.inputs[0] if _is_factor(x, is_loop) else x for x in node.inputs]
            else:
                needed = []
            found -= set(needed)
        return found

    def _find_parts(self, virtual: set[Node]) -> set[Node]:
        """Element-wise parts of writes, and positions, that are computed where they are read.

        They are in no memory then (the gradient of 25 shifts of 700 x 700 elements: 12 instead of
        55 MB). At most one operand is no input, or they are small: they have to be in memory in
        their place. They must not be what is written to.
        """
        writes: dict[Node, list[Node]] = {}
        others: dict[Node, set[str]] = {}  # operations that read a value otherwise
        for node in self.live:
            for place, x in enumerate(node.inputs):
                if node.op == "assemble" or (node.op in ("update", "put") and place in (1, 2)):
                    writes.setdefault(x, []).append(node)
                else:
                    is_element = node.op in FUSED and not (node.op == "take" and place == 0)
                    others.setdefault(x, set()).add("element" if is_element else node.op)
        found: set[Node] = set()
        bases: dict[Node, set[Node]] = {}  # what has to be in memory in the place of a node
        for node in self.live:
            if node.op != "elementwise" or node in self.outputs:
                continue
            made: set[Node] = set()
            for x in node.inputs:
                base = x.inputs[0] if x.op == "view" else x
                is_free = base.op in ("input", "const", "iota")
                made |= bases.get(base, set() if is_free else {base})
            if node in virtual:
                bases[node] = made
                continue
            own = writes.get(node, [])
            size = sum(map(_bytes, made))
            if others.get(node):
                is_index = node.dtype.kind in "iu" and node.function in _CHEAP_INDICES
                is_cheap = is_index or (own and node.function in _CHEAP)
                fits = is_cheap and others[node] == {"element"} and 8 * size <= _bytes(node)
            else:
                is_cheap = len(own) == 1 or node.function in _CHEAP
                fits = is_cheap and (len(made) < 2 or 8 * size <= _bytes(node))
            if fits and not any(made & _written(write) for write in own):
                found.add(node)
                bases[node] = made
        return found

    def _is_readable(self, view: Node, base: Node, virtual: set[Node]) -> bool:
        """Whether the base of a view may be without memory."""
        if base not in virtual or base.op == "iota" or is_number(base):
            return True
        return base.op == "elementwise" and _is_reshaped(view) and view in virtual

    def _find_reads(self, node: Node) -> _Reads:
        registers: set[Node] = set()
        memory: set[Node] = set()
        space = space_of(node)
        stack = []
        for place, operand in enumerate(node.inputs):
            is_element = node.op in FUSED and not (node.op == "take" and place == 0)
            stack.append((operand, is_element))
        while stack:
            x, is_element = stack.pop()
            x = strip(x, self.virtual)
            if x in self.virtual:
                if x.op in ("view", "elementwise") and not is_number(x):
                    stack += [(y, is_element and x.op != "view") for y in x.inputs]
            elif is_element and x.op in ("elementwise", "take") and squeeze(x.shape) == space:
                registers.add(x)
            else:
                memory.add(x)
        return _Reads(registers - memory, memory)

    # --- levels -----------------------------------------------------------------------------------

    def _ready(self, node: Node) -> int:
        """The first level that can read a node's memory."""
        return 0 if node.op in _LEAVES else self.level[node] + 1

    def _find_level(self, node: Node) -> int:
        """The first level in which a node can be computed."""
        registers, memory = self.reads[node]
        levels = [self.level[x] for x in registers] + [self._ready(x) for x in memory]
        return max(levels, default=0)

    def _delay(self, nodes: list[Node]) -> None:
        """Moves element-wise nodes to the level of their readers, if that saves their memory.

        All readers are in one later nest, and the operands are in memory anyway. (The gradient of a
        Gaussian mixture stores and reads two arrays of its largest size less: 6 % of its time.)
        """
        readers: dict[Node, list[Node]] = {}
        needed = set(self.outputs)  # in memory, wherever their readers are
        for node in nodes:
            registers, memory = self.reads[node]
            needed |= memory
            for x in registers:
                readers.setdefault(x, []).append(node)
        stored = set(needed)
        for x, its in readers.items():
            if any(self.level[node] != self.level[x] for node in its):
                stored.add(x)
        for node in reversed(nodes):
            levels = {self.level[reader] for reader in readers.get(node, ())}
            if node.op != "elementwise" or node in needed or len(levels) != 1:
                continue
            (level,) = levels
            missing = [x for x in self.reads[node].registers if x not in stored]
            can_follow = all(x.op == "elementwise" and len(readers[x]) == 1 for x in missing)
            if level > self.level[node] and len(missing) <= 1 and can_follow:
                self.level[node] = level
                stored |= set(missing)
                stored.discard(node)

    def _assign(self, node: Node) -> None:
        level = self.level[node]
        if node.op in _SINGLE:
            key: Any = (level, node)
            kernel = Kernel(node.op, ())
        else:
            key = (level, space_of(node))
            kernel = Kernel("nest", key[1])
        self.key[node] = key
        self.kernels.setdefault(key, kernel).nodes.append(node)

    def run(self) -> Plan:
        nodes = [n for n in self.live if n.op not in _LEAVES and n not in self.virtual]
        for node in nodes:
            self.reads[node] = self._find_reads(node)
            self.level[node] = self._find_level(node)
        self._delay(nodes)
        for node in nodes:
            self._assign(node)
        order = sorted(self.kernels, key=lambda k: (k[0], self.kernels[k].nodes[0].id))
        kernels = [self.kernels[key] for key in order]
        stored = set(self.outputs)
        last_use: dict[Node, int] = {}
        for number, kernel in enumerate(kernels):
            for node in kernel.nodes:
                registers, memory = self.reads[node]
                last_use.update(dict.fromkeys((*registers, *memory), number))
                stored |= memory
                stored |= {x for x in registers if self.key[x] != self.key[node]}
        for kernel in kernels:
            kernel.stored = [n for n in kernel.nodes if n in stored or n.op == "reduce"]
        return Plan(kernels, self.outputs, last_use, self.virtual)


def _bytes(node: Node) -> int:
    """The memory of a value."""
    return node.size * node.dtype.itemsize


def _written(write: Node) -> set[Node]:
    """The values whose memory a write may take over."""
    found = set()
    while write.op in ("update", "put"):
        write = write.inputs[0]
        found.add(write)
    return found


def _is_factor(node: Node, any_strides: bool) -> bool:
    """Whether a product can read a value as a view of memory; all other factors are in memory.

    BLAS needs rows or columns one beside the other in memory, and prints a message for others.
    """
    if node.op != "view":
        return False
    base, place = node.inputs[0], node.place
    if base.op == "iota" or is_number(node) or place.step:
        return False
    if any_strides:
        return True
    (rows, columns), (down, right) = place.shape[-2:], place.strides[-2:]
    if min(place.strides[:-2], default=0) < 0:
        return False
    by_rows = (columns == 1 or right == 1) and (rows == 1 or down >= max(columns, 1))
    by_columns = (rows == 1 or down == 1) and (columns == 1 or right >= max(rows, 1))
    return by_rows or by_columns


def make_plan(graph: Graph) -> Plan:
    """The kernels of a graph without loops and opaque calls."""
    return _Planner(graph).run()
