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
