"""Native programs: whole calls as machine code, loops, dtypes, threads, memory."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.utils import pytree
from tests.memory import least_growth, least_traced_growth, resident_memory
from tests.unit.compiled.loops import LoopProgram, loop_arguments, with_gradient

pytest.importorskip("llvmlite")
rng = np.random.default_rng(7)


def _native(compiled):
    """Whether the newest program has a function for whole calls."""
    return bool(compiled._natives)


def _compare(function, *args, tolerance=1e-10):
    compiled = pb.compile(function)
    for _ in range(2):
        given = [pb.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
        found = pytree.leaves(compiled(*args))
        for ours, theirs in zip(found, pytree.leaves(function(*given)), strict=True):
            ours, theirs = np.asarray(ours), np.asarray(theirs)
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    return compiled


def _check_loop(seed):
    program = LoopProgram(seed)
    function = with_gradient(program) if seed % 2 else program
    _compare(function, *loop_arguments(seed, program), tolerance=1e-9)


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_a_random_loop_as_machine_code(seed):
    _check_loop(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1100, 1180, 20))
def test_more_random_loops_as_machine_code(first):
    for seed in range(first, first + 20):
        _check_loop(seed)


@pytest.mark.parametrize("dtype", ["?", "b", "h", "i", "l", "B", "H", "I", "L", "f", "d", "F", "D"])
@pytest.mark.parametrize("size", [1, 3, 8, 13, 40, 300])
def test_dtypes_and_sizes(dtype, size):
    x = (rng.integers(0, 5, size) + (1j if dtype in "FD" else 0)).astype(dtype)
    y = rng.integers(1, 4, size).astype(dtype)

    def f(x, y):
        z = pb.zeros_like(x)
        z[::2] = x[::2]
        return x * y + z, pb.where(x == y, x, y), x[::-1], (x + y).sum(), pb.stack([x, z]).T

    _compare(f, x, y, tolerance=1e-5)


SHAPES = [
    ((4, 2, 3), (4, 3, 2)),
    ((2, 2, 2, 3), (2, 2, 3, 2)),
    ((4, 1, 2, 3), (2, 3, 2)),
    ((3, 5), (5,)),
    ((7,), (7, 3)),
    ((9, 9), (9, 9)),
    ((40, 7), (7, 30)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", ["f", "d", "D"])
def test_products_of_small_matrices(left, right, dtype):
    a, b = rng.normal(size=left).astype(dtype), rng.normal(size=right).astype(dtype)
    tolerance = 1e-4 if dtype == "f" else 1e-11
    assert _native(_compare(lambda a, b: a @ b, a, b, tolerance=tolerance))


def test_arguments_of_other_kinds_take_the_general_path():
    compiled = pb.compile(lambda x: x * 2.0)
    x = np.arange(6.0)
    expected = (x * 2).tolist()
    assert compiled(x).tolist() == expected
    assert compiled(pickle.loads(pickle.dumps(x))).tolist() == expected
    assert compiled.stats["traces"] == 1  # an unpickled array has a dtype object of its own
    assert compiled(np.arange(12.0)[::2] / 2).tolist() == expected
    assert compiled(x.astype(">f8")).tolist() == expected
    assert compiled(x=x).tolist() == expected
    assert compiled(pb.asarray(x)).tolist() == expected
    assert compiled(x.astype("f4")).dtype == "f4"
    assert compiled(x[:3]).tolist() == expected[:3]
    assert compiled(x.reshape(2, 3)).shape == (2, 3)
    assert compiled(np.float64(2.5)) == 5.0
    assert compiled(2.5) == 5.0
    assert compiled(x).tolist() == expected


def test_containers_of_arguments_and_results():
    def f(a, b):
        first, (second, third) = a
        return [first + second, (third * b["k"], None)], {"s": first.sum()}

    compiled = pb.compile(f)
    x = np.arange(3.0)
    for scale in (1.0, 2.0):
        found = compiled((x, [x * scale, x]), {"k": x})
        np.testing.assert_array_equal(found[0][0], x + x * scale)
        np.testing.assert_array_equal(found[0][1][0], x * x)
        assert found[0][1][1] is None
        assert found[1]["s"] == 3.0
    assert compiled.stats["traces"] == 1


def test_calls_do_not_leak():
    compiled = pb.compile(pb.value_and_grad(lambda x, t: (pb.sin(x) * t).sum()))
    for x in (np.arange(2000.0), np.arange(5.0)):
        assert least_traced_growth(lambda x=x: compiled(x, 0.5)) < 5000


def test_the_memory_of_temporary_values_is_freed():
    """It comes from the heap where it is too large for the stack, and Python does not trace it."""
    compiled = pb.compile(lambda x, w: pb.tanh(pb.tanh(x @ w) @ w).sum())
    x, w = np.ones((200, 50)), np.ones((50, 50))

    def run_calls():
        for _ in range(50):
            compiled(x, w)

    assert least_growth(resident_memory, run_calls) < 10 * x.nbytes


def test_threads_do_not_disturb_each_other():
    def f(x):
        y = pb.zeros((40, 20))
        for i in range(1, 40):
            y[i] = pb.tanh(y[i - 1] + x)
        return y.sum(1)

    compiled = pb.compile(f)
    inputs = [rng.normal(size=20) for _ in range(4)]
    expected = [f(pb.asarray(x)).numpy() for x in inputs]
    compiled(inputs[0])
    errors = []

    def work(number):
        for _ in range(300):
            if not np.allclose(compiled(inputs[number]), expected[number], rtol=1e-12):
                errors.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_process_can_call_and_compile():
    compiled = pb.compile(lambda x: pb.exp(x).sum())
    x = np.arange(4.0)
    compiled(x)
    child = os.fork()
    if child == 0:
        good = abs(compiled(x) - np.exp(x).sum()) < 1e-9
        other = pb.compile(lambda x: x * 3)(x).tolist() == (x * 3).tolist()
        os._exit(0 if good and other else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_index_outside_raises_the_functions_error():
    compiled = pb.compile(lambda x, i: x[i])
    x = np.arange(4.0)
    assert compiled(x, np.array([1, -1])).tolist() == [1.0, 3.0]
    with pytest.raises(IndexError):
        compiled(x, np.array([1, 4]))
    assert compiled(x, np.array([0, 3])).tolist() == [0.0, 3.0]


def test_other_closures_are_found():
    scale = np.array(2.0)
    captured = {"factor": 3.0}

    def f(x):
        return x * scale * captured["factor"]

    compiled = pb.compile(f)
    assert compiled(np.ones(2)).tolist() == [6.0, 6.0]
    scale = np.array(5.0)
    assert compiled(np.ones(2)).tolist() == [15.0, 15.0]


def test_opaque_operators_run_between_segments():
    def f(a, x):
        s = a @ a.T + 10 * pb.eye(6)
        y = pb.linalg.solve(s, pb.tanh(x))
        return (pb.sort(y) * pb.cumsum(x, 0)).sum() + pb.linalg.slogdet(s)[1]

    a, x = rng.normal(size=(6, 6)), rng.normal(size=6)
    _compare(lambda a, x: pb.func.grad(f, argnums=(0, 1))(a, x), a, x)


def test_whole_calls_with_opaque_operators():
    def f(x, pair, scale):
        y = np.sort(x * scale)
        return [y, x.sum(), 7], (np.cumsum(pair[1]), None)

    compiled = pb.compile(f)
    x, pair = rng.normal(size=5), (rng.normal(size=3), np.arange(4))
    compiled(x, pair, 2.0)
    assert _native(compiled)
    for scale in (2.0, -1.0):
        (y, total, seven), (sums, none) = compiled(x, pair, scale)
        assert y.tolist() == np.sort(x * scale).tolist()
        assert type(y) is np.ndarray
        assert type(total) is np.float64
        assert np.isclose(total, x.sum())
        assert seven == 7
        assert sums.tolist() == [0, 1, 3, 6]
        assert none is None
    assert compiled.stats == {"traces": 1, "hits": 2, "eager": 0, "changes": 0}
    assert compiled(x.astype(np.float32), pair, 2.0)[0][0].dtype == np.float32
    assert compiled(x, pair, 3)[0][0].tolist() == np.sort(x * 3).tolist()
    tensors = pb.compile(lambda a: (pb.sort(a), a.sum().item()))
    a = pb.tensor([2.0, 1.0])
    for _ in range(2):
        found, number = tensors(a)
        assert type(found) is pb.Tensor
        assert found.tolist() == [1.0, 2.0]
        assert number == 3.0
    assert _native(tensors)


def test_results_of_opaque_operators_are_the_callers():
    compiled = pb.compile(lambda x: (np.sort(x), np.cumsum(x)[-1]))
    x = np.array([2.0, 1.0])
    first, _ = compiled(x)
    second, _ = compiled(x)
    third, _ = compiled(x)
    second += 1.0
    assert (first.tolist(), second.tolist(), third.tolist()) == ([1, 2], [2, 3], [1, 2])
    assert least_traced_growth(lambda: compiled(x)) < 200


def test_guards_and_errors_of_whole_calls_with_opaque_operators():
    @pb.compile
    def f(a, b):
        if b.sum() > 0:
            return np.linalg.solve(a, b)
        return np.linalg.inv(a) @ b * 2

    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    for sign in (1, -1, 1, -1, 1):
        factor = 1 if sign > 0 else 2
        np.testing.assert_allclose(f(a, sign * b), factor * np.linalg.solve(a, sign * b))
    assert _native(f)
    assert f.stats["traces"] == 2
    before = np.geterr()
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((2, 2)), b)
    assert np.geterr() == before
    np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b))


def test_threads_with_opaque_operators():
    compiled = pb.compile(lambda x: np.cumsum(np.sort(x * 2.0)) + x)
    given = [rng.normal(size=50) for _ in range(4)]
    expected = [np.cumsum(np.sort(x * 2.0)) + x for x in given]
    compiled(given[0])
    wrong = []

    def run(number):
        for _ in range(300):
            if not np.allclose(compiled(given[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_equal_segments_share_their_code():
    def f(x):
        for _ in range(12):
            x = np.linalg.inv(np.sin(x) + 2.0 * np.eye(3))
        return x.sum()

    compiled = pb.compile(f)
    x = rng.normal(size=(3, 3))
    compiled(x)
    assert compiled(x) == pytest.approx(f(x), rel=1e-12)
    assert compiled.explain(x).count("13 segment(s)") == 1
    assert compiled.llvm_ir(x).count("define void @") <= 4
