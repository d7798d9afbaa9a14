"""Loops of random programs, found again in the flat graph of a trace."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.compiled.lowering.reroll import reroll
from tests.unit.compiled.loops import LoopProgram, loop_arguments, with_gradient
from tests.unit.compiled.lowering import eager_results, lowered_results


def _check(seed):
    program = LoopProgram(seed)
    function = with_gradient(program) if seed % 2 else program
    args = loop_arguments(seed, program)
    expected = eager_results(function, *args)
    found, _, graph = lowered_results(function, *args, transform=reroll)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
    return any(node.op == "loop" for node in graph.live())


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_random_loops_compute_the_same(first):
    found = [_check(seed) for seed in range(first, first + 8)]
    assert any(found)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40, 240, 20))
def test_more_random_loops_compute_the_same(first):
    for seed in range(first, first + 20):
        _check(seed)


def test_numpy_scalars_are_constants_of_a_loop():
    factors = np.array([0.5, 0.25])

    def recurrence(xs, h, t):
        for x in xs:
            h = np.float64(0.5) * h + factors[1] * pb.tanh(x * t)
        return h, h * factors[0]

    args = np.linspace(-1, 1, 60).reshape(20, 3), np.ones(3), 0.75
    found, _, graph = lowered_results(recurrence, *args, transform=reroll)
    for ours, theirs in zip(found, eager_results(recurrence, *args), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert any(node.op == "loop" for node in graph.live())
    compiled = pb.compile(lambda *args: recurrence(*args)[1], backend="eager")
    for factor in (0.5, 2.0):
        factors[0] = factor
        given = (pb.asarray(args[0]), pb.asarray(args[1]), args[2])
        np.testing.assert_allclose(compiled(*given), recurrence(*given)[1])


def _automaton(xs, h, t):
    u = xs[:, 0]
    for _ in range(12):
        u = pb.roll(u, 1) * t + pb.sin(u) - pb.roll(u, -1)
    return u


def _pairs(xs, h, t):
    total = h.sum()
    for i in range(len(xs)):
        for j in range(i):
            total = total + pb.sin(xs[i] * xs[j]).sum() * t
    return total


def _sweeps(xs, h, t):
    u = xs[:, 0] * 1.0
    for _ in range(3):
        for i in range(1, len(xs) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1]) + xs[i, 1] * t
    return u


def _products(xs, h, t):
    found = pb.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            for k in range(len(xs)):
                found[i, j] += xs[k, i] * xs[k, j] * t
    return found


def _columns(xs, h, t):
    found = h * 1.0
    for i in range(len(xs)):
        found[i % 3] += xs[i, 0] * t
    return found


@pytest.mark.parametrize("program", [_automaton, _pairs, _sweeps, _products, _columns])
def test_nests_and_neighbours_become_loops(program):
    rng = np.random.default_rng(0)
    args = rng.normal(size=(24, 3)) * 0.5, rng.normal(size=3), 0.75
    for function in (program, with_gradient(lambda *given: [program(*given)])):
        expected = eager_results(function, *args)
        _, _, flat = lowered_results(function, *args)
        found, _, graph = lowered_results(function, *args, transform=reroll)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
        assert 2 * _size(graph) < _size(flat)


def _size(graph):
    """The number of nodes of a graph and of the bodies of its loops."""
    live = graph.live()
    return sum(1 + (_size(n.attrs[0].body) if n.op == "loop" else 0) for n in live)
