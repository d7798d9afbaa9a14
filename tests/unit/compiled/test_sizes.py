"""Shapes that depend on values: another number of elements is another graph."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite")

ROWS = ([1.0, 0.0, 2.0, 0.0], [1.0, 3.0, 2.0, 0.0], [0.0, 0.0, 2.0, 7.0], [1.0, 0.0, 2.0, 0.0])
PROGRAMS = {
    "nonzero": lambda x: x * len(pb.nonzero(x)[0]),
    "flatnonzero": lambda x: x * np.flatnonzero(x).size,
    "argwhere": lambda x: x * np.argwhere(x).shape[0],
    "mask": lambda x: x * x[x > 0.5].size,
    "mean": lambda x: x[x > 0.5].sum() / x[x > 0.5].size,
    "compress": lambda x: x * np.compress(x > 1, x).size,
    "bincount": lambda x: x * np.bincount(x.astype(int)).size,
    "unique": lambda x: x * len(np.unique(x)),
    "zeros": lambda x: x + np.zeros(len(np.nonzero(x)[0])).size,
    "split": lambda x: np.split(x, [np.count_nonzero(x)])[0].sum() + x,
    "split by places": lambda x: np.split(x, np.flatnonzero(x))[1].sum() + x,
    "repeat": lambda x: np.repeat(x, x.astype(int)).sum() + x,
    "insert": lambda x: np.insert(x, np.argmax(x), 5.0),
    "delete": lambda x: np.delete(x, np.flatnonzero(x > 1.5)).sum() + x,
    "power": lambda x: np.linalg.matrix_power(np.diag(x), np.argmax(x)),
    "list": lambda x: np.polyval([1.0] * np.argmax(x), x),
    "derivative": pb.grad(lambda x: x[x > 0.5].mean() + x[x > 0.5].size * x[0]),
}


@pytest.mark.parametrize("backend", ["llvm", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_elements_are_guards(name, backend):
    program = PROGRAMS[name]
    compiled = pb.compile(program, backend=backend)
    for row in ROWS:
        x = np.array(row)
        np.testing.assert_allclose(compiled(x), program(x), rtol=1e-14)
    assert compiled.stats["eager"] == 0


def test_numbers_as_places():
    compiled = pb.compile(lambda x, n: np.split(x, [n])[1] * 2)
    for n in (1, 3, 0, 1, -1):
        np.testing.assert_array_equal(compiled(np.arange(4.0), n), np.arange(4.0)[n:] * 2)
    assert compiled.stats["traces"] == 4


def test_captured_tensors_and_steps_of_loops():
    held = pb.tensor(ROWS[0])
    compiled = pb.compile(lambda x: x * len(pb.nonzero(held)[0]))
    loop = pb.compile(lambda x: pb.scan(lambda c, row: (c + row[row > 0.5].shape[0], c), 0.0, x)[0])
    for row in ROWS:
        held[...] = pb.tensor(row)
        np.testing.assert_allclose(compiled(pb.ones(2)), np.count_nonzero(row) * np.ones(2))
        rows = np.array([row, ROWS[1]])
        assert loop(rows) == np.count_nonzero(rows > 0.5)
