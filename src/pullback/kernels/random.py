"""Sources of random numbers for operators, and a record of the generators that are used.

Without a generator the numbers come from NumPy's global state, so ``numpy.random.seed`` repeats a
program. Code that repeats a computation later, such as checkpointing, records which generators it
draws from, and their state before the first draw.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from pullback.interrupts import VariableGuard

__all__ = [
    "GENERATORS",
    "PYTHON_RANDOM",
    "Generators",
    "GlobalDraws",
    "RandomSource",
    "global_state",
    "source_of_numbers",
    "watch_generators",
]

Generators = dict[int, tuple[Any, Any]]  # by identity: bits, their state

PYTHON_RANDOM: random.Random = random.getstate.__self__  # type: ignore[attr-defined]
"""The generator behind the functions of Python's ``random``."""

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


def global_state() -> tuple[Any, ...]:
    """The state of NumPy's global generator, as far as draws change it."""
    _, keys, position, has_gauss, _ = np.random.get_state()
    return int(keys[0]), int(keys[-1]), position, has_gauss


class GlobalDraws:
    """Draws from NumPy's global generator by code that is no operator, from construction on."""

    def __init__(self) -> None:
        self._state = global_state()
        self._has_drawn = False

    @property
    def has_drawn(self) -> bool:
        """Whether there were any."""
        return self._has_drawn or global_state() != self._state

    @contextmanager
    def by_operator(self) -> Iterator[None]:
        """A block whose draws do not count."""
        self._has_drawn = self.has_drawn
        try:
            yield
        finally:
            self._state = global_state()


GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
"""The classes of generators of random numbers, of NumPy and of Python."""


class RandomSource(NamedTuple):
    """A generator of random numbers, and its state at some time."""

    generator: Any
    before: Any

    @classmethod
    def of(cls, generator: Any) -> RandomSource:
        """A generator with the state that it has now."""
        return cls(generator, _read_state(generator))

    def has_drawn(self) -> bool:
        """Whether numbers were drawn since."""
        return not _is_same_state(_read_state(self.generator), self.before)

    def restore(self) -> None:
        """Gives the numbers back."""
        if isinstance(self.generator, np.random.Generator):
            self.generator.bit_generator.state = self.before
        elif isinstance(self.generator, np.random.RandomState):
            self.generator.set_state(self.before)
        else:
            self.generator.setstate(self.before)

    def __str__(self) -> str:
        """The generator as messages name it."""
        if isinstance(self.generator, random.Random):
            return "random" if self.generator is PYTHON_RANDOM else "a random.Random"
        return f"a numpy.random.{type(self.generator).__name__}"


def _read_state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.getstate()


def _is_same_state(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return all(_is_same_state(first[key], second[key]) for key in first)
    return bool(first == second) if isinstance(first, tuple) else np.array_equal(first, second)
