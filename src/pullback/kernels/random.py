"""Sources of random numbers for operators, and a record of the generators that are used.

Without a generator the numbers come from NumPy's global state, so ``numpy.random.seed`` repeats a
program. Code that repeats a computation later, such as checkpointing, records which generators it
draws from, and their state before the first draw.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy as np

from pullback.interrupts import VariableGuard

__all__ = ["Generators", "source_of_numbers", "watch_generators"]

Generators = dict[int, tuple[Any, Any]]  # by identity: bits, their state

_watchers: ContextVar[tuple[Generators, ...]] = ContextVar("pullback_random_watchers", default=())


def source_of_numbers(generator: Any) -> Any:
    """Returns an object with ``random(size)`` and ``uniform(low, high, size)``.

    A seed makes a new generator, so it gives the same numbers at every call.
    """
    if generator is None:
        return np.random
    source = np.random.default_rng(generator)
    if isinstance(generator, np.random.Generator | np.random.BitGenerator):
        bits = source.bit_generator
        for seen in _watchers.get():
            seen.setdefault(id(bits), (bits, bits.state))
    return source


def watch_generators(seen: Generators) -> VariableGuard[tuple[Generators, ...]]:
    """Returns a block that records in `seen` each generator used, and its state before."""
    return VariableGuard(_watchers, (*_watchers.get(), seen))
