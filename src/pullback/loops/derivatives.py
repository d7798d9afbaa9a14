"""``TracedLoop``: a loop of a traced program as one operation that can be differentiated.

Its backward pass is a loop that goes from the last step to the first. It carries the cotangents of
the carry and the sums of the cotangents of constants; each step runs the forward step again, from
the carry that the forward loop has stacked, and pulls the cotangents back. Tangents are a loop of
the same kind in forward direction. Both are traced loops themselves, and so are their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pullback.autograd.function.function import Function
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.modes import is_grad_enabled
from pullback.dispatch.keys import DUAL
from pullback.errors import TraceError
from pullback.func.forward import jvp
from pullback.func.reverse import vjp
from pullback.fx.tracer import current_tracer
from pullback.loops.step import Operands, Step, record_loop
from pullback.operators.creation.functions import zeros
from pullback.tensor.tensor import Tensor

__all__ = ["TracedLoop", "TracedWhile", "apply_loop"]


def apply_loop(step: Step, given: Operands) -> list[Tensor]:
    """Runs a loop in a traced program: the last carry, and what it stacks."""
    flat = given.flat
    if step.length is None:
        return list(TracedWhile.apply(step, *flat))
    needs = is_grad_enabled() and any(map(requires_grad, flat))
    step.saves = needs or any(tensor._flags & DUAL for tensor in flat)
    found = TracedLoop.apply(step, *flat)
    count = len(found) - (step.sizes[1] if step.saves else 0)
    return list(found[:count])


def _is_float(tensor: Tensor) -> bool:
    return tensor.dtype.kind in "fc"


class TracedLoop(Function):
    """A loop of a traced program."""

    generate_vmap_rule = True

    @staticmethod
    def forward(step: Step, *flat: Tensor) -> tuple[Tensor, ...]:
        """Records the loop."""
        tracer = current_tracer()
        if tracer is None:
            raise TraceError("a loop of a traced program is used outside of it")
        return tuple(record_loop(tracer, step, step.operands(flat)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves the operands, and the carry before each step."""
        step, *flat = inputs
        ctx.step = step
        ctx.kinds = [_is_float(out) for out in output]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(out for out in output if not _is_float(out)))
        if step.saves:
            starts = output[len(output) - step.sizes[1] :]
            ctx.save_for_backward(*flat, *starts)
            ctx.save_for_forward(*flat, *starts)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """The loop of cotangents."""
        step: Step = ctx.step
        count = sum(step.sizes)
        saved = ctx.saved_tensors
        given = step.operands(saved[:count])
        return None, *_pull_back(step, given, saved[count:], ctx.needs_input_grad[1:], cotangents)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """The loop of tangents."""
        step: Step = ctx.step
        count = sum(step.sizes)
        saved = ctx.saved_tensors
        given = step.operands(saved[:count])
        return tuple(_push_forward(step, given, saved[count:], tangents, ctx.kinds))


class TracedWhile(TracedLoop):
    """A loop of a traced program that runs while its first carry is true."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ARG004
        """Raises: the carry before each step would have to be stacked, of which there is no end."""
        raise TraceError("while_loop: a loop of unknown length is differentiated in reverse mode")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves the operands."""
        ctx.step, *flat = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(out for out in output if not _is_float(out)))
        ctx.save_for_forward(*flat)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """The loop once more, with tangents beside its carry."""
        step: Step = ctx.step
        return tuple(_push_while(step, step.operands(ctx.saved_tensors), tangents))


class _Chosen:
    """The inputs of a step that it is differentiated by: floats of the carry and others.

    Args:
        step: the step.
        inputs: the operands of the step.
        needs: for each input, whether it is one of them; all of the carry are.
    """

    def __init__(self, step: Step, inputs: list[Tensor], needs: Iterable[bool]):
        self.step = step
        constants, carried, _ = step.sizes
        carry = range(constants, constants + carried)
        pairs = zip(inputs, needs, strict=True)
        self.places = [
            n for n, (x, need) in enumerate(pairs) if _is_float(x) and (need or n in carry)
        ]

    def of(self, flat: list[Tensor]) -> tuple[Tensor, ...]:
        """The chosen ones."""
        return tuple(flat[place] for place in self.places)

    def function(self, flat: list[Tensor], outputs: list[int]) -> Callable[..., Any]:
        """A function of the chosen inputs that returns some results of the step, then all."""

        def run(*chosen: Tensor) -> tuple[tuple[Tensor, ...], list[Tensor]]:
            mixed = list(flat)
            for place, tensor in zip(self.places, chosen, strict=True):
                mixed[place] = tensor
            found = self.step.results(self.step.operands(mixed))
            return tuple(found[place] for place in outputs), found

        return run


def _pull_back(
    step: Step,
    given: Operands,
    starts: Any,
    needs: tuple[bool, ...],
    cotangents: tuple[Tensor | None, ...],
) -> list[Tensor | None]:
    constants, carried, _ = step.sizes
    inputs = Operands(given.constants, list(starts), given.xs).flat
    chosen = _Chosen(step, inputs, needs)
    floats = [n for n in range(carried) if _is_float(given.carry[n])]
    later = _present(cotangents[carried:])
    stacked = [carried + n for n in later]
    sums = [place for place in chosen.places if place < constants]
    own, others = constants, len(inputs) - constants

    def run(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        rest, seeds = inner.xs[:others], inner.xs[others:]
        flat = [*inner.constants, *rest]
        incoming, totals = inner.carry[: len(floats)], inner.carry[len(floats) :]
        outputs = [*floats, *stacked]
        _, pull, _ = vjp(chosen.function(flat, outputs), *chosen.of(flat), has_aux=True)
        found = pull((*incoming, *seeds))
        by_place = dict(zip(chosen.places, found, strict=True))
        new_totals = [a + by_place[place] for a, place in zip(totals, sums, strict=True)]
        return (
            [*(by_place[own + n] for n in floats), *new_totals],
            [by_place[n] for n in chosen.places if n >= own + carried],
        )

    seeds = [_or_zeros(cotangents[n], given.carry[n]) for n in floats]
    totals = [zeros(inputs[place].shape, inputs[place].dtype) for place in sums]
    xs = [*inputs[constants:], *later.values()]
    operands = Operands(given.constants, [*seeds, *totals], xs)
    if not operands.carry and not chosen.places:
        return [None] * len(inputs)
    reverse = _derive_step(step, run, operands, not step.is_reversed)
    found = apply_loop(reverse, operands)
    gradients: list[Tensor | None] = [None] * len(inputs)
    targets = [*(own + n for n in floats), *sums]
    targets += [n for n in chosen.places if n >= own + carried]
    for place, gradient in zip(targets, found, strict=True):
        gradients[place] = gradient
    return gradients


def _push_forward(
    step: Step,
    given: Operands,
    starts: Any,
    tangents: tuple[Tensor | None, ...],
    kinds: list[bool],
) -> list[Tensor | None]:
    constants, carried, _ = step.sizes
    inputs = Operands(given.constants, list(starts), given.xs).flat
    floats = [n for n in range(carried) if _is_float(given.carry[n])]
    chosen = _Chosen(step, inputs, [tangent is not None for tangent in tangents])
    before = [place for place in chosen.places if place < constants]
    after = [place for place in chosen.places if place >= constants + carried]
    others = len(inputs) - constants
    outputs = [place for place, is_float in enumerate(kinds) if is_float]

    def run(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        flat = [*inner.constants[:constants], *inner.xs[:others]]
        slopes = [*inner.constants[constants:], *inner.carry, *inner.xs[others:]]
        function = chosen.function(flat, outputs)
        _, found, _ = jvp(function, chosen.of(flat), tuple(slopes), has_aux=True)
        return list(found[: len(floats)]), list(found[len(floats) :])

    first = [_or_zeros(tangents[constants + n], given.carry[n]) for n in floats]
    known = _present(tangents)
    operands = Operands(
        [*given.constants, *(known[n] for n in before)],
        first,
        [*inputs[constants:], *(known[n] for n in after)],
    )
    found = iter(apply_loop(_derive_step(step, run, operands, step.is_reversed), operands))
    return [next(found) if is_float else None for is_float in kinds]


def _push_while(
    step: Step, given: Operands, tangents: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    constants, carried, _ = step.sizes
    known = _present(tangents)
    chosen = _Chosen(step, given.flat, [place in known for place in range(constants + carried)])
    before = [place for place in chosen.places if place < constants]
    floats = [n for n in range(carried) if _is_float(given.carry[n])]

    def run(inner: Operands) -> tuple[list[Tensor], list[Tensor]]:
        flat = [*inner.constants[:constants], *inner.carry[:carried]]
        slopes = (*inner.constants[constants:], *inner.carry[carried:])
        function = chosen.function(flat, floats)
        _, found, after = jvp(function, chosen.of(flat), slopes, has_aux=True)
        return [*after, *found], []

    first = [_or_zeros(tangents[constants + n], given.carry[n]) for n in floats]
    operands = Operands([*given.constants, *(known[n] for n in before)], [*given.carry, *first], [])
    found = apply_loop(_derive_step(step, run, operands, False), operands)
    slopes = dict(zip(floats, found[carried:], strict=True))
    return [slopes.get(n) for n in range(carried)]


def _derive_step(step: Step, run: Any, operands: Operands, is_reversed: bool) -> Step:
    """The step of a loop of derivatives."""
    sizes = (len(operands.constants), len(operands.carry), len(operands.xs))
    return Step(run, step.length, is_reversed, sizes, numbers=step.numbers)


def _present(tensors: tuple[Tensor | None, ...]) -> dict[int, Tensor]:
    """The tensors that are not None by their places."""
    return {place: tensor for place, tensor in enumerate(tensors) if tensor is not None}


def _or_zeros(tensor: Tensor | None, like: Tensor) -> Tensor:
    return zeros(like.shape, like.dtype) if tensor is None else tensor
