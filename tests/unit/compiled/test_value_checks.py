"""Compiled functions check values where the functions themselves do: errors, rounding, dtypes."""

from __future__ import annotations

import importlib.util

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
