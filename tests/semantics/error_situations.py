"""A table of situations that raise, for the tests of their messages.

A situation is a function of a library, which is Pullback or PyTorch. Its row has the type that both
raise and the phrase that both messages contain: the words that users of PyTorch search for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Situation", "Table", "function_of"]


class Situation(NamedTuple):
    """One row: what to do, and what is raised."""

    name: str
    provoke: Callable[[Any], object]
    kind: type[Exception]
    phrase: str


class Table(list[Situation]):
    """The rows, each added by a decorator."""

    def raises(
        self, phrase: str, kind: type[Exception] = RuntimeError
    ) -> Callable[[Callable[[Any], object]], Callable[[Any], object]]:
        """Adds a function as a situation that raises `kind` with `phrase` in its message."""

        def add(provoke: Callable[[Any], object]) -> Callable[[Any], object]:
            self.append(Situation(provoke.__name__, provoke, kind, phrase))
            return provoke

        return add


def function_of(lib: Any, **members: Any) -> Any:
    """A class ``MyFn`` of custom functions with these static methods and attributes."""
    made = {k: staticmethod(v) if callable(v) else v for k, v in members.items()}
    return type("MyFn", (lib.Function,), made)
