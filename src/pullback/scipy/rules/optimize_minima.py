"""Rules of the minimizers of ``scipy.optimize``: derivatives from the conditions at the minimum."""

from __future__ import annotations

import inspect
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
    "bound_arguments",
    "box_of",
    "dense_of",
    "half_squares",
    "itself",
    "joined_result",
    "limits_of",
]

_Function = Callable[..., Any]


def bound_arguments(function: _Function, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by name, with the defaults."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


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
            made.append((_product(each.A), each.lb, each.ub))
        else:
            made.append((each.fun, each.lb, each.ub))
    return made


def _with_args(fun: _Function, args: Any) -> _Function:
    more = as_tuple(args)
    return lambda x: fun(x, *more)


def _product(matrix: Any) -> _Function:
    return lambda x: as_tensor(dense_of(matrix)) @ x


def dense_of(matrix: Any) -> Any:
    """A sparse matrix as an array; others unchanged."""
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def _cost(fun: _Function, args: Any, has_jac: bool) -> Callable[[Any], Tensor]:
    more = as_tuple(args)

    def cost(x: Any) -> Tensor:
        found = fun(x, *more)
        return shapes.reshape(as_tensor(found[0] if has_jac else found), [])

    return cost


@rule("scipy.optimize.minimize", tensors="fun x0 args jac hess hessp bounds constraints")
def _minimize(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.minimize, *args, **kwargs)
    name = "scipy.optimize.minimize"

    def conditions(given: dict[str, Any], x: Any) -> Any:
        cost = _cost(given["fun"], given["args"], given["jac"] is True)
        limits = limits_of(given["bounds"], x.size)
        return cost, [*limits, *_constraints_of(given["constraints"])]

    def solve(**plain: Any) -> Any:
        result = optimize.minimize(**plain)
        cost, limits = conditions(plain, result.x)
        return result, active_set(name, cost, limits, result.x)

    samples = Samples(**given)
    runs = samples.run(solve)
    result = joined_result(samples, [run[0] for run in runs])
    y = samples.join([run[0].x for run in runs])
    cost, limits = conditions(given, y)
    sets = [run[1] for run in runs]
    failure = failure_of([run[0] for run in runs], sets)
    x = attach_minimum(name, samples, y, cost, limits, sets, failure)
    result.x = depend_on_start(x, given["x0"])
    result.fun = cost(x)
    return result


@rule("scipy.optimize.minimize_scalar", tensors="fun bracket bounds args")
def _minimize_scalar(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.minimize_scalar, *args, **kwargs)
    name = "scipy.optimize.minimize_scalar"
    samples = Samples(**given)

    def conditions(fun: _Function, args: Any, bounds: Any) -> Any:
        limits = [] if bounds is None else [(itself, bounds[0], bounds[1])]
        return _cost(fun, args, False), limits

    def solve(**plain: Any) -> Any:
        result = optimize.minimize_scalar(**plain)
        cost, limits = conditions(plain["fun"], plain["args"], plain["bounds"])
        return result, active_set(name, cost, limits, np.asarray(result.x))

    runs = samples.run(solve)
    result = joined_result(samples, [run[0] for run in runs])
    y = samples.join([run[0].x for run in runs])
    cost, limits = conditions(given["fun"], given["args"], given["bounds"])
    sets = [run[1] for run in runs]
    failure = failure_of([run[0] for run in runs], sets)
    result.x = attach_minimum(name, samples, y, cost, limits, sets, failure)
    result.fun = cost(result.x)
    return result


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
def _least_squares(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.least_squares, *args, **kwargs)
    name = "scipy.optimize.least_squares"
    if given["loss"] not in _LOSSES:
        raise option_without_rule(name, "loss", given["loss"])

    def conditions(given: dict[str, Any]) -> Any:
        more, named = as_tuple(given["args"]), given["kwargs"] or {}
        fun = given["fun"]

        def residual(x: Any) -> Tensor:
            return as_tensor(fun(x, *more, **named))

        cost = half_squares(residual, given["loss"], given["f_scale"])
        return residual, cost, box_of(given["bounds"])

    def solve(**plain: Any) -> Any:
        result = optimize.least_squares(**plain)
        _, cost, limits = conditions(plain)
        return result, active_set(name, cost, limits, result.x)

    samples = Samples(**given)
    runs = samples.run(solve)
    result = joined_result(samples, [run[0] for run in runs])
    y = samples.join([run[0].x for run in runs])
    residual, cost, limits = conditions(given)
    sets = [run[1] for run in runs]
    failure = failure_of([run[0] for run in runs], sets)
    x = attach_minimum(name, samples, y, cost, limits, sets, failure)
    result.x = depend_on_start(x, given["x0"])
    result.fun, result.cost = residual(x), cost(x)
    return result


@rule("scipy.optimize.leastsq", tensors="func x0 args Dfun")
def _leastsq(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.leastsq, *args, **kwargs)
    name = "scipy.optimize.leastsq"
    wants = given.pop("full_output")

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
    return (x, *runs[0][0][1:]) if wants else (x, runs[0][0][4])
