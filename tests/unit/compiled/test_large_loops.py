"""Loops whose values do not fit into registers: rows of 300 elements, in memory of the program."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.compiled.llvm.compiler import is_supported

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not is_supported(), reason="no machine code on this platform")

ROWS, LENGTH = 30, 300


def written_rows(x, w):
    """Each row is computed from the one before, in place: the gradient adds to rows."""
    y = x.clone()
    for k in range(1, ROWS):
        y[k] = pb.tanh(y[k - 1])
    return (y * y * w).sum()


def summed_rows(x, w):
    total = w * 0
    for k in range(ROWS):
        total = total + x[k] * w + x[ROWS - 1 - k] * x[k]
    return (total * total).sum()


def swapped_state(x, w):
    """Carried values that are each other's next values, and a part of one that is stacked."""

    def step(state, row):
        a, b = state
        return (b + row, a), a[:3]

    (a, b), parts = pb.scan(step, (w, w * 2.0), x)
    return (a * b).sum() + parts.sum()


def constant_rows(x, w):
    """A row that is one number in all elements, and one that is a range."""

    def step(state, row):
        return state * 0.5 + pb.arange(LENGTH) * row.sum(), pb.ones(LENGTH, dtype=pb.float64)

    last, ones = pb.scan(step, w, x)
    return (last * w).sum() + ones.sum()


def repeated_until(x, w):
    _, value = pb.while_loop(
        lambda state: state[0] < 100.0,
        lambda state: (state[0] * 2.0, state[1] * 0.5 + w + x[0]),
        (pb.tensor(1.0), w * 1.0),
    )
    return (value * value).sum()


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, LENGTH)), rng.normal(size=LENGTH)


@pytest.mark.parametrize("function", [written_rows, summed_rows, swapped_state, constant_rows])
def test_gradients_of_loops_on_long_rows(function, given):
    eager = pb.value_and_grad(function, (0, 1))
    compiled = pb.compile(eager, fullgraph=True)
    value, gradients = eager(*given)
    for _ in range(2):  # traced, then run
        found, own = compiled(*given)
        np.testing.assert_allclose(found, value, rtol=1e-12)
        for theirs, ours in zip(gradients, own, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    assert compiled.cache_info().hits == 1
    assert compiled.llvm_ir(*given)


def test_a_loop_on_long_rows_that_runs_while_a_condition_holds(given):
    compiled = pb.compile(repeated_until, fullgraph=True)
    expected = repeated_until(*map(pb.tensor, given))
    for _ in range(2):
        np.testing.assert_allclose(compiled(*given), expected, rtol=1e-12)
    assert "loop: while true" in compiled.explain(*given)


def columns(x, w):
    """Columns of a matrix, which are no rows of memory, in loops that are found again."""
    total = 0.0
    for i in range(7):
        for j in range(7):
            total = total + pb.exp(-((x[:, i] - x[:, j] * w[j]) ** 2).mean())
    return total


def written_columns(x, w):
    y = x.clone()
    for k in range(1, x.shape[1]):
        y[:, k] = pb.sin(y[:, k - 1]) * w[k]
        y[:, k] += x[:, k]
    return (y * y).sum()


def written_blocks(x, w):
    """Parts of planes of memory: two axes, neither of them dense."""
    z = x.reshape(60, 5, 16).clone()
    for k in range(1, 14):
        z[:, :, k] = z[:, :, k - 1] * w[k] + z[:, :, k + 1]
    return (z * z).sum()


@pytest.mark.parametrize("function", [columns, written_columns, written_blocks])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_loops_on_columns_are_machine_code(function, dtype):
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(LENGTH, 16)) * 0.5, rng.normal(size=16) * 0.5
    if dtype is np.complex128:
        x, w = x + 0.1j * x[::-1], w + 0.2j
    gradient = pb.grad(lambda x, w: pb.abs(function(x, w)), (0, 1))
    compiled = pb.compile(gradient, cache=False, fullgraph=True)
    for factor in (1.0, 0.5):
        given = (factor * x).astype(dtype), w.astype(dtype)
        for found, expected in zip(compiled(*given), gradient(*given), strict=True):
            tolerance = 1e-3 if dtype is np.float32 else 1e-9
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    text = compiled.explain(*given)
    assert "1 segment(s)" in text
    assert "in Python" not in text


def test_explain_names_loops_that_run_in_python():
    def function(x):
        return pb.scan(lambda c, _: (pb.sign(c) * 0.5 + x, None), x, None, 20)[0].sum()

    compiled = pb.compile(function, cache=False)
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    np.testing.assert_allclose(compiled(z), function(z))
    np.testing.assert_allclose(compiled(z), function(z))
    assert "a loop (20 times) runs in Python: its step calls sign" in compiled.explain(z)
