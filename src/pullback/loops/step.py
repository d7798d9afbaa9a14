"""``Step``: one step of a loop as a pure function of tensors, and its trace.

The function that the user gives may read tensors besides its carry. A step has these as explicit
inputs: while it runs, the *captured* tensor objects stand for the tensors that the step is given.
So a step can be differentiated by captured tensors as by its carry, any number of times, and its
derivatives are those of the code as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.modes import GradSwitch
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import TAPE, StateGuard
from pullback.errors import TraceError
from pullback.fx.batched import add_levels, move_axis, parts_of
from pullback.fx.body_tracer import BodyTracer
from pullback.fx.loop_call import LoopBody, LoopCall
from pullback.fx.traced_array import TracedArray
from pullback.fx.tracer import Tracer
from pullback.kernels.random import global_state
from pullback.tensor.batched import BatchedArray, Levels
from pullback.tensor.levels import active_levels
from pullback.tensor.tensor import Tensor, fresh, wrap

__all__ = ["Operands", "Step", "TracedStep", "record_loop", "trace_step", "traced_array"]

_MOST_COMPARED = 1 << 20  # bytes of an array whose elements are compared


class Operands(NamedTuple):
    """The tensors of a loop, or of one step of it."""

    constants: list[Tensor]
    carry: list[Tensor]
    xs: list[Tensor]

    @property
    def flat(self) -> list[Tensor]:
        """All of them."""
        return [*self.constants, *self.carry, *self.xs]


class TracedStep(NamedTuple):
    """The graph of a step, and how its values relate to tensors.

    Attributes:
        body: the graph.
        captured: the nodes around the loop of the inputs that are captured.
        carry_levels: the vmap levels of each carried value.
        stacked_levels: those of each stacked value.
        values: arrays of one step's results.
        tensors: the captured tensors that may be differentiated by.
        numbers: Python numbers and arrays that the graph depends on.
    """

    body: LoopBody
    captured: list[Any]
    carry_levels: list[Levels]
    stacked_levels: list[Levels]
    values: list[Any]
    tensors: list[Tensor]
    numbers: frozenset[Any]

    def with_starts(self) -> TracedStep:
        """The same step with its carry before each step among what is stacked."""
        body = self.body
        return self._replace(
            body=body._replace(outputs=[*body.outputs, *body.carried]),
            stacked_levels=[*self.stacked_levels, *self.carry_levels],
            values=[*self.values, *self.values[: len(body.carried)]],
        )


class Step:
    """One step of a loop.

    Attributes:
        run: takes the constants, the carry and the slices of one step, returns the next carry and
            what is stacked.
        length: the number of steps; None for a loop that runs while its first carry is true.
        is_reversed: whether the first step has the last slices.
        sizes: the numbers of constants, carried values and sliced arrays.
        saves: whether the carry before each step is stacked behind the other results.
        traced: the trace for the first operands, until it is used.
        numbers: Python numbers and arrays that the step that is differentiated depends on.
    """

    def __init__(
        self,
        run: Callable[[Operands], tuple[list[Tensor], list[Tensor]]],
        length: int | None,
        is_reversed: bool,
        sizes: tuple[int, int, int],
        *,
        saves: bool = False,
        numbers: frozenset[Any] = frozenset(),
    ):
        self.run = run
        self.length = length
        self.is_reversed = is_reversed
        self.sizes = sizes
        self.saves = saves
        self.numbers = numbers
        self.traced: TracedStep | None = None

    def operands(self, flat: Any) -> Operands:
        """Flat tensors as operands."""
        given = list(flat)
        first, second = self.sizes[0], self.sizes[0] + self.sizes[1]
        return Operands(given[:first], given[first:second], given[second:])

    def results(self, given: Operands) -> list[Tensor]:
        """The next carry and what is stacked, with the carry before the step if it is saved."""
        carry, stacked = self.run(given)
        return [*carry, *stacked, *given.carry] if self.saves else [*carry, *stacked]


# --- tracing --------------------------------------------------------------------------------------


def trace_step(outer: Tracer, step: Step, given: Operands, *, is_first: bool) -> TracedStep:
    """Traces one step on the first slices of its operands.

    A carry that depends on a vmap level after a step has it before the step, too: the step is
    traced again with wider operands until that holds. `is_first` says that captured tensors are
    not known yet.
    """
    levels = [_parts(outer, tensor)[1] for tensor in given.carry]
    sizes = _level_sizes(outer, given)
    while True:
        try:
            traced = _trace_once(outer, step, given, levels, sizes, is_first)
        except TraceError:
            # A step may write values of a vmap level to its carry, which is to have the level then.
            sizes.update({level.number: level.size for level in active_levels()})
            if step.length is None or all(own == tuple(sorted(sizes)) for own in levels):
                raise
            levels = [tuple(sorted(sizes))] * len(levels)
            continue
        wider = [tuple(sorted({*a, *b})) for a, b in zip(levels, traced.carry_levels, strict=True)]
        if wider == levels:
            return traced
        levels = wider


def _trace_once(
    outer: Tracer,
    step: Step,
    given: Operands,
    levels: list[Levels],
    sizes: dict[int, int],
    is_first: bool,
) -> TracedStep:
    tracer = BodyTracer(outer, may_differentiate=is_first)
    inside = _inner_operands(outer, tracer, step, given, levels, sizes)
    nodes = [[_parts(tracer, t)[0].node for t in part] for part in inside]
    draws = global_state()
    try:
        with StateGuard(drop=DUAL, end=TAPE), GradSwitch(grad=True), tracer.running():
            carry, stacked = step.run(inside)
            outputs = [
                _expand(tracer, out, wanted, sizes)
                for out, wanted in zip(carry, levels, strict=True)
            ]
            outputs += [_parts(tracer, out) for out in stacked]
            tracer.picks.check_end()
    finally:
        tracer.restore_tensors()
        tracer.undo_writes()
    if tracer.writes:
        raise TraceError("a step of a loop writes to its carry, or to memory from outside")
    if tracer.random or global_state() != draws:
        raise TraceError("a step of a loop draws random numbers")
    tracer.pass_on()
    captured = tracer.captured_operands()
    if not step.numbers <= _numbers(tracer, is_own=False):
        raise TraceError("a step of a loop computes with other numbers than when it was traced")
    body = LoopBody(
        tracer,
        nodes[1],
        nodes[2],
        [*nodes[0], *(inner for inner, _ in captured)],
        [array.node for array, _ in outputs],
    )
    count = len(carry)
    return TracedStep(
        body,
        [node for _, node in captured],
        [own for _, own in outputs[:count]],
        [own for _, own in outputs[count:]],
        [array.value for array, _ in outputs],
        list(tracer.tensors.values()),
        _numbers(tracer, is_own=True),
    )


def _inner_operands(
    outer: Tracer,
    tracer: Tracer,
    step: Step,
    given: Operands,
    levels: list[Levels],
    sizes: dict[int, int],
) -> Operands:
    """The operands of one step as inputs of its trace."""
    place = -1 if step.is_reversed else 0

    def constant(tensor: Tensor, name: str) -> Tensor:
        array, own = _parts(outer, tensor)
        return _input(tracer, name, array.value, own)

    def carried(tensor: Tensor, wanted: Levels, name: str) -> Tensor:
        array, own = _parts(outer, tensor)
        return _input(tracer, name, _widen(array.value, own, wanted, sizes), wanted)

    def sliced(tensor: Tensor, name: str) -> Tensor:
        array, own = _parts(outer, tensor)
        return _input(tracer, name, np.take(array.value, place, axis=len(own)), own)

    return Operands(
        [constant(t, f"constant{n}") for n, t in enumerate(given.constants)],
        [
            carried(t, w, f"carry{n}")
            for n, (t, w) in enumerate(zip(given.carry, levels, strict=True))
        ],
        [sliced(t, f"x{n}") for n, t in enumerate(given.xs)],
    )


def _input(tracer: Tracer, name: str, value: Any, levels: Levels) -> Tensor:
    made = tracer.input(name, np.array(value, order="C"))
    return wrap(BatchedArray(made, levels) if levels else made)


def _parts(tracer: Tracer, tensor: Tensor) -> tuple[TracedArray, Levels]:
    """The array of a tensor in a trace, and its vmap levels."""
    found = parts_of(tracer, tracer.localize(tensor))
    tracer.picks.check_read(found[0].value)
    return found


def traced_array(tracer: Tracer, tensor: Tensor) -> Any:
    """The array that a tensor has in a trace."""
    return _parts(tracer, tensor)[0].value


def _level_sizes(tracer: Tracer, given: Operands) -> dict[int, int]:
    """The sizes of all vmap levels of operands."""
    sizes: dict[int, int] = {}
    for tensor in given.flat:
        array, own = _parts(tracer, tensor)
        sizes.update(zip(own, array.shape, strict=False))
    return sizes


def _widen(value: Any, own: Levels, wanted: Levels, sizes: dict[int, int]) -> Any:
    """An array with an axis in front for each wanted level."""
    rest = value.shape[len(own) :]
    lead = [sizes[level] if level in own else 1 for level in wanted]
    return np.broadcast_to(value.reshape((*lead, *rest)), (*(sizes[n] for n in wanted), *rest))


def _expand(
    tracer: Tracer, tensor: Tensor, wanted: Levels, sizes: dict[int, int]
) -> tuple[TracedArray, Levels]:
    """A result with the wanted levels; with its own ones if these are more."""
    array, own = _parts(tracer, tensor)
    sizes.update(zip(own, array.shape, strict=False))
    return add_levels(tracer, array, own, tuple(sorted({*own, *wanted})), sizes)


def _numbers(tracer: Any, *, is_own: bool) -> frozenset[Any]:
    """The Python numbers and arrays that a graph's calls, and those of loops in it, depend on.

    Arrays by their bytes, large ones by their memory: a step may make the same array again. With
    `is_own`, those arrays only that no call around the loop has read.
    """
    found: set[Any] = set()
    for array in tracer.own_arrays if is_own else tracer.captured.values():
        is_small = array.nbytes <= _MOST_COMPARED
        found.add(array.tobytes() if is_small else array.__array_interface__["data"][0])
    for node in tracer.graph.nodes:
        if node.target is getitem:  # one of several results
            continue
        values = (*node.args, *node.kwargs.values())
        found.update(value for value in values if type(value) in (int, float, complex))
        if isinstance(node.target, LoopCall):
            found |= _numbers(node.target.body.tracer, is_own=is_own)
    return frozenset(found)


# --- the loop -------------------------------------------------------------------------------------


def record_loop(outer: Tracer, step: Step, given: Operands) -> list[Tensor]:
    """Adds a loop to a traced program; returns its last carry and what it stacks.

    Their values are those of one step: the loop itself does not run.
    """
    traced = step.traced or trace_step(outer, step, given, is_first=False)
    step.traced = None
    if step.saves:
        traced = traced.with_starts()
    sizes = _level_sizes(outer, given)
    for tensor_levels, value in zip(
        [*traced.carry_levels, *traced.stacked_levels], traced.values, strict=True
    ):
        sizes.update(zip(tensor_levels, value.shape, strict=False))
    operands = []
    for tensor, wanted in zip(given.carry, traced.carry_levels, strict=True):
        array, own = _parts(outer, tensor)
        operands.append(add_levels(outer, array, own, wanted, sizes)[0].node)
    for tensor in given.xs:
        array, own = _parts(outer, tensor)
        operands.append(move_axis(outer, array, len(own), 0).node)
    explicit = len(traced.body.constant) - len(traced.captured)  # none in the first trace
    operands += [_parts(outer, t)[0].node for t in given.constants[:explicit]]
    call = LoopCall(traced.body, step.length, step.is_reversed)
    arrays = outer.record_loop(call, [*operands, *traced.captured], traced.values)
    count = len(given.carry)
    found = []
    for array, own in zip(arrays[:count], traced.carry_levels, strict=True):
        found.append(fresh(BatchedArray(array, own) if own else array))
    for array, own in zip(arrays[count:], traced.stacked_levels, strict=True):
        moved = move_axis(outer, array, 0, len(own))
        found.append(fresh(BatchedArray(moved, own) if own else moved))
    return found
