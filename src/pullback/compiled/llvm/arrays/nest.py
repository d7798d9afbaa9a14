"""``Nest``: the loops of one kernel, which compute element-wise functions, reductions and stores.

The nodes of a kernel share a space, the shape that its loops run over. Neighbouring axes that all
arrays run through as one are joined; the innermost loop moves by vectors, the outermost one is cut
into chunks. Each node is computed once for each vector, in registers; operands from outside of the
kernel are loaded at the strides of their views. ``_Reduction`` is the state of one reduction
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from pullback.compiled.llvm.arrays.code import WORD, Chunks, Code
from pullback.compiled.llvm.arrays.plan import squeeze, strip
from pullback.compiled.llvm.arrays.reductions import (
    Accumulator,
    combine,
    combine_lanes,
    neutral,
)
from pullback.compiled.llvm.compiler import has_avx512
from pullback.compiled.llvm.instructions import clamp
from pullback.compiled.llvm.vector.elements import CALLED, compute, elementwise
from pullback.compiled.llvm.vector.values import extend, full, join, spread, take_lanes
from pullback.compiled.lowering.ir import Node, c_strides, is_number

__all__ = ["LANES", "Access", "Moves", "Nest", "Store"]

LANES = 16
"""Elements of one vector: several registers, so that instructions do not wait for each other."""
_LONG_LANES = 32
_MOST_LONG_NODES = 64  # operations of a nest beyond which long vectors do not fit into registers
_CHUNK = 1 << 14  # elements of one chunk: 128 kB of float64, and some 10 µs of work
_PLAIN_STEPS = 8  # additions in a row beyond which a sum keeps its rounding errors


_WEIGHTS = {**dict.fromkeys(CALLED, 10), "divide": 3, "sqrt": 3}  # relative to an addition


class Moves(NamedTuple):
    """A place that depends on an iteration: by `step` elements for each of an int64 scalar."""

    iteration: Node
    step: int


class Store(NamedTuple):
    """Elements of a node that are written to the memory of another one."""

    node: Node
    target: Any  # the key of the memory
    offset: int
    strides: tuple[int, ...]  # for each axis of the space
    adds: bool = False
    moves: Moves | None = None


class Access(NamedTuple):
    """The memory of a node's elements."""

    base: Node
    offset: int
    strides: tuple[int, ...]
    moves: Moves | None = None


def _access(node: Node, virtual: set[Node]) -> Access:
    """The memory of a node that is a view of another one, or has its own."""
    if node.op == "view" and node in virtual:
        place = node.place
        pairs = zip(place.shape, place.strides, strict=True)
        strides = tuple(s for n, s in pairs if n != 1)
        moves = Moves(node.inputs[1], place.step) if len(node.inputs) > 1 else None
        return Access(node.inputs[0], place.offset, strides, moves)
    return Access(node, 0, c_strides(squeeze(node.shape)))


def _choose_lanes(nodes: list[Node]) -> int:
    """The elements of the vectors of a nest.

    Functions such as ``exp`` are long chains of instructions that wait for each other. With the 32
    registers of AVX-512 twice as many elements run side by side (two of tanh and exp for a million
    elements: 2.9 instead of 4.5 ms); long programs lose by it (bundle adjustment 74 for 67 µs).
    """
    calls = any(node.function in CALLED for node in nodes)
    if calls and len(nodes) <= _MOST_LONG_NODES and has_avx512():
        return _LONG_LANES
    return LANES


class Nest:
    """Loops over a space that compute nodes, in chunks of the first axis.

    Attributes:
        lanes: elements of a vector.
        lengths: of the loops: neighbouring axes are joined that all arrays run through as one.
        chunks: the division of the outermost loop.
        partials: reductions whose chunks have to be combined.
    """

    def __init__(
        self,
        space: tuple[int, ...],
        nodes: list[Node],
        stores: list[Store],
        virtual: set[Node],
    ):
        self.space = space
        self.nodes = nodes
        self.stores = stores
        self.virtual = virtual
        self.lanes = _choose_lanes(nodes)
        self.members = {n for n in nodes if n.op != "reduce"}
        self.reductions = [n for n in nodes if n.op == "reduce"]
        self._find_loops()
        self.chunks = self._find_chunks()
        self.partials = [n for n in self.reductions if self.chunks.number > 1 and 0 in self.axes[n]]

    # --- shape of the loops -----------------------------------------------------------------------

    def operands(self, node: Node) -> tuple[Node, ...]:
        """The operands that are read element by element."""
        return node.inputs[1:] if node.op == "take" else node.inputs

    def _reads(self) -> Iterator[Node]:
        """The nodes that are read from memory or made of indices, each once."""
        seen: set[Node] = set()
        stack = [s.node for s in self.stores] + list(self.nodes)
        while stack:
            node = strip(stack.pop(), self.virtual)
            if node in seen or (is_number(node) and node in self.virtual):
                continue
            seen.add(node)
            is_made = node in self.members or node in self.reductions
            if is_made or (node in self.virtual and node.op == "elementwise"):
                copied = node.op in ("view", "iota")
                if node.op == "iota" or (copied and node not in self.virtual):
                    yield node
                else:
                    stack += self.operands(node)
            else:
                yield node

    def _source(self, node: Node) -> Access:
        if node.op == "view" and node not in self.virtual and node in self.members:
            return _access(node, {*self.virtual, node})
        return _access(node, self.virtual)

    def _find_loops(self) -> None:
        sources = {node: self._source(node) for node in self._reads()}
        # A space without axes has one loop of one step.
        flags = []
        for node in self.reductions:
            kept = [a for a, n in enumerate(node.inputs[0].shape) if n != 1]
            flags.append([a in node.attrs[1] for a in kept] or [True])
        all_strides = [list(s.strides) or [0] for s in sources.values()]
        all_strides += [list(s.strides) or [0] for s in self.stores]
        lengths = list(self.space) or [1]
        for axis in range(len(lengths) - 2, -1, -1):
            is_one = all(s[axis] == s[axis + 1] * lengths[axis + 1] for s in all_strides)
            if is_one and all(f[axis] == f[axis + 1] for f in flags):
                lengths[axis : axis + 2] = [lengths[axis] * lengths[axis + 1]]
                for row in all_strides:
                    del row[axis]
                for flag in flags:
                    del flag[axis]
        self.lengths = lengths
        self.sources = {
            node: source._replace(strides=tuple(strides))
            for (node, source), strides in zip(sources.items(), all_strides, strict=False)
        }
        rest = all_strides[len(sources) :]
        self.stores = [s._replace(strides=tuple(t)) for s, t in zip(self.stores, rest, strict=True)]
        self.axes = {
            node: tuple(a for a, flag in enumerate(f) if flag)
            for node, f in zip(self.reductions, flags, strict=True)
        }

    def _find_chunks(self) -> Chunks:
        if 0 in self.lengths:
            return Chunks(1, self.lengths[0])
        first, inner = self.lengths[0], prod(self.lengths[1:])
        # Partial results of all chunks take at most an eighth of what is read.
        kept = max(
            (8 * n.size for n in self.reductions if 0 in self.axes[n] and n.size > 1), default=0
        )
        rows = -(-max(_CHUNK, kept) // inner)
        if len(self.lengths) == 1:
            rows = -(-rows // self.lanes) * self.lanes
        rows = min(rows, first)
        return Chunks(-(-first // rows), rows)

    def work(self) -> int:
        """An estimate of the work of all chunks: operations on elements."""
        weights = [_WEIGHTS.get(node.function, 1) for node in self.nodes]
        return prod(self.lengths) * (sum(weights) + len(self.stores) + len(self.sources))

    # --- code -------------------------------------------------------------------------------------

    def emit(self, code: Code) -> None:
        """Writes the loops of one chunk."""
        if 0 in self.lengths:
            self._emit_empty(code)
            return
        self.code = code
        self.uniform: dict[Node, Any] = {}
        self.totals = {
            node: _Reduction(self, node, self.lengths, self.axes[node]) for node in self.reductions
        }
        self._level(0, [])

    def _emit_empty(self, code: Code) -> None:
        for node in self.reductions:
            value = neutral(node.attrs[0], node.dtype) if node.attrs[0] != "sum" else 0

            def fill(at: Any, node: Node = node, value: Any = value) -> None:
                number = full(value, node.dtype, 1)
                code.store(number, code.pointer(node), node.dtype, at, 1, 1)

            code.loop(0, node.size, 1, fill)

    def _level(self, axis: int, indices: list[Any]) -> None:
        code = self.code
        for total in self.totals.values():
            total.begin(axis, indices)
        first, last = code.range_of(self.chunks if axis == 0 else None, self.lengths[axis])
        if axis < len(self.lengths) - 1:
            code.loop(first, last, 1, lambda i: self._level(axis + 1, [*indices, i]))
        else:
            self._vectors(first, last, indices)
        for total in self.totals.values():
            total.finish(axis, indices)

    def _vectors(self, first: Any, last: Any, indices: list[Any]) -> None:
        """The innermost loop: full vectors, then one of the rest."""
        code, b = self.code, self.code.b
        length = self.lengths[-1]
        self._read_uniform(indices)
        width = min(self.lanes, length)
        if isinstance(last, int):
            code.vectors(length, width, lambda i, count: self._body([*indices, i], count))
            return
        full = length // width * width
        bound = b.select(b.icmp_signed("<", last, WORD(full)), last, WORD(full))
        code.loop(first, bound, width, lambda i: self._body([*indices, i], width))
        if full < length:
            is_end = b.icmp_signed("==", last, WORD(length))
            with b.if_then(is_end):
                self._body([*indices, WORD(full)], length - full)

    def _read_uniform(self, indices: list[Any]) -> None:
        """Reads what does not vary along the last axis, before the loop along it."""
        self.uniform = {}
        for node, source in self.sources.items():
            if source.strides[-1] == 0 and not self._is_index(source.base):
                first = [*indices, WORD(0)]
                place = self._place(source.offset, source.strides, first, source.moves)
                pointer = self.code.pointer(source.base)
                self.uniform[node] = self.code.load(pointer, node.dtype, place, 1, 1)

    def _is_index(self, base: Node) -> bool:
        return base.op == "iota" and (base in self.virtual or base in self.members)

    def _place(
        self,
        offset: int,
        strides: tuple[int, ...],
        indices: list[Any],
        moves: Moves | None = None,
    ) -> Any:
        b, found = self.code.b, WORD(offset)
        if moves is not None:
            pointer = self.code.pointer(moves.iteration)
            number = self.code.load(pointer, moves.iteration.dtype, WORD(0), 1, 1)
            found = b.add(found, b.mul(number, WORD(moves.step)))
        for index, stride in zip(indices, strides, strict=True):
            if stride:
                step = index if stride == 1 else b.mul(index, WORD(stride))
                found = step if found == WORD(0) else b.add(found, step)
        return found

    def _body(self, indices: list[Any], width: int) -> None:
        memo: dict[Node, Any] = {}
        for node in self.nodes:
            if node.op == "reduce":
                value = self.value(node.inputs[0], indices, width, memo)
                self.totals[node].add(value, indices, width)
            else:
                memo[node] = self._compute(node, indices, width, memo)
        for store in self.stores:
            self._store(store, self.value(store.node, indices, width, memo), indices, width)

    def _store(self, store: Store, value: Any, indices: list[Any], width: int) -> None:
        code, dtype = self.code, store.node.dtype
        place = self._place(store.offset, store.strides, indices, store.moves)
        pointer = code.pointer(store.target)
        stride = store.strides[-1]
        if store.adds:
            before = code.load(pointer, dtype, place, stride, width)
            value = elementwise(code.b, "add", [before, value], dtype, width)
        code.store(value, pointer, dtype, place, stride, width)

    def _compute(self, node: Node, indices: list[Any], width: int, memo: dict[Node, Any]) -> Any:
        if node.op in ("view", "iota"):
            return self._read(node, indices, width)
        operands = [self.value(x, indices, width, memo) for x in self.operands(node)]
        if node.op == "take":
            return self._take(node, operands[0], width)
        return compute(self.code.b, node, operands, width)

    def value(self, node: Node, indices: list[Any], width: int, memo: dict[Node, Any]) -> Any:
        """The elements of a node at the place of the loops."""
        node = strip(node, self.virtual)
        if node in memo:
            return memo[node]
        if is_number(node) and node in self.virtual:
            base = node.inputs[0] if node.op == "view" else node
            return full(base.value.reshape(())[()], node.dtype, width)
        if node in self.virtual and node.op == "elementwise":
            memo[node] = self._compute(node, indices, width, memo)
        else:
            memo[node] = self._read(node, indices, width)
        return memo[node]

    def _read(self, node: Node, indices: list[Any], width: int) -> Any:
        code, b = self.code, self.code.b
        source = self.sources[node]
        if node in self.uniform:
            return spread(code.b, self.uniform[node], width)
        place = self._place(source.offset, source.strides, indices, source.moves)
        stride = source.strides[-1]
        if self._is_index(source.base):
            found = spread(code.b, place, width)
            if width == 1 or not stride:
                return found
            steps = join(code.b, [WORD(lane * stride) for lane in range(width)])
            return b.add(found, steps)
        return code.load(code.pointer(source.base), node.dtype, place, stride, width)

    def scatter(self, code: Code, node: Node, positions: Node, values: Node) -> None:
        """Writes values to positions of a node's memory, one after the other."""
        self.code, self.uniform, self.totals = code, {}, {}
        self.stores = [Store(x, None, 0, c_strides(self.space)) for x in (positions, values)]
        self._find_loops()
        pointer, width = code.pointer(node), min(self.lanes, self.lengths[-1])

        def level(axis: int, indices: list[Any]) -> None:
            if axis < len(self.lengths) - 1:
                code.loop(0, self.lengths[axis], 1, lambda i: level(axis + 1, [*indices, i]))
                return
            self._read_uniform(indices)
            code.vectors(self.lengths[-1], width, lambda i, count: body([*indices, i], count))

        def body(indices: list[Any], count: int) -> None:
            memo: dict[Node, Any] = {}
            places = clamp(code.b, self.value(positions, indices, count, memo), node.size)
            found = self.value(values, indices, count, memo)
            for lane in range(count):
                place, value = places, found
                if count > 1:
                    place, value = (take_lanes(code.b, x, [lane]) for x in (places, found))
                if node.attrs[0] == "add":
                    before = code.load(pointer, node.dtype, place, 1, 1)
                    value = elementwise(code.b, "add", [before, value], node.dtype, 1)
                code.store(value, pointer, node.dtype, place, 1, 1)

        level(0, [])

    def _take(self, node: Node, positions: Any, width: int) -> Any:
        code = self.code
        positions = clamp(code.b, positions, node.inputs[0].size)
        pointer = code.pointer(node.inputs[0])
        if width == 1:
            return code.load(pointer, node.dtype, positions, 1, 1)
        lanes = [take_lanes(code.b, positions, [lane]) for lane in range(width)]
        return join(code.b, [code.load(pointer, node.dtype, lane, 1, 1) for lane in lanes])


class _Reduction:
    """The state of one reduction inside of a nest.

    If the reduced axes are the last ones, the accumulator is a vector in registers, whose lanes are
    joined when the axes end. Else results are accumulated in memory.
    """

    def __init__(self, nest: Nest, node: Node, lengths: list[int], axes: tuple[int, ...]):
        self.nest, self.node, self.axes = nest, node, axes
        self.combiner = node.attrs[0]
        self.dtype = node.dtype
        self.first = axes[0]
        self.in_registers = axes == tuple(range(self.first, len(lengths)))
        inner = lengths[self.first :]
        steps = prod(inner[:-1]) * -(-inner[-1] // nest.lanes)
        is_sum = self.combiner == "sum" and self.dtype.kind == "f"
        self.is_exact = is_sum and self.in_registers and steps > _PLAIN_STEPS
        self.width = 1 << (min(nest.lanes, inner[-1]) - 1).bit_length()  # of a vector
        self.accumulator: Accumulator | None = None
        self.strides = c_strides(tuple(n for a, n in enumerate(lengths) if a not in axes))
        is_partial = node in nest.partials
        self.target: Any = (node, "partial") if is_partial else node
        self.shift = nest.code.b.mul(nest.code.chunk, WORD(node.size)) if is_partial else None

    def _place(self, indices: list[Any]) -> Any:
        """The element of the result for the loops' indices."""
        rest = [i for a, i in enumerate(indices) if a not in self.axes]
        strides = self.strides[: len(rest)]
        place = self.nest._place(0, strides, rest)
        return place if self.shift is None else self.nest.code.b.add(place, self.shift)

    def begin(self, axis: int, indices: list[Any]) -> None:
        """Prepares the reduction before the loop along an axis."""
        code = self.nest.code
        start = neutral(self.combiner, self.dtype)
        if axis != self.first:
            return
        if self.in_registers:
            self.accumulator = Accumulator(
                code, self.combiner, self.dtype, self.width, is_exact=self.is_exact
            )
            return
        pointer = code.pointer(self.target)
        count = prod(n for a, n in enumerate(self.nest.lengths) if a > axis and a not in self.axes)
        base = self._place(indices)
        width = min(self.nest.lanes, count)

        def fill(at: Any, size: int) -> None:
            number = full(start, self.dtype, size)
            code.store(number, pointer, self.dtype, code.b.add(base, at), 1, size)

        code.vectors(count, width, fill)

    def add(self, value: Any, indices: list[Any], width: int) -> None:
        """Accumulates one vector of elements."""
        code = self.nest.code
        if self.accumulator is not None:
            self.accumulator.add(value, width)
            return
        pointer = code.pointer(self.target)
        place = self._place(indices)
        if len(indices) - 1 in self.axes:
            start = neutral(self.combiner, self.dtype)
            value = extend(code.b, value, width, start, self.dtype, self.width)
            value = combine_lanes(code, self.combiner, value, None, self.dtype, self.width)
            width = 1
        before = code.load(pointer, self.dtype, place, 1, width)
        total = combine(code, self.combiner, before, value, self.dtype, width)
        code.store(total, pointer, self.dtype, place, 1, width)

    def finish(self, axis: int, indices: list[Any]) -> None:
        """Writes the result after the loop along an axis."""
        if self.accumulator is not None and axis == self.first:
            pointer, place = self.nest.code.pointer(self.target), self._place(indices)
            found = self.accumulator.finish_lanes()
            self.nest.code.store(found, pointer, self.dtype, place, 1, 1)
