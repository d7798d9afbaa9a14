"""``State`` of a thread: keys added to and removed from the key set of every call, and modes.

A call dispatches with ``(keys of its tensors | include) & keep``. Excluded keys are zeros in
`keep`, so exclusion beats inclusion; grad mode is the requires-grad bit of `keep`, so that under
``no_grad`` the same call finds the plain kernel instead of the recording one.

A state also carries `modes`: bits that are no keys, which linkers read when a table is made for the
state. So a mode that few programs use costs the others nothing.

A state is immutable and there is one object for each triple, so an operator's table is a dict by
state of dicts by flags: a call does no arithmetic with include and keep at all. The current state
lives in a ``ContextVar``: a new thread starts from the default, and reading it is cheaper than
reading a ``threading.local``. Guards restore exactly the bits that they changed, so
that guards may end in any order.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Self

from pullback.dispatch.keys import (
    ALL_BITS,
    AUTOGRAD_BITS,
    FUNCTIONALITY_MASK,
    KEY_BITS,
    REQUIRES_GRAD,
    DispatchKey,
    DispatchKeySet,
    KeyLike,
)
from pullback.errors import DispatchError
from pullback.interrupts import uninterrupted_entry

__all__ = [
    "DEFAULT_STATE",
    "DISPATCH_MODE",
    "INFERENCE",
    "MAPPING",
    "MUTATION",
    "NUMBERS",
    "NUMBER_MODES",
    "NUMPY",
    "SAVED_HOOKS",
    "TAPE",
    "TRACE",
    "TRANSFORM",
    "AutoDispatchBelowADInplaceOrView",
    "AutoDispatchBelowAutograd",
    "AutoGradMode",
    "ExcludeDispatchKeyGuard",
    "IncludeDispatchKeyGuard",
    "InferenceModeGuard",
    "NormalModeGuard",
    "State",
    "StateGuard",
    "excluded_keys",
    "get_state",
    "included_keys",
    "is_grad_enabled",
    "set_state",
    "state_of",
    "with_grad_mode",
]


# Modes that are no keys.
INFERENCE = 1  # results are inference tensors
SAVED_HOOKS = 2  # what nodes save goes through the hooks of saved_tensors_hooks
MUTATION = 4  # saved values are copied before writes: allow_mutation_on_saved_tensors
TRANSFORM = 8  # inside a function that pullback.func transforms
MAPPING = 16  # inside a function that vmap maps
TAPE = 32  # operations are recorded on a tangent tape, for second derivatives
NUMPY = 64  # numpy_mode: writes are logged; elements that are read are copies, as NumPy's scalars
DISPATCH_MODE = 128  # a TorchDispatchMode sees every call: no path may compute without operators
TRACE = 256  # the program is traced: new memory is part of its graph
NUMBERS = 512  # it computes with arrays: its elements are numbers, outside of transforms

NUMBER_MODES = NUMPY | NUMBERS


class State:
    """Masks of the flags of a call, to add (`include`) and to retain (`keep`), and modes.

    Made only by ``state_of``, so that equal states are the same object.
    """

    __slots__ = ("include", "keep", "modes")

    def __init__(self, include: int, keep: int, modes: int):
        self.include = include
        self.keep = keep
        self.modes = modes


_states: dict[tuple[int, int, int], State] = {}


def state_of(include: int, keep: int, modes: int = 0) -> State:
    """The one state with these masks and modes."""
    found = _states.get((include, keep, modes))
    # setdefault is atomic, so two threads that both miss still get the same object.
    return found or _states.setdefault((include, keep, modes), State(include, keep, modes))


def with_grad_mode(state: State, enabled: bool, *, end: int = 0) -> State:
    """A state as it is, but with the recording of history on or off, and without some modes."""
    keep = state.keep | REQUIRES_GRAD if enabled else state.keep & ~REQUIRES_GRAD
    return state_of(state.include, keep, state.modes & ~end)


DEFAULT_STATE = state_of(
    include=KEY_BITS[DispatchKey.BackendSelect] | KEY_BITS[DispatchKey.ADInplaceOrView],
    keep=ALL_BITS,
)
_state: ContextVar[State] = ContextVar("pullback_dispatch_state", default=DEFAULT_STATE)
get_state = _state.get
set_state = _state.set  # to restore a whole state; guards change single bits

_AD_INPLACE_OR_VIEW = KEY_BITS[DispatchKey.ADInplaceOrView]


class StateGuard:
    """Changes the thread's state between enter and exit; one guard object, one use at a time.

    `begin` and `end` are modes to turn on and off; the other arguments are bits of keys.
    """

    def __init__(
        self,
        *,
        include: int = 0,
        uninclude: int = 0,
        drop: int = 0,
        keep: int = 0,
        begin: int = 0,
        end: int = 0,
    ):
        self._request = (include, uninclude, drop, keep, begin, end)
        self._changed: tuple[int, ...] | None = None
        self._before = DEFAULT_STATE

    def __enter__(self) -> Self:
        if self._changed is not None:
            raise DispatchError(
                f"{type(self).__name__} is active already; make a new guard for each `with` block"
            )
        add, remove, drop, restore, begin, end = self._request
        self._before = now = _state.get()
        include = (now.include | add) & ~remove
        keep = now.keep & ~drop | restore
        modes = (now.modes | begin) & ~end
        # What changes here is what exit changes back, and nothing else.
        self._changed = (
            include & ~now.include,
            now.include & ~include,
            keep & ~now.keep,
            now.keep & ~keep,
            modes & ~now.modes,
            now.modes & ~modes,
        )
        try:
            _state.set(state_of(include, keep, modes))
        except BaseException:
            _state.set(now)
            self._changed = None
            raise
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        if self._changed is None:
            raise DispatchError(
                f"{type(self).__name__} is not active: it ends a `with` block that never began; "
                f"use it as `with {type(self).__name__}(...):`"
            )
        added, removed, restored, dropped, begun, ended = self._changed
        self._changed = None
        try:
            now = _state.get()
            # Set and cleared, never flipped: a generator may be closed in another context.
            after = state_of(
                now.include & ~added | removed,
                now.keep & ~restored | dropped,
                now.modes & ~begun | ended,
            )
        except BaseException:  # an interrupt
            _state.set(self._before)
            raise
        _state.set(after)


def _bits(keys: tuple[KeyLike | DispatchKeySet, ...]) -> int:
    total = 0
    for key in keys:
        total |= key if isinstance(key, DispatchKeySet) else DispatchKeySet(key)
    return int(total)


class IncludeDispatchKeyGuard(StateGuard):
    """Adds keys to the key set of every call in this thread.

    >>> with IncludeDispatchKeyGuard("Tracer"):
    ...     included_keys()
    DispatchKeySet(BackendSelect, ADInplaceOrView, Tracer)
    """

    def __init__(self, *keys: KeyLike | DispatchKeySet):
        super().__init__(include=_bits(keys))


class ExcludeDispatchKeyGuard(StateGuard):
    """Takes keys from the key set of every call in this thread, for all their backends.

    >>> with ExcludeDispatchKeyGuard("Tracer"):
    ...     excluded_keys()
    DispatchKeySet(Tracer)
    """

    def __init__(self, *keys: KeyLike | DispatchKeySet):
        super().__init__(drop=_bits(keys) & FUNCTIONALITY_MASK)


class AutoDispatchBelowAutograd(StateGuard):
    """Skips the autograd keys, in this call and in every call made inside it.

    >>> with AutoDispatchBelowAutograd():
    ...     excluded_keys().has("AutogradCPU"), excluded_keys().has("ADInplaceOrView")
    (True, False)
    """

    def __init__(self) -> None:
        super().__init__(drop=AUTOGRAD_BITS)


class AutoDispatchBelowADInplaceOrView(StateGuard):
    """Skips the autograd keys and ADInplaceOrView, so versions and views are not tracked either.

    >>> with AutoDispatchBelowADInplaceOrView():
    ...     "ADInplaceOrView" in excluded_keys()
    True
    """

    def __init__(self) -> None:
        super().__init__(drop=AUTOGRAD_BITS | _AD_INPLACE_OR_VIEW)


class InferenceModeGuard(StateGuard):
    """Skips autograd and no longer adds ADInplaceOrView; what inference mode means to dispatch.

    >>> with InferenceModeGuard():
    ...     included_keys()
    DispatchKeySet(BackendSelect)
    """

    def __init__(self) -> None:
        super().__init__(uninclude=_AD_INPLACE_OR_VIEW, drop=AUTOGRAD_BITS, begin=INFERENCE)


class NormalModeGuard(StateGuard):
    """Records and tracks whatever the thread's modes are; what ``inference_mode(False)`` means.

    >>> with InferenceModeGuard(), NormalModeGuard():
    ...     included_keys()
    DispatchKeySet(BackendSelect, ADInplaceOrView)
    """

    def __init__(self, *, without_hooks: bool = False) -> None:
        keep = AUTOGRAD_BITS | _AD_INPLACE_OR_VIEW | REQUIRES_GRAD
        end = INFERENCE | (SAVED_HOOKS if without_hooks else 0)
        super().__init__(include=_AD_INPLACE_OR_VIEW, keep=keep, end=end)


class AutoGradMode(StateGuard):
    """Turns the recording of history on or off; key sets are the same in both modes.

    >>> with AutoGradMode(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, enabled: bool):
        if enabled:
            super().__init__(keep=REQUIRES_GRAD)
        else:
            super().__init__(drop=REQUIRES_GRAD)


def is_grad_enabled() -> bool:
    """Whether operations record history in this thread.

    >>> is_grad_enabled()
    True
    """
    return bool(_state.get().keep & REQUIRES_GRAD)


def included_keys() -> DispatchKeySet:
    """The keys that this thread adds to every call.

    >>> included_keys()
    DispatchKeySet(BackendSelect, ADInplaceOrView)
    """
    return DispatchKeySet.from_bits(_state.get().include)


def excluded_keys() -> DispatchKeySet:
    """The keys that this thread takes from every call, each for all of its backends.

    >>> excluded_keys()
    DispatchKeySet()
    """
    return DispatchKeySet.from_functionalities(~_state.get().keep)
