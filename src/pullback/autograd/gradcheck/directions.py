"""Fast mode: one random direction instead of every element.

For a random change `u` of an input and random weights `v` of an output's elements, ``v^T J u`` is
one number, by forward mode, reverse mode or finite differences. A wrong Jacobian gives a wrong
number almost surely. The directions come from a separate generator, so that a check is reproducible
and does not change the state of other generators.
"""

from __future__ import annotations

import numpy as np

from pullback.autograd.gradcheck.compare import Where, agree, describe_worst
from pullback.autograd.gradcheck.jacobians import (
    backward_jacobians,
    backward_twice,
    by_gradient,
    is_complex,
    numerical_jacobians,
    parts_of,
    pushed,
)
from pullback.autograd.gradcheck.problem import Array, Options, Problem
from pullback.errors import GradcheckError
from pullback.tensor.tensor import Tensor

__all__ = ["check_forward_fast", "check_no_outputs_fast", "check_reverse_fast"]


def _directions(problem: Problem) -> tuple[dict[int, Array], dict[int, Array]]:
    """A unit vector with elements that are not negative, for each input and each output."""
    rng = np.random.default_rng(0)
    inputs = {place: _direction(rng, problem.input(place), True) for place in problem.places}
    outputs = {number: _direction(rng, y, False) for number, y in problem.outputs}
    return inputs, outputs


def _direction(rng: np.random.Generator, like: Tensor, may_be_complex: bool) -> Array:
    drawn: Array = rng.random(like.shape)
    if may_be_complex and is_complex(like):
        drawn = drawn + 1j * rng.random(like.shape)
    length = np.linalg.norm(drawn.reshape(-1))
    return drawn / length if length else drawn


def _total(direction: Array) -> float:
    return float(np.sum(direction.real) + np.sum(direction.imag))


def check_no_outputs_fast(problem: Problem, options: Options) -> None:
    """Checks that results that do not require grad do not change."""
    for place, direction in _directions(problem)[0].items():
        for number, change in enumerate(problem.difference(place, direction, options.eps)):
            if np.any(change != 0):
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero, because output {number} "
                    f"does not require grad; but it changes with input {place}"
                )


def check_reverse_fast(problem: Problem, options: Options) -> None:
    """Compares ``v^T J u`` by differences along `u` with ``(v^T J) u`` by a backward pass."""
    inputs, outputs = _directions(problem)
    changes = {p: problem.difference(p, u, options.eps) for p, u in inputs.items()}
    for number, output in problem.outputs:
        weights = outputs[number]
        for part, unit in parts_of(output):
            seed = (weights * unit).astype(output.dtype)
            for place, gradient in zip(
                problem.places, backward_twice(output, problem.inputs, seed, options), strict=True
            ):
                change = changes[place][number]
                change = change.imag if part == "imaginary" else change.real
                numerical = np.sum(weights * change)
                analytical = np.sum(np.real(np.conj(gradient) * inputs[place]))
                atol = options.atol * _total(inputs[place]) * _total(weights)
                if not agree(analytical, numerical, options.rtol, atol):
                    shapes = (problem.input(place).shape, output.shape)
                    where = Where(number, place, shapes, part)
                    raise GradcheckError(
                        f"{where} {_projection(numerical, analytical)}"
                        f"{_slow_reverse(problem, where, unit, options)}"
                    )


def check_forward_fast(problem: Problem, options: Options) -> None:
    """Compares the change of every output along `u` with its tangent for `u`."""
    for place, direction in _directions(problem)[0].items():
        source = problem.input(place)
        tangents = pushed(problem, {place: direction})
        changes = problem.difference(place, direction, options.eps)
        atol = options.atol * _total(direction)
        for number, output in problem.outputs:
            numerical, analytical = changes[number].reshape(1, -1), tangents[number].reshape(1, -1)
            if not agree(analytical, numerical, options.rtol, atol):
                where = Where(number, place, ((), output.shape), None, forward=True)
                worst = describe_worst(where, analytical, numerical, options.rtol, atol)
                raise GradcheckError(
                    f"{where} along a random direction of the input of shape "
                    f"{list(source.shape)}, {worst}\nnumerical:{changes[number]}\n"
                    f"analytical:{tangents[number]}"
                )


def _projection(numerical: float, analytical: float) -> str:
    return (
        f"in a random direction (fast mode): v^T J u is {float(numerical)!r} numerically and "
        f"{float(analytical)!r} analytically.\n"
    )


def _slow_reverse(problem: Problem, where: Where, unit: complex, options: Options) -> str:
    """The whole Jacobians, for the message."""
    source = problem.input(where.input)
    changes = numerical_jacobians(problem, where.input, options.eps)[where.output]
    numerical = by_gradient(changes, where.part, is_complex(source))
    output = dict(problem.outputs)[where.output]
    found = backward_jacobians(problem, output, unit, options)
    analytical = found[problem.places.index(where.input)]
    if agree(analytical, numerical, options.rtol, options.atol):
        verdict = "Element by element they agree within the tolerance: raise atol a little."
    else:
        worst = describe_worst(where, analytical, numerical, options.rtol, options.atol)
        verdict = f"Element by element, {worst}"
    return f"{verdict}\nnumerical:{numerical}\nanalytical:{analytical}"
