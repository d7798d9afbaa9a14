"""``scan`` in a traced program: one loop, whose step is traced once."""

from __future__ import annotations

from collections.abc import Callable

from pullback.fx.body_tracer import BodyTracer
from pullback.fx.tracer import Tracer, current_tracer
from pullback.loops.derivatives import apply_loop
from pullback.loops.step import Operands, Step, trace_step
from pullback.tensor.tensor import Tensor

__all__ = ["loop_tracer", "trace_loop"]


def loop_tracer() -> Tracer | None:
    """The tracer that runs, if loops are single nodes in its graph."""
    tracer = current_tracer()
    return tracer if tracer is not None and tracer.traces_loops else None


def trace_loop(
    tracer: Tracer,
    run: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]],
    carry: list[Tensor],
    xs: list[Tensor],
    length: int,
    is_reversed: bool,
) -> tuple[list[Tensor], list[Tensor]]:
    """The last carry and the stacked results of a loop.

    `run` takes the carry and the slices of one step, and returns the next carry and what is
    stacked. It runs once to find the tensors that it reads besides, and again for each derivative.
    """
    tracer.has_loops = True
    sizes = (0, len(carry), len(xs))
    given = Operands([], carry, xs)

    def first(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        return run(inner.carry, inner.xs)

    probe = trace_step(tracer, Step(first, length, is_reversed, sizes), given, is_first=True)
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
