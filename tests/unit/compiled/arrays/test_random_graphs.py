"""Random graphs of the intermediate representation: machine code against the interpreter."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite import ir

from pullback.compiled.llvm.arrays import can_emit, emit_arrays
from pullback.compiled.llvm.arrays.columns import split_columns
from pullback.compiled.llvm.compiler import is_supported, load_code
from pullback.compiled.lowering.builder import Builder
from pullback.compiled.lowering.interpret import interpret
from pullback.compiled.lowering.ir import Graph, Place, c_strides

if not is_supported():
    pytest.skip("machine code is tested on Linux on x86-64 only", allow_module_level=True)

UNARY = ["exp", "tanh", "sin", "negative", "absolute", "square", "floor", "sign", "log1p"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "arctan2"]
INTEGER = ["add", "subtract", "multiply", "maximum", "floor_divide", "remainder", "bitwise_xor"]
COMPARE = ["less", "greater_equal", "equal", "not_equal"]
ROWS = 150
LENGTHS = [1, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 22, 24, 28, 31, 33, 40]


class Maker:
    """Makes a graph by a seed."""

    def __init__(self, seed, size=18, has_rows=False):
        self.rng = np.random.default_rng(seed)
        self.has_rows = has_rows
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.dtype = np.dtype(self.rng.choice(["f8", "f8", "f4", "c16", "i8"]))
        self.values = []
        shape = self._shape()
        for _ in range(2):
            self.values.append(self.graph.input(shape, self.dtype))
        self.values.append(self.graph.input(self._shape(), self.dtype))
        for _ in range(size):
            made = self.step()
            if made is not None and made.size < 20_000:
                self.values.append(made)
        count = self.rng.integers(1, 5)
        chosen = self.rng.choice(len(self.values), min(count, len(self.values)), replace=False)
        self.graph.outputs = [self.values[-1], *(self.values[k] for k in chosen)]

    def _shape(self):
        if self.has_rows:
            return (ROWS, *(int(n) for n in self.rng.choice([1, 2, 3, 4], self.rng.integers(0, 3))))
        return tuple(int(n) for n in self.rng.choice(LENGTHS, self.rng.integers(0, 4)))

    def pick(self):
        late = self.rng.random() < 0.6
        low = max(0, len(self.values) - 5) if late else 0
        return self.values[self.rng.integers(low, len(self.values))]

    def like(self, x):
        """A value that can be broadcast to the shape of another."""
        for _ in range(6):
            y = self.pick()
            try:
                if np.broadcast_shapes(x.shape, y.shape) == x.shape:
                    return y
            except ValueError:
                continue
        return x

    def step(self):
        names = ["unary", "binary", "binary", "reduce", "view", "view", "update", "matmul"]
        if self.has_rows:
            return getattr(self, str(self.rng.choice([*names, "where", "pad"])))()
        names += ["where", "assemble", "take", "put", "broadcast", "iota"]
        return getattr(self, str(self.rng.choice(names)))()

    def unary(self):
        x = self.pick()
        if self.dtype.kind == "f":
            return self.builder.elementwise(str(self.rng.choice(UNARY)), x)
        return self.builder.elementwise("negative", x)

    def binary(self):
        x = self.pick()
        names = {"f": BINARY, "c": BINARY[:3], "i": INTEGER}[self.dtype.kind]
        return self.builder.elementwise(str(self.rng.choice(names)), x, self.like(x))

    def where(self):
        x = self.pick()
        if self.dtype.kind == "c":
            return None
        condition = self.builder.elementwise(str(self.rng.choice(COMPARE)), x, self.like(x))
        if self.rng.random() < 0.2:
            axes = tuple(range(len(x.shape)))
            truth = self.builder.reduce("any", condition, axes)
            return self.builder.cast(truth, self.dtype)
        return self.builder.elementwise("where", condition, x, self.like(x))

    def reduce(self):
        x = self.pick()
        axes = tuple(a for a in range(len(x.shape)) if self.rng.random() < 0.5)
        names = ["sum", "sum", "prod"] if self.dtype.kind == "c" else ["sum", "sum", "max", "min"]
        found = self.builder.reduce(str(self.rng.choice(names)), x, axes) if axes else None
        if found is not None and self.rng.random() < 0.5:  # back, as an axis of length 1
            shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
            return self.builder.reshape(found, shape)
        return found

    def _place(self, x):
        """A part of a value: slices, maybe backwards, and axes in another order."""
        offset, strides, shape = 0, [], []
        for length, stride in zip(x.shape, c_strides(x.shape), strict=True):
            first = int(self.rng.integers(0, length))
            step = int(self.rng.integers(1, 3))
            count = -(-(length - first) // step)
            if self.rng.random() < 0.5:
                first, step, count = 0, 1, length
            if self.has_rows and not strides:
                first, step, count = 0, 1, length
            elif self.rng.random() < 0.3:
                first, step = first + (count - 1) * step, -step
            offset += first * stride
            strides.append(stride * step)
            shape.append(count)
        order = self.rng.permutation(len(shape))
        if self.has_rows:
            order = [0, *(1 + self.rng.permutation(len(shape) - 1))] if shape else []
        return Place(offset, tuple(strides[k] for k in order), tuple(shape[k] for k in order))

    def view(self):
        x = self.pick()
        return self.builder.view(x, self._place(x))

    def broadcast(self):
        x = self.pick()
        return self.builder.broadcast(x, (int(self.rng.choice([2, 3, 20])), *x.shape))

    def update(self):
        x = self.pick()
        place = self._place(x)
        part = self.builder.view(self.pick(), Place(0, (0,) * len(place.shape), place.shape))
        if self.rng.random() < 0.5:
            part = self.builder.elementwise("multiply", part, self.builder.view(x, place))
        return self.builder.update(str(self.rng.choice(["set", "add"])), x, place, part)

    def assemble(self):
        x, y = self.pick(), self.pick()
        shape = (x.size + y.size + int(self.rng.integers(0, 3)),)
        parts = [(Place(0, c_strides(x.shape), x.shape), x)]
        parts.append((Place(x.size, c_strides(y.shape), y.shape), y))
        return self.builder.assemble(shape, self.dtype, parts)

    def pad(self):
        x = self.pick()
        if len(x.shape) != 2 or x.shape[0] != ROWS:
            return None
        width = x.shape[1] + 2
        place = Place(1, (width, 1), x.shape)
        return self.builder.assemble((ROWS, width), self.dtype, [(place, x)])

    def matmul(self):
        x, y = self.pick(), self.pick()
        if len(x.shape) < 2 or len(y.shape) < 2 or self.dtype.kind == "i":
            return None
        if x.shape[-1] != y.shape[-2]:
            y = self.builder.permute(
                x, (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
            )
        try:
            return self.builder.matmul(x, y)
        except ValueError:
            return None

    def iota(self):
        numbers = self.builder.cast(self.builder.iota(int(self.rng.choice(LENGTHS))), self.dtype)
        return self.builder.elementwise("multiply", numbers, numbers)

    def _positions(self, x):
        count = int(self.rng.choice(LENGTHS))
        return self.graph.const(self.rng.integers(-2, x.size + 2, count))

    def take(self):
        x = self.pick()
        return self.builder.take(x, self._positions(x)) if x.size else None

    def put(self):
        x = self.pick()
        positions = self._positions(x)
        values = self.builder.view(self.pick(), Place(0, (0,), positions.shape))
        return self.builder.put(str(self.rng.choice(["set", "add"])), x, positions, values)

    def arrays(self):
        made = []
        for node in self.graph.inputs:
            x = self.rng.normal(size=node.shape)
            if self.dtype.kind == "c":
                x = x + 1j * self.rng.normal(size=node.shape)
            if self.dtype.kind == "i":
                x = self.rng.integers(-9, 9, size=node.shape)
            made.append(np.array(x, self.dtype))
        return made


def run(graph, arrays):
    module = ir.Module("test")
    emitted, size = emit_arrays(module, "run", graph)
    engine = load_code(str(module), lambda: str(module))
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(emitted.args))
    function = kind(engine.get_function_address("run"))
    made = [np.empty(node.shape, node.dtype) for node in graph.outputs]
    memory = np.full(size + 64, 0xA5, np.uint8)
    entries = [
        *[a.ctypes.data for a in (*arrays, *made)],
        memory.ctypes.data + -memory.ctypes.data % 64,
    ]
    function(*entries)
    return made


def compare(seed, has_rows=False):
    maker = Maker(seed, has_rows=has_rows)
    graph, arrays = maker.graph, maker.arrays()
    assert all(map(can_emit, graph.live()))
    expected, _ = interpret(graph, arrays)
    found = run(graph, arrays)
    tolerance = 2e-3 if maker.dtype == np.float32 else 1e-7
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        with np.errstate(all="ignore"):
            size = np.nanmax(np.abs(np.where(np.isfinite(theirs), theirs, 0)), initial=1.0)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    compare(seed)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_of_short_rows(seed):
    compare(1000 + seed, has_rows=True)


def test_graphs_of_short_rows_become_columns():
    graphs = [Maker(1000 + seed, has_rows=True).graph for seed in range(40)]
    assert sum(split_columns(graph) is not graph for graph in graphs) > 10
