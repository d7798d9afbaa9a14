"""``scan`` in a traced program: one loop, whose step is traced once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pullback._generated.public import concatenate
from pullback._lazy import lazy_module
from pullback.autograd.modes import GradSwitch
from pullback.dispatch.modes import NUMPY, get_state
from pullback.fx.body_tracer import BodyTracer
from pullback.fx.operator_arguments import written_arrays
from pullback.fx.tracer import Tracer, current_tracer
from pullback.loops.aliases import with_aliases
from pullback.loops.carry import Carry
from pullback.loops.derivatives import apply_loop
from pullback.loops.step import Operands, Step, TracedStep, trace_step
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor
from pullback.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from pullback.interop import mode
else:
    mode = lazy_module("pullback.interop.mode")

__all__ = [
    "Run",
    "in_mode",
    "loop_tracer",
    "probe_step",
    "promote_traced",
    "trace_chunks",
    "trace_loop",
    "without_effects",
]

_T = TypeVar("_T")

# Takes the carry and the slices of one step, returns the next carry and what is stacked.
Run = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]


def loop_tracer() -> Tracer | None:
    """The tracer that runs, if loops are single nodes in its graph."""
    tracer = current_tracer()
    return tracer if tracer is not None and tracer.is_general else None


def in_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user function of a loop, which runs in ``numpy_mode`` later if it does now."""
    return mode.run_in_mode(function) if get_state().modes & NUMPY else function


class _WriteLog(TorchDispatchMode):
    """Dispatch mode that keeps what operators overwrite."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the operator, after a copy of what it writes to."""
        written: list[Any] = [*written_arrays(func, args, kwargs or {})]
        for held in written:
            array = held.array if isinstance(held, BatchedArray) else held
            if isinstance(array, np.ndarray):
                self._before.append((array, array.copy()))
        return func(*args, **(kwargs or {}))

    def undo_writes(self) -> None:
        """Gives all memory the values that it had before."""
        for array, values in reversed(self._before):
            array[...] = values


def without_effects(function: Callable[[], _T]) -> _T:
    """Calls a function that returns no tensors, and undoes its writes to memory."""
    outer = current_tracer()
    log = _WriteLog() if outer is None else BodyTracer(outer, may_differentiate=True)
    try:
        with GradSwitch(grad=False), log if isinstance(log, _WriteLog) else log.running():
            return function()
    finally:
        log.undo_writes()


def probe_step(
    tracer: Tracer, run: Run, carry: list[Tensor], xs: list[Tensor], length: int | None = 1
) -> TracedStep:
    """The trace of the first step of a loop, to find out what it reads and returns."""
    tracer.has_loops = True

    def first(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        return run(inner.carry, inner.xs)

    step = Step(first, length, False, (0, len(carry), len(xs)))
    return trace_step(tracer, step, Operands([], carry, xs), is_first=True)


def promote_traced(
    tracer: Tracer,
    carry: Carry,
    xs: list[Tensor],
    call: Callable[[list[Tensor], list[Tensor]], list[Tensor]],
) -> None:
    """Gives Python numbers in `init` the dtype of the first result, in a traced program."""
    dtypes: dict[int, Any] = {}

    def run(leaves: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        dtypes.update(carry.promotions(call(leaves, x)))
        return leaves, []

    probe_step(tracer, run, carry.first, xs)
    if carry.promote(dtypes):  # once, as without a trace: the check of the loop finds the others
        probe_step(tracer, run, carry.first, xs)


def trace_loop(
    tracer: Tracer,
    run: Run,
    carry: list[Tensor],
    xs: list[Tensor],
    length: int | None,
    is_reversed: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """The last carry and the stacked results of a loop.

    A loop of length None runs while its first carry, a truth value, is true, and stacks nothing.
    `run` runs once to find the tensors that it reads besides, and again for each derivative.
    """
    probe = probe_step(tracer, run, carry, xs, length)
    captured = probe.tensors

    def pure(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        body = current_tracer()
        assert isinstance(body, BodyTracer)
        body.stand_in(captured, inner.constants)
        return run(inner.carry, inner.xs)

    sizes = (len(captured), len(carry), len(xs))
    step = Step(pure, length, is_reversed, sizes, numbers=probe.numbers)
    step.traced = probe
    given = Operands(captured, carry, xs)
    found = apply_loop(step, given)
    last = with_aliases(tracer, probe.body, given, found[: len(carry)], length)
    return last, found[len(carry) :]


def trace_chunks(
    run: Run,
    carry: list[Tensor],
    xs: list[Tensor],
    length: int,
    is_reversed: bool,
    depth: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """The same as a loop of loops: a backward pass keeps ``depth * length ** (1 / depth)`` carries.

    The backward pass of a loop runs each step again. If a step is a loop itself, the carries of one
    chunk only are kept at a time.
    """
    tracer = current_tracer()
    assert tracer is not None
    count = round(length ** (1 / depth))
    if depth == 1 or count < 2:
        return trace_loop(tracer, run, carry, xs, length, is_reversed)
    size = length // count
    cut = length % count if is_reversed else count * size
    parts = [[x[:cut] for x in xs], [x[cut:] for x in xs]]
    main, rest = reversed(parts) if is_reversed else parts

    def chunk(inner: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        return trace_chunks(run, inner, x, size, is_reversed, depth - 1)

    chunks = [x.reshape(count, size, *x.shape[1:]) for x in main]
    carry, stacked = trace_loop(tracer, chunk, carry, chunks, count, is_reversed)
    stacked = [y.reshape(count * size, *y.shape[2:]) for y in stacked]
    if length % count:
        carry, others = trace_loop(tracer, run, carry, rest, length % count, is_reversed)
        pairs = (
            zip(others, stacked, strict=True) if is_reversed else zip(stacked, others, strict=True)
        )
        stacked = [concatenate(pair) for pair in pairs]
    return carry, stacked
