"""The emitter of programs: small values as LLVM vectors, loops as loops, large values in memory.

``emit_program`` writes one LLVM function ``void name(i8* inputs..., i8* outputs..., i8* arena)`` of
a graph. Values of up to 256 elements are vectors in registers. Larger ones, and those that are
written at an offset that depends on an iteration, are memory of the arena; an ``update`` is done in
place where no later node reads the value before it. Groups of large nodes are functions of their
own (``arrays/``), which are called.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.arena import Arena, Block
from pullback.compiled.llvm.arrays import emit_arrays
from pullback.compiled.llvm.compiler import ir
from pullback.compiled.llvm.instructions import clamp, emit_loop, emit_vectors, new_function
from pullback.compiled.llvm.register_values import (
    Elements,
    constant,
    constant_pointer,
    width_of,
)
from pullback.compiled.llvm.schedule import (
    choose_limit,
    is_alias,
    is_dense,
    is_large,
    last_uses,
    make_schedule,
)
from pullback.compiled.llvm.vector.elements import compute, elementwise
from pullback.compiled.llvm.vector.values import map_parts, parts_of
from pullback.compiled.lowering.elementwise import COMBINERS
from pullback.compiled.lowering.ir import Graph, Loop, Node, Place, copy_nodes, is_number

__all__ = ["emit_program"]

_WIDTH = 8  # elements that loops over memory move at once
_UNROLLED_COPY = 64  # elements of an update in registers
_UNROLLED_MOVES = 8  # elements that are read or written one by one, each by instructions of its own


class _Buffer(NamedTuple):
    """Memory of a value."""

    pointer: Any
    is_own: bool  # whether the program may write to it


class _Item(NamedTuple):
    """One item of the tuple that a loop makes: a value in registers, or memory of the arena."""

    value: Any
    buffer: _Buffer | None
    blocks: list[Block]  # of the arena, with the buffer in one of them


def emit_program(module: Any, name: str, graph: Graph) -> tuple[Any, int]:
    """Adds the function of a graph to a module; returns it and the size of its arena in bytes."""
    pointer = ir.IntType(8).as_pointer()
    results = [*graph.outputs, *graph.checks]
    count = len(graph.inputs) + len(results) + 1
    builder = new_function(module, name, [pointer] * count)
    function = builder.function
    for argument in function.args:
        argument.add_attribute("noalias")
    arena = Arena()
    emitter = _ProgramEmitter(builder, function.args[-1], arena, choose_limit(graph))
    for node, argument in zip(graph.inputs, function.args, strict=False):
        emitter.buffers[node.id] = _Buffer(argument, False)
    targets = function.args[len(graph.inputs) : -1]
    emitter.emit_graph(graph, results)
    for node, target in zip(results, targets, strict=True):
        emitter.store_value(node, target, 0)
    builder.ret_void()
    return function, arena.size


class _ProgramEmitter:
    """Emits the nodes of a graph at the place of a builder."""

    def __init__(self, builder: Any, memory: Any, arena: Arena, limit: int):
        self.b = builder
        self.elements = Elements(builder)
        self.memory = memory
        self.arena = arena
        self.limit = limit  # elements of a value in registers
        self.word = ir.IntType(64)
        self.values: dict[int, Any] = {}
        self.buffers: dict[int, _Buffer] = {}
        self.last_use: dict[int, int] = {}
        self.held: dict[int, list[Block]] = {}  # memory that is free after the last use of a value
        self.targets: dict[int, Any] = {}  # memory that is given for a value
        self.items: dict[int, list[_Item]] = {}  # of loops
        self.position = 0
        self.index: Any = None

    # --- graphs -----------------------------------------------------------------------------------

    def emit_graph(self, graph: Graph, kept: list[Node]) -> None:
        """Emits all nodes; `kept` are read after the last one."""
        schedule = make_schedule(graph, self.limit)
        self.last_use = last_uses(schedule, kept, self.limit)
        self.position = 0
        for group in schedule:
            if group.is_large:
                self._emit_large(group.nodes)
                self._advance()
            else:
                for node in group.nodes:
                    self._emit(node)
                    self._advance()

    def _emit(self, node: Node) -> None:
        is_empty = node.size == 0 and node.op != "pick"
        if node.op in ("input", "const", "iota") or is_number(node) or is_empty:
            return
        getattr(self, f"_{node.op}")(node)

    # --- values -----------------------------------------------------------------------------------

    def value(self, node: Node) -> Any:
        """A small value in registers."""
        known = self.values.get(node.id)
        if known is not None:
            return known
        if node.op == "const":
            return constant(node.value)
        if node.op == "iota":
            return constant(np.arange(node.size))
        if is_number(node):
            return self.elements.splat(constant(node.inputs[0].value), node.size)
        buffer = self.buffers[node.id]
        return self.elements.load(buffer.pointer, node.dtype, 0, np.arange(node.size))

    def _advance(self) -> None:
        """Goes to the next position; frees the memory of values that are not read from there on."""
        for number in [n for n in self.held if self.last_use.get(n, -1) <= self.position]:
            self.free(self.held.pop(number))
        self.position += 1

    def free(self, blocks: list[Block]) -> None:
        """Frees memory."""
        for block in blocks:
            self.arena.release(block)

    def allocate(self, nbytes: int) -> Any:
        """A pointer to memory of the arena that nothing else uses."""
        return self.address(self.arena.extend(nbytes))

    def address(self, offset: int) -> Any:
        """A pointer to a place of the arena, computed where the function begins."""
        with self.b.goto_entry_block():
            return self.b.gep(self.memory, [self.word(offset)])

    def _hold(self, node: Node) -> Any:
        """A pointer to memory for a value, until its last use."""
        self.held[node.id] = [self.take(node)]
        return self.address(self.held[node.id][0].offset)

    def take(self, node: Node, count: int = 1) -> Block:
        """Memory of the arena for values like a node, `count` of them."""
        return self.arena.take(count * node.size * node.dtype.itemsize)

    def pointer(self, node: Node) -> Any:
        """A pointer to the elements of a value, which are stored if they are in registers."""
        buffer = self.buffers.get(node.id)
        if buffer is not None:
            return buffer.pointer
        if node.op == "const":
            return constant_pointer(self.b.module, node.value)
        if not node.size:
            return self.memory
        made = self.allocate(node.size * node.dtype.itemsize)
        if node.size <= self.limit:
            self.elements.store(made, node.dtype, 0, np.arange(node.size), self.value(node))
        else:  # one number, or the numbers from 0 on
            self._call_arrays([node], [node], [made])
        if self.index is None or node.id in self.values:
            self.buffers[node.id] = _Buffer(made, True)
        return made

    def store_value(self, node: Node, target: Any, position: Any) -> None:
        """Stores a value to memory, behind a position."""
        if not node.size:
            return
        if node.id not in self.values and (node.id in self.buffers or node.size > self.limit):
            address = self.elements.address(target, position, node.dtype.itemsize)
            self.elements.copy(address, self.pointer(node), node.size * node.dtype.itemsize)
        else:
            places = np.arange(node.size)
            self.elements.store(target, node.dtype, position, places, self.value(node))

    # --- nodes ------------------------------------------------------------------------------------

    def _position(self, place: Place, index: Node | None) -> Any:
        """The position of a place's first element."""
        if index is None:
            return place.offset
        moved = self.b.mul(self.value(index)[0], self.word(place.step))
        return self.b.add(moved, self.word(place.offset))

    def _view(self, node: Node) -> None:
        base, place = node.inputs[0], node.place
        index = node.inputs[1] if len(node.inputs) > 1 else None
        if is_alias(node, self.limit):
            start = self._position(place, index)
            pointer = self.elements.address(self.pointer(base), start, node.dtype.itemsize)
            self.buffers[node.id] = _Buffer(pointer, False)
            return
        if node.size > self.limit and index is not None:
            self._read_elements(node, place, index)
            return
        places = place._replace(offset=0).positions().reshape(-1)
        if index is None or (base.op == "const" and base.size == 1):
            self.values[node.id] = self._elements_at(base, places + place.offset)
            return
        start = self._position(place, index)
        self.values[node.id] = self.elements.load(self.pointer(base), node.dtype, start, places)

    def _read_elements(self, node: Node, place: Place, index: Node) -> None:
        """Copies many elements that are not side by side: a column of a matrix."""
        source, target = self.pointer(node.inputs[0]), self._hold(node)

        def move(number: Any, position: Any, width: int) -> None:
            found = self.elements.load(source, node.dtype, position, np.arange(width))
            self.elements.store(target, node.dtype, number, np.arange(width), found)

        self._each_run(place, self._position(place, index), move)
        self.buffers[node.id] = _Buffer(target, True)

    def _each_run(self, place: Place, start: Any, move: Callable[[Any, Any, int], None]) -> None:
        """Calls ``move(number, position, width)`` for all elements of a large place, in loops.

        Several elements move at once where those of the last axis lie side by side.
        """
        if is_dense(place):
            place = Place(0, (1,), (prod(place.shape),))
        last = len(place.shape) - 1
        most = _WIDTH if place.strides[last] == 1 else 1

        def level(axis: int, number: Any, position: Any) -> None:
            length, stride = self.word(place.shape[axis]), self.word(place.strides[axis])

            def step(at: Any, width: int) -> None:
                own = self.b.add(self.b.mul(number, length), at)
                there = self.b.add(position, self.b.mul(at, stride))
                if axis == last:
                    move(own, there, width)
                else:
                    level(axis + 1, own, there)

            emit_vectors(self.b, place.shape[axis], most if axis == last else 1, step)

        level(0, self.word(0), self.word(start) if isinstance(start, int) else start)

    def _elementwise(self, node: Node) -> None:
        operands = [self.value(x) for x in node.inputs]
        width, rows = width_of(node.size), zip(*operands, strict=True)
        self.values[node.id] = [compute(self.b, node, row, width) for row in rows]

    def _reduce(self, node: Node) -> None:
        x = node.inputs[0]
        combiner, axes = node.attrs
        order = np.arange(x.size).reshape(x.shape)
        order = np.moveaxis(order, axes, range(len(axes))).reshape(-1, node.size)
        if x.size == 0:
            start = 0 if combiner in ("sum", "any") else 1
            self.values[node.id] = constant(np.full(node.size, start, x.dtype))
            return
        self.values[node.id] = self._tree(COMBINERS[combiner], self.value(x), order, node)

    def _tree(self, name: str, value: Any, order: Any, node: Node) -> Any:
        """Joins rows of elements in pairs, then the results in pairs."""
        dtype, count = node.inputs[0].dtype, len(order)
        rows = value if count == 1 else self.elements.shuffle(value, order.reshape(-1))
        rest = None
        while count > 1:
            half = count // 2
            if count % 2:
                last = np.arange((count - 1) * node.size, count * node.size)
                extra = self.elements.shuffle(rows, last)
                rest = extra if rest is None else self._join(name, rest, extra, dtype, node.size)
            low = self.elements.shuffle(rows, np.arange(half * node.size))
            high = self.elements.shuffle(rows, np.arange(half * node.size, 2 * half * node.size))
            rows = self._join(name, low, high, dtype, half * node.size)
            count = half
        return rows if rest is None else self._join(name, rows, rest, dtype, node.size)

    def _join(self, name: str, x: Any, y: Any, dtype: np.dtype[Any], width: int) -> Any:
        lanes = width_of(width)
        rows = zip(x, y, strict=True)
        return [elementwise(self.b, name, row, dtype, lanes) for row in rows]

    def _matmul(self, node: Node) -> None:
        a, b = (self.value(x) for x in node.inputs)
        (rows, inner), columns = node.inputs[0].shape[-2:], node.shape[-1]
        batches = np.arange(node.size // (rows * columns)).reshape(-1, 1, 1)
        row, column = np.arange(rows).reshape(-1, 1), np.arange(columns)
        total = None
        for k in range(inner):
            first = (batches * rows + row) * inner + k
            first = np.broadcast_to(first, (len(batches), rows, columns))
            second = np.broadcast_to((batches * inner + k) * columns + column, first.shape)
            x = self.elements.shuffle(a, first.reshape(-1))
            y = self.elements.shuffle(b, second.reshape(-1))
            term = self._join("multiply", x, y, node.dtype, node.size)
            total = term if total is None else self._join("add", total, term, node.dtype, node.size)
        self.values[node.id] = total

    def _assemble(self, node: Node) -> None:
        found = constant(np.zeros(node.size, node.dtype))
        for place, x in zip(node.attrs[0], node.inputs, strict=True):
            places = place.positions().reshape(-1)
            found = self.elements.blend(found, self.value(x), places, node.size)
        self.values[node.id] = found

    def _take(self, node: Node) -> None:
        x, positions = node.inputs
        places = _known_places(positions, x.size)
        if places is not None:
            self.values[node.id] = self._elements_at(x, places)
            return
        pointer, made = self.pointer(x), self.allocate(node.size * node.dtype.itemsize)

        def move(at: Any, position: Any) -> None:
            one = self.elements.load(pointer, node.dtype, clamp(self.b, position, x.size), [0])
            self.elements.store(made, node.dtype, at, [0], one)

        self._each_position(positions, move)
        self.values[node.id] = self.elements.load(made, node.dtype, 0, np.arange(node.size))

    def _elements_at(self, base: Node, places: Any) -> Any:
        """The elements at places that do not depend on an iteration."""
        if base.id in self.values or (base.op == "const" and base.size == 1):
            return self.elements.shuffle(self.value(base), places)
        return self.elements.load(self.pointer(base), base.dtype, 0, places)

    def _each_position(self, positions: Node, move: Callable[[Any, Any], None]) -> None:
        """Calls ``move(number, position)`` for each of some positions, in a loop if they are many.

        A line for each made 140,000 lines of LLVM of eight shifts of 12 x 12 elements and their
        gradient, and a first call of 9 s.
        """
        if positions.size <= _UNROLLED_MOVES:
            at = self.value(positions)
            for number in range(positions.size):
                move(number, self.elements.shuffle(at, [number])[0])
            return
        pointer = self.pointer(positions)

        def step(number: Any) -> None:
            move(number, self.elements.load(pointer, positions.dtype, number, [0])[0])

        emit_loop(self.b, 0, positions.size, 1, step)

    def _put(self, node: Node) -> None:
        base, positions, values = node.inputs
        kind = node.attrs[0]
        places = _known_places(positions, node.size)
        if places is not None and node.size <= _UNROLLED_COPY and len(set(places)) == len(places):
            self._write_in_registers(node, places)
            return
        target, given = self.allocate(node.size * node.dtype.itemsize), self.pointer(values)
        self.store_value(base, target, 0)

        def move(at: Any, position: Any) -> None:
            new = self.elements.load(given, node.dtype, at, [0])
            self._write(kind, target, node.dtype, clamp(self.b, position, node.size), [0], new)

        self._each_position(positions, move)
        self.values[node.id] = self.elements.load(target, node.dtype, 0, np.arange(node.size))

    def _write_in_registers(self, node: Node, places: Any) -> None:
        """An ``update`` or ``put`` at different places that are known."""
        base, part = node.inputs[0], node.inputs[2 if node.op == "put" else 1]
        old, new = self.value(base), self.value(part)
        if node.attrs[0] == "add":
            before = self.elements.shuffle(old, places)
            new = self._join("add", before, new, node.dtype, part.size)
        self.values[node.id] = self.elements.blend(old, new, places, node.size)

    # --- writes -----------------------------------------------------------------------------------

    def _update(self, node: Node) -> None:
        kind, place = node.attrs
        base, part = node.inputs[:2]
        index = node.inputs[2] if len(node.inputs) > 2 else None
        is_memory = base.id in self.buffers and base.id not in self.values
        if index is None and node.size <= _UNROLLED_COPY and not is_memory:
            self._write_in_registers(node, place.positions().reshape(-1))
            return
        pointer = self._writable(base, node)
        start = self._position(place, index)
        if part.size > self.limit:
            self._write_large(kind, pointer, place, start, part)
        else:
            places = place._replace(offset=0).positions().reshape(-1)
            self._write(kind, pointer, node.dtype, start, places, self.value(part))
        self.buffers[node.id] = _Buffer(pointer, True)

    def _write(
        self, kind: str, target: Any, dtype: np.dtype[Any], position: Any, places: Any, new: Any
    ) -> None:
        """Writes elements to places behind a position, or adds them to what is there."""
        if kind == "add":
            old = self.elements.load(target, dtype, position, places)
            new = self._join("add", old, new, dtype, len(places))
        self.elements.store(target, dtype, position, places, new)

    def _write_large(self, kind: str, target: Any, place: Place, start: Any, part: Node) -> None:
        """Writes a large part to a place in memory, or adds it to what is there."""
        if kind == "set" and is_dense(place):
            self.store_value(part, target, start)
            return
        source = self.pointer(part)

        def move(number: Any, position: Any, width: int) -> None:
            new = self.elements.load(source, part.dtype, number, np.arange(width))
            self._write(kind, target, part.dtype, position, np.arange(width), new)

        self._each_run(place, start, move)

    def _writable(self, base: Node, node: Node) -> Any:
        """Memory with the elements of a value that the program may write to."""
        buffer = self.buffers.get(base.id)
        is_last = self.last_use.get(base.id, -1) <= self.position
        if buffer is not None and buffer.is_own and is_last:
            self.values.pop(base.id, None)
            if base.id in self.held:
                self.held[node.id] = self.held.pop(base.id)
            return buffer.pointer
        made = self._hold(node)
        self.store_value(base, made, 0)
        return made

    # --- large values -----------------------------------------------------------------------------

    def _emit_large(self, nodes: list[Node]) -> None:
        """Computes a group of nodes on large values."""
        outputs = [n for n in nodes if self.last_use.get(n.id, -1) > self.position]
        targets = [self.targets.get(n.id) or self._hold(n) for n in outputs]
        self._call_arrays(nodes, outputs, targets)
        for node, target in zip(outputs, targets, strict=True):
            self.buffers[node.id] = _Buffer(target, True)

    def _call_arrays(self, nodes: list[Node], outputs: list[Node], targets: list[Any]) -> None:
        """Calls a function of memory that computes nodes, and writes the outputs to targets."""
        inner, given, made = copy_nodes(nodes)
        inner.outputs = [made[n.id] for n in outputs]
        name = self.b.module.get_unique_name("arrays")
        function, arena = emit_arrays(self.b.module, name, inner)
        pointers = [*map(self.pointer, given), *targets]
        own = self.arena.take(arena)
        self.b.call(function, [*pointers, self.address(own.offset)])
        self.arena.release(own)

    # --- loops ------------------------------------------------------------------------------------

    def _pick(self, node: Node) -> None:
        item = self.items[node.inputs[0].id][node.attrs[0]]
        if item.buffer is not None:
            self.buffers[node.id] = item.buffer
            self.held[node.id] = item.blocks
        else:
            self.values[node.id] = item.value

    def _loop(self, node: Node) -> None:
        _LoopEmitter(self, node, node.attrs[0]).emit()


class _Carried(NamedTuple):
    """A value that a loop carries: in the body, before the loop, and after an iteration."""

    inside: Node
    first: Node
    following: Node


class _RegisterCarry:
    """A small carried value: a phi node for each of its vectors."""

    def __init__(self, owner: _ProgramEmitter, carried: _Carried):
        self.b, self.carried = owner.b, carried
        self.value = owner.value(carried.first)  # in an iteration, from `begin` on
        self.following: list[Any] = []

    def begin(self, inner: _ProgramEmitter, before: Any) -> None:
        """Adds the phi nodes at the beginning of an iteration."""
        self.value = _phi(self.b, self.value, before)
        inner.values[self.carried.inside.id] = self.value

    def end(self) -> None:
        """Completes the phi nodes at the end of an iteration."""
        for phi, last in zip(_vectors_of(self.value), _vectors_of(self.following), strict=True):
            phi.add_incoming(last, self.b.block)

    def item(self, length: int | None) -> _Item:
        """The last value."""
        return _Item(self.value if length is None else self.following, None, [])


class _MemoryCarry:
    """A carried value in memory: one that is written at an index, a large or an empty one.

    If the next value of a large one is computed as a whole, it has two places, which take turns:
    there is no copy then.
    """

    def __init__(self, owner: _ProgramEmitter, carried: _Carried, takes_turns: bool):
        self.owner, self.carried, self.takes_turns = owner, carried, takes_turns
        self.blocks = [owner.take(carried.inside) for _ in range(1 + takes_turns)]
        self.places = [owner.address(block.offset) for block in self.blocks]
        owner.store_value(carried.first, self.places[0], 0)

    def begin(self, inner: _ProgramEmitter, before: Any) -> None:
        """Gives the body the memory of the value, and that of its next one."""
        if self.takes_turns:
            self.places = _phi(self.owner.b, self.places, before)
            inner.targets[self.carried.following.id] = self.places[1]
        inner.buffers[self.carried.inside.id] = _Buffer(self.places[0], True)

    def end(self) -> None:
        """Exchanges the places at the end of an iteration."""
        if self.takes_turns:
            for place, other in zip(self.places, reversed(self.places), strict=True):
                place.add_incoming(other, self.owner.b.block)

    def item(self, length: int | None) -> _Item:
        """The memory of the last value."""
        if self.takes_turns and length is not None:
            kept = self.blocks.pop(length % 2)
            self.owner.free(self.blocks)
            return _Item(None, _Buffer(self.owner.address(kept.offset), True), [kept])
        return _Item(None, _Buffer(self.places[0], True), self.blocks)


class _LoopEmitter:
    """Emits one loop; its items are the tuple that ``pick`` nodes read."""

    def __init__(self, owner: _ProgramEmitter, node: Node, loop: Loop):
        self.owner, self.b, self.node, self.loop = owner, owner.b, node, loop
        self.inner = _ProgramEmitter(owner.b, owner.memory, owner.arena, owner.limit)
        index, *inputs = loop.body.inputs
        self.index = index
        triples = zip(inputs, node.inputs, loop.body.outputs, strict=False)
        self.carried = [_Carried(*triple) for triple in triples][: loop.carried]
        self.in_memory: list[_MemoryCarry] = []
        self.in_registers: list[_RegisterCarry] = []
        for inside, outside in zip(
            inputs[loop.carried :], node.inputs[loop.carried :], strict=True
        ):
            if outside.id in owner.values:
                self.inner.values[inside.id] = owner.values[outside.id]
            self.inner.buffers[inside.id] = _Buffer(owner.pointer(outside), False)

    def emit(self) -> None:
        """Emits the loop."""
        owner, b, loop = self.owner, self.b, self.loop
        stacked = loop.body.outputs[loop.carried :]
        carries = [self._carry(carried) for carried in self.carried]
        blocks = [owner.take(node, loop.length or 0) for node in stacked]
        rows = [owner.address(block.offset) for block in blocks]
        before, word = b.block, ir.IntType(64)
        head, end = b.append_basic_block("loop"), b.append_basic_block("after")
        b.branch(head)
        b.position_at_end(head)
        k = b.phi(word)
        k.add_incoming(word(0), before)
        self.inner.index = k
        self.inner.values[self.index.id] = [k]
        for carry in carries:
            carry.begin(self.inner, before)
        if loop.length is None:
            body = b.append_basic_block("body")
            b.cbranch(self.inner.value(self.carried[0].inside)[0], body, end)
            b.position_at_end(body)
        self._emit_body(list(zip(stacked, rows, strict=True)), k)
        following = b.add(k, word(1))
        k.add_incoming(following, b.block)
        for carry in carries:
            carry.end()
        if loop.length is None:
            b.branch(head)
        else:
            b.cbranch(b.icmp_signed("<", following, word(loop.length)), head, end)
        b.position_at_end(end)
        for held in self.inner.held.values():
            owner.free(held)
        items = [carry.item(loop.length) for carry in carries]
        for row, block in zip(rows, blocks, strict=True):
            items.append(_Item(None, _Buffer(row, True), [block]))
        owner.items[self.node.id] = items

    def _carry(self, carried: _Carried) -> _RegisterCarry | _MemoryCarry:
        """The form of a carried value, which is stored in memory or in registers now."""
        limit, following = self.owner.limit, carried.following
        if not _is_in_memory(carried, limit):
            self.in_registers.append(_RegisterCarry(self.owner, carried))
            return self.in_registers[-1]
        is_whole = is_large(following, limit) and following.op != "update"
        is_only = [c.following for c in self.carried].count(following) == 1
        takes_turns = is_whole and following.size > limit and is_only
        self.in_memory.append(_MemoryCarry(self.owner, carried, takes_turns))
        return self.in_memory[-1]

    def _emit_body(self, rows: list[tuple[Node, Any]], k: Any) -> None:
        """Emits one iteration: the body, stacked values, and the next carried values."""
        inner, body = self.inner, self.loop.body
        inner.emit_graph(body, body.outputs)
        for node, row in rows:
            inner.store_value(node, row, self.b.mul(k, ir.IntType(64)(node.size)))
        for carry in self.in_registers:  # read before the memory of other carried values changes
            carry.following = inner.value(carry.carried.following)
        self._copy_next()

    def _copy_next(self) -> None:
        """Copies next values to the memory of carried ones, where they are not there already."""
        inner = self.inner
        changing = {carry.places[0] for carry in self.in_memory}
        copies: list[tuple[_MemoryCarry, Any]] = []  # with the place of a value in between
        for carry in self.in_memory:
            node = carry.carried.following
            buffer = None if node.id in inner.values else inner.buffers.get(node.id)
            if carry.takes_turns or (buffer is not None and buffer.pointer is carry.places[0]):
                continue
            spare = None
            if buffer is not None and buffer.pointer in changing:
                spare = inner.allocate(node.size * node.dtype.itemsize)
                inner.store_value(node, spare, 0)
            copies.append((carry, spare))
        for carry, spare in copies:
            if spare is None:
                inner.store_value(carry.carried.following, carry.places[0], 0)
        for carry, spare in copies:
            if spare is not None:
                node = carry.carried.following
                inner.elements.copy(carry.places[0], spare, node.size * node.dtype.itemsize)


def _phi(b: Any, start: list[Any], block: Any) -> list[Any]:
    """A value that begins as `start`, by a phi node for each of its vectors."""

    def begin(vector: Any) -> Any:
        phi = b.phi(vector.type)
        phi.add_incoming(vector, block)
        return phi

    return [map_parts(begin, chunk) for chunk in start]


def _vectors_of(value: list[Any]) -> list[Any]:
    return [vector for chunk in value for vector in parts_of(chunk)]


def _is_in_memory(carried: _Carried, limit: int) -> bool:
    """Whether a carried value is in memory: one that is written at an index, large or empty."""
    node = carried.following
    while node.op == "update":
        if node.place.step or node.size > _UNROLLED_COPY:
            return True
        node = node.inputs[0]
    return not 0 < carried.inside.size <= limit


def _known_places(positions: Node, size: int) -> Any:
    """Constant positions as places in `size` elements, or None."""
    if positions.op == "iota":
        return np.arange(positions.size)
    return np.clip(positions.value.reshape(-1), 0, size - 1) if positions.op == "const" else None
