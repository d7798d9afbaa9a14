"""Blocks in which a tracer runs, or none does; an interrupt leaves the state as it was before."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from pullback.dispatch.keys import ALL_BITS, AUTOGRAD_BITS, KEY_BITS, REQUIRES_GRAD, DispatchKey
from pullback.dispatch.modes import TRACE, get_state, set_state, state_of
from pullback.dispatch.python_dispatch import ModeStack, active_modes
from pullback.fx.refusals import running_tracer
from pullback.interrupts import run_to_end, uninterrupted_entry
from pullback.tensor.tensor import TRACES

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["PLAIN_STATE", "Running", "untraced"]

# Kernels compute as outside of any mode: nothing is recorded, tracked or traced.
PLAIN_STATE = state_of(
    KEY_BITS[DispatchKey.BackendSelect],
    ALL_BITS & ~(AUTOGRAD_BITS | KEY_BITS[DispatchKey.ADInplaceOrView] | REQUIRES_GRAD),
)


class Running:
    """A block whose operator calls a tracer records; ``Tracer.running`` makes it.

    The garbage collector is off in it: a graph is many small objects that refer to each other, and
    to look for garbage among them takes half of the time of a trace.
    """

    __slots__ = ("_before", "_collects", "_stack", "_tracer")

    def __init__(self, tracer: Tracer, modes: int):
        self._tracer = tracer
        self._stack = ModeStack((*active_modes(), tracer), begin=TRACE | modes)

    def __enter__(self) -> None:
        self._before = running_tracer.get()
        self._collects = gc.isenabled()
        try:
            gc.disable()
            running_tracer.set(self._tracer)
            TRACES.append(self._tracer)
            self._stack.__enter__()
        except BaseException:
            run_to_end(self._restore)
            raise

    @uninterrupted_entry
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._stack.__exit__()
        finally:
            run_to_end(self._restore)
        if kind is None and self._tracer.refused is not None:
            raise self._tracer.refused

    def _restore(self) -> None:
        running_tracer.set(self._before)
        if self._tracer in TRACES:
            TRACES.remove(self._tracer)
        if self._collects:
            gc.enable()


class untraced:  # noqa: N801 - read as a word: with untraced()
    """A block whose operator calls compute on arrays: neither traced nor recorded."""

    __slots__ = ("_before",)
    _before: tuple[Any, Any]

    def __enter__(self) -> None:
        self._before = running_tracer.get(), get_state()
        try:
            running_tracer.set(None)
            set_state(PLAIN_STATE)
        except BaseException:
            run_to_end(self._restore)
            raise

    @uninterrupted_entry
    def __exit__(self, *_: object) -> None:
        run_to_end(self._restore)

    def _restore(self) -> None:
        tracer, state = self._before
        running_tracer.set(tracer)
        set_state(state)
