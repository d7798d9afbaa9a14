"""Rules of the minimizers of ``scipy.optimize``: derivatives from the conditions at the minimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_shape as shapes
from pullback.interop.arguments import as_tensor
from pullback.operators import array_functions
from pullback.scipy.kkt import Constraint, active_set, attach_minimum, failure_of
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.optimize_roots import as_tuple, joined_result
from pullback.scipy.solutions import depend_on_start
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor

__all__ = [
    "box_of",
    "half_squares",
    "itself",
    "joined_result",
    "limits_of",
    "product_with",
    "solve_minimum",
]

_Function = Callable[..., Any]


def solve_minimum(
    name: str,
    solver: _Function,
    given: dict[str, Any],
    conditions: Callable[[dict[str, Any], Any], tuple[_Function, list[Constraint]]],
) -> Any:
    """SciPy's result of a solver of minima, with derivatives in its `x`, and `cost` as its `fun`.

    `given` has the arguments by name. ``conditions(given, x)`` returns the cost and the
    constraints; it gets the arguments as they are, and with arrays in the place of tensors.
    """

    def solve(**plain: Any) -> Any:
        result = solver(**plain)
        if result.x is None:  # linprog without success
            return result, None
        return result, active_set(name, *conditions(plain, result.x), np.asarray(result.x))

    samples = Samples(**given)
    runs = samples.run(solve)
    results, sets = [run[0] for run in runs], [run[1] for run in runs]
    result = joined_result(samples, results)
    if None in sets:
        return result
    y = samples.join([found.x for found in results])
    cost, limits = conditions(given, y)
    x = attach_minimum(name, samples, y, cost, limits, sets, failure_of(results, sets))
    result.x = depend_on_start(x, given.get("x0"))
    result.fun = cost(x)
    return result


def limits_of(bounds: Any, size: int) -> list[Constraint]:
    """SciPy's `bounds` as constraints of x itself; an empty list without bounds."""
    if bounds is None:
        return []
    if isinstance(bounds, optimize.Bounds):
        lower, upper = bounds.lb, bounds.ub
    else:
        pairs = list(bounds) if len(bounds) == size else list(bounds) * size
        lower = [-np.inf if low is None else low for low, _ in pairs]
        upper = [np.inf if high is None else high for _, high in pairs]
    return [(itself, lower, upper)]


def itself(x: Any) -> Any:
    """Returns its argument: bounds are constraints of x itself."""
    return x


def _constraints_of(constraints: Any) -> list[Constraint]:
    """SciPy's constraints in their three forms, as functions with bounds."""
    single = isinstance(
        constraints, dict | optimize.LinearConstraint | optimize.NonlinearConstraint
    )
    made: list[Constraint] = []
    for each in [constraints] if single else constraints:
        if isinstance(each, dict):
            upper = 0.0 if each["type"].lower() == "eq" else np.inf
            made.append((_with_args(each["fun"], each.get("args", ())), 0.0, upper))
        elif isinstance(each, optimize.LinearConstraint):
            made.append((product_with(each.A), each.lb, each.ub))
        else:
            made.append((each.fun, each.lb, each.ub))
    return made


def _with_args(fun: _Function, args: Any) -> _Function:
    more = as_tuple(args)
    return lambda x: fun(x, *more)


def product_with(matrix: Any) -> _Function:
    """The product of a matrix with x, as a function."""
    return lambda x: as_tensor(_dense_of(matrix)) @ x


def _dense_of(matrix: Any) -> Any:
    """A sparse matrix as an array; others unchanged."""
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def _cost(fun: _Function, args: Any, has_jac: bool) -> Callable[[Any], Tensor]:
    more = as_tuple(args)

    def cost(x: Any) -> Tensor:
        found = fun(x, *more)
        return shapes.reshape(as_tensor(found[0] if has_jac else found), [])

    return cost


@rule("scipy.optimize.minimize", tensors="fun x0 args jac hess hessp bounds constraints")
def _minimize(**given: Any) -> Any:
    def conditions(given: dict[str, Any], x: Any) -> Any:
        cost = _cost(given["fun"], given["args"], given["jac"] is True)
        limits = limits_of(given["bounds"], x.size)
        return cost, [*limits, *_constraints_of(given["constraints"])]

    return solve_minimum("scipy.optimize.minimize", optimize.minimize, given, conditions)


@rule("scipy.optimize.minimize_scalar", tensors="fun bracket bounds args")
def _minimize_scalar(**given: Any) -> Any:
    def conditions(given: dict[str, Any], _: Any) -> Any:
        bounds = given["bounds"]
        limits = [] if bounds is None else [(itself, bounds[0], bounds[1])]
        return _cost(given["fun"], given["args"], False), limits

    name, solver = "scipy.optimize.minimize_scalar", optimize.minimize_scalar
    return solve_minimum(name, solver, given, conditions)


# --- least squares -------------------------------------------------------------------------------

_LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (pointwise.sqrt(1 + z) - 1),
    "huber": lambda z: array_functions.where(
        z <= 1, z, 2 * pointwise.sqrt(array_functions.where(z <= 1, 1.0 + 0 * z, z)) - 1
    ),
    "cauchy": pointwise.log1p,
    "arctan": pointwise.atan,
}


def half_squares(residual: _Function, loss: str = "linear", scale: float = 1.0) -> _Function:
    """The cost of a least-squares problem: half the sum of squares, or of their losses."""
    rho = _LOSSES[loss]

    def cost(x: Tensor) -> Tensor:
        found = shapes.reshape(as_tensor(residual(x)), [-1])
        return 0.5 * scale**2 * rho((found / scale) ** 2).sum()

    return cost


def box_of(bounds: Any) -> list[Constraint]:
    """The bounds of least_squares, lsq_linear and curve_fit, which are two arrays."""
    if isinstance(bounds, optimize.Bounds):
        bounds = (bounds.lb, bounds.ub)
    lower, upper = bounds
    is_given = any(isinstance(bound, Tensor) or np.any(np.isfinite(bound)) for bound in bounds)
    return [(itself, lower, upper)] if is_given else []


@rule("scipy.optimize.least_squares", tensors="fun x0 jac bounds args kwargs")
def _least_squares(**given: Any) -> Any:
    name = "scipy.optimize.least_squares"
    if given["loss"] not in _LOSSES:
        raise option_without_rule(name, "loss", given["loss"])

    def residual_of(given: dict[str, Any]) -> _Function:
        fun, more, named = given["fun"], as_tuple(given["args"]), given["kwargs"] or {}
        return lambda x: as_tensor(fun(x, *more, **named))

    def conditions(given: dict[str, Any], _: Any) -> Any:
        cost = half_squares(residual_of(given), given["loss"], given["f_scale"])
        return cost, box_of(given["bounds"])

    result = solve_minimum(name, optimize.least_squares, given, conditions)
    result.fun, result.cost = residual_of(given)(result.x), result.fun
    return result


@rule("scipy.optimize.leastsq", tensors="func x0 args Dfun")
def _leastsq(full_output: bool, **given: Any) -> Any:
    name = "scipy.optimize.leastsq"

    def cost_of(func: _Function, args: Any) -> _Function:
        more = as_tuple(args)
        return half_squares(lambda x: func(x, *more))

    def solve(**plain: Any) -> Any:
        found = optimize.leastsq(**plain, full_output=True)
        return found, active_set(name, cost_of(plain["func"], plain["args"]), [], found[0])

    samples = Samples(**given)
    runs = samples.run(solve)
    failed = next((run[0] for run in runs if run[0][4] not in (1, 2, 3, 4)), None)
    y = samples.join([run[0][0] for run in runs])
    failure = None if failed is None else str(failed[3])
    cost, sets = cost_of(given["func"], given["args"]), [run[1] for run in runs]
    x = attach_minimum(name, samples, y, cost, [], sets, failure)
    x = depend_on_start(x, given["x0"])
    return (x, *runs[0][0][1:]) if full_output else (x, runs[0][0][4])
