"""``test_gradients``: are all derivatives right, and do the rules do nothing but compute them?

In double precision: the reverse rule against finite differences, entry by entry; its linearity;
that it writes to no cotangent or saved value; the forward rule against the reverse rule, which is
exact but for rounding; second derivatives. Then the given precision against double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import (
    AutogradError,
    AutogradNotRegisteredError,
    DerivativeMissingError,
    message_of,
)
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError, Skipped
from pullback.library.checks.diagnose import diagnosis
from pullback.library.checks.forward_check import check_forward
from pullback.library.checks.history_check import check_history, find_hidden_output
from pullback.library.checks.jacobian import (
    Column,
    Row,
    Weights,
    columns_of,
    compare_with_differences,
    entry_noise,
    magnitudes,
    pull_rows,
)
from pullback.library.checks.mode_check import check_modes, check_precision
from pullback.library.checks.numeric import inner, ladder_slope, slope
from pullback.library.checks.pass_check import FIX_PRECISION, check_passes
from pullback.library.checks.problem import Problem, doubled
from pullback.library.checks.resolution_check import (
    check_gradient_resolution,
    check_value_resolution,
)
from pullback.library.checks.second_check import check_second

__all__ = ["check_gradients"]

_Array = NDArray[Any]
_SMALL = 64  # elements; larger inputs are not looked at one by one


def check_gradients(case: Case) -> str:
    """Values in all modes, reverse, forward, their agreement, and the second derivative."""
    wide = doubled(case)
    check_value_resolution(wide)
    if not case.needs_grad():
        compared = check_precision(case, wide)
        raise Skipped(f"no input requires grad{compared and f'; {compared}'}")
    try:
        problem = Problem(wide)
    except DerivativeMissingError as error:
        raise Skipped(f"the operator says that it has no derivative: {message_of(error)}") from None
    except (AutogradNotRegisteredError, AutogradError) as error:
        if case.schema.is_mutable:
            raise Skipped(f"the operator writes to its arguments: {message_of(error)}") from None
        raise
    check_modes(case)
    if not any(out.size for out in problem.here):
        raise Skipped("no output has elements")
    check_history(problem)
    if not any(problem.is_differentiable):
        raise Skipped("no output is differentiable")
    try:
        check_passes(problem)
        check_gradient_resolution(problem)
        tried = [_check_reverse(problem)]
    except DerivativeMissingError as error:
        raise Skipped(f"the operator says that it has no derivative: {message_of(error)}") from None
    except CheckFailedError as error:
        cause = find_hidden_output(problem)
        raise CheckFailedError(f"{error.why}{cause}", error.fix) from error.__cause__
    tried += [check_forward(problem), check_second(problem), check_precision(case, wide)]
    tried.append(_check_special_points(problem))
    return "; ".join(filter(None, tried))


def _check_reverse(problem: Problem) -> str:
    pulled = pull_rows(problem)
    for name in problem.names:
        if not problem.at[name].size:
            continue
        _check_shapes(problem, name, pulled.gradients)
        gradients = Weights([[g[name]] for g in pulled.gradients])
        for column in columns_of(problem, name):
            found = gradients.inner([column.direction])
            wrong = compare_with_differences(
                problem, problem.along(name), column, pulled.weights, found, problem.here
            )
            if wrong is not None:
                number, expected = wrong
                _explain(problem, column, pulled.rows[number], float(found[number]), expected)
    _check_together(problem)
    _check_elsewhere(problem)
    return f"reverse by {len(problem.names)} input(s)"


def _check_together(problem: Problem) -> None:
    """All elements of all inputs move by the same step, which keeps ties as they are.

    A maximum of equal numbers has a kink in every element alone, and none in this direction.
    """
    gradients = problem.base
    sizes = np.concatenate([magnitudes(at).ravel() for at in problem.at.values()] or [np.ones(1)])
    step = float(np.median(sizes)) if sizes.size else 1.0
    found = sum(step * float(np.sum(gradients[name].real)) for name in problem.names)
    wrong = compare_with_differences(
        problem,
        lambda moved: problem.outputs({n: at + step * moved[0] for n, at in problem.at.items()}),
        Column(problem.names[0], np.ones(1), None),
        Weights([problem.weights]),
        np.array([found]),
        problem.here,
        np.zeros(1),
    )
    total = sum(step * float(np.sum(np.abs(gradients[name]))) for name in problem.names)
    # Gradients that cancel are as good as their largest; the entries one by one are right.
    if wrong is not None and not abs(found - wrong[1]) <= 1e-3 * total:
        raise CheckFailedError(
            f"where all elements of all inputs grow by the same {step:.6g}, the gradients sum up "
            f"to {found:.8g}, and finite differences give {wrong[1]:.8g}; for one element at a "
            f"time the function has kinks there.",
            "where several elements tie, as in a maximum, share the gradient among them, or give "
            "it to one.",
        )


def _check_elsewhere(problem: Problem) -> None:
    """The same in one direction at other values nearby: finds values cached from the given call."""
    moved = {name: (at * (1 - 1 / 64)).astype(at.dtype) for name, at in problem.at.items()}
    try:
        with errstate(all="ignore"):
            here = problem.outputs(moved)
            gradients = problem.gradients(moved)
    except Exception:  # they may be outside of the domain
        return
    shapes = [out.shape for out in here]
    if shapes != [out.shape for out in problem.here]:
        return
    for name in problem.names:
        at = moved[name]
        finite = np.isfinite(at)
        direction = np.where(finite, problem.noise(at) * magnitudes(at), 0).astype(at.dtype)
        column = Column(name, direction, None)
        found = inner([gradients[name]], [direction])

        def values(value: _Array, name: str = name) -> list[_Array]:
            return problem.outputs({**moved, name: value})

        wrong = compare_with_differences(
            problem, values, column, Weights([problem.weights]), np.array([found]), here, at
        )
        if wrong is not None:
            raise CheckFailedError(
                f"the gradient of {name!r} in a random direction is {found:.8g} at 63/64 of the "
                f"given values, where finite differences give {wrong[1]:.8g}; at the given values "
                f"it is right.",
                "look for values that are kept from another call, or a formula that holds for "
                "special values only.",
            )


def _check_shapes(problem: Problem, name: str, pulled: list[dict[str, _Array]]) -> None:
    shape = problem.at[name].shape
    for gradients in pulled:
        if gradients[name].shape != shape:
            raise CheckFailedError(
                f"the gradient of {name!r} has shape {gradients[name].shape}, and {name!r} has "
                f"{shape}.",
                "sum over the axes along which the input was broadcast.",
            )


def _explain(problem: Problem, column: Column, row: Row, found: float, expected: float) -> None:
    """Raises with the likely cause of a wrong entry, from the whole gradient of one output."""
    gap = abs(found - expected)
    if np.isfinite(gap) and entry_noise(problem, row, column) > 0.2 * gap:
        return
    name = column.name
    _explain_staircase(problem, column, row, found, expected)
    several = len(problem.here) > 1
    # Real cotangents, so that a missing conj() shows as one.
    weights: list[_Array | None] = [None] * len(problem.here)
    weights[row.output] = np.asarray(
        problem.noise(problem.here[row.output]).real, problem.here[row.output].dtype
    )
    outputs, used = problem.call({}, leaves=True)
    gradients = problem.pull(outputs, used, weights)
    expectations = {
        other: _expected(problem, other, weights, gradients[other])
        for other in problem.names
        if 0 < problem.at[other].size <= _SMALL
    }
    of_what = f"output {row.output}" if several else "the output"
    if name in expectations:
        error = diagnosis(name, gradients, expectations, of_what)
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback refers to this frame, which would keep the operator alive
    place = "" if column.index is None or not column.index else f" at {[*column.index]}"
    at = "" if row.index is None or not row.index else f" at {[*row.index]}"
    raise CheckFailedError(
        f"the gradient of {name!r}{place}, for a cotangent of {of_what}{at}, is {found:.8g} in a "
        f"direction of the size of {name!r}, where finite differences give {expected:.8g}.",
        f"compare the formula of {name!r} with the derivative of the kernel"
        + ("." if column.index is not None else "; smaller inputs show which elements are wrong."),
    )


def _explain_staircase(
    problem: Problem, column: Column, row: Row, found: float, expected: float
) -> None:
    """Raises where wide steps give what the rule gives, and only narrow ones something else."""
    values = problem.along(column.name)
    try:
        wide = slope(values, problem.at[column.name], column.direction, 0.1, problem.here)
    except Exception:  # the step may leave the domain
        return
    over_wide = inner([row.cotangent], [wide.values[row.output]])
    if abs(over_wide - found) <= 0.1 * abs(found - expected):
        raise CheckFailedError(
            f"the gradient of {column.name!r} is {found:.8g} in a direction of its size, and "
            f"finite differences over a tenth of it give {over_wide:.8g}; but over narrow steps "
            f"they give {expected:.8g}, since the output changes by jumps: the kernel computes in "
            f"lower precision (float16 or less), or rounds its values.",
            FIX_PRECISION,
        )


def _expected(problem: Problem, name: str, weights: list[_Array | None], found: _Array) -> _Array:
    """The gradient by finite differences; that of the rule where their error is too large."""
    at = problem.at[name]
    sizes = magnitudes(at)
    made = found.copy()
    pairs = zip(problem.here, weights, strict=True)
    weights_matrix = Weights([[np.zeros_like(o) if w is None else w for o, w in pairs]])
    for index in np.ndindex(at.shape):
        size = float(sizes[index])
        total: Any = 0.0
        is_known = True
        for unit in [1.0, 1j] if at.dtype.kind == "c" else [1.0]:
            direction = np.zeros(at.shape, at.dtype)
            direction[index] = unit * size
            best = ladder_slope(problem.along(name), at, direction, {1.0, min(1 / size, 1e12)})
            value = float(weights_matrix.inner(best.values)[0]) / size
            error = float(weights_matrix.bound(best.errors)[0])
            scale = max(abs(value), float(abs(found[index])), 1e-3)
            is_known = is_known and bool(np.isfinite(value)) and error <= 0.01 * size * scale
            total = total + unit * value
        if is_known:
            made[index] = total
    return made


def _check_special_points(problem: Problem) -> str:
    """Looks for NaN at 0, 1 and -1, where the function itself is smooth."""
    for name in problem.names:
        at = problem.at[name]
        if at.dtype.kind != "f" or not 0 < at.size <= _SMALL:
            continue
        for special in (0.0, 1.0, -1.0):
            moved = at.copy()
            moved.flat[0] = special
            _check_special(problem, name, moved, special)
    return "0, 1 and -1 looked at for NaN"


def _check_special(problem: Problem, name: str, moved: _Array, special: float) -> None:
    values = problem.along(name)
    with errstate(all="ignore"):
        try:
            here = values(moved)
            if not all(np.isfinite(out).all() for out in here):
                return
            gradient = problem.gradients({name: moved})[name]
        except Exception:  # an operator may refuse a point that the user did not give
            return
        if not np.isnan(gradient.flat[0]):
            return
        direction = np.zeros_like(moved)
        direction.flat[0] = 1.0
        numeric = slope(values, moved, direction, 2e-3, here)
    smooth = all(
        bool(np.all(e <= 1e-3 * np.abs(v) + 1e-5))
        for v, e in zip(numeric.values, numeric.errors, strict=True)
    )
    if smooth:
        raise CheckFailedError(
            f"the gradient of {name!r} is NaN where {name!r} is {special:g}, but the function is "
            f"smooth there: finite differences give "
            f"{inner(problem.weights, numeric.values):.6g}.",
            "the formula divides by zero at the edge of its domain; treat that point separately, "
            "with where() on both sides of the division.",
        )
