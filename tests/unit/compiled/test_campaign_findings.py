"""Programs that a campaign of random programs has found: each had raised, or was wrong."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.utils import pytree

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")


def assert_compiled(function, *args):
    expected = function(*args)
    compiled = pb.compile(function, backend="llvm")
    for _ in range(2):
        np.testing.assert_allclose(compiled(*args).numpy(), expected.numpy(), rtol=1e-13)


def test_stack_of_long_rows_from_a_loop():
    x = pb.asarray(np.linspace(-1, 1, 29))
    assert_compiled(lambda x: pb.stack([pb.sin(x * (0.3 * i + 1)) for i in range(9)]) * 0.7, x)


def test_write_of_a_number_to_complex_memory():
    def function(x):
        y = x * 1.0
        y.fill_diagonal_(0.5)
        return y

    assert_compiled(function, pb.asarray(np.array([[0.1 + 1j]])))


def test_real_part_of_a_captured_array_that_is_real():
    w = pb.asarray(np.array(0.1))
    assert_compiled(lambda x: (pb.real(w) - pb.imag(w * 1j)) * x, pb.asarray(np.array(0.1 + 1j)))


def test_an_error_of_the_code_generator_does_not_end_the_program(monkeypatch):
    def fail(*_):
        raise KeyError("planted")

    monkeypatch.setattr("pullback.compiled.function.native_code.compile_native", fail)
    function = pb.compile(lambda x: x * 2, backend="llvm")
    x = np.ones(2)
    with pytest.warns(UserWarning, match=r"internal error .* KeyError: 'planted'.* please report"):
        assert function(x).tolist() == [2.0, 2.0]
    assert function(x).tolist() == [2.0, 2.0]
    assert "internal error of the code generator" in function.explain(x)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_arrays_that_numpy_has_made_are_new_in_each_call(backend):
    captured = np.arange(4.0)
    compiled = pb.compile(lambda x: (np.linspace(0, 1, 3), captured, x + 1), backend=backend)
    for x in (np.ones(2), np.ones(2), pb.ones(2), pb.ones(2)):
        made, same, _ = compiled(x)
        assert made.tolist() == [0.0, 0.5, 1.0]
        assert same is captured
        made[...] = 7.0


def test_a_write_to_a_result_does_not_change_a_constant_of_the_graph():
    def function(x):
        made = np.arange(3.0)
        return made, made * x

    compiled = pb.compile(function, backend="llvm")
    for _ in range(3):
        made, product = compiled(np.ones(3))
        assert product.tolist() == [0.0, 1.0, 2.0]
        made[...] = 7.0


def test_arrays_filled_with_values_of_arguments_are_new_in_each_call():
    def function(x):
        filled = np.zeros(3)
        filled[1:] = x[1:]
        return filled

    compiled = pb.compile(function, backend="llvm")
    for _ in range(3):
        found = compiled(np.arange(3.0))
        assert found.tolist() == [0.0, 1.0, 2.0]
        found[...] = 7.0


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_of_a_vector(name):
    assert_compiled(lambda x: getattr(pb, name)(x, 1) * 2, pb.asarray(np.arange(1.0, 4.0)))


def test_half_precision_between_segments():
    x = np.arange(4, dtype=np.int8)  # its sine is float16 in NumPy
    compiled = pb.compile(lambda x: np.sin(x).reshape(2, 2).astype(complex).sum(0), backend="llvm")
    for _ in range(2):
        found = compiled(x)
        assert found.dtype == np.complex128
        np.testing.assert_array_equal(found, np.sin(x).reshape(2, 2).astype(complex).sum(0))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float32"])
def test_numpys_functions_of_integers_have_numpys_dtypes(dtype):
    x = np.array([0, 1, 0], dtype)

    def function(x):
        return (
            np.fabs(x),
            np.heaviside(x, x),
            np.heaviside(x, 0.5),
            np.sum(x, 0, "int8", initial=1.5),
        )

    for found, expected in zip(pb.compile(function)(x), function(x), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert np.asarray(found).dtype == expected.dtype or not expected.ndim


def assert_same_with_arrays(function, *args, backend="llvm"):
    """Compares results and arguments after the call with those of NumPy, in three calls."""
    compiled = pb.compile(function, backend=backend)
    for _ in range(3):
        expected_args, found_args = ([np.array(arg) for arg in args] for _ in range(2))
        expected, found = function(*expected_args), compiled(*found_args)
        pairs = zip(np.atleast_1d(expected), np.atleast_1d(found), strict=True)
        for theirs, ours in (*pairs, *zip(expected_args, found_args, strict=True)):
            np.testing.assert_array_equal(ours, theirs)
    assert compiled.stats["eager"] == 0


def swap_elements(x):
    x[0], x[1] = x[1], x[0]
    first, *_ = x
    x[0] = x[2]
    return first, x[0]


def keep_the_old_sum(x):
    total = np.sum(x)
    before = total
    total += x[0]
    return before, total


def write_to_an_array_without_axes(x):
    x += 1.0
    x *= 2.0
    return x * 1.0


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_elements_of_arrays_are_numbers(backend):
    x = np.arange(1.0, 4.0)
    assert_same_with_arrays(swap_elements, x, backend=backend)
    assert_same_with_arrays(keep_the_old_sum, x, backend=backend)
    assert_same_with_arrays(write_to_an_array_without_axes, np.array(3.0), backend=backend)


def test_elements_of_tensors_are_views():
    def function(x):
        y = x * 1.0
        y[0], y[1] = y[1], y[0]
        return y

    x = pb.asarray([1.0, 2.0])
    assert function(x).tolist() == [2.0, 2.0]
    compiled = pb.compile(function)
    assert [compiled(x).tolist() for _ in range(2)] == [[2.0, 2.0]] * 2


def keep_the_old_values(x):
    before = x.copy()
    x *= 2.0
    return before.sum(), x.sum()


def return_the_old_values(x):
    before = +x
    x[1] = 7.0
    return before


def swap_arguments(x, y):
    before = x.copy()
    x[:] = y
    y[:] = before
    return x.sum(), y.sum()


def test_copies_of_arguments_that_are_written_to():
    x = np.arange(1.0, 4.0)
    assert_same_with_arrays(keep_the_old_values, x)
    assert_same_with_arrays(return_the_old_values, x)
    assert_same_with_arrays(swap_arguments, x, 5.0 * x)


def test_arrays_of_another_layout_are_traced_again():
    """Views of a broadcast array are right for such arrays alone."""
    compiled = pb.compile(lambda x: np.broadcast_to(x, (2, 2, 2)) + 0.0, backend="llvm")
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for given in (np.broadcast_to(x[:1], (2, 2)), x, x.T, x):
        np.testing.assert_array_equal(compiled(given), np.broadcast_to(given, (2, 2, 2)))


def fill_zeros(x):
    x = np.asarray(x)
    filled = np.zeros((3, 2))
    filled[:, 0] = x
    for i in range(3):
        filled[i, 1] = x[i] * i
    return filled


def write_to_linspace(x):
    grid = np.linspace(0.0, 1.0, 3)
    grid += x
    return grid


def write_through_asarray(x):
    same = np.asarray(x)
    same *= 2.0
    return np.array([same[0], x.sum(), 1.0])


def read_edges(x):
    _, edges = np.histogram([1.0, 2.0, 4.0], bins=3)
    edges[0] = x[0]
    return edges


@pytest.mark.parametrize(
    "function", [fill_zeros, write_to_linspace, write_through_asarray, read_edges]
)
def test_arrays_that_numpy_makes_are_part_of_the_graph(function):
    compiled = pb.compile(function, backend="llvm")
    for x in (np.arange(3.0), np.ones(3), np.full(3, 0.5), np.arange(3.0)):
        expected_arg, found_arg = x.copy(), x.copy()
        found = compiled(found_arg)
        np.testing.assert_array_equal(found, function(expected_arg))
        np.testing.assert_array_equal(found_arg, expected_arg)
        found[...] = 7.0
    assert compiled.stats == {"traces": 1, "hits": 3, "eager": 0, "changes": 0}


def test_arrays_of_captured_ones_stay_arrays():
    captured = np.arange(3.0)

    def function(x):
        same = np.asarray(captured)
        return same * x, np.asarray(captured * 2.0)

    compiled = pb.compile(function, backend="llvm")
    for _ in range(3):
        product, twice = compiled(np.ones(3))
        assert product.tolist() == [0.0, 1.0, 2.0]
        assert twice.tolist() == [0.0, 2.0, 4.0]
        product[...] = twice[...] = 7.0


def test_gradients_of_writes_to_what_numpy_returns_as_a_view():
    def function(x):
        grid = np.linspace(0.0, 1.0, 3)
        grid += x
        return (grid**2).sum()

    x = np.arange(3.0)
    expected = 2.0 * (np.linspace(0.0, 1.0, 3) + x)
    for differentiated in (pb.grad(function), pb.compile(pb.grad(function))):
        for _ in range(2):
            np.testing.assert_allclose(differentiated(x), expected, rtol=1e-15)


def test_captured_arrays_that_both_numpy_and_the_graph_read():
    w = np.arange(1.0, 4.0)

    def function(x):
        return np.sin(w) * x + w, w.sum() * x

    compiled = pb.compile(function, backend="llvm")
    for step in range(6):
        w[...] = np.arange(1.0, 4.0) * (1 + step // 2)
        for found, expected in zip(compiled(np.ones(3)), function(np.ones(3)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert compiled.stats == {"traces": 2, "hits": 4, "eager": 0, "changes": 1}


def test_captured_arrays_that_the_graph_alone_reads_are_traced_once():
    w = np.arange(1.0, 4.0)
    compiled = pb.compile(lambda x: x * w - np.array([1.0, 2.0, 3.0]), backend="llvm")
    for step in range(12):
        w[...] = np.arange(1.0, 4.0) + step
        np.testing.assert_array_equal(compiled(np.ones(3)), w - [1.0, 2.0, 3.0])
    assert compiled.stats == {"traces": 1, "hits": 11, "eager": 0, "changes": 0}


def write_to_parts(x):
    x.real[...] = 2.0
    y = x * 1.0
    y.imag[0] += 1.0
    return y


def test_writes_to_real_and_imaginary_parts():
    for x in (np.array([1.0 + 2.0j, 3.0j]), pb.asarray(np.array([1.0 + 2.0j, 3.0j]))):
        compiled = pb.compile(write_to_parts, backend="llvm")
        for _ in range(3):
            given = x.copy() if isinstance(x, np.ndarray) else x.clone()
            assert compiled(given).tolist() == [2.0 + 3.0j, 2.0 + 3.0j]
            assert given.tolist() == [2.0 + 2.0j, 2.0 + 3.0j]


def write_to_the_array(x):
    np.asarray(x)[0] = 5.0
    return x * 1.0


def read_the_array_after_a_write(x):
    same = x.numpy()
    x *= 2.0
    return pb.asarray(same.copy())


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("function", [write_to_the_array, read_the_array_after_a_write])
def test_arrays_that_share_the_memory_of_a_tensor(function):
    compiled = pb.compile(function, backend="llvm")
    for _ in range(3):
        x, y = pb.arange(3.0), pb.arange(3.0)
        assert compiled(x).tolist() == function(y).tolist()
        assert x.tolist() == y.tolist()


def test_gradient_of_unsigned_integers():
    x = np.array([3, 1, 7], np.uint8)
    assert pb.gradient(pb.asarray(x)).tolist() == np.gradient(x).tolist()
    assert pb.compile(np.gradient)(x).tolist() == np.gradient(x).tolist()


def _written_copy(x):
    y = x.copy()
    y.reshape(-1)[0] = 9
    return y


def _clipped_in_place(x):
    y = np.clip(x, None, None)
    y.clip(0, 2, out=y)
    return y, x * 1


BYTES = np.array([-128, 100, 127, 5], "int8")
LONG = np.array([2**62, 2**62 + 5, 2**61, 7])
FUNCTIONS_OF_SMALL_NUMBERS = [
    (_written_copy, np.asfortranarray(np.arange(6.0).reshape(2, 3))),
    (lambda x: _written_copy(np.flip(x, 0)), np.asfortranarray(np.ones((2, 3)))),
    (_clipped_in_place, np.array([-1.0, 1.0, 3.0])),
    (lambda x: np.mean(x, where=x > 9), LONG),
    (np.nanmean, LONG.astype("uint64") * 2),
    (np.nanstd, LONG.astype("uint64") * 2),
    (lambda x: np.var(x, where=x > 0, ddof=1), BYTES),
    (lambda x: np.var(x, where=x > 0, ddof=1), np.array([3.0])),
    (lambda x: np.average(x, weights=x), BYTES[1:]),
    (lambda x: np.trace(np.outer(x, x) * 0 + 100), BYTES),
    (lambda x: np.trace(x.reshape(2, 2)), BYTES),
    (lambda x: np.trace(x.reshape(2, 2)), BYTES.view("uint8")),
    (lambda x: np.choose(x[0] > 0, [x[1], x[2]]), LONG),
    (lambda x: np.heaviside(-2.0, x), np.float32([1, 2])),
    (lambda x: np.asfortranarray(x[()]), np.array(1.0)),
    (lambda x: np.vander(x, 4), BYTES),
]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Degrees of freedom")
@pytest.mark.parametrize(("function", "x"), FUNCTIONS_OF_SMALL_NUMBERS)
def test_values_are_those_of_the_program_without_tensors(function, x):
    assert_same_values(function, x)


def assert_same_values(function, x):
    """Both calls of the compiled function against NumPy."""
    compiled = pb.compile(function, backend="llvm")
    for _ in range(2):
        found, expected = (f(x.copy("K")) for f in (compiled, function))
        pairs = (
            zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        )
        for ours, theirs in pairs:
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-15)


def test_quantiles_of_small_integers_of_which_differences_overflow():
    compiled = pb.compile(lambda x: np.quantile(x, [0.3, 0.9]))
    for _ in range(2):  # NumPy's own result has overflown
        np.testing.assert_allclose(compiled(BYTES), np.quantile(BYTES.astype(float), [0.3, 0.9]))


@pytest.mark.parametrize("shapes", [((0,), (1,)), ((0,), (3,)), ((2, 0), (2, 0)), ((3,), (4, 0))])
def test_loops_that_carry_values_without_elements(shapes):
    def function(a, rows):
        for i in range(30):
            a = a * 0.99 + rows[i % len(rows)].sum()
        return a, pb.scan(lambda c, x: (c * 0.5, (c, x)), a, rows)

    a, rows = (np.ones(s) for s in shapes)
    compiled = pb.compile(function, backend="llvm", fullgraph=True)
    for _ in range(2):
        found, expected = (pytree.leaves(f(a, rows)) for f in (compiled, function))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs)
    assert "internal error" not in compiled.explain(a, rows)


@pytest.mark.parametrize("number", [np.nan, np.inf, -3.0, complex(np.inf, 1), 2 - 1j])
def test_sums_of_equal_numbers(number):
    def function(x):
        empty, line = np.full((2, 0), number), np.full(3, number)
        return empty.sum() + 0 * x, empty.sum(1) * 1, np.copysign(1, empty.real.sum(0)), line.sum()

    assert_same_values(function, np.ones(()))


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_numbers_in_the_place_of_arrays(backend):
    def function(x):
        return np.outer(x, 2.0), np.append(x, 2.0), np.stack([x[0], 2.0]), np.tensordot(x, 2.0, 0)

    x = np.arange(3.0)
    compiled = pb.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        for ours, theirs in zip(compiled(x), function(x), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert "opaque: outer" in compiled.explain(x)


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_tangents_of_a_matrix_in_fortran_order(backend):
    x = pb.asarray(np.asfortranarray(np.linspace(-1, 1, 6).reshape(2, 3)))

    def loss(x):
        return (pb.sin(x) * x * x[0]).sum()

    for function in (pb.func.jacfwd(pb.func.jacrev(loss)), pb.func.jacfwd(lambda x: x)):
        expected = function(x).numpy()
        compiled = pb.compile(function, backend=backend, fullgraph=True)
        for _ in range(3):
            found = compiled(x)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
            found.add_(1.0)
