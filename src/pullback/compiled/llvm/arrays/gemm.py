"""Matrix products as loops: tiles of the result in registers, the second factor packed.

A tile has as many columns as fill up to three vectors, and rows so that 24 accumulators at most
stand in registers. For each tile of columns, a block of the second factor is copied to a small
dense array (Goto's algorithm with one level of blocking), which all rows then read. Products of
small matrices read the factor where it is. Each element is one sum in the order of the inner axis,
as in BLAS; products of few rows are several sums, of every second to every eighth product.

OpenBLAS has no kernel for every processor: it reaches 57 GFlop/s where these loops reach 110
(AVX-512 on Zen 5, 64 x 64 x 1000). Products with factors of many megabytes go to BLAS.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from pullback.compiled.llvm.arrays.code import WORD, Chunks, Code
from pullback.compiled.llvm.compiler import has_avx512, ir
from pullback.compiled.llvm.instructions import shuffle
from pullback.compiled.llvm.vector.lanes import Lanes
from pullback.compiled.llvm.vector.values import extend, spread, take_lanes
from pullback.compiled.lowering.ir import Node

__all__ = ["Gemm", "GemmEmitter", "Matrix", "make_gemm", "uses_loops"]

_BLOCK = 256  # the inner axis of one packed block
_ROWS = {1: 12, 2: 12, 3: 8}  # of a tile, by its vectors of columns
_FEW_ROWS = 8  # below, packing costs more than it saves
_LARGEST = 1 << 25  # bytes of factors up to which loops are faster than BLAS
_TILE_WORK = 1 << 17  # multiplications of one chunk
_SUMS = 8  # accumulators that keep the processor busy: additions wait for the one before
_UNROLLED_DOTS = 8  # vectors of the inner axis up to which the loop over them is written out


def uses_loops(node: Node) -> bool:
    """Whether a product is computed by loops, and not by BLAS."""
    if node.dtype.kind != "f":
        return False
    (m, k), n = node.inputs[0].shape[-2:], node.inputs[1].shape[-1]
    return (m * k + k * n) * node.dtype.itemsize <= _LARGEST


class Matrix(NamedTuple):
    """A factor or result: element (i, j) of matrix b stands at offset + b batch + i down + j right.

    `batch` has a stride for each leading axis of the product.
    """

    key: Any
    offset: int
    batch: tuple[int, ...]
    down: int
    right: int

    def transpose(self) -> Matrix:
        """The same elements with rows and columns exchanged."""
        return self._replace(down=self.right, right=self.down)


class Gemm(NamedTuple):
    """A product of stacks of matrices: m rows, n columns, k products for each element."""

    lead: tuple[int, ...]
    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix


def make_gemm(node: Node, a: Matrix, b: Matrix, c: Matrix) -> Gemm:
    """The product of a node, with leading axes merged into its rows where that is possible."""
    (m, k), n = node.inputs[0].shape[-2:], node.inputs[1].shape[-1]
    found = Gemm(node.shape[:-2], m, n, k, a, b, c)
    if found.n == 1:  # a column: as a row, so that its elements stand beside each other
        found = Gemm(found.lead, 1, m, k, b.transpose(), a.transpose(), c.transpose())
    while found.lead and found.b.batch[-1] == 0:
        # the second factor is the same for all: rows of a stack are rows of one matrix
        length = found.lead[-1]
        steps = [(x.batch[-1], x.down) for x in (found.a, found.c)]
        if found.m > 1 and any(step != found.m * down for step, down in steps):
            break
        parts = [
            x._replace(batch=x.batch[:-1], down=x.batch[-1] if found.m == 1 else x.down)
            for x in (found.a, found.c)
        ]
        second = found.b._replace(batch=found.b.batch[:-1])
        found = found._replace(
            lead=found.lead[:-1], m=found.m * length, a=parts[0], b=second, c=parts[1]
        )
    return found


def _choose_vectors(count: int, most: int) -> int:
    """The vectors of a tile of columns: so that tiles are full, or else of equal widths."""
    if count <= most:
        return count
    full = next((n for n in range(most, most // 2, -1) if count % n == 0), 0)
    return full or -(-count // -(-count // most))


class GemmEmitter:
    """Writes the loops of a product."""

    def __init__(self, code: Code, gemm: Gemm, dtype: Any):
        self.code, self.gemm, self.dtype = code, gemm, dtype
        has_wide = has_avx512()
        self.lanes = (64 if has_wide else 32) // dtype.itemsize
        is_few = gemm.m < _FEW_ROWS
        # Rows of the first factor times columns that are dense in memory: products of vectors
        # (1 x 512 times the transpose of 512 x 512: 20.6 instead of 69 us).
        self.is_dots = is_few and gemm.b.right != 1 and gemm.b.down == 1 and gemm.k >= self.lanes
        self.packs = not self.is_dots and (not is_few or (gemm.b.right != 1 and gemm.n > 1))
        vectors = -(-gemm.n // self.lanes)
        most = 1 if self.is_dots else 3 if self.packs else max(3, _SUMS // max(gemm.m, 1))
        vectors = _choose_vectors(vectors, most)
        self.columns = vectors * self.lanes
        rows = (_ROWS[vectors] if self.packs else _FEW_ROWS) if has_wide else 4
        self.rows = next((r for r in range(rows, rows // 2, -1) if gemm.m % r == 0), rows)
        self.tiles = -(-gemm.n // self.columns)
        self.buffer: Any = None

    def chunks(self) -> Chunks:
        """The division of all tiles."""
        total = prod(self.gemm.lead) * self.tiles
        work = max(self.gemm.m * self.gemm.k * self.columns, 1)
        each = min(-(-_TILE_WORK // work), total)
        return Chunks(-(-total // each), each)

    def emit(self) -> None:
        """Writes the tiles of one chunk."""
        code, b, gemm = self.code, self.code.b, self.gemm
        if self.packs:
            kind = ir.ArrayType(Lanes(b, 1, 8 * self.dtype.itemsize).real, _BLOCK * self.columns)
            slot = code.variable(kind)
            slot.align = 64
            with b.goto_entry_block():
                self.buffer = b.bitcast(slot, ir.IntType(8).as_pointer())
        first, last = code.range_of(self.chunks(), prod(gemm.lead) * self.tiles)
        code.loop(first, last, 1, self._tile)

    def _tile(self, tile: Any) -> None:
        """All rows of one tile of columns."""
        b, gemm = self.code.b, self.gemm
        stack, number = b.udiv(tile, WORD(self.tiles)), b.urem(tile, WORD(self.tiles))
        starts = []
        for matrix in (gemm.a, gemm.b, gemm.c):
            place: Any = WORD(matrix.offset)
            rest = stack
            for length, stride in zip(reversed(gemm.lead), reversed(matrix.batch), strict=True):
                place = b.add(place, b.mul(b.urem(rest, WORD(length)), WORD(stride)))
                rest = b.udiv(rest, WORD(length))
            starts.append(place)
        column = b.mul(number, WORD(self.columns))
        left, width, is_last = gemm.n % self.columns, self.columns, None
        if left and self.tiles == 1:
            width = left
        elif left:
            is_last = b.icmp_unsigned("==", number, WORD(self.tiles - 1))
        if self.packs:  # one code for both: the rest of a packed tile is computed and dropped
            self._columns(starts, column, width, is_last)
        else:
            self._either(is_last, width, lambda n: self._columns(starts, column, n, None))

    def _columns(self, starts: list[Any], column: Any, width: int, is_last: Any) -> None:
        """All rows of a tile of columns: blocks of the inner axis, then tiles of rows."""
        b, gemm, code = self.code.b, self.gemm, self.code
        if self.is_dots:
            code.loop(0, gemm.m, 1, lambda row: self._dots(starts, row, column, width))
            return
        at_b = b.add(starts[1], b.mul(column, WORD(gemm.b.right)))
        at_c = b.add(starts[2], b.mul(column, WORD(gemm.c.right)))
        step = _BLOCK if self.packs else max(gemm.k, 1)

        def block(k: Any) -> None:
            end = b.add(k, WORD(step))
            is_inside = b.icmp_signed("<", end, WORD(gemm.k))
            depth = b.sub(b.select(is_inside, end, WORD(gemm.k)), k) if step < gemm.k else gemm.k
            source = b.add(at_b, b.mul(k, WORD(gemm.b.down)))
            at_a = b.add(starts[0], b.mul(k, WORD(gemm.a.right)))
            is_first = b.icmp_signed("==", k, WORD(0)) if step < gemm.k else None
            if self.packs:
                self._either(is_last, width, lambda columns: self._pack(source, depth, columns))

            def rows(i: Any, count: int) -> None:
                place_a = b.add(at_a, b.mul(i, WORD(gemm.a.down)))
                place_c = b.add(at_c, b.mul(i, WORD(gemm.c.down)))
                tile = self._multiply(place_a, source, depth, count, width)
                self._either(is_last, width, lambda n: self._store(tile, place_c, n, is_first))

            code.vectors(gemm.m, self.rows, rows)

        code.loop(0, max(gemm.k, 1), step, block)

    def _dots(self, starts: list[Any], row: Any, column: Any, width: int) -> None:
        """A part of a row of the result: products of vectors that are dense in memory."""
        code, b, gemm, dtype = self.code, self.code.b, self.gemm, self.dtype
        lanes = Lanes(b, self.lanes, 8 * dtype.itemsize)
        at_a = b.add(starts[0], b.mul(row, WORD(gemm.a.down)))
        at_b = b.add(starts[1], b.mul(column, WORD(gemm.b.right)))
        slots = [code.variable(lanes.real) for _ in range(width)]
        for slot in slots:
            b.store(ir.Constant(lanes.real, None), slot)

        def step(k: Any, count: int) -> None:
            x, y = code.pointer(gemm.a.key), code.pointer(gemm.b.key)
            place = b.add(at_a, b.mul(k, WORD(gemm.a.right)))
            factor = code.load(x, dtype, place, gemm.a.right, count)
            factor = extend(b, factor, count, 0, dtype, self.lanes)
            for j, slot in enumerate(slots):
                place = b.add(b.add(at_b, k), WORD(j * gemm.b.right))
                value = code.load(y, dtype, place, 1, count)
                value = extend(b, value, count, 0, dtype, self.lanes)
                b.store(lanes.fma(factor, value, b.load(slot)).value, slot)

        full = gemm.k // self.lanes * self.lanes
        if full <= _UNROLLED_DOTS * self.lanes:
            for k in range(0, full, self.lanes):
                step(WORD(k), self.lanes)
        else:
            code.loop(0, full, self.lanes, lambda k: step(k, self.lanes))
        if full < gemm.k:
            step(WORD(full), gemm.k - full)
        sums = [b.load(slot) for slot in slots]
        sums += [ir.Constant(lanes.real, None)] * (self.lanes - width)
        total = self._sum_each(sums)
        if width < self.lanes:
            total = take_lanes(code.b, total, range(width))
        place = b.add(starts[2], b.mul(row, WORD(gemm.c.down)))
        place = b.add(place, b.mul(column, WORD(gemm.c.right)))
        code.store(total, code.pointer(gemm.c.key), dtype, place, gemm.c.right, width)

    def _sum_each(self, rows: list[Any]) -> Any:
        """The sums of the lanes of as many vectors as there are lanes, as one vector."""
        b, size = self.code.b, 1
        while len(rows) > 1:
            # Blocks of `size` lanes have partial sums of `size` rows; two rows give one of twice.
            low = [
                block + lane + (self.lanes if second else 0)
                for block in range(0, self.lanes, 2 * size)
                for second in (False, True)
                for lane in range(size)
            ]
            high = [lane + size for lane in low]
            pairs = zip(rows[::2], rows[1::2], strict=True)
            rows = [b.fadd(shuffle(b, x, y, low), shuffle(b, x, y, high)) for x, y in pairs]
            size *= 2
        return rows[0]

    def _either(self, is_last: Any, width: int, write: Any) -> None:
        """Writes code for the columns of a tile, or for the columns of the last one."""
        if is_last is None:
            write(width)
            return
        with self.code.b.if_else(is_last) as (then, otherwise):
            with then:
                write(self.gemm.n % self.columns)
            with otherwise:
                write(width)

    def _widths(self, width: int) -> list[tuple[int, int]]:
        """(first column, columns) of each vector of a tile."""
        starts = range(0, width, self.lanes)
        return [(start, min(self.lanes, width - start)) for start in starts]

    def _pack(self, source: Any, depth: Any, width: int) -> None:
        """Copies rows of the second factor to the buffer."""
        code, b, gemm, dtype = self.code, self.code.b, self.gemm, self.dtype
        pointer = code.pointer(gemm.b.key)

        def row(k: Any) -> None:
            place = b.add(source, b.mul(k, WORD(gemm.b.down)))
            target = b.mul(k, WORD(self.columns))
            for start, count in self._widths(width):
                at = b.add(place, WORD(start * gemm.b.right))
                value = code.load(pointer, dtype, at, gemm.b.right, count)
                code.store(value, self.buffer, dtype, b.add(target, WORD(start)), 1, count)

        code.loop(0, depth, 1, row)

    def _multiply(self, at_a: Any, at_b: Any, depth: Any, rows: int, width: int) -> list[list[Any]]:
        """The sums of products of a tile: for each row, its vectors."""
        code, b, gemm, dtype = self.code, self.code.b, self.gemm, self.dtype
        parts = self._widths(width)
        if self.packs:
            parts = [(start, self.lanes) for start, _ in parts]
        bits = 8 * dtype.itemsize
        first = code.pointer(gemm.a.key)
        kinds = [Lanes(b, count, bits).real for _, count in parts]
        # Several sums side by side where one would wait (1 x 2000 x 10: 1.0 instead of 1.9 us).
        ways = 1 if self.packs else max(1, min(_SUMS // (rows * len(kinds)), 4))
        tiles = [
            [[code.variable(kind) for kind in kinds] for _ in range(rows)] for _ in range(ways)
        ]
        for row in (row for tile in tiles for row in tile):
            for slot, kind in zip(row, kinds, strict=True):
                b.store(ir.Constant(kind, None), slot)

        def step(k: Any, slots: list[list[Any]] = tiles[0]) -> None:
            if self.packs:
                pointer, stride, place = self.buffer, 1, b.mul(k, WORD(self.columns))
            else:
                pointer, stride = code.pointer(gemm.b.key), gemm.b.right
                place = b.add(at_b, b.mul(k, WORD(gemm.b.down)))
            values = [
                code.load(pointer, dtype, b.add(place, WORD(s * stride)), stride, count)
                for s, count in parts
            ]
            column = b.add(at_a, b.mul(k, WORD(gemm.a.right)))
            for i, row in enumerate(slots):
                factor = code.load(first, dtype, b.add(column, WORD(i * gemm.a.down)), 1, 1)
                for slot, value, (_, count) in zip(row, values, parts, strict=True):
                    lanes = Lanes(b, count, bits)
                    total = lanes.fma(spread(b, factor, count), value, b.load(slot))
                    b.store(total.value, slot)

        if ways == 1:
            code.loop(0, depth, 1, step)
        else:  # the depth is that of the product: it is a number

            def steps(k: Any) -> None:
                for way, slots in enumerate(tiles):
                    step(b.add(k, WORD(way)), slots)

            full = depth // ways * ways
            code.loop(0, full, ways, steps)
            for k in range(full, depth):
                step(WORD(k), tiles[k - full])
        found = [[b.load(slot) for slot in row] for row in tiles[0]]
        for tile in tiles[1:]:
            for row, others in zip(found, tile, strict=True):
                row[:] = [b.fadd(x, b.load(slot)) for x, slot in zip(row, others, strict=True)]
        return found

    def _store(self, tile: list[list[Any]], at_c: Any, width: int, is_first: Any) -> None:
        """Writes a tile, or adds it to what the blocks before have written."""
        code, b, gemm, dtype = self.code, self.code.b, self.gemm, self.dtype
        result = code.pointer(gemm.c.key)
        for i, row in enumerate(tile):
            for value, (start, count) in zip(row, self._widths(width), strict=False):
                if isinstance(value.type, ir.VectorType) and count < value.type.count:
                    value = take_lanes(code.b, value, range(count))
                place = b.add(at_c, WORD(i * gemm.c.down + start * gemm.c.right))
                if is_first is not None:
                    before = code.load(result, dtype, place, gemm.c.right, count)
                    value = b.select(is_first, value, b.fadd(before, value))
                code.store(value, result, dtype, place, gemm.c.right, count)
