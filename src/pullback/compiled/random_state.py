"""Random numbers of a run: given back if the run has no results, because a guard does not hold.

Random operators draw whenever a graph runs. Numbers that a function draws itself, from
``numpy.random``, ``random`` or a generator that it reaches, would be constants of its graph:
``Draws`` finds that they were drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback.compiled.eager.program import MISS, Program
from pullback.errors import TraceError
from pullback.kernels.random import PYTHON_RANDOM, Generators, RandomSource, watch_generators

__all__ = ["DrawnNumbersError", "Draws", "run_program"]


class DrawnNumbersError(TraceError):
    """Random numbers were drawn during a trace: by the function, or by another thread."""


class Draws:
    """States of generators of random numbers, before numbers were drawn.

    Args:
        reached: generators that the function may draw from by itself.
    """

    def __init__(self, reached: Iterable[Any] = ()) -> None:
        self.generators: Generators = {}
        self._numpy_state = np.random.get_state()
        self._reached = [RandomSource.of(g) for g in (*reached, PYTHON_RANDOM)]

    def drawn_by_function(self) -> list[str]:
        """The generators that were drawn from by no operator."""
        return [
            str(source)
            for source in self._reached
            if id(getattr(source.generator, "bit_generator", None)) not in self.generators
            and source.has_drawn()
        ]

    def undo(self) -> None:
        """Gives the numbers back."""
        for source in self._reached:
            source.restore()
        for bits, state in self.generators.values():
            bits.state = state
        np.random.set_state(self._numpy_state)


def run_program(program: Program, inputs: list[Any]) -> Any:
    """Runs a program; numbers that a run without results has drawn are given back."""
    if not program.tracer.random:
        return program.run(*inputs)
    draws = Draws()
    found: Any = MISS
    try:
        with watch_generators(draws.generators):
            found = program.run(*inputs)
    finally:
        if found is MISS:
            draws.undo()
    return found
