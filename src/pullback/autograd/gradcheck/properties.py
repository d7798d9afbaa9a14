"""Checks of properties of every backward, besides its values.

A backward is linear: zero gradients in, zero gradients out. A gradient that never arrives counts as
zero. And a batch of gradients gives the batch of results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.autograd.api import grad
from pullback.autograd.forward_ad import dual_level, make_dual, unpack_dual
from pullback.autograd.gradcheck.jacobians import pushed
from pullback.autograd.gradcheck.problem import Array, Problem, random_like
from pullback.autograd.graph.node import Node
from pullback.autograd.graph.output_metadata import UNDESCRIBED
from pullback.autograd.graph.views import edge_of
from pullback.autograd.namespaces import Namespace, tensors
from pullback.autograd.record.record import recorded
from pullback.errors import GradcheckError, message_of
from pullback.tensor.levels import RowLevel
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "check_batched_gradients",
    "check_batched_tangents",
    "check_missing_gradients",
    "check_missing_tangents",
    "check_zero_gradients",
]

_BATCH = 5


def check_zero_gradients(problem: Problem) -> None:
    """Zero output gradients give zero input gradients, of the inputs' shape and dtype."""
    outputs = [y for _, y in problem.outputs]
    zeros = [wrap(np.zeros(y.shape, y.dtype)) for y in outputs]
    found = grad(outputs, problem.inputs, zeros, retain_graph=True, allow_unused=True)
    for place, gradient in zip(problem.places, found, strict=True):
        source = problem.input(place)
        if gradient is None:
            continue
        if np.any(gradient._array != 0):
            raise GradcheckError(
                f"backward not multiplied by grad_output: with zero output gradients the gradient "
                f"of input {place} is\n{gradient._array}"
            )
        if (gradient.dtype, gradient.shape) != (source.dtype, source.shape):
            raise GradcheckError(
                f"grad is incorrect type or size: {gradient.dtype} {list(gradient.shape)} for "
                f"input {place} of {source.dtype} {list(source.shape)}"
            )


class _UndefinedGrad(Node):
    """Stops gradients, as if the tensor had not been used."""

    __slots__ = ("_edges",)

    def __init__(self, tensor: Tensor):
        self._edges = (edge_of(tensor),)
        self._output_metadata = UNDESCRIBED

    def backward(self, xp: Namespace, *grads: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Nothing, whatever arrives."""
        return (None,)


def _cut(tensor: Tensor) -> Tensor:
    """The same value, through which no gradient comes back."""
    return recorded(_UndefinedGrad(tensor), tensor._array)


def check_missing_gradients(problem: Problem) -> None:
    """Output gradients that do not arrive, all of them and each in turn, count as zero."""
    count = len(problem.outputs)
    cases = [set(range(count))] + ([{n} for n in range(count)] if count > 1 else [])
    for cut in cases:
        outputs = [_cut(y) if n in cut else y for n, y in enumerate(problem.differentiated())]
        zeros = [wrap(np.zeros(y.shape, y.dtype)) for y in outputs]
        missing = [problem.outputs[n][0] for n in sorted(cut)]
        try:
            found = grad(outputs, problem.inputs, zeros, allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError(
                f"Expected backward function to handle undefined output grads, but without those "
                f"of outputs {missing} it raised {type(error).__name__}: {message_of(error)}"
            ) from error
        for place, gradient in zip(problem.places, found, strict=True):
            if gradient is not None and np.any(gradient._array != 0):
                raise GradcheckError(
                    f"Expected all input grads to be undefined or zero when all output grads are "
                    f"undefined or zero, but without those of outputs {missing} the gradient of "
                    f"input {place} is\n{gradient._array}"
                )


def check_missing_tangents(problem: Problem) -> None:
    """An input without a tangent counts as one whose tangent is zero."""
    if len(problem.places) == 1:
        return
    rng = np.random.default_rng(0)
    tangents = {p: random_like(rng, problem.input(p)) for p in problem.places}
    for place in problem.places:
        without = {p: t for p, t in tangents.items() if p != place}
        zero = np.zeros_like(tangents[place])
        given = pushed(problem, {**without, place: zero}, fills=False)
        left_out = pushed(problem, without, fills=False)
        for number, _ in problem.outputs:
            if not np.allclose(given[number], left_out[number], equal_nan=True):
                raise GradcheckError(
                    f"Expected forward mode to treat an undefined tangent of input {place} as "
                    f"zero, but the tangent of output {number} is\n{left_out[number]}\nand with "
                    f"zeros\n{given[number]}"
                )


def check_batched_gradients(problem: Problem) -> None:
    """A batch of output gradients gives what its rows give one at a time."""
    rng = np.random.default_rng(0)
    for number, output in problem.outputs:
        batch = np.stack([random_like(rng, output) for _ in range(_BATCH)])

        def backward(seeds: Array, is_batched: bool, output: Tensor = output) -> Any:
            return grad(
                output,
                problem.inputs,
                wrap(seeds),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=is_batched,
            )

        try:
            found = backward(batch, True)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients of output {number}, got: {message_of(error)}"
            ) from error
        rows = [backward(row, False) for row in batch]
        for place, gradient, column in zip(
            problem.places, found, zip(*rows, strict=True), strict=True
        ):
            if gradient is None:
                continue
            expected = np.stack([row._array for row in column])
            if not np.allclose(gradient._array, expected):
                raise GradcheckError(
                    f"For output {number} and input {place}, batched gradients differ from those "
                    f"computed one at a time.\nGot:\n{gradient._array}\nExpected:\n{expected}"
                )


def check_batched_tangents(problem: Problem) -> None:
    """A batch of tangents gives what its rows give one at a time."""
    rng = np.random.default_rng(0)
    for place in problem.places:
        batch = np.stack([random_like(rng, problem.input(place)) for _ in range(_BATCH)])
        try:
            found = _pushed_together(problem, place, batch)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched forward gradients by input {place}, got: "
                f"{message_of(error)}"
            ) from error
        rows = [pushed(problem, {place: row}) for row in batch]
        for number, _ in problem.outputs:
            expected = np.stack([row[number] for row in rows])
            if not np.allclose(found[number], expected):
                raise GradcheckError(
                    f"For output {number} and input {place}, batched forward gradients differ from "
                    f"those computed one at a time.\nGot:\n{found[number]}\nExpected:\n{expected}"
                )


def _pushed_together(problem: Problem, place: int, batch: Array) -> dict[int, Array]:
    """The tangents of the outputs for all rows of a batch, by one call of the function."""
    level = RowLevel(_BATCH, "error")
    rows = tensors._add_level(wrap(batch), 0, level.number)
    found = {}
    with dual_level():
        with level:
            inputs = problem.detached()
            results = problem.call({**inputs, place: make_dual(inputs[place], rows)})
            tangents = [unpack_dual(result).tangent for result in results]
        for number, output in problem.outputs:
            tangent = tangents[number]
            found[number] = (
                np.zeros((_BATCH, *output.shape), output.dtype)
                if tangent is None
                else tensors.out_of_level(tangent, 0, level.number, _BATCH).detach()._array
            )
    return found
