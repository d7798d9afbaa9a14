"""Random numbers of a run: given back if the run has no results, because a guard does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compiled.eager.program import Program
from pullback.compiled.llvm.entry import MISS
from pullback.kernels.random import Generators, watch_generators

__all__ = ["Draws", "run_program"]


class Draws:
    """States of generators of random numbers, before numbers were drawn."""

    def __init__(self) -> None:
        self.generators: Generators = {}
        self._numpy_state = np.random.get_state()

    def undo(self) -> None:
        """Gives the numbers back."""
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
