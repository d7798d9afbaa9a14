"""Memory of compiled programs on large arrays: no more than that of the function itself."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import pullback as pb

pytest.importorskip("llvmlite")

ROWS = 200
SIZE = ROWS * ROWS
rng = np.random.default_rng(3)
VECTOR = rng.normal(size=SIZE)
MATRIX = VECTOR.reshape(ROWS, ROWS)
PLACES = rng.integers(-SIZE, SIZE, SIZE)
KNOTS = np.linspace(-3.0, 3.0, 100)


def _heat(u):
    for _ in range(10):
        u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return (u * u).sum()


def _chain(x):
    for _ in range(10):
        x = np.tanh(x) * 1.1 + np.exp(-x * x)
    return x.sum()


def _slices(x):
    u = x * 1.0
    for _ in range(5):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u * u).sum()


def _halves(x):
    u = np.zeros(SIZE)
    u[: SIZE // 2] = np.sin(x[: SIZE // 2])
    u[SIZE // 2 :] = np.cos(x[SIZE // 2 :])
    u[::2] *= 2.0
    return (u * u).sum()


def _shifts(u):
    for _ in range(4):
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        u = u + 0.1 * (around - 4 * u)
    return (u**2).sum()


def _pad(x):
    wide = np.pad(x, 1)
    return ((wide[1:-1, 2:] - wide[1:-1, :-2]) ** 2).sum()


def _repeat_edges(x):
    wide = np.pad(x, 1, mode="edge")
    return ((wide[1:-1, 2:] - wide[1:-1, :-2]) ** 2).sum()


def _scatter(x):
    u = np.zeros(SIZE)
    np.add.at(u, PLACES, np.tanh(x))
    return (u * u).sum()


PROGRAMS = {
    "ten shifts": (_heat, VECTOR),
    "long chain": (_chain, VECTOR),
    "slices in place": (_slices, VECTOR),
    "halves in place": (_halves, VECTOR),
    "shifts of two axes": (_shifts, MATRIX),
    "zeros around": (_pad, MATRIX),
    "edges repeated": (_repeat_edges, MATRIX),
    "gather": (lambda x: (np.sin(x)[PLACES] ** 2).sum(), VECTOR),
    "scatter": (_scatter, VECTOR),
    "interpolation": (lambda x: (np.interp(x, KNOTS, np.sin(KNOTS)) ** 2).sum(), VECTOR),
    "order": (lambda x: (x[np.argsort(x)] ** 3).sum(), VECTOR),
    "two quantiles": (lambda x: np.quantile(x, 0.25) + np.quantile(x, 0.75), VECTOR),
    "median": (lambda x: np.abs(x - np.median(x)).sum(), VECTOR),
    "two sorts": (lambda x: (np.sort(x) * np.sort(np.sin(x))).sum(), VECTOR),
    "quantiles of two values": (
        lambda x: np.quantile(x, 0.3) + np.quantile(np.sin(x), 0.8),
        VECTOR,
    ),
    "power spectrum": (lambda x: np.log1p(np.abs(np.fft.fft(x)) ** 2).sum(), VECTOR),
    "cumulative sum": (lambda x: (np.cumsum(np.exp(-x * x)) ** 2).sum(), VECTOR),
}


def _peak(function, x):
    """The most memory that a call holds at once, and what it returns."""
    function(x)
    tracemalloc.start()
    try:
        found = function(x)
        return tracemalloc.get_traced_memory()[1], found
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("takes_gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_take_no_more_memory(name, takes_gradient):
    program, x = PROGRAMS[name]
    function = pb.value_and_grad(program) if takes_gradient else program
    compiled = pb.compile(function, cache=False)
    expected_peak, expected = _peak(function, x)
    peak, found = _peak(compiled, x)
    pairs = zip(found, expected, strict=True) if takes_gradient else [(found, expected)]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert peak <= 1.03 * expected_peak + 1024 * 10
