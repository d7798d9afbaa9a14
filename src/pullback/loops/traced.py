"""``scan`` in a traced program: one loop, whose step is traced once."""

from __future__ import annotations

from collections.abc import Callable

from pullback.fx.body_tracer import BodyTracer
from pullback.fx.tracer import Tracer, current_tracer
from pullback.loops.derivatives import apply_loop
from pullback.loops.step import Operands, Step, TracedStep, trace_step
from pullback.tensor.tensor import Tensor

__all__ = ["Run", "loop_tracer", "probe_step", "trace_loop"]

# Takes the carry and the slices of one step, returns the next carry and what is stacked.
Run = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]


def loop_tracer() -> Tracer | None:
    """The tracer that runs, if loops are single nodes in its graph."""
    tracer = current_tracer()
    return tracer if tracer is not None and tracer.traces_loops else None


def probe_step(tracer: Tracer, run: Run, carry: list[Tensor], xs: list[Tensor]) -> TracedStep:
    """The trace of the first step of a loop, to find out what it reads and returns."""
    tracer.has_loops = True

    def first(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        return run(inner.carry, inner.xs)

    step = Step(first, 1, False, (0, len(carry), len(xs)))
    return trace_step(tracer, step, Operands([], carry, xs), is_first=True)


def trace_loop(
    tracer: Tracer,
    run: Run,
    carry: list[Tensor],
    xs: list[Tensor],
    length: int,
    is_reversed: bool,
) -> tuple[list[Tensor], list[Tensor]]:
    """The last carry and the stacked results of a loop.

    `run` runs once to find the tensors that it reads besides, and again for each derivative.
    """
    probe = probe_step(tracer, run, carry, xs)
    captured = probe.tensors

    def pure(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        body = current_tracer()
        assert isinstance(body, BodyTracer)
        body.stand_in(captured, inner.constants)
        return run(inner.carry, inner.xs)

    sizes = (len(captured), len(carry), len(xs))
    step = Step(pure, length, is_reversed, sizes, numbers=probe.numbers)
    step.traced = probe
    found = apply_loop(step, Operands(captured, carry, xs))
    return found[: len(carry)], found[len(carry) :]
