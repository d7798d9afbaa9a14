"""Large arrays are computed by several threads, with the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback.kernels import threads
from pullback.operators.products.kernels import matmul


@pytest.fixture
def four_threads():
    before = pb.get_num_threads()
    pb.set_num_threads(4)
    yield
    pb.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_a_large_array_gives_what_numpy_gives(dtype, order):
    x = np.asarray(np.random.default_rng(0).normal(size=(300, 257)), dtype, order=order)
    found = threads.spread(np.tanh, x)
    assert found.dtype == x.dtype
    assert found.strides == x.strides
    np.testing.assert_array_equal(found, np.tanh(x))


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("function", [pb.add, pb.multiply, pb.less, pb.divmod, pb.hypot])
def test_huge_arrays_are_combined_as_numpy_does(function):
    a, b = np.random.default_rng(0).uniform(1, 2, size=(2, 700, 800))
    numpys = getattr(np, function.__name__)
    for x, y in ((a, b), (a.T, b.T), (a, b[::-1]), (a, b.astype("f4")), (a, np.asfortranarray(b))):
        found, expected = function(pb.tensor(x), pb.tensor(y)), numpys(x, y)
        if not isinstance(expected, tuple):
            found, expected = (found,), (expected,)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other, strict=True)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors cannot be chosen")
def test_a_process_on_one_processor_has_one_thread():
    code = (
        "import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1]); "
        "import pullback as pb; print(pb.get_num_threads())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"


@pytest.mark.usefixtures("four_threads")
def test_gradients_of_large_tensors():
    values = np.linspace(-2, 2, 3 * threads.MIN_THREADED_HEAVY_SIZE)
    x = pb.tensor(values, requires_grad=True)
    pb.exp(pb.tanh(x)).sum().backward()
    expected = np.exp(np.tanh(values)) * (1 - np.tanh(values) ** 2)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.usefixtures("four_threads")
def test_the_callers_error_state_holds_in_every_thread():
    x = np.full(4 * threads.MIN_THREADED_HEAVY_SIZE, -1.0)
    with np.errstate(invalid="ignore"):
        assert np.isnan(threads.spread(np.log, x)).all()
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        threads.spread(np.log, x)
    last = np.ones(4 * threads.MIN_THREADED_HEAVY_SIZE)
    last[-1] = -1.0
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        threads.spread(np.log, last)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_bad_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match="set_num_threads"):
        pb.set_num_threads(count)


def test_an_error_in_any_part_is_raised_and_the_threads_work_on():
    def run(low, high):
        if low <= broken < high:
            raise KeyError(broken)
        seen.extend(range(low, high))

    for broken in range(4):
        seen = []
        with pytest.raises(KeyError, match=str(broken)):
            threads.share(run, 4, 4)
        assert sorted([*seen, broken]) == [0, 1, 2, 3]
    broken, seen = -1, []
    threads.share(run, 4, 4)
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.usefixtures("four_threads")
def test_many_callers_share_at_a_time():
    def call(seed):
        x = np.random.default_rng(seed).normal(size=3 * threads.MIN_THREADED_HEAVY_SIZE)
        return (threads.spread(np.exp, x) == np.exp(x)).all()

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(60)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    x = np.linspace(0, 1, 4 * threads.MIN_THREADED_HEAVY_SIZE)
    threads.spread(np.exp, x)
    child = os.fork()
    if not child:
        os._exit(0 if (threads.spread(np.exp, x) == np.exp(x)).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((25, 10, 10), (25, 10, 900)),
        ((25, 10, 900), (25, 900, 10)),
        ((3000, 3, 3), (3000, 3, 3)),
        ((60, 2, 30, 40), (60, 1, 40, 50)),
        ((40, 30, 50), (50, 7)),
        ((70, 30, 50), (50,)),
        ((40, 80, 90), (40, 90, 70)),
        ((30, 100), (20, 100, 50)),
    ],
)
def test_stacks_of_matrices_are_shared(a_shape, b_shape):
    rng = np.random.default_rng(0)
    for dtype in ("f8", "f4", "c16", "i8"):
        a, b = (rng.integers(9, size=shape).astype(dtype) for shape in (a_shape, b_shape))
        for x in (a, a.swapaxes(-1, -2).copy().swapaxes(-1, -2)):
            np.testing.assert_array_equal(matmul(x, b), x @ b, strict=True)


@pytest.mark.parametrize(
    "shapes", [((99, 9, 9), (99, 8, 9)), ((99, 9, 9), (98, 9, 9)), ((99, 9, 9), (8, 9))]
)
def test_stacks_that_do_not_match_are_refused(shapes):
    with pytest.raises(ValueError, match="matmul: shapes"):
        matmul(*map(np.ones, shapes))


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("inner", [0, 1, 3])
def test_a_large_product_with_a_matrix_of_few_rows_or_none(inner):
    rng = np.random.default_rng(0)
    many, one = rng.normal(size=(600, 10, inner)), rng.normal(size=(inner, 100))
    found = pb.func.vmap(lambda a: a @ pb.tensor(one))(pb.tensor(many))
    np.testing.assert_allclose(found.numpy(), many @ one, atol=1e-12)
