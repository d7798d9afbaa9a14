"""Machine code for programs on large arrays: kernels, their memory, and what runs them.

The function of a graph takes pointers to its inputs, its outputs (then its checks), and one block
of memory for everything else, which each call brings along: the code has no memory of its own, so
that calls in several threads do not disturb each other. Kernels read the pointers from a table.

A program is a sequence of *steps*; the chunks of a step can run in any order and in any thread
(``threads.py``). The division into chunks depends on shapes only, and partial results are combined
in the chunks' order: results are the same bits for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pullback.compiled.llvm.arena import ALIGNMENT, Arena, Block
from pullback.compiled.llvm.arrays.code import (
    POINTER,
    WORD,
    Buffer,
    Code,
)
from pullback.compiled.llvm.arrays.columns import split_columns
from pullback.compiled.llvm.arrays.gemm import GemmEmitter, make_gemm, uses_loops
from pullback.compiled.llvm.arrays.nest import LANES, Access, Moves, Nest, Store
from pullback.compiled.llvm.arrays.plan import FUSED, Kernel, make_plan, squeeze
from pullback.compiled.llvm.arrays.products import emit_matmul, find_blas, find_matrix
from pullback.compiled.llvm.arrays.reductions import Accumulator
from pullback.compiled.llvm.arrays.threads import Step, emit_steps
from pullback.compiled.llvm.instructions import new_function
from pullback.compiled.llvm.vector.elements import is_supported
from pullback.compiled.lowering.ir import Graph, Node, Place, c_strides, whole_place

__all__ = ["can_emit", "emit_arrays"]

_LEAST_SPARE = 1 << 16  # bytes of a result whose memory other values use before it
_MOST_IN_SPARE = 16  # values in such memory: small ones would leave no place for large ones
_MOST_INSTRUCTIONS = 400  # of a function, beyond which the next kernel begins another one
_OPERATIONS = FUSED | {"input", "const", "view", "iota", "matmul", "update", "assemble", "put"}


def can_emit(node: Node) -> bool:
    """Whether there is machine code for a node."""
    if node.op not in _OPERATIONS or node.dtype.char not in "?bhilqBHILQfdFD":
        return False
    if node.op == "elementwise" and node.function != "cast":
        return is_supported(node.function, node.inputs[-1].dtype)
    if node.op == "reduce":
        return node.dtype.kind != "c" or node.attrs[0] in ("sum", "prod")
    if node.op == "matmul":
        return uses_loops(node) or find_blas() is not None
    return True


class _Spare(NamedTuple):
    """The memory of a result, which other values may use before the result is computed."""

    entry: int  # of the table
    begin: int  # the kernel that computes the result
    replaced: set[Node]  # operands of this kernel that the result may replace
    arena: Arena


class _Held(NamedTuple):
    """A block of memory in use, and the last kernel that may use it."""

    arena: Arena
    block: Block
    end: float
    replaced: set[Node]  # values that may use it in the kernel after that


class _ArrayEmitter:
    def __init__(self, graph: Graph, module: Any, name: str):
        self.graph = graph
        self.plan = make_plan(graph)
        self.module = module
        self.name = name
        self.buffers: dict[Any, Buffer] = {}
        self.arena = Arena()
        self.held: dict[Any, _Held] = {}
        self.spares: list[_Spare] = []
        self.steps: list[Step] = []
        self.code: Code | None = None  # the function of the last step
        self.products: dict[Any, tuple[Any, int]] = {}  # loops of products, with their chunks
        kernels = self.plan.kernels
        for entry, node in enumerate((*graph.inputs, *self.plan.outputs)):
            self.buffers[node] = Buffer(entry, 0)
        self.arena_entry = len(graph.inputs) + len(self.plan.outputs)
        self.nests = {n: self._make_nest(k) for n, k in enumerate(kernels) if k.kind == "nest"}
        for begin, kernel in enumerate(kernels):
            self._find_spares(kernel, begin)

    def run(self) -> None:
        """Writes ``void name(void **table)``; the table has inputs, outputs and memory."""
        dying: dict[int, list[Node]] = {}
        for node, number in self.plan.last_use.items():
            dying.setdefault(number, []).append(node)
        for number, kernel in enumerate(self.plan.kernels):
            in_place = self._update_in_place(kernel, number)
            self._reuse_operands(number)
            for node in kernel.stored:
                if node not in self.buffers:
                    end = self.plan.last_use.get(node, number)
                    self._allocate(node, _nbytes(node), end)
            if kernel.kind in ("update", "put") and not in_place:
                node = kernel.nodes[0]
                self._copy(node.inputs[0], node, whole_place(node.shape))
            if kernel.kind == "nest":
                self._emit_loops(self.nests[number])
            else:
                getattr(self, f"_emit_{kernel.kind}")(kernel.nodes[0])
            for node in dying.get(number, ()):
                self._release(node)
        self._end()
        emit_steps(self.module, self.name, self.steps, self.arena, self.arena_entry)

    def _find_spares(self, kernel: Kernel, begin: int) -> None:
        """Notes the memory of large results of a kernel."""
        for node in kernel.stored:
            size = _nbytes(node) // ALIGNMENT * ALIGNMENT
            if node in self.buffers and size >= _LEAST_SPARE:
                replaced = {base for own, base in self._find_replaced(begin) if own is node}
                if self._is_replaceable(kernel):
                    replaced.add(node.inputs[0])
                arena = Arena()
                arena.release(Block(arena.extend(size), size))
                self.spares.append(_Spare(self.buffers[node].entry, begin, replaced, arena))

    # --- memory -----------------------------------------------------------------------------------

    def _allocate(self, key: Any, size: int, end: int) -> None:
        """Gives a value memory until the kernel `end`: that of a later result, or of the arena."""
        needed = -(-size // ALIGNMENT) * ALIGNMENT
        for spare in self.spares:
            is_free = end < spare.begin or (end == spare.begin and key in spare.replaced)
            is_free &= needed * _MOST_IN_SPARE >= spare.arena.size
            block = spare.arena.find(needed) if needed and is_free else None
            if block is not None:
                self.held[key] = _Held(spare.arena, block, spare.begin - 1, spare.replaced)
                self.buffers[key] = Buffer(spare.entry, block.offset)
                return
        block = self.arena.take(size)
        self.held[key] = _Held(self.arena, block, math.inf, set())
        self.buffers[key] = Buffer(self.arena_entry, block.offset)

    def _release(self, key: Any) -> None:
        held = self.held.pop(key, None)
        if held is not None:
            held.arena.release(held.block)

    def _take_over(self, node: Node, base: Node) -> bool:
        """Gives a value the memory of another one that is not read later, if it may stay there."""
        held = self.held[base]
        end = held.end + (node in held.replaced)
        if node in self.buffers or self.plan.last_use.get(node, math.inf) > end:
            return False
        self.held[node] = self.held.pop(base)
        self.buffers[node] = self.buffers[base]
        return True

    def _is_replaceable(self, kernel: Kernel) -> bool:
        """Whether a kernel is a write, and can be done in the memory of the value before it."""
        if kernel.kind not in ("update", "put"):
            return False
        node = kernel.nodes[0]
        base, *others = node.inputs
        return base.size == node.size and not any(self._reads(x, base) for x in others)

    def _update_in_place(self, kernel: Kernel, number: int) -> bool:
        """Gives a write the memory of the value that it changes, if nothing reads that later."""
        if not self._is_replaceable(kernel):
            return False
        node = kernel.nodes[0]
        base = node.inputs[0]
        if base not in self.held or self.plan.last_use[base] != number:
            return False
        return self.buffers.get(node) == self.buffers[base] or self._take_over(node, base)

    def _reuse_operands(self, number: int) -> None:
        """Gives results of a nest the memory of operands that nothing reads later.

        (A Gaussian mixture of 25 in 10 dimensions: 8 % of its time.)
        """
        done: set[Node] = set()
        for node, base in self._find_replaced(number):
            is_last = base in self.held and self.plan.last_use.get(base) == number
            if is_last and node not in done:
                done.add(node)
                self._take_over(node, base)

    def _find_replaced(self, number: int) -> Iterator[tuple[Node, Node]]:
        """Results of a nest, each with operands that are read at the elements written alone."""
        nest = self.nests.get(number)
        if nest is None:
            return
        places: dict[Node, list[Access]] = {}
        for source in nest.sources.values():
            places.setdefault(source.base, []).append(source)
        taken = {x.inputs[0] for x in nest.nodes if x.op == "take"}
        taken |= {x.inputs[0] for x in taken if x.op == "view"}
        for store in nest.stores:
            for base, accesses in places.items():
                own = Access(base, 0, store.strides)
                is_same = all(access == own for access in accesses)
                if is_same and base not in taken and _nbytes(base) == _nbytes(store.node):
                    yield store.node, base

    def _reads(self, node: Node, base: Node) -> bool:
        if node is base:
            return True
        return node in self.plan.virtual and any(self._reads(x, base) for x in node.inputs)

    # --- kernels ----------------------------------------------------------------------------------

    def _begin(self, chunks: int, work: int) -> Code:
        """The function for a kernel: a new one, or that of the kernels before it.

        Kernels of one chunk in a row share functions, because LLVM takes 0.5 ms and more for each
        one (the Jacobian of a hand's pose has 290 kernels).
        """
        code = self.code
        can_share = code is not None and code.count_instructions() < _MOST_INSTRUCTIONS
        if code is not None and can_share and chunks == self.steps[-1].chunks == 1:
            last = self.steps[-1]
            self.steps[-1] = last._replace(work=last.work + work)
            return code
        self._end()
        self.code = Code(self.module, f"{self.name}_kernel{len(self.steps)}", self.buffers)
        self.steps.append(Step(self.code.function.name, chunks, work))
        return self.code

    def _end(self) -> None:
        """Ends the function of the last kernels."""
        if self.code is not None:
            self.code.b.ret_void()

    def _emit_loops(self, nest: Nest) -> None:
        for node in nest.partials:
            size = nest.chunks.number * _nbytes(node)
            self._allocate((node, "partial"), size, len(self.plan.kernels))
        nest.emit(self._begin(nest.chunks.number, nest.work()))
        if nest.partials:
            work = sum(n.size for n in nest.partials) * nest.chunks.number
            code = self._begin(1, work)
            for node in nest.partials:
                _combine_chunks(code, node, nest.chunks.number)
            for node in nest.partials:
                self._release((node, "partial"))

    def _make_nest(self, kernel: Kernel) -> Nest:
        stores = [
            Store(node, node, 0, c_strides(kernel.space))
            for node in kernel.stored
            if node.op != "reduce"
        ]
        return Nest(kernel.space, kernel.nodes, stores, self.plan.virtual)

    def _emit_matmul(self, node: Node) -> None:
        work = node.size * node.inputs[0].shape[-1] // 4
        if node.size and uses_loops(node):
            self._call_gemm(node, work)
            return
        blas = find_blas()
        assert blas is not None  # can_emit
        emit_matmul(self._begin(1, work), node, self.plan.virtual, blas)

    def _call_gemm(self, node: Node, work: int) -> None:
        """Calls the loops of a product, which equal products share."""
        matrices = [find_matrix(x, self.plan.virtual) for x in (*node.inputs, node)]
        keys = ("a", "b", "c")
        named = [m._replace(key=k, offset=0) for m, k in zip(matrices, keys, strict=True)]
        gemm = make_gemm(node, *named)
        known = self.products.get((gemm, node.dtype))
        if known is None:
            name = f"{self.name}_gemm{len(self.products)}"
            loops = Code(self.module, name, self.buffers, keys)
            emitter = GemmEmitter(loops, gemm, node.dtype)
            emitter.emit()
            loops.b.ret_void()
            known = self.products[gemm, node.dtype] = (loops.function, emitter.chunks().number)
        function, chunks = known
        code = self._begin(chunks, work)
        pointers = []
        for matrix in matrices:
            offset = matrix.offset * node.dtype.itemsize
            pointer = code.pointer(matrix.key)
            pointers.append(code.b.gep(pointer, [WORD(offset)]) if offset else pointer)
        code.b.call(function, [*pointers, code.chunk])

    def _copy(
        self,
        source: Node,
        target: Node,
        place: Place,
        adds: bool = False,
        moves: Moves | None = None,
    ) -> None:
        """Writes a value to a place in the memory of another."""
        pairs = zip(place.shape, place.strides, strict=True)
        strides = tuple(s for n, s in pairs if n != 1)
        store = Store(source, target, place.offset, strides, adds, moves)
        self._emit_loops(Nest(squeeze(source.shape), [], [store], self.plan.virtual))

    def _emit_update(self, node: Node) -> None:
        _, part, *index = node.inputs
        moves = Moves(index[0], node.place.step) if index else None
        self._copy(part, node, node.place, node.attrs[0] == "add", moves)

    def _emit_assemble(self, node: Node) -> None:
        if sum(part.size for part in node.inputs) < node.size:
            zero = _number(node, 0)
            self.plan.virtual.add(zero)
            self._copy(zero, node, whole_place(node.shape))
        for place, part in zip(node.attrs[0], node.inputs, strict=True):
            self._copy(part, node, place)

    def _emit_put(self, node: Node) -> None:
        """One element after the other, in one chunk: positions may be repeated."""
        _, positions, values = node.inputs
        nest = Nest(squeeze(positions.shape), [], [], self.plan.virtual)
        nest.scatter(self._begin(1, 4 * positions.size), node, positions, values)


def _nbytes(node: Node) -> int:
    return node.size * node.dtype.itemsize


def _number(like: Node, value: Any) -> Node:
    """A number in the shape of a node."""
    scalar = Node(-1, "const", (), (), (), like.dtype, np.asarray(value, like.dtype))
    place = Place(0, (0,) * len(like.shape), like.shape)
    return Node(-2, "view", (scalar,), (place,), like.shape, like.dtype)


def _combine_chunks(code: Code, node: Node, count: int) -> None:
    """The result of a reduction from those of its chunks, in their order."""
    combiner, dtype = node.attrs[0], node.dtype
    partial, result = code.pointer((node, "partial")), code.pointer(node)
    is_exact = combiner == "sum" and dtype.kind == "f"

    def body(at: Any, width: int) -> None:
        found = Accumulator(code, combiner, dtype, width, is_exact=is_exact)

        def add(chunk: Any) -> None:
            place = code.b.add(code.b.mul(chunk, WORD(node.size)), at)
            found.add(code.load(partial, dtype, place, 1, width), width)

        code.loop(0, count, 1, add)
        code.store(found.finish(), result, dtype, at, 1, width)

    code.vectors(node.size, min(LANES, node.size), body)


def emit_arrays(module: Any, name: str, graph: Graph) -> tuple[Any, int]:
    """Adds ``void name(i8* inputs..., i8* outputs..., i8* memory)`` of a graph to a module.

    `can_emit` holds for all nodes. The outputs are those of the graph, then its checks. Returns the
    function and the bytes of its memory, which has to be aligned to 64.
    """
    emitter = _ArrayEmitter(split_columns(graph), module, f"{name}_arrays")
    emitter.run()
    builder = new_function(module, name, [POINTER] * (emitter.arena_entry + 1))
    pointers = builder.function.args
    table = builder.alloca(POINTER, size=WORD(len(pointers)))
    for place, pointer in enumerate(pointers):
        builder.store(pointer, builder.gep(table, [WORD(place)]))
    builder.call(module.globals[emitter.name], [table])
    builder.ret_void()
    return builder.function, emitter.arena.size
