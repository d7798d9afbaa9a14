"""The forward rule: linear, the transpose of the reverse rule, and without side effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd import forward_ad
from pullback.autograd.modes import no_grad
from pullback.errors import DerivativeMissingError
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import CheckFailedError
from pullback.library.checks.jacobian import (
    Column,
    Row,
    Weights,
    columns_of,
    entry_noise,
    magnitudes,
    pull_rows,
)
from pullback.library.checks.numeric import inner, slope
from pullback.library.checks.pass_check import FIX_PRECISION, Gap, differ_by_rounding, first_gap
from pullback.library.checks.problem import Problem
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_forward", "push"]

_Array = NDArray[Any]
_FIX = "compare jvp with the derivative of the kernel, argument by argument."


def check_forward(problem: Problem) -> str:
    """Compares the tangents of every direction with the gradients of every output."""
    directions = {
        name: np.asarray(problem.noise(at) * magnitudes(at), at.dtype)
        for name, at in problem.at.items()
        if at.size
    }
    if not directions:
        return ""
    separate = {}
    for name, direction in directions.items():
        found = _push_watched(problem, name, direction)
        if found is None:
            return "no forward rule"
        separate[name] = found
        _check_linear(problem, name, direction, found)
        _check_layout(problem, name, direction, found)
    _check_together(problem, directions, separate)
    _check_transpose(problem)
    return "forward, and its agreement with reverse"


def push(
    problem: Problem, tangents: dict[str, Tensor], primals: dict[str, Tensor] | None = None
) -> list[_Array] | None:
    """The tangents of the outputs; None without a forward rule."""
    given = primals or {name: wrap(np.array(problem.at[name])) for name in tangents}
    with forward_ad.dual_level():
        duals = {
            name: forward_ad.make_dual(given[name], tangent) for name, tangent in tangents.items()
        }
        try:
            with no_grad():
                outputs = problem.call(dict(duals), leaves=False)[0]
        except DerivativeMissingError:
            return None
        found = [forward_ad.unpack_dual(out)[1] for out in outputs]
    return [
        np.zeros_like(out._array) if t is None or not known else np.array(t._array)
        for out, t, known in zip(outputs, found, problem.is_differentiable, strict=True)
    ]


def _push_watched(problem: Problem, name: str, direction: _Array) -> list[_Array] | None:
    """The result of `push`; raises if the rule has written to the tangent or to a primal."""
    tangents = {name: wrap(np.array(direction))}
    others = {other: wrap(np.zeros_like(at)) for other, at in problem.at.items() if other != name}
    watched = {**tangents, **others}
    found = push(problem, tangents)
    if found is None:
        return None
    primals = {other: wrap(np.array(problem.at[other])) for other in watched}
    second = push(problem, watched, primals)
    assert second is not None
    for other, tangent in watched.items():
        expected = direction if other == name else np.zeros_like(problem.at[other])
        if not problem.case.schema.is_mutable:
            before, after = problem.at[other], primals[other]._array
            gap = first_gap(after, before, np.abs(before), 0.0)
            if gap is not None:
                raise CheckFailedError(
                    f"the forward rule writes to the input {other!r}: it is {gap.found} after "
                    f"the call, and was {gap.expected}.",
                    "compute into new memory: inputs and saved tensors are read later.",
                )
        gap = first_gap(tangent._array, expected, np.abs(expected), 0.0)
        if gap is not None:
            raise CheckFailedError(
                f"the forward rule writes to the tangent of {other!r}: it is {gap.found} "
                f"after the call, and was {gap.expected}.",
                "compute into new memory: the caller uses the tangent again.",
            )
    for number, gap in _gaps(problem, second, found):
        raise CheckFailedError(
            f"the tangent of output {number} is {gap.found} where the other inputs have tangents "
            f"of zeros, and {gap.expected} where they have none; or it changes with every call: "
            f"the forward rule writes to a saved value, or takes None for something.",
            "an input without a tangent counts as one with zeros; write to no saved value.",
        )
    return found


def _gaps(
    problem: Problem, found: list[_Array], expected: list[_Array]
) -> Iterator[tuple[int, Gap]]:
    """The outputs whose tangents differ by more than rounding."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        gap = first_gap(ours, theirs, np.abs(theirs) + _floor(problem, number), problem.tolerance)
        if gap is not None:
            yield number, gap


def _floor(problem: Problem, number: int) -> _Array:
    """The size below which a tangent counts as zero: the rounding of its output."""
    size = np.abs(problem.here[number])
    return 100 * problem.eps / problem.tolerance * np.where(np.isfinite(size), size, 0)


def _check_layout(problem: Problem, name: str, direction: _Array, found: list[_Array]) -> None:
    """The same tangent with negative strides gives the same."""
    if not direction.ndim:
        return
    flipped = tuple(slice(None, None, -1) for _ in direction.shape)
    laid = np.array(direction[flipped])[flipped]
    again = push(problem, {name: wrap(laid)})
    assert again is not None
    for number, gap in _gaps(problem, again, found):
        raise CheckFailedError(
            f"the tangent of output {number} is {gap.found} where the same tangent of {name!r} is "
            f"reversed in memory, and {gap.expected} where it is contiguous.",
            "the forward rule reads memory in the order in which it lies; index by axes.",
        )


def _check_linear(problem: Problem, name: str, direction: _Array, found: list[_Array]) -> None:
    scaled = push(problem, {name: wrap(np.asarray(-2.5 * direction, direction.dtype))})
    assert scaled is not None
    for number, (ours, theirs) in enumerate(zip(scaled, found, strict=True)):
        scale = np.abs(theirs) + _floor(problem, number)
        gap = first_gap(ours, -2.5 * theirs, scale, problem.tolerance)
        if gap is None:
            continue
        if _calls_kernel(problem, name, direction, found):
            raise CheckFailedError(
                f"the tangent of output {number} is the kernel's value for the tangent, as "
                f"'auto_linear' makes it, but the kernel is not linear in {name!r}: -2.5 times the "
                f"tangent gives {gap.found}, where linearity demands {gap.expected}.",
                "'auto_linear' is for linear functions; write the formula of the tangent, or "
                "'auto_element_wise' where the output depends on one element each.",
            )
        start = (
            f"the tangent of output {number} is not linear in the tangent of {name!r}: -2.5 times "
            f"the tangent gives {gap.found}, where linearity demands {gap.expected}"
        )
        if problem.is_wide and differ_by_rounding(ours, -2.5 * theirs, scale):
            raise CheckFailedError(
                f"{start}; the gap is that of float32: the forward rule computes in lower "
                f"precision.",
                FIX_PRECISION,
            )
        raise CheckFailedError(
            f"{start}.", "multiply the local derivative by the tangent, and do nothing else to it."
        )


def _calls_kernel(problem: Problem, name: str, direction: _Array, found: list[_Array]) -> bool:
    """Whether the tangents are what the kernel gives for the tangent."""
    try:
        values = problem.outputs({name: direction})
    except Exception:
        return False
    return all(
        v.shape == f.shape and np.allclose(v, f, rtol=1e-9, atol=0, equal_nan=True)
        for v, f in zip(values, found, strict=True)
    )


def _check_together(
    problem: Problem, directions: dict[str, _Array], separate: dict[str, list[_Array]]
) -> None:
    """Tangents of several inputs add up."""
    if len(directions) < 2:
        return
    found = push(problem, {name: wrap(np.array(d)) for name, d in directions.items()})
    assert found is not None
    for number, ours in enumerate(found):
        parts = [tangents[number] for tangents in separate.values()]
        with errstate(all="ignore"):
            expected = sum(parts[1:], parts[0])
            scale = sum(map(np.abs, parts)) + _floor(problem, number)
        gap = first_gap(ours, expected, np.asarray(scale), problem.tolerance)
        if gap is not None:
            raise CheckFailedError(
                f"the tangent of output {number} is {gap.found} where all inputs have tangents, "
                f"and {gap.expected} as the sum of those for one input each: the forward rule is "
                f"wrong.",
                _FIX,
            )


def _check_transpose(problem: Problem) -> None:
    pulled = pull_rows(problem)
    if not pulled.rows:
        return
    for name in problem.names:
        columns = columns_of(problem, name)
        if not columns:
            continue
        pushed = [push(problem, {name: wrap(np.array(c.direction))}) for c in columns]
        forward = np.array([pulled.weights.inner(found) for found in pushed if found]).T
        gradients = Weights([[g[name]] for g in pulled.gradients])
        reverse = np.array([gradients.inner([c.direction]) for c in columns]).T
        _compare(problem, pulled.rows, columns, forward, reverse)


def _compare(
    problem: Problem, rows: list[Row], columns: list[Column], forward: _Array, reverse: _Array
) -> None:
    """Entry by entry: the two rules differ by rounding only, unless one is wrong."""
    if forward.shape != reverse.shape:
        return
    with errstate(all="ignore"):
        sizes = np.abs(reverse)
        by_row, by_column = np.nanmax(sizes, 1, initial=0), np.nanmax(sizes, 0, initial=0)
        local = np.minimum(by_row[:, None], by_column[None, :])
        outputs = np.array([_size(problem, row) for row in rows])
        tolerance = problem.case.rtol or (2e-8 if problem.is_wide else 2e-3)
        limit = tolerance * np.maximum(sizes, np.abs(forward))
        limit += problem.eps * 1e3 * np.maximum(local, np.minimum(outputs, 1e300)[:, None])
        limit += problem.case.atol or 0.0
        gap = np.abs(forward - reverse)
    wrong = (gap > limit) & np.isfinite(gap)
    # A cotangent or tangent of zero times an infinite derivative is NaN, in both rules.
    ours, theirs = np.isfinite(forward), np.isfinite(reverse)
    smooth = [np.logical_and.outer(known.all(1), known.all(0)) for known in (ours, theirs)]
    wrong |= (ours != theirs) & (smooth[0] | smooth[1])
    if not wrong.any():
        return
    with errstate(all="ignore"):
        relative = np.where(wrong, np.nan_to_num(gap / np.maximum(sizes, 1e-300), nan=np.inf), -1)
    r, c = np.unravel_index(int(np.argmax(relative)), wrong.shape)
    row, column = rows[r], columns[c]
    if np.isfinite(gap[r, c]) and entry_noise(problem, row, column) > 0.1 * float(gap[r, c]):
        return
    _raise(problem, row, column, float(forward[r, c]), float(reverse[r, c]))


def _size(problem: Problem, row: Row) -> float:
    out = problem.here[row.output]
    chosen = np.abs(out[row.cotangent != 0] * row.cotangent[row.cotangent != 0])
    return float(np.max(chosen[np.isfinite(chosen)], initial=0.0))


def _raise(problem: Problem, row: Row, column: Column, forward: float, reverse: float) -> None:
    name, number = column.name, row.output
    numeric = slope(problem.along(name), problem.at[name], column.direction, 2e-3, problem.here)
    expected = inner([row.cotangent], [numeric.values[number]])
    place = f" at {[*row.index]}" if row.index else ""
    if abs(forward - expected) > 1e-4 * max(abs(expected), abs(forward)):
        raise CheckFailedError(
            f"the tangent of output {number}{place}, for a tangent of {name!r}, is {forward:.8g}, "
            f"where finite differences give {expected:.8g} and the reverse rule {reverse:.8g}: the "
            f"forward rule is wrong.",
            _FIX,
        )
    start = (
        f"forward and reverse rules disagree for {name!r}: <u, Jv> is {forward:.12g} and "
        f"<Jᵀu, v> is {reverse:.12g}, for a cotangent u of output {number}{place}"
    )
    if problem.is_wide and abs(forward - reverse) <= 2e-7 * abs(reverse):
        raise CheckFailedError(
            f"{start}; the gap is that of float32: one of the two rules computes in lower "
            f"precision, or a constant has too few digits.",
            FIX_PRECISION,
        )
    raise CheckFailedError(f"{start}.", "one of the two rules is not the transpose of the other.")
