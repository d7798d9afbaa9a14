"""Random numbers that a traced program draws, and a recomputation draws again.

A graph has no state of a generator that could be restored. What random operators return is kept
instead, from the first checkpoint of a program on, and a recomputation gets the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.dispatch.keys import KEY_BITS, DispatchKey
from pullback.fx.refusals import refusal
from pullback.fx.traced_array import TracedArray
from pullback.tensor.tensor import Tensor, fresh

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["Redraws"]

_CPU = KEY_BITS[DispatchKey.CPU]


class _Draw(NamedTuple):
    """A call of a random operator: its arguments, and copies of its results."""

    operator: Any
    shapes: list[tuple[int, ...]]
    results: Any


class Redraws:
    """The calls of random operators of one trace."""

    def __init__(self, tracer: Tracer):
        self._tracer = tracer
        self._draws: list[_Draw] = []
        self._keeps = False
        self._position: int | None = None  # in a recomputation: that of the next call

    def begin(self) -> int:
        """The position of the next call, to which a recomputation may return."""
        self._keeps = True
        return len(self._draws) if self._position is None else self._position

    @contextmanager
    def again(self, position: int) -> Iterator[None]:
        """A block that draws what was drawn after a position."""
        before, self._position = self._position, position
        try:
            yield
        finally:
            self._position = before

    def call(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a random operator: new numbers, or in a recomputation those of before."""
        tracer, shapes = self._tracer, [x.shape for x in args if isinstance(x, Tensor)]
        if self._position is None:
            with tracer.draws.by_operator():
                result = tracer.record_function(operator, args, kwargs, operator.below(_CPU))
            tracer.random.append(tracer.newest)
            if self._keeps:
                # Copies, because the program may write to the results.
                self._draws.append(_Draw(operator, shapes, self._copy(result)))
            return result
        known = self._draws[self._position] if self._position < len(self._draws) else None
        if known is None or known[:2] != (operator, shapes):
            raise refusal("a recomputation draws other random numbers than the first run")
        self._position += 1
        return self._copy(known.results)

    def _copy(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            assert isinstance(value._array, TracedArray)
            return fresh(self._tracer.call("clone", value._array))
        return type(value)(map(self._copy, value))
