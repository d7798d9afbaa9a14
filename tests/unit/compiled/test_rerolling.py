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
