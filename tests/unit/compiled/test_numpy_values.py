"""Values, dtypes and shapes of NumPy's functions: in `numpy_mode`, and in both backends."""

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

F32 = np.array([0.5, -1.5, 2.0], np.float32)
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
BOOLS = np.array([True, False, True])
INTS = np.arange(3)
SMALL = np.arange(3, dtype=np.int16)
ZEROS = np.array([-0.0, 0.0, -1.0, 2.0, np.nan])


def square_of(function):
    """A function whose array is written to through what a function of it returns."""

    def program(*given):
        array = function(*given)
        array.ravel()[0] = 8
        array.T.ravel()[1] = 9
        return array

    return program


def write_to_conjugate(x, name):
    y = x * 1
    getattr(y, name)()[...] = 3
    return y


CASES = {
    "clip of small integers": (lambda x: np.clip(x, 0.5, np.float32(1.5)), SMALL),
    "clip keeps the sign of zero": (lambda x: np.clip(x, 0.0, 1.0), ZEROS),
    "clip at a negative zero": (lambda x: np.clip(x, -1, -0.0), ZEROS),
    "clip by arrays": (lambda x: np.clip(x, np.zeros(5), np.ones(5)), ZEROS),
    "clip below": (lambda x: x.clip(0.0), ZEROS),
    "clip by a number that does not fit": (lambda x: np.clip(x, -1, 2), SMALL.astype(np.uint8)),
    "clip by NaN": (lambda x, t: np.clip(x, t, 1.0), ZEROS, np.nan),
    "outer of a scalar": (lambda x, n: np.subtract.outer(x, n), np.uint64(3), 3),
    "outer of a number": (lambda x, t: np.hypot.outer(x, t), F32, 2.0),
    "real part of a number": (lambda x, t: x * np.real(t) + np.imag(t), F32, 2.5),
    "bincount of float32": (lambda x: np.bincount(INTS % 2, x), F32),
    "bincount of integers": (lambda n: np.bincount(INTS % 2, n), SMALL),
    "interp at equal last points": (lambda x, t: np.interp(x, t, x), INTS, np.minimum(INTS, 1)),
    "choose": (lambda i, x: np.choose(i, [x, 2]), INTS % 2, F32),
    "choose a number": (lambda i, x, n: np.choose(i, [x, n, n]), INTS, F32, 7),
    "choose by a method": (lambda i, x: i.choose([x, 2, 3.5]), INTS, SMALL),
    "choose of rows": (lambda i, x: np.choose(i, x), np.array([0, 1, 1]), MATRIX),
    "select": (lambda x: np.select([x > 1, x < 0], [x, 7], 2), F32),
    "select a number": (lambda x, t: np.select([x > 1], [t], np.float32(2)), F32, 1.5),
    "where of numbers": (lambda x, n: np.where(np.array(True), n, np.complex64(1j)), F32, 2),
    "square of truth values": (lambda b: b**2, BOOLS),
    "square of truth values, given": (lambda b, n: b**n, BOOLS, 2),
    "cube of truth values": (lambda b: b**3, BOOLS),
    "power of truth values": (lambda b: np.power(b, 2), BOOLS),
    "power of two": (lambda b: 2**b, BOOLS),
    "conj of truth values": (lambda b: b.conj(), BOOLS),
    "conjugate of truth values": (lambda b: b.conjugate(), BOOLS),
    "function conj of truth values": (lambda b: np.conj(b), BOOLS),
    "write to conj": (lambda x: write_to_conjugate(x, "conj"), F32),
    "write to conjugate": (lambda x: write_to_conjugate(x, "conjugate"), F32),
    "write to conj of complex numbers": (lambda x: write_to_conjugate(x, "conj"), F32 + 1j),
    "cov": (lambda x: np.cov(x), MATRIX),
    "cov of two": (lambda x: np.cov(x[0], x[1], ddof=0), MATRIX),
    "cov in float32": (lambda x: np.cov(x, dtype=np.float32), MATRIX),
    "corrcoef": (lambda x: np.corrcoef(x), MATRIX * MATRIX),
    "interp": (lambda x: np.interp(x, np.array([0, 1], np.float32), x[:2], right=3), F32),
    "interp of truth values": (lambda b: np.interp(0.5, [0, 1, 2], b), BOOLS),
    "vander": (lambda x: np.vander(x, 2), F32),
    "histogram": (lambda x: np.histogram(x, [0, 1, 3], weights=x)[0], SMALL),
    "append": (lambda x: np.append(x, 2.5), F32),
    "dot": (lambda x: np.dot(x, 0.1), F32),
    "dot of a given number": (lambda x, t: x.dot(t), F32, 0.1),
    "sum into float64": (lambda x: np.sum(x / 3, out=np.zeros(())), F32),
    "sum into int8": (lambda x: np.sum(x * 100, out=np.zeros((), np.int8)), SMALL.astype(np.int8)),
    "mean into float64": (lambda x: np.mean(x / 3, axis=0, out=np.zeros(3)), MATRIX),
    "cumsum into float64": (lambda x: np.cumsum(x / 3, out=np.zeros(3)), F32),
    "add.reduce into float64": (lambda x: np.add.reduce(x / 3, out=np.zeros(())), F32),
    "linspace of integers": (lambda x: np.linspace(x[0], x[1], 3, dtype=np.int8), F32),
    "setdiff1d": (lambda x, y: np.setdiff1d(x, y), F32, np.array([2.0])),
    "emath": (lambda x: np.emath.sqrt(x), F32.astype(np.float16)),
    "heaviside of truth values": (lambda b: np.heaviside(b, -3), BOOLS),
    "heaviside of a number": (lambda x, n: np.heaviside(n, x), F32, 0),
    "heaviside of small integers": (lambda x, t: np.heaviside(x, t), SMALL, 0.5),
    "unwrap infinities": (lambda x: np.unwrap(x), np.array([[0.0, 7.0], [np.inf, 1.0]])),
    "poly": (lambda x: np.poly(x), SMALL),
    "polymul": (lambda x: np.polymul(x, [0, 0, 1, 2]), SMALL),
    "product where": (lambda x, t: np.multiply(x, t, out=x * 1, where=x > 0), F32, 0.1),
    "power by an array": (lambda x: np.power(x, np.array([0.5] * 2)), np.array([-np.inf, -0.0])),
    "argmax of a number": (lambda x: np.argmax(x, axis=0), np.array(2.5)),
    "argmin of truth": (lambda x: np.argmin(x, axis=-1, keepdims=True), np.array(True)),
    "cumsum of a number": (lambda x: np.cumsum(x, axis=0), np.array(2.5)),
    "cumsum of no numbers": (lambda x: np.cumsum(x, axis=0), np.zeros((0, 2))),
    "running maximum of a number": (lambda x: np.maximum.accumulate(x[None]), np.array(2.5)),
    "any of a new number": (lambda x: np.any(np.zeros_like(x[0, 0]), axis=-1), MATRIX),
    "all of new numbers": (lambda x: np.all(np.zeros_like(x), axis=(0, 1)), MATRIX),
    "zeros_like of columns": (square_of(lambda x: np.zeros_like(x.T)), MATRIX),
    "ones_like of columns": (square_of(lambda x: np.ones_like(x.T)), MATRIX),
    "full_like of columns": (square_of(lambda x: np.full_like(x.T, 2)), MATRIX),
    "zeros_like of repeated rows": (
        square_of(lambda x: np.zeros_like(np.broadcast_to(x[0], (2, 3)))),
        MATRIX,
    ),
    "zeros_like in C order": (square_of(lambda x: np.zeros_like(x.T, order="C")), MATRIX),
    "array in Fortran order": (square_of(lambda x: np.array(x, order="F")), MATRIX),
    "array in C order": (square_of(lambda x: np.array(x.T, order="C")), MATRIX),
    "copy in C order": (square_of(lambda x: np.copy(x.T, order="C")), MATRIX),
}


def in_mode(function):
    def call(*given):
        with pb.numpy_mode():
            return function(*(pb.asarray(x) if isinstance(x, np.ndarray) else x for x in given))

    return call


RUNS = {
    "numpy_mode": in_mode,
    "llvm": lambda f: pb.compile(f, backend="llvm"),
    "eager": lambda f: pb.compile(f, backend="eager"),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("case", CASES)
def test_values_and_dtypes_are_numpys(case, run):
    function, *given = CASES[case]
    with np.errstate(all="ignore"):
        want = np.asarray(function(*given))
        called = RUNS[run](function)
        for _ in range(2):
            got = np.asarray(called(*given))
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-14)
            numbers = ~np.isnan(want)
            assert (np.signbit(got.real) == np.signbit(want.real))[numbers].all()


@pytest.mark.parametrize("make", [np.uint8, lambda n: np.asarray(n, np.uint8)])
def test_a_number_that_does_not_fit_raises_as_outside(make):
    compiled = pb.compile(lambda x, n: make(n) * x)
    assert compiled(F32, 3).tolist() == (np.uint8(3) * F32).tolist()
    for number in (-1, 300):
        with pytest.raises(OverflowError):
            compiled(F32, number)


def written(function):
    def program(x, n):
        y = x.copy()
        found = function(y, n)
        return y if found is None else found

    return program


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize(
    "function",
    [
        lambda y, n: y.__setitem__([0, 1], n),
        lambda y, n: y.__setitem__(y > 1, n),
        lambda y, n: np.put(y, [0, 1], n),
        lambda y, n: y.put([0], n),
        lambda y, n: np.putmask(y, y > 1, n),
        lambda y, n: np.place(y, y > 1, [n]),
        lambda y, n: np.insert(y, 0, n),
        lambda y, n: np.array([n, 1], np.uint8) + y[:2],
        lambda y, n: np.sum(y, initial=n),
        lambda y, n: np.max(y, initial=n),
    ],
)
def test_a_number_that_does_not_fit_is_not_written(function, backend):
    program, x = written(function), np.array([1, 2, 3], np.uint8)
    compiled = pb.compile(program, backend=backend)
    for n in (2, 7):
        assert compiled(x, n).tolist() == program(x, n).tolist()
    with pytest.raises(OverflowError):
        compiled(x, -1)


@pytest.mark.parametrize("name", ["any", "all", "count_nonzero"])
def test_operators_take_lists_of_axes(name):
    x = pb.asarray(MATRIX)
    operator = getattr(pb.ops.pullback, name).default
    assert operator(x, [0]).tolist() == getattr(np, name)(MATRIX, 0).tolist()
    assert operator(x, [0, 1]).tolist() == getattr(np, name)(MATRIX, (0, 1)).tolist()


def test_gradients_through_functions_that_widen():
    def loss(x):
        total = np.cov(x)[0, 1] + np.sum(np.choose([0, 1, 0], [x[0], 2]))
        return total + np.interp(x[0, 1], x[1], x[0]) + np.select([x > 2], [x], 1.5).sum()

    eager, compiled = pb.grad(loss), pb.compile(pb.grad(loss))
    want = eager(MATRIX)
    assert want.dtype == np.float32
    for _ in range(2):
        np.testing.assert_allclose(compiled(MATRIX), want, rtol=1e-6)
        assert compiled(MATRIX).dtype == np.float32


@pytest.mark.parametrize(
    "product",
    [
        lambda b, x: b[0].dot(x[0]),
        lambda b, x: x @ b,
        lambda b, x: b[0].astype(float) @ x,
        lambda b, x: x @ b[0].astype(float)[:, None],
        lambda b, x: b.astype(float).reshape(3, 100, 300) @ x,
        lambda b, x: (x > 0.5).astype(float).reshape(1, 300, 300) @ x,
        lambda b, x: np.arange(300) @ x + b[0].sum(),
    ],
)
def test_truth_values_are_factors_of_large_products(product):
    """They have no memory of their own where only loops read them; products need it."""
    x = np.random.default_rng(0).normal(size=(300, 300))
    compiled = pb.compile(product)
    for _ in range(2):
        found = compiled(x > 0, x)
    expected = product(x > 0, x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert "no machine code" not in compiled.report()
