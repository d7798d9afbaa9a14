"""Compiled functions check values where the functions themselves do: errors, rounding, dtypes."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

import pullback as pb
from pullback.nn import functional

BACKENDS = ["eager", *(["llvm"] if importlib.util.find_spec("llvmlite") else [])]
X = np.arange(6.0)


def _numpy_put(x, places):
    found = x * 1
    np.put(found, places, [9.0, 8.0])
    return found


def _bags(indices, offsets):
    return functional.embedding_bag(indices, X.reshape(3, 2), offsets)


CHECKED = {
    "put": (_numpy_put, (X, np.array([1, -2])), (X, np.array([1, -9])), IndexError),
    "choose": (
        lambda i, x: pb.choose(i, [x, x * 2]),
        (np.array([0, 1, 1, 0, 1, 0]), X),
        (np.array([0, 1, -1, 0, 1, 0]), X),
        ValueError,
    ),
    "bins": (
        lambda x, bins: pb.histogram(x, bins)[0],
        (X, np.array([0.0, 1.0, 2.0])),
        (X, np.array([0.0, 3.0, 2.0])),
        ValueError,
    ),
    "range": (lambda x: pb.histogram(x, 3)[0], (X,), (X * np.nan,), ValueError),
    "variance": (
        lambda x, var: functional.gaussian_nll_loss(x, 2 * x, var),
        (X, X + 1),
        (X, X - 1),
        ValueError,
    ),
    "bags": (
        _bags,
        (np.array([0, 1, 2]), np.array([0, 1])),
        (np.array([0, 1, 2]), np.array([1, 2])),
        ValueError,
    ),
    "ratio": (lambda a, b: pb.geomspace(a, b, 4), (X + 1, X + 2), (X, X + 2), ValueError),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", CHECKED)
def test_an_error_of_a_value_is_raised_in_each_call(name, fullgraph, backend):
    function, good, bad, error = CHECKED[name]
    compiled = pb.compile(function, backend=backend, fullgraph=fullgraph)
    expected = np.asarray(function(*good))
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(compiled(*good)), expected, rtol=1e-12)
        with pytest.raises(error):
            compiled(*bad)
    assert compiled.stats["hits"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_is_raised_in_a_step_of_a_loop(backend):
    def run(x, places):
        return pb.fori_loop(0, 3, lambda _, y: pb.choose(places, [y, y * 2]), x)

    compiled = pb.compile(run, backend=backend)
    expected = run(pb.asarray(X), pb.asarray([0, 1, 0, 1, 0, 1])).numpy()
    for _ in range(2):
        found = compiled(pb.asarray(X), pb.asarray([0, 1, 0, 1, 0, 1])).numpy()
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="negative"):
        compiled(pb.asarray(X), pb.asarray([0, 1, 0, -1, 0, 1]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_eigenvalues_are_real_where_they_are(backend):
    def run(a):
        return np.linalg.eigvals(a), np.linalg.eig(a)[1]

    compiled = pb.compile(run, backend=backend)
    real, rotation = np.diag([1.0, 2.0]) + 1, np.array([[0.0, 1.0], [-1.0, 0.0]])
    for a in (real, rotation, real, rotation):
        # of tensors: those of arrays are always complex since NumPy 2.5
        for found, expected in zip(compiled(a), run(pb.asarray(a)), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-12, atol=1e-12)
    assert compiled.stats["traces"] == 2


def _caught(error, run, otherwise):
    def program(*args):
        try:
            return run(*args)
        except error:
            return otherwise(*args)

    return program


POSITIVE, NEGATIVE, SINGULAR = np.eye(2) + 1, 1 - 2 * np.eye(2), np.ones((2, 2))
CAUGHT = {
    "cholesky": (
        _caught(
            np.linalg.LinAlgError,
            np.linalg.cholesky,
            lambda a: np.linalg.cholesky(a + 5 * np.eye(2)),
        ),
        [(NEGATIVE,), (POSITIVE,), (SINGULAR,)],
    ),
    "solve": (
        _caught(
            np.linalg.LinAlgError, lambda a: np.linalg.solve(a, X[:2]), lambda a: a @ X[:2] * 0.5
        ),
        [(SINGULAR,), (POSITIVE,)],
    ),
    "index": (_caught(IndexError, lambda x, n: x[n], lambda x, n: -x), [(X, 9), (X, 2), (X, -7)]),
    "places": (
        _caught(IndexError, lambda x, i: x[i], lambda x, i: x * 0),
        [(X, np.array([9])), (X, np.array([1]))],
    ),
    "division": (
        _caught(ZeroDivisionError, lambda x, n: x * (1 / n), lambda x, n: x * 0),
        [(X, 0), (X, 2), (X, 0)],
    ),
    "math": (
        _caught(ValueError, lambda x, n: x * math.sqrt(n), lambda x, n: x * 0),
        [(X, -1), (X, 4), (X, -3)],
    ),
    "overflow": (
        _caught(OverflowError, lambda x, n: x * math.exp(n), lambda x, n: x * 0),
        [(X, 1e4), (X, 1.0)],
    ),
    "counts": (
        _caught(ValueError, lambda x: np.bincount(x.astype(int)), lambda x: x),
        [(X - 3,), (X,)],
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CAUGHT)
def test_errors_that_the_function_catches_depend_on_values(name, backend):
    program, calls = CAUGHT[name]
    compiled = pb.compile(program, backend=backend)
    for _ in range(2):
        for call in calls:
            np.testing.assert_allclose(compiled(*call), program(*call), rtol=1e-12)
    strict = pb.compile(program, backend=backend, fullgraph=True)
    with pytest.raises(pb.errors.TraceError, match=r"a call raises .*Error: .*test_value"):
        strict(*calls[0])


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x[:n],
        lambda x, n: np.linspace(0, 1, n),
        lambda x, n: x if n else -x,
        lambda x, n: np.split(x, [n]),
    ],
)
def test_refused_numbers_name_line_and_fix(program):
    strict = pb.compile(program, fullgraph=True, static_argnums=1)
    np.testing.assert_array_equal(strict(X, 2)[0], program(X, 2)[0])
    with pytest.raises(pb.errors.TraceError, match=r"test_value_checks.py:\d+.*static_argnums"):
        pb.compile(program, fullgraph=True)(X, 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("mode", "dtype"),
    [
        ("mean", np.int64),
        ("mean", np.uint8),
        ("median", np.int64),
        ("linear_ramp", np.int64),
        ("linear_ramp", np.uint8),
        ("linear_ramp", np.bool),
    ],
)
def test_padding_of_integers_is_rounded(mode, dtype, backend):
    x = np.array([[1, 2, 4], [4, 5, 7], [1, 0, 200]]).astype(dtype)
    widths = ((3, 4), (5, 2))
    compiled = pb.compile(lambda x: pb.pad(x, widths, mode), backend=backend)
    for _ in range(2):
        found = compiled(x)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.pad(x, widths, mode))
    mapped = pb.func.vmap(lambda x: pb.pad(x, 3, mode))(pb.asarray(x))
    expected = [np.pad(row, 3, mode) for row in x]
    np.testing.assert_array_equal(mapped.numpy(), expected)
