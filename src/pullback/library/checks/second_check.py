"""Second derivatives: of the reverse rule by inputs and by cotangents, and of the forward rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd import forward_ad
from pullback.autograd.api import grad
from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.errors import DerivativeMissingError, message_of
from pullback.kernels.errstate import errstate
from pullback.library.checks.case import Case, CheckFailedError
from pullback.library.checks.jacobian import (
    Weights,
    columns_of,
    compare_with_differences,
    gradient_grain,
    magnitudes,
)
from pullback.library.checks.numeric import inner
from pullback.library.checks.pass_check import first_gap
from pullback.library.checks.problem import Problem, doubled
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["check_second", "refuses_second_derivatives"]

_Array = NDArray[Any]
_COLUMNS = 6  # elements of an input; larger ones are looked at in blocks
_BLOCKS = 2
_FIX = (
    "write backward with Pullback's operators on the tensors that it gets and on "
    "ctx.saved_tensors (not on .numpy() or attributes of ctx); or mark it "
    "@once_differentiable, so that second derivatives raise."
)


class _Refused(Exception):  # noqa: N818 - no error: the operator has no second derivative
    """The operator raises for second derivatives, and says why."""


def check_second(problem: Problem) -> str:
    """Differentiates the rules, and compares with finite differences of the reverse rule."""
    try:
        _check_reverse_of_reverse(problem)
    except _Refused as error:
        return f"no second derivative ({message_of(error).splitlines()[0][:60]})"
    _check_reverse_of_forward(problem)
    return "second order"


def refuses_second_derivatives(case: Case) -> bool:
    """Whether the backward pass is marked by ``once_differentiable``."""
    problem = Problem(doubled(case))
    try:
        _check_reverse_of_reverse(problem)
    except _Refused as error:
        return "once_differentiable" in str(error)
    except CheckFailedError:
        return False
    return False


def _leaf(array: _Array) -> Tensor:
    made = wrap(np.array(array))
    made._flags |= REQUIRES_GRAD
    return made


def _check_reverse_of_reverse(problem: Problem) -> None:
    outputs, used = problem.call({}, leaves=True)
    roots = [n for n, out in enumerate(outputs) if out.requires_grad]
    weights = [_leaf(problem.weights[n]) for n in roots]
    leaves = list(used.values())
    try:
        first = grad(
            [outputs[n] for n in roots], leaves, weights, allow_unused=True, create_graph=True
        )
    except DerivativeMissingError as error:
        raise _Refused(message_of(error)) from None
    except RuntimeError as error:
        raise _Refused(message_of(error)) from None
    kept = {n: g for n, g in zip(used, first, strict=True) if g is not None and g.size}
    if not kept:
        return
    _check_same_first(problem, kept)
    directions = {
        name: problem.noise(g._array) / np.asarray(magnitudes(g._array), g.dtype)
        for name, g in kept.items()
    }
    recorded = [name for name, g in kept.items() if g.requires_grad]
    found: dict[str, _Array] = {}
    by_cotangent = [np.zeros_like(w._array) for w in weights]
    if recorded:
        try:
            second = grad(
                [kept[name] for name in recorded],
                [*leaves, *weights],
                [wrap(np.array(directions[name])) for name in recorded],
                allow_unused=True,
                retain_graph=True,
            )
        except (DerivativeMissingError, RuntimeError) as error:
            raise _Refused(message_of(error)) from None
        arrays = [None if s is None else np.array(s._array) for s in second]
        found = {n: a for n, a in zip(used, arrays, strict=False) if a is not None}
        by_cotangent = [
            zero if a is None else a
            for zero, a in zip(by_cotangent, arrays[len(leaves) :], strict=True)
        ]
    _check_by_cotangent(problem, roots, directions, by_cotangent)
    _check_by_inputs(problem, directions, found)


def _check_same_first(problem: Problem, found: dict[str, Tensor]) -> None:
    """The first derivative is the same with and without create_graph."""
    plain = problem.base
    for name, gradient in found.items():
        theirs = plain[name]
        scale = np.abs(theirs) + problem.eps * 1e3 * gradient_grain(problem, name)
        gap = first_gap(np.array(gradient._array), theirs, scale, 1e-9 if problem.is_wide else 1e-3)
        if gap is not None:
            raise CheckFailedError(
                f"the gradient of {name!r} is {gap.found} with create_graph=True, and "
                f"{gap.expected} without.",
                "backward must not depend on the grad mode or on requires_grad of what it gets.",
            )


def _check_by_cotangent(
    problem: Problem, roots: list[int], directions: dict[str, _Array], found: list[_Array]
) -> None:
    """<v, Jᵀw> is linear in w: its derivative by w, in a direction u, is <v, Jᵀu>."""
    outputs, used = problem.call({}, leaves=True)
    for place, number in enumerate(roots):
        direction = problem.noise(problem.here[number])
        weights: list[_Array | None] = [None] * len(outputs)
        weights[number] = direction
        gradients = problem.pull(outputs, used, weights)
        ours = inner([found[place]], [direction])
        parts = [inner([directions[n]], [gradients[n]]) for n in directions]
        theirs = sum(parts)
        with errstate(all="ignore"):
            sizes = {n: np.abs(directions[n]) for n in directions}
            scale = sum(inner([sizes[n]], [np.abs(gradients[n])]) for n in directions)
            grain = sum(inner([sizes[n]], [gradient_grain(problem, n)]) for n in directions)
        if not np.isfinite([ours, theirs]).all():
            continue
        tolerance = problem.case.rtol or (1e-8 if problem.is_wide else 1e-3)
        limit = tolerance * max(abs(theirs), 1e-3 * scale) + 100 * problem.eps * grain
        if abs(ours - theirs) > limit:
            raise CheckFailedError(
                f"the second derivative by the cotangent of output {number} is wrong: "
                f"{ours:.10g} in a random direction, where the first derivative, which is linear "
                f"in the cotangent, demands {theirs:.10g}. The backward pass detaches the "
                f"cotangent, or uses a function whose own derivative by it is wrong.",
                _FIX,
            )


def _check_by_inputs(
    problem: Problem, directions: dict[str, _Array], found: dict[str, _Array]
) -> None:
    names = list(directions)
    row = Weights([[directions[n] for n in names]])
    here = [problem.base[n] for n in names]
    grain = [gradient_grain(problem, n) for n in names]
    for name in problem.names:
        at = problem.at[name]
        if not at.size:
            continue

        def gradients(value: _Array, name: str = name) -> list[_Array]:
            moved = problem.gradients({name: value})
            return [moved[n] for n in names]

        mine = found.get(name)
        for column in columns_of(problem, name, _COLUMNS, _BLOCKS):
            ours = 0.0 if mine is None else inner([mine], [column.direction])
            wrong = compare_with_differences(
                problem, gradients, column, row, np.array([ours]), here, None, grain
            )
            if wrong is None:
                continue
            place = f" at {[*column.index]}" if column.index else ""
            raise CheckFailedError(
                f"the second derivative by {name!r}{place} is wrong: {ours:.8g} in a random "
                f"direction, where finite differences of the first derivative give "
                f"{wrong[1]:.8g}."
                + (" The backward pass computed it outside of the graph." if mine is None else ""),
                _FIX,
            )


def _check_reverse_of_forward(problem: Problem) -> None:
    """The forward rule is recorded too: its derivative is that of the reverse rule."""
    for name in problem.names:
        at = problem.at[name]
        if not at.size:
            continue
        direction = np.asarray(problem.noise(at) * magnitudes(at), at.dtype)
        ours = _tangent_gradients(problem, name, direction)
        theirs = _gradient_product(problem, name, direction)
        if ours is None or theirs is None:
            return
        for other in problem.names:
            scale = np.abs(theirs[other])
            top = float(np.max(scale[np.isfinite(scale)], initial=0.0))
            # The tangent is at most about as large as the input, so the gradient bounds it.
            floor = problem.eps * (1e4 * top + 1e2 * gradient_grain(problem, other))
            with errstate(all="ignore"):
                gap = np.abs(ours[other] - theirs[other])
            wrong = (gap > (problem.case.rtol or 1e-7) * scale + floor) & np.isfinite(gap)
            if not wrong.any():
                continue
            index = np.unravel_index(int(np.argmax(np.where(wrong, gap, -1))), gap.shape)
            if _is_noise(problem, name, direction, other, index, float(gap[index])):
                continue
            raise CheckFailedError(
                f"the derivative of the forward rule by {other!r} is {ours[other][index]:.8g} at "
                f"{[int(i) for i in index]}, for a tangent of {name!r}, where the reverse rule "
                f"gives {theirs[other][index]:.8g}: the forward rule computes outside of the "
                f"graph.",
                "write jvp with Pullback's operators on the tensors that it gets and on "
                "ctx.saved_tensors, not on .numpy(), detach() or attributes of ctx.",
            )


def _is_noise(
    problem: Problem, name: str, direction: _Array, other: str, index: Any, gap: float
) -> bool:
    moved = (direction * (1 + 4 * np.finfo(direction.dtype).eps)).astype(direction.dtype)
    first = _gradient_product(problem, name, moved)
    second = _gradient_product(problem, name, direction)
    if first is None or second is None:
        return True
    return bool(abs(first[other][index] - second[other][index]) > 0.1 * gap)


def _tangent_gradients(problem: Problem, name: str, direction: _Array) -> dict[str, _Array] | None:
    """The gradients of <w, J v> by all inputs, with J v from the forward rule."""
    leaves = {n: _leaf(at) for n, at in problem.at.items()}
    with forward_ad.dual_level():
        given: dict[str, Any] = dict(leaves)
        given[name] = forward_ad.make_dual(leaves[name], wrap(np.array(direction)))
        try:
            outputs = problem.call(given, leaves=False)[0]
            found = [forward_ad.unpack_dual(out)[1] for out in outputs]
            pairs = [
                (t, wrap(np.array(w)))
                for t, w in zip(found, problem.weights, strict=True)
                if t is not None and t.requires_grad
            ]
            if not pairs:
                return {n: np.zeros_like(at) for n, at in problem.at.items()}
            result = grad(
                [t for t, _ in pairs],
                list(leaves.values()),
                [w for _, w in pairs],
                allow_unused=True,
            )
        except (DerivativeMissingError, RuntimeError):
            return None
    return {
        n: np.zeros_like(problem.at[n]) if g is None else np.array(g._array)
        for n, g in zip(leaves, result, strict=True)
    }


def _gradient_product(problem: Problem, name: str, direction: _Array) -> dict[str, _Array] | None:
    """The gradients of <Jᵀ w, v> by all inputs, with Jᵀ w from the reverse rule."""
    outputs, used = problem.call({}, leaves=True)
    roots = [n for n, out in enumerate(outputs) if out.requires_grad]
    zeros = {n: np.zeros_like(at) for n, at in problem.at.items()}
    try:
        (first,) = grad(
            [outputs[n] for n in roots],
            [used[name]],
            [_leaf(problem.weights[n]) for n in roots],
            allow_unused=True,
            create_graph=True,
        )
        if first is None or not first.requires_grad:
            return zeros
        found = grad([first], list(used.values()), [wrap(np.array(direction))], allow_unused=True)
    except (DerivativeMissingError, RuntimeError):
        return None
    return {
        n: zeros[n] if g is None else np.array(g._array) for n, g in zip(used, found, strict=True)
    }
