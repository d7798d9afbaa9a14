"""The tracer that runs, and refusals of programs that it cannot record."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from pullback.errors import TraceError

if TYPE_CHECKING:
    from pullback.fx.tracer import Tracer

__all__ = ["current_tracer", "read_error", "refusal", "running_tracer"]

running_tracer: ContextVar[Tracer | None] = ContextVar("pullback_tracer", default=None)
current_tracer = running_tracer.get


def refusal(message: str) -> TraceError:
    """The error for what the tracer that runs cannot record.

    The tracer keeps it: a program that catches the error, and goes on, has no graph either.
    """
    error = TraceError(message)
    tracer = current_tracer()
    if tracer is not None and tracer.refused is None:
        tracer.refused = error
    return error


def read_error(what: str, line: str, *, is_number: bool = False) -> TraceError:
    """The error for a value that a program reads, where its graph cannot have a guard."""
    fix = (
        "Name the argument in static_argnums of pb.compile: each of its values has a graph then."
        if is_number
        else "Choose by pb.where(condition, a, b) instead of a branch, and pass what decides about "
        "the structure as a Python value, for pb.compile as one of static_argnums."
    )
    return refusal(
        f"{what}: the program reads a value while it is traced{line}, so that its graph would be "
        f"right for this value only. {fix}"
    )
