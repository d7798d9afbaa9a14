"""A backward pass is linear, writes to no memory but its own, and accepts unused outputs."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.errors import DerivativeMissingError, message_of
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import CheckFailedError
from pullback.library.checks.jacobian import gradient_grain
from pullback.library.checks.problem import Problem
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["FIX_PRECISION", "Gap", "check_passes", "differ_by_rounding", "first_gap"]

FIX_PRECISION = (
    "compute in the dtype of the inputs all the way: look for astype(float32), dtype=float32, "
    "buffers, tables and constants in float32, and for differences of nearly equal numbers."
)
_Array = NDArray[Any]
_Gradients = dict[str, _Array]


def check_passes(problem: Problem) -> None:
    """Compares backward passes over one graph with each other; they differ by rounding only."""
    outputs, used = problem.call({}, leaves=True)
    first = _check_memory(problem, outputs, used)
    _check_linear(problem, outputs, used, first)
    _check_unused_outputs(problem, outputs, used)
    _check_each_alone(problem, first)


class Gap(NamedTuple):
    """Two numbers that should be equal, as text.

    Attributes:
        found: the number with its place.
        expected: the other one.
    """

    found: str
    expected: str


def first_gap(found: _Array, expected: _Array, scale: _Array, tolerance: float) -> Gap | None:
    """The worst element that differs by more than `tolerance` times `scale`, None if none does."""
    if found.shape != expected.shape:
        return Gap(f"of shape {found.shape}", f"of shape {expected.shape}")
    if not found.size:
        return None
    with errstate(all="ignore"):
        both = np.isfinite(found) & np.isfinite(expected)
        gap = np.where(both, np.abs(found - expected), 0)
        excess = gap - tolerance * scale
        # One finite and the other not: a difference; both infinite or NaN: none that counts.
        excess = np.where(np.isfinite(found) != np.isfinite(expected), np.inf, excess)
    if not np.any(excess > 0):
        return None
    with errstate(all="ignore"):
        relative = np.where(excess > 0, gap / np.maximum(scale, 1e-300), -1.0)
        relative = np.where(np.isinf(excess), np.inf, relative)
    index = np.unravel_index(int(np.argmax(relative)), found.shape)
    place = f" at [{', '.join(map(str, index))}]" if index else ""
    return Gap(f"{found[index]:.10g}{place}", f"{expected[index]:.10g}")


def differ_by_rounding(found: _Array, expected: _Array, scale: _Array) -> bool:
    """Whether no element differs by more than float32 rounds numbers of this size to."""
    with errstate(all="ignore"):
        gap = np.abs(found - expected)
        return found.shape == expected.shape and bool(np.all(gap <= 1e-6 * scale))


def _check_memory(problem: Problem, outputs: list[Tensor], used: dict[str, Tensor]) -> _Gradients:
    """A pass writes to nothing, so that a second one gives the same."""
    weights = [wrap(np.array(weight)) for weight in problem.weights]
    watched = {
        **{f"the cotangent of output {n}": t for n, t in enumerate(weights)},
        **{f"the input {name!r}": t for name, t in used.items()},
        **{f"output {n}": t for n, t in enumerate(outputs)},
    }
    before = {what: t._array.tobytes() for what, t in watched.items()}
    first = problem.pull(outputs, used, weights)
    for what, tensor in watched.items():
        if tensor._array.tobytes() != before[what]:
            start = "the cotangent" if what.startswith("the cotangent") else what
            raise CheckFailedError(
                f"backward writes to {start}: {what} has other bytes after the backward pass.",
                "compute into new memory: cotangents, saved tensors, inputs and outputs are read "
                "again later.",
            )
    second = problem.pull(outputs, used, weights)
    for name in problem.names:
        gap = first_gap(second[name], first[name], np.abs(first[name]), problem.tolerance)
        if gap is not None:
            raise CheckFailedError(
                f"a second backward pass over the same graph gives another gradient of {name!r}: "
                f"{gap.found}, and the first one gave {gap.expected}.",
                "backward writes to a saved value, or counts its calls; compute into new memory.",
            )
    return first


def _check_linear(
    problem: Problem, outputs: list[Tensor], used: dict[str, Tensor], first: _Gradients
) -> None:
    """Gradients are linear in the cotangents."""
    other = [
        problem.noise(w) if known else np.zeros_like(w)
        for w, known in zip(problem.weights, problem.is_differentiable, strict=True)
    ]
    second = problem.pull(outputs, used, [*other])
    scaled = problem.pull(outputs, used, [-2.5 * w for w in problem.weights])
    total = problem.pull(
        outputs, used, [a + b for a, b in zip(problem.weights, other, strict=True)]
    )
    for name in problem.names:
        one, two = first[name], second[name]
        with errstate(all="ignore"):
            comparisons = [
                (scaled[name], -2.5 * one, np.abs(one), "-2.5 times the cotangent gives"),
                (total[name], one + two, np.abs(one) + np.abs(two), "the sum of two gives"),
            ]
        for found, expected, scale, words in comparisons:
            floor = (
                np.finfo(one.dtype).eps
                * 1e3
                * float(np.max(scale[np.isfinite(scale)], initial=0.0))
            )
            gap = first_gap(found, expected, scale + floor, problem.tolerance)
            if gap is None:
                continue
            noise = _cotangent_noise(problem, outputs, used, name, first[name])
            limit = scale + 100 * noise / problem.tolerance
            gap = first_gap(found, expected, limit, problem.tolerance)
            if gap is None:
                continue
            fix = (
                "multiply the local derivative by the cotangent, and do nothing else to it: no "
                "normalising, clipping, rounding or constants."
            )
            if np.array_equal(found, one) and np.array_equal(total[name], one):
                why = "backward ignores the cotangent"
            elif problem.is_wide and differ_by_rounding(found, expected, scale):
                why = "the gap is that of float32: backward computes in lower precision"
                fix = FIX_PRECISION
            else:
                why = "backward is wrong"
            raise CheckFailedError(
                f"the gradient of {name!r} is not linear in the cotangent: {words} "
                f"{gap.found}, where linearity demands {gap.expected}; {why}.",
                fix,
            )


def _cotangent_noise(
    problem: Problem, outputs: list[Tensor], used: dict[str, Tensor], name: str, base: _Array
) -> _Array:
    """The change of a gradient when its cotangents change in the last places."""
    worst = problem.eps * gradient_grain(problem, name)
    for _ in range(3):
        moved = [
            np.asarray(w * (1 + 4 * problem.eps * problem.random.choice([-1.0, 1.0], w.shape)))
            for w in problem.weights
        ]
        found = problem.pull(
            outputs, used, [m.astype(w.dtype) for m, w in zip(moved, problem.weights, strict=True)]
        )
        with errstate(all="ignore"):
            worst = np.maximum(worst, np.abs(found[name] - base))
    return worst


def _check_unused_outputs(problem: Problem, outputs: list[Tensor], used: dict[str, Tensor]) -> None:
    """An output that the loss does not use counts as one with a cotangent of zeros."""
    known = [n for n, has in enumerate(problem.is_differentiable) if has]
    if len(known) < 2:
        return
    count = len(known)
    sizes = range(1, count) if count <= 4 else (1, count - 1)
    for subset in (s for size in sizes for s in combinations(known, size)):
        weights = [w if n in subset else None for n, w in enumerate(problem.weights)]
        zeros = [w if n in subset else np.zeros_like(w) for n, w in enumerate(problem.weights)]
        words = f"outputs {', '.join(map(str, subset))}"
        if len(subset) == 1:
            words = f"output {subset[0]} alone"
        fix = (
            "an unused output has the cotangent None after set_materialize_grads(False): take it "
            "for zeros, in every combination of outputs."
        )
        try:
            found = problem.pull(outputs, used, weights)
        except DerivativeMissingError:
            raise
        except Exception as error:
            raise CheckFailedError(
                f"with {words} in the loss, the backward pass raised {type(error).__name__}: "
                f"{message_of(error)}.",
                fix,
            ) from error
        expected = problem.pull(outputs, used, [*zeros])
        for name in problem.names:
            scale = np.abs(expected[name])
            gap = first_gap(found[name], expected[name], scale, problem.tolerance)
            if gap is not None:
                raise CheckFailedError(
                    f"with {words} in the loss, the gradient of {name!r} is {gap.found}; with "
                    f"zeros as the cotangents of the other outputs it is {gap.expected}.",
                    fix,
                )


def _check_each_alone(problem: Problem, together: _Gradients) -> None:
    """The gradient of an input is the same whether or not the others require grad."""
    if len(problem.names) < 2:
        return
    for name in problem.names:
        outputs, used = problem.call({}, leaves=True, only={name})
        mine = {name: used[name]}
        found = problem.pull(outputs, mine, [*problem.weights], retain=False)
        theirs = together[name]
        scale = np.abs(theirs)
        floor = problem.eps * 1e3 * float(np.max(scale[np.isfinite(scale)], initial=0.0))
        gap = first_gap(found[name], theirs, scale + floor, problem.tolerance)
        if gap is not None:
            raise CheckFailedError(
                f"the gradient of {name!r} is {gap.found} where {name!r} alone requires "
                f"grad, and {gap.expected} where all inputs do.",
                "ctx.needs_input_grad may save work, and must not change the gradients that "
                "are needed; return them in the order of the arguments.",
            )
