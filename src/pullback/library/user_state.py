"""The thread's state while user code runs: nothing is recorded, no tangents propagate."""

from __future__ import annotations

from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import State, get_state, set_state, state_of
from pullback.interrupts import uninterrupted_entry

__all__ = ["USER_STATES", "UserState"]


class _UserStates(dict[State, State]):
    """Maps each state to the same state without recording and without tangents."""

    def __missing__(self, state: State) -> State:
        keep = state.keep & ~(REQUIRES_GRAD | DUAL | PLAIN_VIEW)
        return self.setdefault(state, state_of(state.include, keep, state.modes))


USER_STATES = _UserStates()


class UserState:
    """Block in which nothing is recorded and no tangents propagate."""

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        self._state = state = get_state()
        try:
            set_state(USER_STATES[state])
        except BaseException:
            set_state(state)
            raise

    @uninterrupted_entry
    def __exit__(self, *_: object) -> None:
        set_state(self._state)
