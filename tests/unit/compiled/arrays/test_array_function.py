"""Machine code for large arrays against the interpreter of the intermediate representation."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import pathlib
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite import ir

import pullback as pb
from pullback.compiled.llvm.arrays import can_emit, emit_arrays, gemm
from pullback.compiled.llvm.arrays.products import find_blas
from pullback.compiled.llvm.arrays.threads import SHARE_CHUNKS, register_share_chunks
from pullback.compiled.llvm.compiler import binding, is_supported, load_code
from pullback.compiled.lowering.builder import Builder
from pullback.compiled.lowering.interpret import interpret
from pullback.compiled.lowering.ir import Graph, Place
from pullback.compiled.lowering.lower import lower
from tests.memory import least_traced_growth

if not is_supported():
    pytest.skip("machine code is tested on Linux on x86-64 only", allow_module_level=True)

_helper = pathlib.Path(__file__).parents[1] / "lowering.py"
_spec = importlib.util.spec_from_file_location("compiled_lowering", _helper)
lowering = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lowering)

RNG = np.random.default_rng(0)


class ArrayFunction:
    """The machine code of a graph as a function of arrays."""

    def __init__(self, graph):
        module = ir.Module("test")
        function, self.memory = emit_arrays(module, "run", graph)
        self.text = str(module)
        self.engine = load_code(self.text, lambda: self.text)
        address = self.engine.get_function_address("run")
        self.run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(function.args))(address)
        self.results = [*graph.outputs, *graph.checks]

    def __call__(self, arrays):
        made = [np.empty(node.shape, node.dtype) for node in self.results]
        memory = np.empty(self.memory + 64, np.uint8)
        start = memory.ctypes.data
        entries = [*[a.ctypes.data for a in (*arrays, *made)], start + -start % 64]
        self.run(*entries)
        return made


def program(function, *args):
    """The graph of a function, and the arrays that it gets."""
    copies = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        tracer, outputs = lowering.traced(function, *copies)
    lowered = lower(tracer, outputs)
    arrays = lowering.inputs_of(lowered, tracer, args)
    return lowered.graph, [np.array(a, order="C") for a in arrays]


def check_graph(graph, arrays, rtol=1e-12, atol=1e-13):
    assert all(map(can_emit, graph.live())), [n for n in graph.live() if not can_emit(n)]
    expected, holds = interpret(graph, arrays)
    got = ArrayFunction(graph)(arrays)
    assert all(got[len(expected) :]) == holds
    for ours, theirs in zip(got, expected, strict=False):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if ours.dtype.kind in "fc" and ours.dtype.itemsize // (1 + (ours.dtype.kind == "c")) == 4:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
    return got


def check(function, *args, **tolerances):
    return check_graph(*program(function, *args), **tolerances)


def softmax_rows(x):
    shifted = pb.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


PROGRAMS = {
    "chain": lambda x: pb.tanh(pb.sin(x) * x + 1).sum(),
    "softmax": softmax_rows,
    "variance of columns": lambda x: ((x - x.mean(0)) ** 2).mean(0),
    "extrema": lambda x: (x.max(0), x.min(1), x.max()),
    "logsumexp": lambda x: pb.logsumexp(x, 1),
    "product of rows": lambda x: pb.prod(x, 1),
    "truth": lambda x: ((x > 0).any(0), (x < 2).all(1), (x > 0).sum()),
    "slices": lambda x: x[::2, ::-1].T[2:] * 2,
    "diagonal": lambda x: pb.diagonal(x) + 1,
    "broadcast": lambda x: x[:, None, :] * x[None, :, :1],
    "transposed sum": lambda x: x.T + x.sum(1),
    "gather": lambda x: x[np.array([3, 1, 1, 0])],
    "where": lambda x: pb.where(x > 0, x, pb.exp(x)),
    "matrix product": lambda x: x @ x.T,
    "product with a column": lambda x: x @ x[0],
    "product of views": lambda x: x[::2].T @ x[1::2][::-1],
    "pad": lambda x: pb.pad(x, ((1, 2), (0, 1))),
    "concatenate": lambda x: pb.concatenate([x, x[:2] * 2]),
    "no work": lambda x: (x, x.T, x),
    "number": lambda x: x.sum() * 2 + 1,
    "rounding": lambda x: pb.floor(x) + pb.sign(x) * pb.remainder(x, 0.7),
}
SHAPES = [(5, 4), (40, 37), (700, 33), (4, 4), (6, 16)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, shape):
    x = RNG.normal(size=shape)
    if name == "product of views" and shape[0] % 2:
        x = np.concatenate([x, x[:1]])
    check(PROGRAMS[name], x)


GRADIENTS = ["chain", "softmax", "variance of columns", "extrema", "logsumexp", "slices", "gather"]
GRADIENTS += ["broadcast", "matrix product", "product of views", "pad", "where", "diagonal"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    def total(x):
        found = PROGRAMS[name](x)
        parts = found if isinstance(found, tuple) else (found,)
        return sum((part * part).sum() for part in parts)

    check(pb.value_and_grad(total), RNG.normal(size=(30, 17)), rtol=1e-10)


@pytest.mark.parametrize("name", ["chain", "softmax", "matrix product", "variance of columns"])
@pytest.mark.parametrize("dtype", ["f4", "c8", "c16"])
def test_other_dtypes(name, dtype):
    x = RNG.normal(size=(33, 20)).astype(dtype)
    if x.dtype.kind == "c":
        if name in ("chain", "softmax"):
            return
        x = x + 1j * RNG.normal(size=x.shape).astype(x.real.dtype)
    check(PROGRAMS[name], x, rtol=1e-10)


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1"])
def test_integers(dtype):
    x = RNG.integers(0, 100, size=(21, 19)).astype(dtype)
    check(lambda x: (x.max(0), x.sum(), (x == 1).sum(1), x.T), x)


LAYOUTS = {
    "Fortran": lambda x: np.asfortranarray(x),
    "backwards": lambda x: x[::-1, ::-1],
    "every other": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    x = LAYOUTS[layout](RNG.normal(size=(20, 17)))
    check(lambda x: (softmax_rows(x), x @ x.T, x.sum(0)), x)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (1, 30), (30, 1)], ids=str)
def test_empty_and_single_axes(shape):
    x = RNG.normal(size=shape)
    check(lambda x: (x.sum(0), x.sum(), x * 2, x @ x.T, pb.exp(x).sum(1, keepdims=True)), x)


def test_numbers_without_axes():
    check(lambda x: (pb.sin(x) * 2, x), np.array(1.5))


def test_infinite_and_nan_rows():
    x = RNG.normal(size=(6, 40))
    x[0, 3], x[1, 5], x[2] = np.inf, np.nan, -np.inf
    x[3, :2] = np.inf, -np.inf
    check(lambda x: (x.sum(1), x.max(1), x.min(0), pb.exp(x).sum(), x.sum(0)), x)
    check(lambda x: pb.logsumexp(x, 1), x)
    long = np.zeros(100_000)
    long[70_000] = np.inf
    check(lambda x: (x.sum(), (-x).sum(), x.max()), long)


def test_the_sign_of_zero_is_kept():
    got = check(lambda x: (x.sum(0), x + 0.0, x * 1), -np.zeros((40, 3)))
    assert np.signbit(got[0]).all()


# --- parts of the intermediate representation -----------------------------------------------------


def graph_with(*shapes):
    graph = Graph()
    return graph, Builder(graph), [graph.input(shape, np.dtype(float)) for shape in shapes]


@pytest.mark.parametrize("kind", ["set", "add"])
def test_updates_of_a_part(kind):
    graph, builder, (x, part) = graph_with((40, 30), (10, 15))
    base = builder.elementwise("multiply", x, x)
    place = Place(7, (60, 2), (10, 15))
    changed = builder.update(kind, base, place, builder.elementwise("exp", part))
    graph.outputs = [changed, builder.reduce("sum", changed, (0, 1))]
    check_graph(graph, [RNG.normal(size=(40, 30)), RNG.normal(size=(10, 15))])


def test_an_update_does_not_change_what_is_read_later():
    graph, builder, (x,) = graph_with((40, 30))
    base = builder.elementwise("multiply", x, x)
    part = builder.view(base, Place(30, (30, 1), (2, 30)))
    changed = builder.update("set", base, Place(0, (30, 1), (2, 30)), part)
    again = builder.update(
        "add",
        changed,
        Place(0, (30, 1), (3, 30)),
        builder.view(changed, Place(60, (30, 1), (3, 30))),
    )
    graph.outputs = [again, builder.elementwise("exp", base)]
    check_graph(graph, [RNG.normal(size=(40, 30))])


@pytest.mark.parametrize("kind", ["set", "add"])
def test_put_writes_in_order(kind):
    graph, builder, (x, values) = graph_with((50,), (4, 6))
    positions = graph.input((4, 6), np.dtype(np.int64))
    graph.outputs = [builder.put(kind, x, positions, values)]
    places = RNG.integers(-5, 60, size=(4, 6))
    check_graph(graph, [RNG.normal(size=50), RNG.normal(size=(4, 6)), places])


def test_places_that_an_index_moves():
    graph, builder, (x, part) = graph_with((40, 30), (10, 30))
    index = graph.input((), np.dtype(np.int64))
    row = builder.view(x, Place(5, (30, 1), (3, 20), 30), index)
    changed = builder.update("add", x, Place(0, (30, 1), (10, 30), 60), part, index)
    graph.outputs = [builder.elementwise("exp", row), changed, row]
    check_graph(graph, [RNG.normal(size=(40, 30)), RNG.normal(size=(10, 30)), np.array(7)])


def test_indices_are_numbers_of_the_loops():
    graph, builder, (x,) = graph_with((20, 33))
    numbers = builder.cast(builder.iota(33), np.dtype(float))
    graph.outputs = [builder.elementwise("multiply", x, numbers), builder.iota(7)]
    check_graph(graph, [RNG.normal(size=(20, 33))])


def test_checks_follow_the_outputs():
    graph, builder, (x,) = graph_with((20, 3))
    graph.outputs = [x]
    positive = builder.elementwise("greater", x, builder.full(0.0, (), np.dtype(float)))
    graph.checks = [builder.reduce("all", positive, (0, 1))]
    check_graph(graph, [np.ones((20, 3))])
    check_graph(graph, [RNG.normal(size=(20, 3))])


def test_products_of_stacks():
    graph, builder, (x, y) = graph_with((2, 3, 7, 5), (3, 5, 4))
    graph.outputs = [builder.matmul(x, builder.broadcast(y, (2, 3, 5, 4)))]
    check_graph(graph, [RNG.normal(size=(2, 3, 7, 5)), RNG.normal(size=(3, 5, 4))])


FACTORS = [
    (64, 64, 100),
    (10, 300, 25),
    (13, 1, 7),
    (1, 700, 40),
    (40, 300, 1),
    (9, 600, 51),
    (3, 3, 3),
    (5, 33, 19),
    (1, 30, 101),
    (101, 90, 1),
    (2, 17, 70),
    (12, 50, 30),
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sizes", FACTORS, ids=str)
@pytest.mark.parametrize("layout", ["plain", "first transposed", "second transposed", "backwards"])
def test_products_by_loops(sizes, layout, dtype):
    m, k, n = sizes
    x, y = RNG.normal(size=(m, k)).astype(dtype), RNG.normal(size=(k, n)).astype(dtype)
    if layout == "first transposed":
        check(lambda x, y: x.T @ y, x.T.copy(), y, rtol=1e-9, atol=1e-10)
    elif layout == "second transposed":
        check(lambda x, y: x @ y.T, x, y.T.copy(), rtol=1e-9, atol=1e-10)
    elif layout == "backwards":
        check(lambda x, y: x[::-1, ::-1] @ y[::-1], x, y, rtol=1e-9, atol=1e-10)
    else:
        check(lambda x, y: x @ y, x, y, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_infinite_element_stays_in_its_row(value):
    """Vectors that are filled up with zeros do not multiply elements of others by them."""
    x, y = RNG.normal(size=(21, 30)), RNG.normal(size=30)
    x[4, 29] = x[5, 0] = value
    check(lambda x, y: x @ y, x, y, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shapes", [((4, 6, 7), (7, 5)), ((6, 7), (4, 7, 1)), ((4, 1, 7), (7, 9))])
def test_products_with_a_common_factor(shapes):
    check(lambda x, y: x @ y, *(RNG.normal(size=shape) for shape in shapes))


def test_products_by_blas(monkeypatch):
    if find_blas() is None:
        pytest.skip("NumPy has another BLAS")
    monkeypatch.setattr(gemm, "_LARGEST", 0)
    for sizes in FACTORS:
        m, k, n = sizes
        x, y = RNG.normal(size=(m, k)), RNG.normal(size=(k, n))
        check(lambda x, y: (x @ y, x[::-1] @ y, x @ y[:, ::-1]), x, y, rtol=1e-9, atol=1e-10)


def test_blas_is_found_where_numpy_has_openblas():
    config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    if "openblas" not in config:
        pytest.skip("NumPy has another BLAS")
    assert find_blas() is not None


# --- accuracy, threads, memory --------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1 << 20,), (3, 300_000), (3000, 501)])
def test_sums_are_as_exact_as_numpys(shape):
    x = RNG.normal(size=shape) + 1e3
    graph, arrays = program(lambda x: (x.sum(), x.sum(-1)), x)
    total, rows = ArrayFunction(graph)(arrays)
    exact = math.fsum(x.ravel())
    assert abs(total - exact) <= max(abs(x.sum() - exact), np.spacing(exact))
    exact_rows = np.array([math.fsum(row) for row in x.reshape(-1, shape[-1])])
    errors = [np.abs(found.ravel() - exact_rows).mean() for found in (rows, x.sum(-1))]
    assert errors[0] <= max(errors[1], np.spacing(exact_rows[0]) / 2)


@pytest.fixture
def thread_count():
    before = pb.get_num_threads()
    yield pb.set_num_threads
    pb.set_num_threads(before)


def large_program():
    def function(x):
        y = pb.tanh(x) * pb.exp(-x * x)
        return y.sum(), y.sum(0), y.max(1), (y - y.mean(0)) * 2

    return program(function, RNG.normal(size=(3001, 101)))


def test_results_do_not_depend_on_the_number_of_threads(thread_count):
    graph, arrays = large_program()
    compiled = ArrayFunction(graph)
    assert "run_arrays_share" in compiled.text
    results = []
    for threads in (1, 2, 5):
        thread_count(threads)
        results += [compiled(arrays) for _ in range(3)]
    for found in results:
        for ours, theirs in zip(found, results[0], strict=True):
            assert ours.tobytes() == theirs.tobytes()


def test_calls_in_several_threads_do_not_disturb_each_other(thread_count):
    thread_count(2)
    graph, arrays = large_program()
    compiled = ArrayFunction(graph)
    inputs = [[arrays[0] * k] for k in range(1, 5)]
    expected = [compiled(given) for given in inputs]
    wrong = []

    def work(number):
        for _ in range(5):
            for ours, theirs in zip(compiled(inputs[number]), expected[number], strict=True):
                if ours.tobytes() != theirs.tobytes():
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_computes_in_threads_of_its_own(thread_count):
    thread_count(2)
    graph, arrays = large_program()
    compiled = ArrayFunction(graph)
    expected = compiled(arrays)
    child = os.fork()
    if child == 0:
        found = compiled(arrays)
        same = all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_many_calls_keep_no_memory():
    graph, arrays = program(PROGRAMS["softmax"], RNG.normal(size=(4, 5)))
    compiled = ArrayFunction(graph)
    assert least_traced_growth(lambda: compiled(arrays)) < 5000


def test_a_result_takes_the_memory_of_an_operand_that_it_replaces():
    x, w = RNG.normal(size=(200, 50)), RNG.normal(size=(50, 50))

    def layers(x, w):
        for _ in range(4):
            x = pb.tanh(x @ w)
        return x.sum()

    graph, arrays = program(layers, x, w)
    compiled = ArrayFunction(graph)
    assert compiled.memory <= 2 * x.nbytes + 1000
    np.testing.assert_allclose(compiled(arrays)[0], layers(pb.tensor(x), pb.tensor(w)).numpy())


def test_an_operand_that_is_also_read_elsewhere_keeps_its_memory():
    x = RNG.normal(size=(300, 40))
    check(lambda x: pb.exp(x @ x.T)[::-1] + pb.exp(x @ x.T), x / 10)
    check(lambda x: (x @ x.T) * (x @ x.T).T, x)
    check(lambda x: (x @ x.T) * (x @ x.T)[:1], x)


def test_a_value_is_computed_where_it_is_read():
    """``x * 2`` is read beside the product only, and needs no memory before."""
    x, w = RNG.normal(size=(200, 50)), RNG.normal(size=(50, 50))
    graph, arrays = program(lambda x, w: (pb.exp(x * 2 + x @ w)).sum(), x, w)
    compiled = ArrayFunction(graph)
    assert compiled.memory <= x.nbytes + 1000
    np.testing.assert_allclose(compiled(arrays)[0], np.exp(x * 2 + x @ w).sum())


def test_the_function_that_shares_chunks_stays_where_it_is():
    # Two threads that compile at the same time name its address twice.
    register_share_chunks()
    address = binding.address_of_symbol(SHARE_CHUNKS)
    assert address
    register_share_chunks.__wrapped__()
    assert binding.address_of_symbol(SHARE_CHUNKS) == address


def test_values_use_the_memory_of_a_result_before_it_is_computed():
    x, w = RNG.normal(size=(200, 64)), RNG.normal(size=(64, 64))
    graph, arrays = program(lambda x, w: pb.tanh(pb.sin(x @ w) @ w) * 2.0, x, w)
    compiled = ArrayFunction(graph)
    assert compiled.memory <= x.nbytes
    np.testing.assert_allclose(compiled(arrays)[0], np.tanh(np.sin(x @ w) @ w) * 2)


def test_parts_of_writes_are_computed_where_they_are_written():
    """The gradient of shifted sums: one product for each shift, which need no memory."""
    x = RNG.normal(size=(60, 60))

    def shifted(x):
        padded = pb.pad(x, 2)
        total = sum(
            padded[i : i + 60, j : j + 60] * (i + 2.0 * j) for i in range(5) for j in range(5)
        )
        return (total * total * x).sum()

    graph, arrays = program(pb.grad(shifted), x)
    compiled = ArrayFunction(graph)
    assert compiled.memory <= 5 * x.nbytes
    np.testing.assert_allclose(compiled(arrays)[0], pb.grad(shifted)(x), rtol=1e-12)


def test_parts_that_read_what_is_written_over():
    def program_of(y, x):
        y = y.clone()
        y[1:] = y[:-1] * 2.0
        y[::2] = y[::2] + x[::2] * y[0]
        y[5:] += y[:-5] * 3.0
        return y

    x = RNG.normal(size=700)
    check(program_of, x, x[::-1].copy())
    check(pb.grad(lambda y, x: (program_of(y, x) ** 2).sum()), x, x[::-1].copy())
