"""Re-rolling: loops of the traced function, found again in the flat graph of its trace.

A *run* is a stretch of nodes that repeats with a period: the nodes of one slot differ only in
offsets of views and updates, and in constants. A run becomes a loop if each operand of each slot
is, in all iterations,

- local: a value of the same iteration,
- carried: the value of a slot a fixed number of iterations before (whose first values come from
  outside),
- invariant: one value from outside,
- saved: the value of another loop's slot at an iteration that is an affine function of this one's,
- or a constant of the iteration (constants are stacked),

with an offset that is an affine function of the iteration. A run is divided where iterations do not
fit: at its ends, and between the inner loops of a nest. Every iteration is verified; a run that
cannot be verified stays flat.

Views of whole values are part of the operands that they make, not nodes of a slot: a view that two
iterations share would break the period.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.lowering.builder import Builder, LoopMaker
from pullback.compiled.lowering.ir import Graph, Node, Place, c_strides, whole_place

__all__ = ["reroll"]

_LEAST_COUNT = 6  # iterations of a loop
_LEAST_SIZE = 48  # nodes of all iterations
_MOST_OFFSETS = 4  # of a node that decide between candidates
_LARGE = 1 << 15  # elements of a value
_MOST_FLAT = 1200  # nodes of a run of large values that is no loop; compiled in 1 ms each
_LEAVES = frozenset(["input", "const", "iota"])
_GAPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16)  # a hash may occur several times in a body
_MOST_ROUNDS = 24  # in which runs are divided; afterwards, those that do not fit are dropped


class _Operand(NamedTuple):
    """An operand: a node that is no view, and the place in it."""

    base: Node
    place: Place


def _operand(node: Node) -> _Operand:
    if node.op == "view" and len(node.inputs) == 1:
        return _Operand(node.inputs[0], node.place)
    return _Operand(node, whole_place(node.shape))


class _Run:
    """A stretch of repeated nodes: positions ``start + k * period + slot``."""

    def __init__(self, start: int, period: int, count: int):
        self.start = start
        self.period = period
        self.count = count

    @property
    def end(self) -> int:
        return self.start + self.count * self.period

    @property
    def pays(self) -> bool:
        """Whether it is long enough for a loop."""
        return self.count >= _LEAST_COUNT and self.count * self.period >= _LEAST_SIZE

    def free_part(self, taken: Any) -> _Run:
        """The iterations between the last taken one before the middle and the next after it."""
        lines = taken[self.start : self.end].reshape(self.count, self.period)
        return self.parts(set(np.flatnonzero(lines.any(axis=1)).tolist()))[1]

    def parts(self, bad: set[int]) -> list[_Run]:
        """The run divided in three at the iterations next to the middle that do not fit."""
        middle = self.count // 2
        front = max([k + 1 for k in bad if k < middle], default=0)
        back = min([k for k in bad if k >= middle], default=self.count)
        ends = [(0, front), (front, back), (back, self.count)]
        return [_Run(self.start + a * self.period, self.period, b - a) for a, b in ends]


class _Member(NamedTuple):
    """The place of a node in a run."""

    run: _Run
    iteration: int
    slot: int


class _Relation(NamedTuple):
    """The origin of an operand in one iteration, comparable between iterations."""

    kind: str  # "own", "loop" or "node"
    key: Any  # the slot; the run and its slot; the node, or None for constants
    iteration: int  # the distance to an own iteration; the iteration of another loop


class _Search:
    """The nodes of a graph in order, and the runs among them."""

    def __init__(self, graph: Graph, calls: Container[int]):
        live = graph.live()
        self.calls = calls
        inner = {n.inputs[0].id for n in live if n.op == "view" and n.inputs[0].op == "view"}
        self.nodes = [
            n
            for n in live
            if n.op not in _LEAVES and (n.op != "view" or n.id in inner or len(n.inputs) > 1)
        ]
        self.position = {node.id: place for place, node in enumerate(self.nodes)}
        self.operands = [[_operand(x) for x in node.inputs] for node in self.nodes]
        self.runs: list[_Run] = []
        self.owner: list[_Run | None] = [None] * len(self.nodes)

    # --- candidates -------------------------------------------------------------------------------

    def hashes(self) -> Any:
        """A number for each node, equal for nodes that could be the same slot of iterations."""
        known: dict[Any, int] = {}
        found = np.empty(len(self.nodes), np.int64)
        for place, (node, operands) in enumerate(zip(self.nodes, self.operands, strict=True)):
            given = tuple((base.shape, base.dtype.char, p.strides, p.shape) for base, p in operands)
            key = (node.op, node.shape, node.dtype.char, _fixed_attrs(node), given)
            if node.op in ("opaque", "loop", "pick") or node.id in self.calls:
                key = (node.id,)  # type: ignore[assignment]
            found[place] = known.setdefault(key, len(known))
        return found

    def find(self) -> None:
        """Finds runs that do not overlap; first the one that saves most nodes."""
        hashes = self.hashes()
        gaps: Counter[int] = Counter()
        order = np.argsort(hashes, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(hashes[order])) + 1):
            for distance in _GAPS:
                if len(group) >= max(_LEAST_COUNT, distance + 1):
                    gaps.update((group[distance:] - group[:-distance]).tolist())
        offsets = self.offsets()
        candidates = []
        for period in sorted(p for p, c in gaps.items() if c >= _LEAST_COUNT - 1):
            same = (hashes[period:] == hashes[:-period]).astype(np.int8)
            edges = np.flatnonzero(np.diff(np.concatenate([[0], same, [0]])))
            for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                count = (high - low) // period + 1
                run = _Run(low, period, count)
                gain = self.gain(run, offsets) if run.pays else 0
                if gain > 0 and not self.is_better_flat(run):
                    candidates.append((-gain, period, low, run))
        candidates.sort(key=lambda candidate: candidate[:3])
        taken = np.zeros(len(self.nodes), bool)
        for *_, run in candidates:
            part = run.free_part(taken)
            if part.pays:
                taken[part.start : part.end] = True
                self.runs.append(part)
        self.runs.sort(key=lambda run: run.start)

    def offsets(self) -> Any:
        """The offsets of all nodes' places and of their first operands, a row for each node."""
        found = np.zeros((len(self.nodes), _MOST_OFFSETS), np.int64)
        for row, node, operands in zip(found, self.nodes, self.operands, strict=True):
            own = [_offset(node), *(operand.place.offset for operand in operands)]
            row[: len(own)] = own[:_MOST_OFFSETS]
        return found

    def gain(self, run: _Run, offsets: Any) -> int:
        """The nodes that a run saves where its offsets are affine functions of the iteration."""
        lines = offsets[run.start : run.end].reshape(run.count, -1)
        bends = np.diff(lines, 2, axis=0).any(axis=1)
        edges = np.flatnonzero(np.concatenate([[True], bends, [True]]))
        counts = np.diff(edges) + 1  # iterations on one line
        return int((counts[counts >= _LEAST_COUNT] - 1).sum()) * run.period

    def is_better_flat(self, run: _Run) -> bool:
        """Whether a run is a short one of large values, whose kernels are fused across iterations.

        What a loop saves for another one is in memory. (Ten steps of tanh and exp of a million
        elements, with their gradient: 17 instead of 200 ms, and 8 instead of 415 MB.)
        """
        if run.count * run.period > _MOST_FLAT:
            return False
        nodes = self.nodes[run.start : run.start + run.period]
        return any(_computed_size(node) >= _LARGE for node in nodes)

    # --- verification -----------------------------------------------------------------------------

    def fit(self) -> None:
        """Divides runs until all iterations of each fit; drops what is too short for a loop."""
        for turn in range(2 * _MOST_ROUNDS):
            self._note_owners()
            changed = False
            for run in list(self.runs):
                bad = self.misfits(run)
                if bad:
                    changed = True
                    self.runs.remove(run)
                    parts = run.parts(bad) if turn < _MOST_ROUNDS else []
                    self.runs += [part for part in parts if part.pays]
            if not changed:
                self.runs.sort(key=lambda run: run.start)
                return
        self.runs = []

    def _note_owners(self) -> None:
        self.owner = [None] * len(self.nodes)
        for run in self.runs:
            self.owner[run.start : run.end] = [run] * (run.count * run.period)

    def locate(self, node: Node) -> _Member | None:
        """The place of a node in the run that has it."""
        position = self.position.get(node.id)
        run = None if position is None else self.owner[position]
        if run is None or position is None:
            return None
        return _Member(run, *divmod(position - run.start, run.period))

    def relation(self, base: Node, run: _Run, iteration: int) -> _Relation:
        """The origin of an operand of an iteration of a run."""
        found = self.locate(base)
        if found is None:
            return _Relation("node", None if base.op == "const" else base, 0)
        if found.run is run:
            return _Relation("own", found.slot, iteration - found.iteration)
        return _Relation("loop", (found.run, found.slot), found.iteration)

    def misfits(self, run: _Run) -> set[int]:
        """The iterations of a run with an operand or an offset that does not follow the rule."""
        bad: set[int] = set()
        firsts: dict[tuple[int, int], tuple[Node, Place]] = {}
        for slot in range(run.period):
            places = [run.start + k * run.period + slot for k in range(run.count)]
            bad |= _not_affine([_offset(self.nodes[p]) for p in places])
            for number in range(len(self.nodes[places[0]].inputs)):
                given = [self.operands[p][number] for p in places]
                bad |= self._operand_misfits(run, given, firsts)
        return bad

    def _operand_misfits(self, run: _Run, given: list[_Operand], firsts: Any) -> set[int]:
        found = [self.relation(operand.base, run, k) for k, operand in enumerate(given)]
        middle = run.count // 2
        rule = found[middle]
        bad: set[int] = set()
        start = 0
        if rule.kind == "own":
            start = rule.iteration
            bad = {k for k in range(start, run.count) if found[k] != rule}
            for k in range(min(start, run.count)):
                if found[k].kind == "own" or not self._is_first(run, rule, k, given, firsts):
                    bad.add(k)
        elif rule.kind == "loop":
            step = rule.iteration - found[middle - 1].iteration
            for k, relation in enumerate(found):
                expected = rule.iteration + (k - middle) * step
                if relation.key != rule.key or relation.iteration != expected:
                    bad.add(k)
        else:
            bad = {k for k, relation in enumerate(found) if relation != rule}
        offsets = [operand.place.offset for operand in given]
        return bad | {k + start for k in _not_affine(offsets[start:])}

    def _is_first(
        self, run: _Run, rule: _Relation, iteration: int, given: list[_Operand], firsts: Any
    ) -> bool:
        """Whether an operand can be a first value of a carried one, the same for all readers."""
        slot = self.nodes[run.start + rule.key]
        operand = given[iteration]
        expected = _extrapolate([o.place.offset for o in given], rule.iteration, iteration)
        is_whole = given[-1].place == whole_place(slot.shape)
        if is_whole and operand.place.shape == slot.shape:
            value: Any = (operand.base.id, operand.place)
        elif operand.base.shape == slot.shape and operand.place.offset == expected:
            value = (operand.base.id, whole_place(slot.shape))
        else:
            return False
        if operand.base.dtype != slot.dtype:
            return False
        key = (rule.key, rule.iteration - iteration)
        return bool(firsts.setdefault(key, value) == value)


def _extrapolate(values: list[int], start: int, at: int) -> int:
    """A value of an affine sequence that is known from `start` on."""
    known = values[start : start + 2]
    step = known[1] - known[0] if len(known) > 1 else 0
    return known[0] + (at - start) * step


def _fixed_attrs(node: Node) -> tuple[Any, ...]:
    """The attributes of a node without the offset of its place."""
    if node.op == "assemble":
        return (
            tuple((p.strides, p.shape) for p in node.attrs[0])
            if len(node.inputs) == 1
            else node.attrs
        )
    if node.op in ("update", "view"):
        return (*node.attrs[:-1], node.place.strides, node.place.shape, node.place.step)
    return node.attrs


def _offset(node: Node) -> int:
    """The offset of a node's own place."""
    if node.op == "assemble":
        offset: int = node.attrs[0][0].offset
        return offset
    return node.place.offset if node.op in ("update", "view") else 0


def _computed_size(node: Node) -> int:
    """The elements that a node computes or moves, if writes are done in place."""
    return node.inputs[1].size if node.op in ("update", "put") else node.size


def _not_affine(values: list[int]) -> set[int]:
    """The indices of values that do not lie on the line through the middle."""
    if len(values) < 2:
        return set()
    middle = len(values) // 2
    step = values[middle] - values[middle - 1]
    return {k for k, v in enumerate(values) if v != values[middle] + (k - middle) * step}


# --- the graph with loops -------------------------------------------------------------------------


class _Rewriter:
    """Builds the graph with loops in the place of runs."""

    def __init__(self, graph: Graph, search: _Search):
        self.old = graph
        self.search = search
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.made: dict[int, Node] = {}
        self.results: dict[Any, tuple[Node, int | None]] = {}  # (run, slot): stacked, or last
        self.wanted: dict[tuple[_Run, int], set[int]] = {}  # iterations that are read from outside

    def run(self) -> Graph:
        for node in self.old.inputs:
            self.made[node.id] = self.graph.input(node.shape, node.dtype)
        self._note_wanted()
        place = 0
        starts = {run.start: run for run in self.search.runs}
        while place < len(self.search.nodes):
            run = starts.get(place)
            if run is not None:
                _RunMaker(self, run).make()
                place = run.end
            else:
                node = self.search.nodes[place]
                self.made[node.id] = self._copy(node)
                place += 1
        for name in ("outputs", "checks", "effects"):
            setattr(self.graph, name, [self.value(node) for node in getattr(self.old, name)])
        return self.graph

    def _note_wanted(self) -> None:
        """Notes the values of loops that are read from outside of them."""
        search = self.search
        for place, operands in enumerate(search.operands):
            reader = search.owner[place]
            for base, _ in operands:
                self._want(base, reader)
        for node in (*self.old.outputs, *self.old.checks, *self.old.effects):
            self._want(_operand(node).base, None)
            self._want(node, None)

    def _want(self, base: Node, reader: _Run | None) -> None:
        found = self.search.locate(base)
        if found is not None and found.run is not reader:
            self.wanted.setdefault((found.run, found.slot), set()).add(found.iteration)

    def value(self, node: Node) -> Node:
        """The node of the new graph with the value of an old one."""
        known = self.made.get(node.id)
        if known is not None:
            return known
        member = self.search.locate(node)
        if member is not None:
            found = self._of_loop(node, member)
        elif node.op == "view":
            found = self.builder.view(self.value(node.inputs[0]), node.place)
        else:
            found = self.graph.add_copy(node)
        self.made[node.id] = found
        return found

    def _of_loop(self, node: Node, member: _Member) -> Node:
        stacked, last = self.results[member.run, member.slot]
        if last is not None:
            return stacked
        place = Place(member.iteration * node.size, c_strides(node.shape), node.shape)
        return self.builder.view(stacked, place)

    def _copy(self, node: Node) -> Node:
        inputs = [self.value(x) for x in node.inputs]
        return self.graph.add_copy(node, inputs)


class _RunMaker(LoopMaker):
    """Makes the ``loop`` node of a run."""

    def __init__(self, owner: _Rewriter, run: _Run):
        super().__init__()
        self.owner = owner
        self.search = owner.search
        self.run = run
        self.local: dict[int, Node] = {}
        self.firsts: dict[tuple[int, int], Node] = {}  # (slot, distance): the value before the loop
        self.carried: dict[tuple[int, int], Node] = {}

    def make(self) -> None:
        run, search = self.run, self.search
        probe = run.count // 2
        self.model = [run.start + probe * run.period + slot for slot in range(run.period)]
        self._find_carried()
        stacked, last = self._results()
        for slot in last:
            if (slot, 1) not in self.firsts:  # a value of the last iteration only
                node = search.nodes[run.start + slot]
                self.firsts[slot, 1] = self.owner.builder.full(0, node.shape, node.dtype)
        for key in self.firsts:
            node = search.nodes[run.start + key[0]]
            self.carried[key] = self.body.input(node.shape, node.dtype)
        for slot in range(run.period):
            self.local[slot] = self._copy(slot)
        outputs = [
            self.local[slot] if distance == 1 else self.carried[slot, distance - 1]
            for slot, distance in self.firsts
        ]
        outputs += [self.local[slot] for slot in stacked]
        made = self.add_to(self.owner.graph, run.count, list(self.firsts.values()), outputs)
        self._note_results(made, stacked, last)

    def _note_results(self, made: Node, stacked: list[int], last: list[int]) -> None:
        run, builder = self.run, self.owner.builder
        order = list(self.firsts)
        for slot in stacked:
            node = self.search.nodes[run.start + slot]
            place = len(order) + stacked.index(slot)
            shape = (run.count, *node.shape)
            self.owner.results[run, slot] = builder.pick(made, place, shape, node.dtype), None
        for slot in last:
            node = self.search.nodes[run.start + slot]
            found = builder.pick(made, order.index((slot, 1)), node.shape, node.dtype)
            self.owner.results[run, slot] = found, run.count - 1

    def _results(self) -> tuple[list[int], list[int]]:
        """The slots whose values are stacked, and those of which only the last one is read."""
        stacked, last = [], []
        for slot in range(self.run.period):
            wanted = self.owner.wanted.get((self.run, slot), set())
            if wanted == {self.run.count - 1}:
                last.append(slot)
            elif wanted:
                stacked.append(slot)
        return stacked, last

    def _find_carried(self) -> None:
        """Notes the first values of all carried values, and of those that lead to them."""
        run, search = self.run, self.search
        for slot in range(run.period):
            for number, (base, place) in enumerate(search.operands[self.model[slot]]):
                relation = search.relation(base, run, run.count // 2)
                if relation.kind != "own" or not relation.iteration:
                    continue
                node = search.nodes[run.start + relation.key]
                for k in range(relation.iteration):
                    given = search.operands[run.start + k * run.period + slot][number]
                    key = (relation.key, relation.iteration - k)
                    if key not in self.firsts:
                        whole = place == whole_place(node.shape) and given.place.shape == node.shape
                        first = self.owner.value(given.base)
                        if whole:
                            first = self.owner.builder.view(first, given.place)
                        self.firsts[key] = first

    def _copy(self, slot: int) -> Node:
        """A node of the body."""
        search = self.search
        node = search.nodes[self.model[slot]]
        operands = [self._operand(slot, number) for number in range(len(node.inputs))]
        offset, step = self._line([_offset(n) for n in self._pair(slot)])
        if node.op == "update":
            place = node.place._replace(offset=offset, step=step)
            return self.inner.update(
                node.attrs[0], operands[0], place, operands[1], self.index if step else None
            )
        if node.op == "assemble" and len(node.inputs) == 1:
            place = node.attrs[0][0]._replace(offset=offset, step=step)
            if step:
                zeros = self.inner.full(0, node.shape, node.dtype)
                return self.inner.update("set", zeros, place, operands[0], self.index)
        if node.op == "view":
            place = node.place._replace(offset=offset, step=step)
            return self.inner.view(operands[0], place, self.index if step else None)
        return self.body.add_copy(node, operands)

    def _pair(self, slot: int) -> list[Node]:
        """The nodes of a slot in the middle iteration and the next."""
        return [self.search.nodes[self.model[slot] + n * self.run.period] for n in (0, 1)]

    def _line(self, pair: list[int]) -> tuple[int, int]:
        """Start and step of an affine function of the iteration, by two values from the middle."""
        step = pair[1] - pair[0]
        return pair[0] - step * (self.run.count // 2), step

    def _operand(self, slot: int, number: int) -> Node:
        """An operand in the body."""
        run, search = self.run, self.search
        pair = [search.operands[self.model[slot] + n * run.period][number] for n in (0, 1)]
        base, place = pair[0]
        offset, step = self._line([p.place.offset for p in pair])
        relation = search.relation(base, run, run.count // 2)
        if relation.kind == "own":
            source = (
                self.carried[relation.key, relation.iteration]
                if relation.iteration
                else self.local[relation.key]
            )
        elif relation.kind == "loop":
            following = search.relation(pair[1].base, run, run.count // 2 + 1)
            start, stride = self._line([relation.iteration, following.iteration])
            if stride:
                outside = self.owner.results[relation.key][0]
                source = self.invariant(outside)
                offset, step = offset + start * base.size, step + stride * base.size
            else:
                source = self.invariant(self.owner.value(base))
        elif base.op == "const":
            source, offset, step = self._constant(slot, number, offset, step)
        else:
            source = self.invariant(self.owner.value(base))
        moved = place._replace(offset=offset, step=step)
        return self.inner.view(source, moved, self.index if step else None)

    def _constant(self, slot: int, number: int, offset: int, step: int) -> tuple[Node, int, int]:
        """A constant, or the constants of all iterations in one."""
        run = self.run
        places = [run.start + k * run.period + slot for k in range(run.count)]
        values = [self.search.operands[p][number].base.value for p in places]
        if all(v.tobytes() == values[0].tobytes() for v in values):
            return self.body.const(values[0]), offset, step
        stacked = self.invariant(self.owner.graph.const(np.stack(values)))
        return stacked, offset, step + values[0].size


def reroll(graph: Graph, calls: Container[int] = ()) -> Graph:
    """The graph with its repeated stretches as loops; the same graph if it has none.

    Nodes without machine code, whose ids are `calls`, are in no loop: it would run in Python.
    """
    search = _Search(graph, calls)
    if len(search.nodes) < _LEAST_SIZE:
        return graph
    search.find()
    search.fit()
    return _Rewriter(graph, search).run() if search.runs else graph
