"""Where random operators get their numbers, and who is told of it.

Without a generator the numbers come from NumPy's global state, so ``numpy.random.seed`` repeats a
program. Whoever has to repeat a computation later, such as checkpointing, watches which generators
it draws from, and in which state they were before the first draw.
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
    """What to draw from: has ``random(size)`` and ``uniform(low, high, size)``.

    A seed stands for a new generator, so it gives the same numbers at every call.
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
    """A block that notes each generator that is drawn from, and its state before that."""
    return VariableGuard(_watchers, (*_watchers.get(), seen))
