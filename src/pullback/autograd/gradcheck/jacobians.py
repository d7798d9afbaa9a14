"""Whole Jacobians, one element at a time: by finite differences, backwards and forwards.

A Jacobian has a row for each element of the input and a column for each element of the output.
Complex numbers are pairs of real ones: a complex input is changed by 1 and by 1j, and a complex
output is looked at in its real and its imaginary part. The gradient by a complex input is the
change by 1 plus 1j times the change by 1j, which is the convention of the whole library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.autograd.api import grad
from pullback.autograd.forward_ad import dual_level, make_dual, unpack_dual
from pullback.autograd.gradcheck.compare import Where, check_agreement
from pullback.autograd.gradcheck.problem import Array, Options, Problem
from pullback.errors import GradcheckError
from pullback.tensor.tensor import Tensor, wrap

__all__ = [
    "PARTS",
    "backward_jacobians",
    "backward_twice",
    "by_gradient",
    "check_forward",
    "check_no_outputs",
    "check_reverse",
    "is_complex",
    "numerical_jacobians",
    "parts_of",
    "pushed",
]

PARTS = ("real", "imaginary")
_UNITS = (1.0, 1j)


def is_complex(tensor: Tensor) -> bool:
    """Whether the elements are complex."""
    return tensor.dtype.kind == "c"


def parts_of(tensor: Tensor) -> list[tuple[str | None, complex]]:
    """The parts to look at: their names, and the gradient that picks each one."""
    return list(zip(PARTS, _UNITS, strict=True)) if is_complex(tensor) else [(None, 1.0)]


def check_no_outputs(problem: Problem, options: Options) -> None:
    """Checks that results that do not require grad do not change."""
    for place in problem.places:
        for number, changes in enumerate(numerical_jacobians(problem, place, options.eps)):
            for change in changes:
                if np.any(change != 0):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero, because output "
                        f"{number} does not require grad; but it changes with input {place}:\n"
                        f"{change}"
                    )


def numerical_jacobians(problem: Problem, place: int, eps: float) -> list[list[Array]]:
    """For every result, the Jacobian by one input: for a change by 1, and 1j if it is complex."""
    tensor = problem.input(place)
    found: list[list[Array]] = [[] for _ in problem.results]
    for _, unit in parts_of(tensor):
        rows = [problem.difference(place, hot, eps) for hot in _one_hots(tensor, unit)]
        for number, result in enumerate(problem.results):
            flat = [row[number].reshape(-1) for row in rows]
            shape = (tensor.size, result.size)
            found[number].append(np.array(flat).reshape(shape) if flat else np.zeros(shape))
    return found


def by_gradient(changes: list[Array], part: str | None, complex_input: bool) -> Array:
    """The gradient's Jacobian of a part of the output, from the changes by 1 and 1j."""
    taken = [change.imag if part == "imaginary" else change.real for change in changes]
    return taken[0] + 1j * taken[1] if complex_input else taken[0]


def check_reverse(problem: Problem, options: Options) -> None:
    """Compares the Jacobians of every output by every input with finite differences."""
    numerical = {p: numerical_jacobians(problem, p, options.eps) for p in problem.places}
    for number, output in problem.outputs:
        for part, unit in parts_of(output):
            for place, analytical in zip(
                problem.places, backward_jacobians(problem, output, unit, options), strict=True
            ):
                source = problem.input(place)
                expected = by_gradient(numerical[place][number], part, is_complex(source))
                where = Where(number, place, (source.shape, output.shape), part)
                check_agreement(where, analytical, expected, options.rtol, options.atol)


def backward_jacobians(
    problem: Problem, output: Tensor, unit: complex, options: Options
) -> list[Array]:
    """The Jacobian of one output by each input: one backward pass for each output element."""
    inputs = problem.inputs
    found = [np.zeros((x.size, output.size), x.dtype) for x in inputs]
    for column, hot in enumerate(_one_hots(output, unit)):
        for matrix, gradient in zip(
            found, backward_twice(output, inputs, hot, options), strict=True
        ):
            matrix[:, column] = gradient.reshape(-1)
    return found


def backward_twice(
    output: Tensor, inputs: list[Tensor], seed: Array, options: Options
) -> list[Array]:
    """The gradients for an output gradient, which must come out the same a second time."""
    first = _gradients(output, inputs, seed)
    second = _gradients(output, inputs, seed)
    for place, (x, one, other) in enumerate(zip(inputs, first, second, strict=True)):
        if one.shape != x.shape:
            raise GradcheckError(
                f"Analytical gradient has incorrect size {list(one.shape)} for input {place} of "
                f"shape {list(x.shape)}"
            )
        if options.check_grad_dtypes and one.dtype != x.dtype:
            raise GradcheckError(
                f"Gradient has dtype mismatch: {one.dtype} for input {place} of dtype {x.dtype}"
            )
        difference = np.max(np.abs(one - other), initial=0.0)
        if not difference <= options.nondet_tol and not np.array_equal(one, other, equal_nan=True):
            raise GradcheckError(
                f"Backward is not reentrant, i.e., running backward with same input and "
                f"grad_output multiple times gives different values: they differ by {difference} "
                f"for input {place}. The tolerance for nondeterminism was {options.nondet_tol}."
            )
    return first


def _gradients(output: Tensor, inputs: list[Tensor], seed: Array) -> list[Array]:
    found = grad(output, inputs, wrap(seed.copy()), retain_graph=True, allow_unused=True)
    return [
        np.zeros(x.shape, x.dtype) if g is None else np.asarray(g._array)
        for x, g in zip(inputs, found, strict=True)
    ]


def check_forward(problem: Problem, options: Options) -> None:
    """Compares tangents of every output, for a change of each input element, with differences."""
    for place in problem.places:
        source = problem.input(place)
        numerical = numerical_jacobians(problem, place, options.eps)
        for which, (part, unit) in enumerate(parts_of(source)):
            rows = [pushed(problem, {place: hot}) for hot in _one_hots(source, unit)]
            for number, output in problem.outputs:
                flat = [row[number].reshape(-1) for row in rows]
                expected = numerical[number][which]
                analytical = np.array(flat).reshape(expected.shape)
                where = Where(number, place, (source.shape, output.shape), part, forward=True)
                check_agreement(where, analytical, expected, options.rtol, options.atol)


def pushed(problem: Problem, tangents: dict[int, Array], *, fills: bool = True) -> list[Array]:
    """The tangent of every result, for tangents of some inputs.

    The other inputs have tangents of zeros, or with ``fills=False`` none. No input requires grad,
    so forward mode is tested by itself.
    """
    with dual_level():
        duals = problem.detached()
        for place, primal in duals.items():
            tangent = tangents.get(place)
            if tangent is None and fills:
                tangent = np.zeros(primal.shape, primal.dtype)
            if tangent is not None:
                duals[place] = make_dual(primal, wrap(tangent.copy()))
        results = problem.call(duals)
        found = [unpack_dual(result).tangent for result in results]
    return [
        np.zeros(y.shape, y.dtype if y.dtype.kind in "fc" else None)
        if tangent is None
        else np.array(tangent._array)
        for y, tangent in zip(results, found, strict=True)
    ]


def _one_hots(tensor: Tensor, unit: complex) -> Any:
    """Arrays like a tensor that are zero but for one element, for each element in turn."""
    for flat in range(tensor.size):
        hot = np.zeros(tensor.size, tensor.dtype)
        hot[flat] = unit
        yield hot.reshape(tensor.shape)
