"""Segments and calls: the steps of a program, and their order.

A *segment* is a part of the graph without calls: one LLVM function. Opaque operators, and functions
of elements that have no machine code, are called between segments. A node belongs to a *phase*: the
number of calls behind one another that it needs. Nodes are moved to later phases where that saves
memory, and the steps run in the order that takes the least memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.arrays import can_emit, emit_arrays
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.digest import graph_digest
from pullback.compiled.llvm.entry import emit_pointers
from pullback.compiled.llvm.registers import emit_program
from pullback.compiled.llvm.schedule import choose_limit, is_large
from pullback.compiled.llvm.vector.elements import is_supported
from pullback.compiled.lowering.ir import Graph, Node, copy_nodes, is_number

__all__ = ["Segment", "Step", "find_calls", "find_dead", "find_steps"]

_HALF = np.dtype(np.float16)  # has no machine code; NumPy makes it of int8 and bool
_LEAVES = frozenset(["input", "const"])
_LEAST_DIVIDED = 1 << 16  # bytes of a value in each part of a phase that is divided
_MOST_ORDERED = 400  # steps whose order is searched; the search takes their number squared


class Segment(NamedTuple):
    """One LLVM function, and the values that it reads and makes; equal ones have one name."""

    inputs: list[Node]
    outputs: list[Node]
    graph: Graph
    name: str
    function: Any = None  # takes arrays: inputs, outputs and its memory
    arena: int = 0  # bytes of its memory
    takes_memory: bool = True  # else the stack has it

    def emit(self, module: Any) -> None:
        """Adds its function, the size of its arena, and a function that takes arrays."""
        emit = emit_arrays if _suits_arrays(self.graph) else emit_program
        function, arena = emit(module, self.name, self.graph)
        size = ir.GlobalVariable(module, ir.IntType(64), f"arena_{self.name}")
        size.initializer = ir.Constant(ir.IntType(64), arena)
        emit_pointers(module, f"call_{self.name}", function, arena)


Step = Segment | Node
"""A step of a program: a segment, or a node that is called."""


def _made(step: Step) -> list[Node]:
    """The values that a step makes."""
    return step.outputs if isinstance(step, Segment) else [step]


def find_dead(steps: list[Step], kept: list[Node]) -> list[list[int]]:
    """For each step, the values that no later one reads: their memory is free after it.

    They are those that steps have made. Without it, a gradient through a cumulative sum or a sort
    takes more memory than in eager.
    """
    last: dict[int, int] = {}
    for place, step in enumerate(steps):
        last |= dict.fromkeys([n.id for n in _made(step)], place)
        last |= {n.id: place for n in step.inputs if n.id in last}
    dead: list[list[int]] = [[] for _ in steps]
    results = {node.id for node in kept}
    for number, place in last.items():
        if number not in results:
            dead[place].append(number)
    return dead


def find_steps(graph: Graph) -> list[Step]:
    """The segments of a graph and the calls between them, in the order in which they run."""
    steps: list[Step] = []
    phases, wanted = _Phases(graph).find()
    for place, (nodes, calls) in enumerate(phases):
        own = [n for n in nodes if n.id in wanted or not (is_number(n) or n.op == "iota")]
        parts = _divide(own) if len(phases) > 1 or calls else [own]
        for number, part in enumerate(parts):
            if not any(node.id in wanted for node in part):
                continue
            steps.append(_segment(part, wanted, f"segment{place}_{number}"))
        steps += calls
    return _order(_share_names(steps), graph)


def _share_names(steps: list[Step]) -> list[Step]:
    """The steps, with one name for segments of equal graphs, which share a function.

    (Value and gradient of 300 steps, every third of which sorts 20 numbers: a first call of 1.5
    instead of 3.7 s.)
    """
    names: dict[str, str] = {}
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Segment):
            name = names.setdefault(graph_digest([step.graph]), step.name)
            step = step._replace(name=name)
        found.append(step)
    return found


def find_calls(graph: Graph) -> set[int]:
    """The ids of nodes that have no machine code."""
    limit = choose_limit(graph)
    return {node.id for node in graph.live() if _is_call(node, limit)}


def _is_call(node: Node, limit: int) -> bool:
    """Whether a node has no machine code."""
    if node.op == "opaque":
        return True
    if node.op == "pick":
        return _is_call(node.inputs[0], limit)
    if any(value.dtype == _HALF for value in (node, *node.inputs) if value.op != "loop"):
        return True
    if node.op == "elementwise" and node.function != "cast":
        return not is_supported(node.function, node.inputs[-1].dtype)
    if node.op == "loop":
        body = node.attrs[0].body
        return any(_is_call(n, limit) for n in body.live())
    return is_large(node, limit) and not can_emit(node)


def _size(node: Node) -> int:
    """The bytes of a value."""
    return node.size * node.dtype.itemsize


def _base(node: Node) -> Node:
    """The value that a view reads."""
    return _base(node.inputs[0]) if node.op == "view" else node


class _Phases:
    """The nodes of each phase of a graph, and the calls behind them."""

    def __init__(self, graph: Graph):
        limit = choose_limit(graph)
        self.graph = graph
        self.nodes = [node for node in graph.live() if node.op not in _LEAVES]
        self.is_call = {node.id: _is_call(node, limit) for node in self.nodes}
        self.phase: dict[int, int] = {}

    def find(self) -> tuple[list[tuple[list[Node], list[Node]]], set[int]]:
        """The nodes and the calls of each phase, and the ids of what other steps read."""
        self._set_first()
        self._delay()
        count = max(self.phase.values(), default=-1) + 1
        found: list[tuple[list[Node], list[Node]]] = [([], []) for _ in range(count)]
        for node in self.nodes:
            found[self.phase[node.id]][self.is_call[node.id]].append(node)
        wanted = self._find_wanted()
        return found, wanted

    def _set_first(self) -> None:
        """The first phase in which each node can be computed.

        A call that draws random numbers is in no phase before that of an earlier one: they come
        from one stream.
        """
        random = {node.id for node in self.graph.effects}
        drawn = 0  # the phase of the last call that draws
        for node in self.nodes:
            own = self.is_call[node.id]
            at = 0
            for x in node.inputs:
                if x.op not in _LEAVES:
                    at = max(at, self.phase[x.id] + (self.is_call[x.id] and not own))
            if node.id in random:
                at = drawn = max(at, drawn)
            self.phase[node.id] = at

    def _delay(self) -> None:
        """Moves nodes to the phase of their first reader, where their operands are kept anyway.

        (Gradient of a power spectrum, a million elements: 24 instead of 32 MB.)
        """
        end = max(self.phase.values(), default=0)
        first: dict[int, int] = {}  # the first and the last phase that reads a value
        last = {node.id: end for node in (*self.graph.outputs, *self.graph.checks)}
        for node in reversed(self.nodes):
            at = first.get(node.id, end)
            if at > self.phase[node.id] and not self.is_call[node.id] and self._can_move(node):
                kept = {_base(x) for x in node.inputs}
                longer = [x for x in kept if x.op not in _LEAVES and last.get(x.id, 0) < at]
                if sum(map(_size, longer)) <= _size(node):
                    self.phase[node.id] = at
            at = self.phase[node.id]
            for x in node.inputs:
                first[x.id] = min(first.get(x.id, at), at)
                last[x.id] = max(last.get(x.id, at), at)

    def _can_move(self, node: Node) -> bool:
        """Whether a node stands alone: items of a loop stay where it is."""
        return node.op not in ("loop", "pick")

    def _find_wanted(self) -> set[int]:
        """The values that calls, other phases and results read.

        Segments copy numbers and ranges.
        """
        wanted = {node.id for node in (*self.graph.outputs, *self.graph.checks)}
        for node in self.nodes:
            own = self.phase[node.id]
            for x in node.inputs:
                if self.is_call[node.id]:
                    wanted |= set() if is_number(x) else {x.id}
                elif self.phase.get(x.id, own) != own and not (is_number(x) or x.op == "iota"):
                    wanted.add(x.id)
        return wanted


def _divide(nodes: list[Node]) -> list[list[Node]]:
    """The parts of a phase that share no value, if all of them are large.

    They may run at different times. (The sum of a product of matrices frees it before the products
    of its gradient.)
    """
    root: dict[int, int] = {}

    def find(number: int) -> int:
        while root.setdefault(number, number) != number:
            number = root[number]
        return number

    for node in nodes:
        for x in node.inputs:
            if not is_number(x):
                root[find(x.id)] = find(node.id)
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        parts.setdefault(find(node.id), []).append(node)
    found = list(parts.values())
    sizes = [max(_size(x) for node in part for x in (node, *node.inputs)) for part in found]
    return found if min(sizes, default=0) >= _LEAST_DIVIDED else [nodes]


def _segment(nodes: list[Node], wanted: set[int], name: str) -> Segment:
    """The graph of a segment."""
    graph, inputs, made = copy_nodes(nodes)
    outputs = [n for n in nodes if n.id in wanted and n.op != "loop"]
    graph.outputs = [made[n.id] for n in outputs]
    return Segment(inputs, outputs, graph, name)


def _suits_arrays(graph: Graph) -> bool:
    """Whether all of a segment is computed in memory: large values, and no loop."""
    live, limit = graph.live(), choose_limit(graph)
    is_plain = all(can_emit(node) for node in live)
    return is_plain and any(is_large(node, limit) for node in live)


# --- order ----------------------------------------------------------------------------------------


def _order(steps: list[Step], graph: Graph) -> list[Step]:
    """The steps in the order that takes less memory: the given one, or that of a greedy search.

    The search runs that step next that leaves the least memory in use. Calls that draw random
    numbers stay in their order.
    """
    if len(steps) > _MOST_ORDERED:
        return steps
    makers = {n.id: place for place, step in enumerate(steps) for n in _made(step)}
    random = {node.id for node in graph.effects}
    needed: list[set[int]] = []
    drawn: set[int] = set()
    for place, step in enumerate(steps):
        needed.append({makers[n.id] for n in step.inputs if n.id in makers})
        if isinstance(step, Node) and step.id in random:
            needed[place] |= drawn
            drawn = {place}
    kept = {node.id for node in (*graph.outputs, *graph.checks)}
    memory = _Memory(steps, kept)
    left, found = list(range(len(steps))), list[int]()
    while left:
        done = set(found)
        ready = [place for place in left if needed[place] <= done]
        place = min(ready, key=memory.rank)
        memory.run(place)
        left.remove(place)
        found.append(place)
    before = _Memory(steps, kept)
    for place in range(len(steps)):
        before.run(place)
    return [steps[n] for n in found] if memory.peak < before.peak else steps


class _Memory:
    """The memory in use while steps run one after the other."""

    def __init__(self, steps: list[Step], kept: set[int]):
        self.steps = steps
        self.left: dict[int, int] = dict.fromkeys(kept, 1)  # the steps that will read a value
        self.made: set[int] = set()
        self.now = self.peak = 0
        for step in steps:
            for number in {n.id for n in step.inputs}:
                self.left[number] = self.left.get(number, 0) + 1

    def _dying(self, step: Step) -> list[Node]:
        """The values that a step is the last to read."""
        found = {n.id: n for n in step.inputs if n.id in self.made and self.left[n.id] == 1}
        return list(found.values())

    def rank(self, place: int) -> tuple[bool, int]:
        """The order of steps: items of a call's tuple first, then by the memory that they keep."""
        step = self.steps[place]
        is_item = isinstance(step, Node) and step.op == "pick"
        return not is_item, sum(map(_size, _made(step))) - sum(map(_size, self._dying(step)))

    def run(self, place: int) -> None:
        """Takes the memory of a step's results, and frees what it is the last to read."""
        step = self.steps[place]
        self.now += sum(map(_size, _made(step)))
        self.peak = max(self.peak, self.now)
        self.now -= sum(map(_size, self._dying(step)))
        self.made |= {n.id for n in _made(step)}
        for number in {n.id for n in step.inputs}:
            self.left[number] -= 1
