"""The state in which user code runs: nothing is recorded, and no tangent is followed."""

from __future__ import annotations

from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import State, get_state, set_state, state_of
from pullback.interrupts import uninterrupted_entry

__all__ = ["QUIET", "Quietly"]


class _QuietStates(dict[State, State]):
    """By state, the same state with nothing recorded and no tangent followed."""

    def __missing__(self, state: State) -> State:
        keep = state.keep & ~(REQUIRES_GRAD | DUAL | PLAIN_VIEW)
        return self.setdefault(state, state_of(state.include, keep, state.modes))


QUIET = _QuietStates()


class Quietly:
    """A block in which nothing is recorded."""

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        self._state = state = get_state()
        try:
            set_state(QUIET[state])
        except BaseException:
            set_state(state)
            raise

    @uninterrupted_entry
    def __exit__(self, *_: object) -> None:
        set_state(self._state)
