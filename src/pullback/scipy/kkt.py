"""Derivatives of constrained minima: the Karush-Kuhn-Tucker conditions as a residual.

At a minimum the active constraints hold as equations, and the gradient of the Lagrangian vanishes.
Which constraints are active is a constant of the derivative, provided that their multipliers are
not zero; otherwise the minimum has a kink there, and `active_set` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback._generated import functions_shape as shapes
from pullback.errors import DerivativeMissingError
from pullback.func.jacobians import jacfwd
from pullback.func.reverse import grad
from pullback.implicit.attach import constant_of
from pullback.interop.arguments import as_tensor
from pullback.operators import array_functions
from pullback.scipy.solutions import attach_solution
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor

__all__ = ["ActiveSet", "Constraint", "active_set", "attach_minimum", "failure_of"]

# (function of x, lower, upper); plain tuples, so that twins of them can be made
Constraint = tuple[Callable[[Any], Any], Any, Any]
_Cost = Callable[[Tensor], Tensor]

_NEAR = 1e-5  # distance to a bound at which a constraint may be active, relative to the bound
_AT = 1e-9  # the same for one whose multiplier is zero: the solution is at a kink
_SLOPE = 1e-5  # gradient of a minimum; SciPy's default tolerance
_ZERO = 1e-7  # multiplier that counts as zero, relative to the gradient


class ActiveSet(NamedTuple):
    """Constraints that hold as equations at a minimum: at which bound, with which multiplier."""

    active: NDArray[Any]
    is_upper: NDArray[Any]
    multipliers: NDArray[Any]
    slope: float  # largest entry of the Lagrangian's gradient


class _Bounds(NamedTuple):
    values: Tensor
    lower: Tensor
    upper: Tensor


def _evaluate(constraints: list[Constraint], x: Tensor) -> _Bounds:
    """All constraints as one vector with its bounds."""
    parts: list[list[Tensor]] = [[], [], []]
    for function, lower, upper in constraints:
        values = shapes.reshape(as_tensor(function(x)), [-1])
        parts[0].append(values)
        for place, bound in ((1, lower), (2, upper)):
            flat = shapes.reshape(as_tensor(bound), [-1])
            parts[place].append(shapes.broadcast_to(flat, list(values.shape)))
    return _Bounds(*(shapes.concatenate(part) for part in parts))


def active_set(name: str, cost: _Cost, constraints: list[Constraint], x: NDArray[Any]) -> ActiveSet:
    """Finds the active constraints at a minimum, from values and multipliers, on arrays."""
    at = as_tensor(np.array(x))
    slope = grad(cost)(at).detach().numpy()
    if not constraints:
        return ActiveSet(np.zeros(0, bool), np.zeros(0, bool), np.zeros(0), _largest(slope))
    found = _evaluate(constraints, at)
    values, lower, upper = (np.asarray(part.detach().numpy()) for part in found)
    gap_lower, gap_upper = np.abs(values - lower), np.abs(values - upper)
    is_upper = gap_upper < gap_lower
    gap = np.where(is_upper, gap_upper, gap_lower)
    size = 1 + np.abs(np.where(np.isfinite(values), values, 0))
    is_equation = lower == upper
    active = is_equation | (gap <= _NEAR * size)
    jacobian = jacfwd(lambda x: _evaluate(constraints, x).values)(at).detach().numpy()
    for _ in range(len(values) + 1):
        multipliers = np.zeros(len(values))
        if active.any():
            multipliers[active] = np.linalg.lstsq(jacobian[active].T, slope, rcond=None)[0]
        sign = np.where(is_upper, -1.0, 1.0) * multipliers
        limit = _ZERO * max(1.0, _largest(slope))
        loose = active & ~is_equation & (sign <= limit)
        if not loose.any():
            rest = slope - multipliers @ jacobian
            return ActiveSet(active, is_upper, multipliers, _largest(rest))
        worst = int(np.argmin(np.where(loose, sign, np.inf)))
        if abs(sign[worst]) <= limit and gap[worst] <= _AT * size[worst]:
            raise DerivativeMissingError(
                f"{name}: the constraint or bound number {worst} holds as an equation at the "
                f"minimum with multiplier zero, so the minimum has a kink there and no derivative. "
                f"Remove the constraint, or move it."
            )
        active[worst] = False
    raise AssertionError("every pass removes a constraint")


def _largest(values: NDArray[Any]) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def failure_of(results: list[Any], sets: list[ActiveSet]) -> str | None:
    """Returns SciPy's message if a minimum has no derivative, None if the conditions hold.

    Minimizers report a loss of precision where they cannot reach a narrow tolerance, at points
    that are minima by their default tolerance, which is `_SLOPE`.
    """
    for result, found in zip(results, sets, strict=True):
        if not result.success and not found.slope <= _SLOPE:
            return str(result.message)
    return None


def attach_minimum(
    name: str,
    samples: Samples,
    x: Tensor,
    cost: _Cost,
    constraints: list[Constraint],
    sets: list[ActiveSet],
    failure: str | None = None,
) -> Tensor:
    """Gives a minimum its derivatives, from the conditions of first order."""
    keep = np.flatnonzero(np.any([found.active for found in sets], axis=0))
    if not keep.size:
        return attach_solution(name, x, grad(cost), failure)
    active = samples.join([found.active[keep] for found in sets])
    is_upper = samples.join([found.is_upper[keep] for found in sets])
    multipliers = samples.join([found.multipliers[keep] for found in sets])
    n = x.size
    shape = list(x.shape)
    zero = constant_of(multipliers) * 0.0

    def residual(z: Tensor) -> Tensor:
        at, weights = shapes.reshape(z[:n], shape), z[n:]

        def lagrangian(at: Tensor) -> Tensor:
            values = _evaluate(constraints, at).values[keep]
            return cost(at) - (weights * values).sum()

        found = _evaluate(constraints, at)
        target = array_functions.where(is_upper, found.upper[keep], found.lower[keep])
        target = array_functions.where(active, target, zero)
        equations = array_functions.where(active, found.values[keep] - target, weights)
        return shapes.concatenate([shapes.reshape(grad(lagrangian)(at), [n]), equations])

    unknowns = shapes.concatenate([shapes.reshape(x, [n]), multipliers])
    solution = attach_solution(name, unknowns, residual, failure)
    return shapes.reshape(solution[:n], shape)
