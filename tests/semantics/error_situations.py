"""A table of situations that raise, for the tests of their messages.

A situation is a function of a library, which is Pullback or PyTorch. Its row has the type that both
raise and the phrase that both messages contain: the words that users of PyTorch search for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pullback.errors import PullbackError

__all__ = ["Situation", "Table", "function_of"]


class Situation(NamedTuple):
    """One row: what to do, and what is raised."""

    name: str
    provoke: Callable[[Any], object]
    kind: type[Exception]
    phrase: str

    def check(self, lib: Any) -> None:
        """Raises unless the library raises this type, with the phrase in its message."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some situations warn as well, such as anomaly mode
            with pytest.raises(self.kind) as caught:
                self.provoke(lib)
        assert self.phrase in str(caught.value), str(caught.value)
        assert lib.is_torch or isinstance(caught.value, PullbackError)


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
