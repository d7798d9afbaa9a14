"""Programs on many short rows: values of shape (n, k...) as k columns of n elements.

Loops over rows of a few elements waste most of a vector. If all large values of a graph have the
same first axis, and are computed row by row, then each of their elements becomes a value of its own
with one axis: one lane is one row, and all work is one nest. Sums over short axes are additions,
views and padding choose columns, products of small matrices are written out. (Bundle adjustment of
3,184 observations takes 68 instead of 125 us.)
"""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np

from pullback.compiled.lowering.builder import Builder
from pullback.compiled.lowering.elementwise import COMBINERS
from pullback.compiled.lowering.ir import Graph, Node, Place, is_number

__all__ = ["split_columns"]

_MOST_COLUMNS = 32  # elements of a row
_LEAST_ROWS = 128
_MOST_NODES = 4000  # of the new graph


class _RowsError(Exception):
    """A node that is not computed row by row."""


def split_columns(graph: Graph) -> Graph:
    """The graph of columns, or the graph itself if it is not one of short rows."""
    rows = _find_rows(graph)
    if rows == 0:
        return graph
    try:
        return _Splitter(graph, rows).run()
    except _RowsError:
        return graph


def _find_rows(graph: Graph) -> int:
    """The length of the first axis of all large computed values; 0 if there is none."""
    lengths: Counter[int] = Counter()
    has_short_rows = False
    for node in graph.live():
        if node.op in ("input", "const") or node.size < _LEAST_ROWS or is_number(node):
            continue
        columns = node.size // node.shape[0] if node.shape[0] else 0
        if not 1 <= columns <= _MOST_COLUMNS:
            return 0
        has_short_rows = has_short_rows or columns > 1
        lengths[node.shape[0]] += 1
    if len(lengths) != 1 or not has_short_rows:
        return 0
    found = next(iter(lengths))
    return found if found >= _LEAST_ROWS else 0


class _Splitter:
    def __init__(self, graph: Graph, rows: int):
        self.source = graph
        self.rows = rows
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.columns: dict[Node, list[Node]] = {}
        self.plain: dict[Node, Node] = {}

    def is_split(self, node: Node) -> bool:
        return len(node.shape) > 0 and node.shape[0] == self.rows

    def run(self) -> Graph:
        for node in self.source.inputs:
            self.plain[node] = self.graph.input(node.shape, node.dtype)
        for node in self.source.live():
            if node.op == "const":
                self.plain[node] = self.graph.add_copy(node)
            elif node.op != "input":
                self._convert(node)
            if len(self.graph.nodes) > _MOST_NODES:
                raise _RowsError
        self.graph.outputs = [self._whole(node) for node in self.source.outputs]
        self.graph.checks = [self._whole(node) for node in self.source.checks]
        return self.graph

    def _convert(self, node: Node) -> None:
        if self.is_split(node):
            split = getattr(self, f"_split_{node.op}", None)
            if split is None:
                raise _RowsError
            self.columns[node] = split(node)
        elif node.op == "reduce" and self.is_split(node.inputs[0]):
            self.plain[node] = self._reduce_rows(node)
        elif any(self.is_split(x) and x in self.columns for x in node.inputs):
            raise _RowsError
        else:
            given = [self.plain[x] for x in node.inputs]
            self.plain[node] = self.graph.add_copy(node, given)

    def _whole(self, node: Node) -> Node:
        """A value of the old graph as one value of the new one."""
        if node not in self.columns:
            return self.plain[node]
        columns = self.columns[node]
        if len(columns) == 1:
            return self.builder.reshape(columns[0], node.shape)
        count = len(columns)
        parts = [(Place(k, (count,), (self.rows,)), column) for k, column in enumerate(columns)]
        return self.builder.assemble(node.shape, node.dtype, parts)

    def get(self, node: Node) -> list[Node]:
        """The columns of a value."""
        if node not in self.columns:
            base = self.plain[node]
            count = prod(node.shape[1:])
            places = [Place(k, (count,), (self.rows,)) for k in range(count)]
            self.columns[node] = [self.builder.view(base, place) for place in places]
        return self.columns[node]

    def _inside(self, place: Place, count: int) -> list[int]:
        """The columns of a value with `count` of them that a place chooses."""
        if place.step or (place.shape[0] != 1 and place.strides[0] != count):
            raise _RowsError
        inner = Place(place.offset, place.strides[1:], place.shape[1:]).positions().ravel()
        if inner.size and not 0 <= inner.min() <= inner.max() < count:
            raise _RowsError
        return [int(k) for k in inner]

    def _split_view(self, node: Node) -> list[Node]:
        base, place = node.inputs[0], node.place
        if place.step:
            raise _RowsError
        if self.is_split(base) and place.strides[0] != 0:
            columns = self.get(base)
            return [columns[k] for k in self._inside(place, len(columns))]
        if base in self.columns:
            raise _RowsError
        inner = Place(place.offset, place.strides[1:], place.shape[1:]).positions().ravel()
        places = [Place(int(k), (place.strides[0],), (self.rows,)) for k in inner]
        return [self.builder.view(self.plain[base], p) for p in places]

    def _split_elementwise(self, node: Node) -> list[Node]:
        operands = [self.get(x) for x in node.inputs]
        if node.function == "cast":
            return [self.builder.cast(x, node.dtype) for x in operands[0]]
        rows = zip(*operands, strict=True)
        return [self.builder.elementwise(node.function, *row) for row in rows]

    def _combine(self, combiner: str, columns: list[Node]) -> Node:
        """Columns combined in pairs."""
        if combiner in ("all", "any"):
            raise _RowsError
        while len(columns) > 1:
            pairs = zip(columns[::2], columns[1::2], strict=False)
            rest = columns[len(columns) // 2 * 2 :]
            function = COMBINERS[combiner]
            columns = [self.builder.elementwise(function, x, y) for x, y in pairs] + rest
        return columns[0]

    def _groups(self, node: Node) -> list[list[Node]]:
        """For each element of a reduced row, the columns that are combined to it."""
        x, axes = node.inputs[0], node.attrs[1]
        inner = tuple(a - 1 for a in axes if a)
        numbers = np.arange(prod(x.shape[1:])).reshape(x.shape[1:])
        kept = prod(n for a, n in enumerate(x.shape) if a and a not in axes)
        moved = np.moveaxis(numbers, inner, range(len(inner))).reshape(-1, kept)
        columns = self.get(x)
        return [[columns[int(k)] for k in group] for group in moved.T]

    def _split_reduce(self, node: Node) -> list[Node]:
        if 0 in node.attrs[1]:
            raise _RowsError
        return [self._combine(node.attrs[0], group) for group in self._groups(node)]

    def _reduce_rows(self, node: Node) -> Node:
        """A reduction over all rows: of each column, then put together."""
        if 0 not in node.attrs[1]:
            raise _RowsError
        combiner = node.attrs[0]
        totals = [
            self.builder.reduce(combiner, self._combine(combiner, group), (0,))
            for group in self._groups(node)
        ]
        if not node.shape:
            return totals[0]
        parts = [(Place(k, (), ()), total) for k, total in enumerate(totals)]
        return self.builder.assemble(node.shape, node.dtype, parts)

    def _split_assemble(self, node: Node) -> list[Node]:
        count = prod(node.shape[1:])
        zero = self.builder.full(0, (self.rows,), node.dtype)
        found = [zero] * count
        for place, part in zip(node.attrs[0], node.inputs, strict=True):
            if place.shape[:1] != (self.rows,):
                raise _RowsError
            for k, column in zip(self._inside(place, count), self.get(part), strict=True):
                found[k] = column
        return found

    def _split_update(self, node: Node) -> list[Node]:
        base, part, *index = node.inputs
        kind, place = node.attrs
        if index or place.shape[:1] != (self.rows,):
            raise _RowsError
        found = list(self.get(base))
        for k, column in zip(self._inside(place, len(found)), self.get(part), strict=True):
            is_set = kind == "set"
            found[k] = column if is_set else self.builder.elementwise("add", found[k], column)
        return found

    def _split_matmul(self, node: Node) -> list[Node]:
        a, b = node.inputs
        if len(node.shape) < 3:
            raise _RowsError
        (m, k), n = a.shape[-2:], b.shape[-1]
        if m * n * k > _MOST_COLUMNS * 2:
            raise _RowsError
        left = np.array(self.get(a), object).reshape(-1, m, k)
        right = np.array(self.get(b), object).reshape(-1, k, n)
        found = []
        for x, y in zip(left, right, strict=True):
            for i in range(m):
                for j in range(n):
                    terms = [
                        self.builder.elementwise("multiply", x[i, h], y[h, j]) for h in range(k)
                    ]
                    found.append(self._combine("sum", terms))
        return found
