"""Operators of ordinary programs that are machine code: masks, extremes, functions of SciPy's."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite")
special = pytest.importorskip("scipy.special")

pb.grad(special.expit)(0.5)  # loads the operators of scipy.special
RNG = np.random.default_rng(0)


def _check(function, *args, most_calls=0):
    """Compiles, runs a second time, and compares; returns what `explain` prints."""
    compiled = pb.compile(function, cache=False)
    compiled(*args)
    expected, found = function(*args), compiled(*args)
    for e, f in zip(np.atleast_1d(expected), np.atleast_1d(found), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-13, atol=1e-13)
    text = compiled.explain(*args)
    assert "no machine code" not in text, text
    calls = [line for line in text.splitlines() if line.startswith("opaque")]
    assert len(calls) <= most_calls, text
    return text


def _write(at, value, accumulate=False):
    def function(x, mask):
        y = pb.index_put(pb.asarray(x), [*[None] * at, mask], pb.asarray(value), accumulate)
        return y.numpy() if isinstance(x, np.ndarray) else y

    return function


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64, np.bool_])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("at", "axes", "value"),
    [(0, 1, (3, 4)), (0, 2, (4,)), (0, 3, ()), (1, 1, (4,)), (1, 1, (2, 1, 4)), (2, 1, (3, 1))],
)
def test_the_same_values_at_each_element(dtype, accumulate, at, axes, value):
    if accumulate and dtype == np.bool_:
        return
    x = pb.asarray((RNG.normal(size=(2, 3, 4)) * 3).astype(dtype))
    mask = pb.asarray(RNG.normal(size=x.shape[at : at + axes]) > 0)
    values = (RNG.normal(size=value) * 3).astype(dtype)
    program = pb.compile(_write(at, values, accumulate), cache=False)
    program(x, mask)
    expected, found = _write(at, values, accumulate)(x, mask), program(x, mask)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert "opaque" not in program.explain(x, mask)


def clipped(x):
    y = x.copy()
    y[y > 1] = 1
    y[~(y > -1)] = -1.0
    return np.sum(y * y * x)


def replaced_rows(x):
    y = np.zeros_like(x)
    y[x[:, 0] > 0] = x[0]
    return np.sum(np.sin(y) * x)


def flipped(x):
    y = x.copy()
    y[y < 0] *= -2
    return np.sum(y * y * x)


@pytest.mark.parametrize(
    ("program", "calls"), [(clipped, (0, 0, 0)), (replaced_rows, (0, 2, 5)), (flipped, (2, 3, 5))]
)
def test_programs_with_masked_writes(program, calls):
    transforms = (program, pb.grad(program), pb.hessian(program))
    for transform, most in zip(transforms, calls, strict=True):
        text = _check(transform, RNG.normal(size=(5, 3)), most_calls=most)
        assert "segment(s)" in text


@pytest.mark.parametrize("function", [special.logsumexp, special.softmax, special.log_softmax])
def test_scipy_functions_of_numpy_operations_are_machine_code(function):
    def program(x):
        return np.sum(function(x, axis=1).T * x[:, 0])

    for transform in (program, pb.grad(program)):
        _check(transform, RNG.normal(size=(5, 3)))


def test_a_number_that_does_not_fit_raises_as_it_does_outside():
    def program(x, n):
        y = x.copy()
        y[y > 0] = n
        return y

    compiled = pb.compile(program)
    x = np.array([-1, 2, 3], np.int8)
    for n in (5, 7):
        assert compiled(x, n).tolist() == [-1, n, n]
    with pytest.raises(OverflowError):
        compiled(x, 300)


@pytest.mark.parametrize("decimals", [0, 2, -1])
def test_rounding_is_machine_code(decimals):
    for dtype in (np.float64, np.float32, np.int64):
        x = (RNG.normal(size=40) * 30).astype(dtype)
        if dtype == np.int64 and decimals < 0:
            continue
        compiled = pb.compile(lambda x: np.round(x, decimals) + x, cache=False)
        compiled(x)
        np.testing.assert_array_equal(compiled(x), np.round(x, decimals) + x)
        assert "opaque" not in compiled.explain(x)


@pytest.mark.parametrize("function", [np.argmax, np.argmin])
def test_positions_of_extremes_are_machine_code(function):
    x = RNG.integers(-3, 4, (5, 6)).astype(float)
    x[1, 2] = x[3, 4] = np.nan
    for dtype in (np.float64, np.float32, np.int8, np.bool_):
        y = np.nan_to_num(x).astype(dtype) if dtype in (np.int8, np.bool_) else x.astype(dtype)
        for keywords in ({}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}):
            program = pb.compile(lambda x, k=keywords: function(x, **k) + 0, cache=False)
            program(y)
            np.testing.assert_array_equal(program(y), function(y, **keywords))
            assert "opaque" not in program.explain(y)


def test_an_array_of_a_number_is_machine_code():
    def program(x, n, s):
        return x * np.full(3, n) + np.full((2, 3), s) + np.full(3, x[0])

    x = np.arange(3.0)
    compiled = pb.compile(program, cache=False)
    for n, s in ((1, 2.0), (3, 4.5), (-2, np.nan)):
        np.testing.assert_array_equal(compiled(x, n, s), program(x, n, s))
    assert compiled.stats["traces"] == 1
    assert "opaque" not in compiled.explain(x, 1, 2.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "expit", "log_expit", "logit", "entr"])
def test_special_functions_of_one_number(name, dtype):
    function = getattr(special, name)
    ends = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-320, -37.0, 40.0]
    inside = RNG.random(300) if name in ("logit", "entr") else RNG.normal(size=300) * 6
    x = np.concatenate([inside, ends]).astype(dtype)
    program = pb.compile(lambda x: function(x) + 0, cache=False)
    with np.errstate(all="ignore"):
        program(x)
        expected, found = function(x), program(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=200 * np.finfo(dtype).eps, atol=1e-300)
    assert "opaque" not in program.explain(x)
    gradient = pb.compile(pb.grad(lambda x: np.sum(function(x))), cache=False)
    some = x[:300]
    gradient(some)
    np.testing.assert_allclose(
        gradient(some),
        pb.grad(lambda x: np.sum(function(x)))(some),
        rtol=1e-4 if dtype == np.float32 else 1e-12,
    )


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_special_functions_of_two_numbers(name):
    function = getattr(special, name)
    x, y = np.meshgrid([0.0, -0.0, 1.5, -2.0, np.nan, np.inf], [0.0, -1.0, 2.0, np.nan, np.inf])
    program = pb.compile(lambda x, y: function(x, y) + 0, cache=False)
    with np.errstate(all="ignore"):
        program(x, y)
        np.testing.assert_allclose(program(x, y), function(x, y), rtol=1e-15)
        z = RNG.normal(size=4) + 1j
        np.testing.assert_allclose(pb.compile(function)(z, z), function(z, z), rtol=1e-14)
    assert "opaque" not in program.explain(x, y)


NUMBERS = {
    "array": lambda x, a: np.array([a, 2.0, x[0]]) * np.array([[a, 1.0, 0.5]]),
    "asarray": lambda x, a: np.asarray(a) * x,
    "full": lambda x, a: np.full(3, a) + np.full_like(x, a),
    "linspace": lambda x, a: np.linspace(0.0, a, 3) * x,
    "of lists": lambda x, a: np.diag([a, 1.0, 2.0]) @ x + np.sum([a, 1.0]) + np.max([a, 0.5]),
    "searchsorted": lambda x, a: np.searchsorted(x, a) + a * x,
    "shapes": lambda x, a: np.tile(a, 3) * x + np.broadcast_to(a, (3,)) + np.atleast_1d(a),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_arrays_are_inputs(name):
    function = NUMBERS[name]
    x = np.arange(1.0, 4.0)
    for transform in (function, pb.jacobian(function)):
        compiled = pb.compile(transform)
        for a in (0.5, 2.25, -1.0, 3.0):
            np.testing.assert_allclose(compiled(x, a), transform(x, a), rtol=1e-14)
        assert compiled.stats["traces"] == 1
        assert "guard" not in compiled.explain(x, 1.0)


def test_integers_in_arrays_are_inputs():
    compiled = pb.compile(lambda x, n: x * np.array([n, 2, 3]) + np.full(3, n))
    x = np.arange(3.0)
    for n in (1, -4, 7):
        assert compiled(x, n).tolist() == (x * np.array([n, 2, 3]) + n).tolist()
    assert compiled(x, 5).dtype == float
    assert compiled.stats["traces"] == 1
    kept = pb.compile(lambda x, n: np.array([n, 2]))(x, 3)
    assert kept.dtype == np.int64
    assert kept.tolist() == [3, 2]
