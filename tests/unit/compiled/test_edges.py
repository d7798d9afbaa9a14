"""Compiled functions at their edges: Python numbers, shared memory, errors of other paths."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback.utils import pytree

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

X = np.array([0.3, -0.2, 0.9])
BACKENDS = ["llvm", "eager"]


def outcome(function, *args):
    """The result as an array, or the error."""
    try:
        found = function(*args)
    except Exception as error:
        return type(error), str(error)
    array = np.asarray(found)
    return array.dtype, array.shape, array.tobytes()


NUMBERS = {
    "power": lambda x, n: x * n**20,
    "root": lambda x, n: pb.abs(x * n ** (1 / 3)),
    "negative power": lambda x, n: x * 2**n,
    "division": lambda x, n: x * (7 / n),
    "floor": lambda x, n: x * (7 // n),
    "remainder": lambda x, n: x * (7 % n),
    "text": lambda x, n: x * len(str(n)),
    "format": lambda x, n: x * len(f"{n:.1f}"),
    "class": lambda x, n: x * (2 if isinstance(n, int) else 3 if isinstance(n, float) else 4),
    "checked": lambda x, n: x * n if isinstance(n, float | int) else None,
    "shape": lambda x, n: x.sum() * pb.zeros(6).reshape(n, -1),
    "axis": lambda x, n: pb.stack([x, x]).sum(n % 2),
    "shift": lambda x, n: pb.roll(x, int(n)),
    "whole part": lambda x, n: x * math.trunc(n),
    "quotient and remainder": lambda x, n: x * divmod(n, 3)[0] + divmod(7, n)[1],
    "bits": lambda x, n: x * (n & 6 | 1) + (5 ^ n) + ~n,
    "parts": lambda x, n: x * n.real + n.imag + n.conjugate(),
    "method": lambda x, n: x * n.is_integer() if isinstance(n, float) else x * n.bit_length(),
    "sign of zero": lambda x, n: x * math.copysign(1.0, n),
    "assignment": lambda x, n: pb.concatenate([x[:1] * 0, pb.full((2,), n)]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_pythons(name, backend):
    function = NUMBERS[name]
    for dtype in ("f8", "i1"):
        compiled = pb.compile(function, backend=backend)
        x = pb.asarray(np.array([1, 2, -3], dtype))
        for n in (3, 2, -2, 0, 3, 2**63, 2.5, -2.25, 0.0, -0.0, 2.5):
            if not (name == "negative power" and n == 2**63):  # would take all memory
                assert outcome(compiled, x, n) == outcome(function, x, n), (dtype, n)


def test_integers_that_do_not_fit_raise():
    compiled = pb.compile(lambda x, n: x + n)
    x = np.array([1, 2], np.int8)
    assert compiled(x, 3).tolist() == compiled(x, 3).tolist() == [4, 5]
    with pytest.raises(OverflowError, match="300 out of bounds for int8"):
        compiled(x, 300)
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        compiled(x.astype(np.uint8), -1)


def fill(x, n):
    x[0] = n
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_an_array_of_integers_cannot_hold(backend):
    compiled = pb.compile(fill, backend=backend)
    for n in (1.5, -2.5, math.inf, math.nan, 1e9, 3.0):
        ours, theirs = (pb.asarray(np.zeros(2, np.int8)) for _ in range(2))
        assert outcome(compiled, ours, n)[0] == outcome(fill, theirs, n)[0]
        assert ours.tolist() == theirs.tolist()


# --- memory that arguments share ------------------------------------------------------------------


def apart():
    return [np.arange(1.0, 5.0), np.arange(1.0, 5.0)]


def same():
    return [np.arange(1.0, 5.0)] * 2


def shifted():
    whole = np.arange(1.0, 6.0)
    return [whole[:4], whole[1:]]


def reversed_():
    whole = np.arange(1.0, 5.0)
    return [whole, whole[::-1]]


def halves():
    whole = np.arange(1.0, 9.0)
    return [whole[:4], whole[4:]]


def double(x, y):
    x.mul_(2)
    return x + y


def shift(x, y):
    x[1:] = y[:-1]
    return x.sum() + y.sum()


def both(x, y):
    y.add_(x)
    x.add_(y)
    return x * 1.0 + y


def through_a_view(x, y):
    part = x[::2]
    part += 1
    return part.sum() + y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [double, shift, both, through_a_view])
@pytest.mark.parametrize("first", [apart, same])
def test_arguments_that_share_memory(function, first, backend):
    compiled = pb.compile(function, backend=backend)
    for make in (first, apart, same, shifted, reversed_, halves, apart, same):
        ours, theirs = make(), make()
        found = outcome(compiled, *map(pb.asarray, ours))
        assert found == outcome(function, *map(pb.asarray, theirs)), make
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_that_shares_memory_with_a_captured_array(backend):
    captured = pb.ones(3)
    compiled = pb.compile(lambda x: x.mul_(2) + captured, backend=backend)
    for _ in range(3):
        captured.fill_(1.0)
        assert compiled(pb.ones(3)).tolist() == [3.0, 3.0, 3.0]
        assert compiled(captured).tolist() == [4.0, 4.0, 4.0]
        assert captured.tolist() == [2.0, 2.0, 2.0]


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operator_of_another_path_does_not_raise(backend):
    def inverse(x):
        return x * 0 if pb.linalg.det(x) == 0 else pb.linalg.inv(x)

    compiled = pb.compile(inverse, backend=backend)
    for x in (np.eye(2), np.ones((2, 2)), 2 * np.eye(2), np.zeros((2, 2))):
        assert outcome(compiled, x) == outcome(lambda x: inverse(pb.asarray(x)).numpy(), x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_of_operators_are_those_of_the_function(backend):
    compiled = pb.compile(lambda x: pb.linalg.inv(x), backend=backend)
    compiled(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match=r"linalg.inv: Singular matrix \(shape"):
        compiled(np.ones((2, 2)))
    assert compiled(np.eye(2)).tolist() == np.eye(2).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_before_an_error_is_done_once(backend):
    def f(x):
        x.mul_(2)
        return pb.linalg.inv(x)

    compiled = pb.compile(f, backend=backend)
    compiled(pb.eye(2))
    x = pb.ones((2, 2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        compiled(x)
    assert x.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_random_operators_draw_twice(backend):
    def f(x, g):
        first = pb.nn.functional.dropout(x, 0.5, generator=g)
        return first + 10 * pb.nn.functional.dropout(x, 0.5, generator=g)

    compiled = pb.compile(f, backend=backend)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(3):
        assert compiled(pb.ones(10), ours).tolist() == f(pb.ones(10), theirs).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_of_a_run_without_results_are_given_back(backend):
    def f(x, g):
        noise = pb.nn.functional.dropout(x, 0.5, generator=g)
        return noise if noise.sum() > 10 else -noise

    compiled = pb.compile(f, backend=backend)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    x = pb.ones(10)
    for _ in range(12):
        assert compiled(x, ours).tolist() == f(x, theirs).tolist()


@pytest.mark.filterwarnings("ignore:compile. .* has taken 8 different values")
def test_the_kind_of_results_does_not_depend_on_whether_a_program_runs():
    function = pb.compile(lambda x: (pb.nonzero(x)[0] * 2, pb.sum(x)), backend="eager")
    for count in range(10):
        values = 1.0 * (np.arange(10) < count)
        indices, total = function(values)
        assert type(indices) is np.ndarray
        assert type(total) is np.float64
        assert indices.tolist() == (2 * np.nonzero(values)[0]).tolist()
    assert function.stats["eager"] == 2


def test_results_of_a_function_that_is_called_itself_keep_their_derivatives():
    @pb.compile
    def changing(index):
        return pb.asarray(np.arange(float(index[0]))) * w.sum()

    w = pb.asarray([1.0, 2.0])
    for n in range(8):
        changing(np.array([n]))
    with pytest.warns(UserWarning, match="called as it is"):
        changing(np.array([8]))

    def total(v):
        nonlocal w
        w = v
        return pb.sum(changing(np.array([4])))

    assert pb.grad(total)(np.ones(2)).tolist() == [6.0, 6.0]
    batched = pb.func.vmap(total)(pb.ones((3, 2)))
    assert batched.tolist() == [12.0, 12.0, 12.0]
    with pytest.warns(UserWarning, match="a captured tensor has a tangent"):
        _, tangent = pb.func.jvp(total, (pb.ones(2),), (pb.ones(2),))
    assert tangent.item() == 12.0


# --- x[i] with an integer tensor: a view outside of a trace, a copy in its graph ------------------


def write_row(x, i):
    y = x * 2
    row = y[i]
    row += 1
    return y


def write_element(x, i):
    y = x * 2
    y[i][1] = 7.0
    return y


def write_nested(x, i):
    y = x * 2
    y[i][i] += 7.0
    return y


def write_whole_row(x, i):
    y = x * 2
    row = y[i]
    row[:] = x[0] * 3
    return y


def write_out(x, i):
    y = x.detach() * 2
    np.add(y[i], 1.0, out=y[i])
    return y * x


def write_in_vmap(x, i):
    def one(row):
        y = row * 2
        element = y[i]
        element += 1
        return y

    return pb.func.vmap(one)(x)


def read_after_write(x, i):
    y = x * 2
    row = y[i]
    y[i] = y[i] * 2
    return y + row


def return_after_write(x, i):
    y = x * 2
    row = y[i]
    y *= 2
    return row


def capture_after_write(x, i):
    y = x * 2
    row = y[i]
    y[1] = 5.0
    return pb.fori_loop(0, 2, lambda _, c: c + row, x[0])


VIEWS = [
    write_row,
    write_element,
    write_nested,
    write_whole_row,
    write_out,
    write_in_vmap,
    read_after_write,
    return_after_write,
    capture_after_write,
    lambda x, i: write_row(x, pb.argmax(x[:, 0])) * i,
]


def same_as_eager(function, *args):
    """Compares values and gradients of a compiled function, twice."""
    compiled = pb.compile(function, cache=False)

    def gradient(f, x, *rest):
        return pb.grad(lambda x: pb.sum(f(x, *rest) ** 2))(x)

    for _ in range(2):
        assert compiled(*args).tolist() == function(*args).tolist()
        assert gradient(compiled, *args).tolist() == gradient(function, *args).tolist()


@pytest.mark.filterwarnings("ignore:.*called as it is")
@pytest.mark.parametrize("function", VIEWS)
def test_what_an_integer_tensor_picks_is_a_view(function):
    x = pb.asarray([[1.0, 2.0], [3.0, 4.0]])
    same_as_eager(function, x, pb.asarray(1))


@pytest.mark.filterwarnings("ignore:.*called as it is")
def test_a_row_of_an_argument_is_written():
    def double(x, i):
        row = x[i]
        row *= 2

    x, compiled = pb.ones((2, 2)), pb.compile(double)
    compiled(x, pb.asarray(1))
    compiled(x, pb.asarray(1))
    assert x.tolist() == [[1.0, 1.0], [4.0, 4.0]]


def add_to_rows(x, i):
    y = x * 2
    y[i] = y[i] + 1
    y[i] += x[0]
    return y * y[i]


def add_to_elements(x, i):
    y = x * 2
    y[:, i] = 3.0
    y[:, i] *= 2
    y[i, i] += 2
    y[0, i] += 2
    y[1:, i] -= x[1:, 0]
    return y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [add_to_rows, add_to_elements])
def test_writes_at_an_integer_tensor_are_compiled(function):
    x = pb.asarray([[1.0, 2.0], [3.0, 4.0]])
    same_as_eager(function, x, pb.asarray(1))
    compiled = pb.compile(function)
    for _ in range(2):
        compiled(x, pb.asarray(1))
    assert not compiled.stats["eager"]


def test_elements_are_copies_in_numpy_mode():
    @pb.compile
    def swap(x, i, j):
        with pb.numpy_mode():
            x = x.copy()
            x[i], x[j] = x[j], x[i]
            return x

    for _ in range(2):
        found = swap(pb.asarray([1.0, 2.0, 3.0]), pb.asarray(0), pb.asarray(2))
        assert found.tolist() == [3.0, 2.0, 1.0]
    assert not swap.stats["eager"]


@pytest.mark.filterwarnings("ignore:.*called as it is")
def test_loops_write_through_what_an_integer_tensor_picks():
    def element(i, y):
        y = y.clone()
        y[i][1] = 7.0
        return y

    def row(y, i):
        y = y.clone()
        y[i].mul_(2)
        return y, None

    x = pb.asarray([[1.0, 2.0], [3.0, 4.0]])
    same_as_eager(lambda x: pb.fori_loop(0, 2, element, x), x)
    same_as_eager(lambda x: pb.scan(row, x, pb.arange(2))[0], x)


def _write_by_view(x, i):
    y = x.copy()
    row = y[i]
    row += 2.0
    return y


def _write_elements(x, i):
    y = x.copy()
    y[i] += 2.0
    old = y[i, 0]
    y[i, 0], y[0, i] = y[0, i], y[i, 0]
    return y * 1.0, old


INDEXED = {
    "read": lambda x, i: x[i, 1:] * x[0, i] + x[..., i].sum() + x[None, i, :, None],
    "arithmetic": lambda x, i: x[(i + 1) % 3] - x[-i - 1],
    "lists": lambda x, i: x[[0, 1], i] + x[i, [1, 2]],
    "write": _write_elements,
    "loop": lambda x, i: pb.scan(lambda total, row: (total + row[i], total), 0.0, x)[0] * 1.0,
    "gradient": pb.grad(lambda x, i: (x[i] ** 2 * x[0]).sum()),
}


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", INDEXED)
def test_integers_that_index_are_those_of_each_call(name, backend):
    compiled = pb.compile(INDEXED[name], backend=backend, fullgraph=True)
    x = np.random.default_rng(0).normal(size=(3, 3))
    for i in (0, 1, 2, -1, -2, -3):
        for found, wanted in zip(
            pytree.leaves(compiled(x, i)), pytree.leaves(INDEXED[name](x, i)), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-15)
    assert compiled.stats["traces"] == 1
    for i in (3, -4) if name != "arithmetic" else (3,):
        with pytest.raises(IndexError):
            compiled(x, i)


def test_an_indexed_view_that_is_written_makes_the_integer_a_guard():
    compiled = pb.compile(_write_by_view)
    x = np.arange(9.0).reshape(3, 3)
    for i in (0, 1, 2, 1):
        np.testing.assert_array_equal(compiled(x, i), _write_by_view(x, i))
    assert compiled.stats["traces"] == 3


@pytest.mark.parametrize("axis", [0, 1, None])
def test_take_uses_the_integer_of_each_call(axis):
    x = np.arange(12.0).reshape(4, 3)
    take = pb.compile(lambda x, n: np.take(x, n, axis=axis))
    for n in (1, 2, 0, -1):
        np.testing.assert_array_equal(take(x, n), np.take(x, n, axis=axis))
    assert take.stats["traces"] == 1
    with pytest.raises(IndexError):
        take(x, 12)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[::2],
        lambda x: x.T,
        lambda x: x.reshape(3, 2),
        lambda x: x.ravel(),
        lambda x: x.real,
        lambda x: np.asarray(x),
        lambda x: np.atleast_1d(x),
    ],
)
def test_views_of_arrays_are_arrays(view, backend):
    compiled = pb.compile(lambda x: [view(x), view(x), x + 1], backend=backend)
    for shape in ((6,), (2, 3)):
        for _ in range(3):
            x = np.arange(6.0).reshape(shape)
            for found in compiled(x)[:2]:
                assert type(found) is np.ndarray
                np.testing.assert_array_equal(found, view(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_inside_vmap_have_no_dtype(backend):
    def run(x, t):
        def each(row):
            return row * t + pb.sum(row) * t, pb.where(row > t, row, t), pb.clip(row, t, 2.0)

        return pb.func.vmap(each)(x)

    x = pb.asarray(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    compiled = pb.compile(run, backend=backend)
    for t in (0.5, 0.25, 0.125):
        for found, expected in zip(compiled(x, t), run(x, t), strict=True):
            assert found.dtype == expected.dtype == np.float32
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_moved_elements_of_equal_numbers_are_equal_numbers(backend):
    def run(x):
        zeros = pb.imag(x)
        wide = pb.kron(zeros, zeros)
        return pb.take_along_axis(zeros, pb.argsort(zeros, axis=-1), axis=-1), wide, pb.sort(wide)

    x = pb.ones((7, 3))
    compiled = pb.compile(run, backend=backend)
    for _ in range(2):
        for found, expected in zip(compiled(x), run(x), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert "internal error" not in compiled.report()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function", [lambda x, n: x[:n], lambda x, n: (x[n:, None], x[::n]), lambda x, n: x[-n:].sum()]
)
def test_views_of_a_number_of_elements_are_results(function, backend):
    compiled = pb.compile(function, backend=backend)
    for x in (X, pb.asarray(X)):
        for n in (2, 1, 2, 2):
            found, expected = pytree.leaves(compiled(x, n)), pytree.leaves(function(x, n))
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
                assert np.shares_memory(ours, X) == np.shares_memory(theirs, X)
