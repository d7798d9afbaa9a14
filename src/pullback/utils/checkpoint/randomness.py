"""The state of random numbers at a moment, so that a computation can draw the same ones again.

That is NumPy's global state, and every generator that our random operators were handed. Generators
that a function draws from by itself are unknown here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

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

    @classmethod
    def now(cls, known: Generators) -> RandomState:
        """The state now, with that of generators that are known already."""
        return cls({key: (bits, bits.state) for key, (bits, _) in known.items()})

    @contextmanager
    def restored(self, later: Generators | None = None) -> Iterator[None]:
        """A block that draws what was drawn after this moment; afterwards all is as before.

        `later` are generators that were first drawn from after this moment.
        """
        generators = {**(later or {}), **self.generators}
        legacy = np.random.get_state()
        before = [(bits, bits.state) for bits, _ in generators.values()]
        np.random.set_state(self.legacy)
        for bits, state in generators.values():
            bits.state = state
        try:
            yield
        finally:
            np.random.set_state(legacy)
            for bits, state in before:
                bits.state = state
