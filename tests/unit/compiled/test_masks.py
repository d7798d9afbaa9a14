"""Writes under masks, and other in-place operators, between machine code."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite")
special = pytest.importorskip("scipy.special")

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
