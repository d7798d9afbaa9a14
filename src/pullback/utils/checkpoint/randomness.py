"""Saved state of random generators, so that a recomputation draws the same numbers.

It includes NumPy's global state and every generator that was passed to a random operator.
Generators that a function uses directly are not included. In a traced program it is the position
among the calls of random operators, which the recomputation takes the results of.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pullback.fx.refusals import current_tracer
from pullback.interrupts import run_to_end, uninterrupted_entry
from pullback.kernels.random import Generators

__all__ = ["RandomState"]


class RandomState:
    """NumPy's global state now, and generators in the state before their first draw since.

    Attributes:
        generators: is filled while ``watch_generators`` runs with it.
    """

    def __init__(self, generators: Generators | None = None):
        self.legacy: Any = np.random.get_state()
        self.generators: Generators = {} if generators is None else generators
        self._tracer = current_tracer()
        self._position = 0 if self._tracer is None else self._tracer.redraws.begin()

    @classmethod
    def now(cls, known: Generators) -> RandomState:
        """The state now, with that of generators that are known already."""
        return cls({key: (bits, bits.state) for key, (bits, _) in known.items()})

    def restored(self, later: Generators | None = None) -> AbstractContextManager[None]:
        """A block that draws what was drawn after this moment; afterwards all is as before.

        `later` are generators that were first drawn from after this moment.
        """
        if self._tracer is not None and self._tracer is current_tracer():
            return self._tracer.redraws.again(self._position)
        return _Restored(self.legacy, {**(later or {}), **self.generators})


class _Restored:
    """NumPy's global state and some generators as they once were, for a block."""

    def __init__(self, legacy: Any, generators: Generators):
        self._inside = legacy, [*generators.values()]

    def __enter__(self) -> None:
        legacy, generators = self._inside
        self._before = np.random.get_state(), [(bits, bits.state) for bits, _ in generators]
        try:
            _set_states(legacy, generators)
        except BaseException:
            run_to_end(_set_states, *self._before)
            raise

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        run_to_end(_set_states, *self._before)


def _set_states(legacy: Any, generators: list[tuple[Any, Any]]) -> None:
    np.random.set_state(legacy)
    for bits, state in generators:
        bits.state = state
