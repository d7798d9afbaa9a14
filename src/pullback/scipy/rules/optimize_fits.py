"""Rules of curve_fit, nnls, lsq_linear and linprog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from pullback._generated import functions_shape as shapes
from pullback.func.jacobians import jacfwd
from pullback.implicit.attach import constant_of
from pullback.interop.arguments import as_tensor
from pullback.linalg import cholesky, inv, solve
from pullback.scipy.kkt import Constraint, active_set, attach_minimum, failure_of
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.optimize_minima import (
    bound_arguments,
    box_of,
    dense_of,
    half_squares,
    itself,
    limits_of,
)
from pullback.scipy.rules.optimize_roots import joined_result
from pullback.scipy.solutions import depend_on_start
from pullback.scipy.twins import Samples
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Function = Callable[..., Any]


def _fit_residual(f: _Function, xdata: Any, ydata: Any, sigma: Any) -> Callable[[Tensor], Tensor]:
    """The weighted residuals of curve_fit as a function of the parameters."""

    def residual(p: Tensor) -> Tensor:
        found = as_tensor(f(xdata, *[p[place] for place in range(p.size)])) - as_tensor(ydata)
        found = shapes.reshape(found, [-1])
        if sigma is None:
            return found
        weights = as_tensor(sigma)
        if weights.ndim < 2:
            return found / weights
        return solve(cholesky(weights), found)

    return residual


@rule("scipy.optimize.curve_fit", tensors="f xdata ydata p0 sigma bounds jac")
def _curve_fit(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.curve_fit, *args, **kwargs)
    name = "scipy.optimize.curve_fit"
    given.update(given.pop("kwargs", {}))
    if given["nan_policy"] == "omit":
        raise option_without_rule(name, "nan_policy", "omit")
    for option in ("args", "loss"):
        if given.get(option) not in (None, (), "linear"):
            raise option_without_rule(name, option, given[option])
    wants = given["full_output"]
    given["xdata"] = _as_data(given["xdata"])

    def conditions(given: dict[str, Any]) -> Any:
        parts = (given[key] for key in ("f", "xdata", "ydata", "sigma"))
        residual = _fit_residual(*parts)
        return residual, half_squares(residual), box_of(given["bounds"])

    def solve(**plain: Any) -> Any:
        found = optimize.curve_fit(**plain)
        _, cost, limits = conditions(plain)
        return found, active_set(name, cost, limits, found[0])

    samples = Samples(**given)
    runs = samples.run(solve)
    residual, cost, limits = conditions(given)
    y = samples.join([run[0][0] for run in runs])
    popt = attach_minimum(name, samples, y, cost, limits, [run[1] for run in runs])
    popt = depend_on_start(popt, given["p0"])
    theirs = samples.join([run[0][1] for run in runs])
    ours = _covariance(residual, popt, given["absolute_sigma"])
    pcov = theirs + (ours - constant_of(ours))  # SciPy's Jacobian is one of differences
    return (popt, pcov, *runs[0][0][2:]) if wants else (popt, pcov)


def _as_data(xdata: Any) -> Any:
    """Lists and tuples become arrays, as SciPy makes them before it calls the function."""
    return as_tensor(xdata) if isinstance(xdata, list | tuple) else xdata


def _covariance(residual: _Function, popt: Tensor, absolute_sigma: bool) -> Tensor:
    jacobian = jacfwd(residual)(popt)
    matrix: Tensor = inv(shapes.swapaxes(jacobian, 0, 1) @ jacobian)
    if absolute_sigma:
        return matrix
    rest = residual(popt)
    scaled: Tensor = matrix * ((rest * rest).sum() / (rest.size - popt.size))
    return scaled


@rule("scipy.optimize.nnls", tensors="A b")
def _nnls(A: Any, b: Any, **options: Any) -> Any:
    def solver(matrix: Any, b: Any, limits: Any) -> Any:  # noqa: ARG001 - what every solver gets
        x = optimize.nnls(matrix, b, **options)[0]
        return optimize.OptimizeResult(x=x, success=True, message="")

    limits: list[Constraint] = [(itself, 0.0, np.inf)]
    result = _linear_least_squares("scipy.optimize.nnls", solver, A, b, None, limits)
    return result.x, (2 * result.cost) ** 0.5


def _linear_least_squares(
    name: str, solver: _Function, matrix: Any, b: Any, bounds: Any, limits: list[Constraint]
) -> Any:
    """Minimizes half of |A x - b|² within limits; the result has `x`, `fun` and `cost`."""

    def residual_of(matrix: Any, b: Any) -> Callable[[Tensor], Tensor]:
        return lambda x: as_tensor(dense_of(matrix)) @ x - as_tensor(b)

    def solve(matrix: Any, b: Any, bounds: Any, limits: Any) -> Any:
        result = solver(matrix, b, bounds)
        cost = half_squares(residual_of(matrix, b))
        return result, active_set(name, cost, limits, result.x)

    samples = Samples(matrix, b, bounds, limits)
    runs = samples.run(solve)
    sets = [run[1] for run in runs]
    y = samples.join([run[0].x for run in runs])
    residual = residual_of(matrix, b)
    cost = half_squares(residual)
    failure = failure_of([run[0] for run in runs], sets)
    result = joined_result(samples, [run[0] for run in runs])
    result.x = attach_minimum(name, samples, y, cost, limits, sets, failure)
    result.fun = residual(result.x)
    result.cost = cost(result.x)
    return result


@rule("scipy.optimize.lsq_linear", tensors="A b bounds")
def _lsq_linear(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.lsq_linear, *args, **kwargs)
    matrix, b, bounds = given.pop("A"), given.pop("b"), given.pop("bounds")

    def solver(matrix: Any, b: Any, bounds: Any) -> Any:
        return optimize.lsq_linear(matrix, b, bounds, **given)

    name = "scipy.optimize.lsq_linear"
    return _linear_least_squares(name, solver, matrix, b, bounds, box_of(bounds))


@rule("scipy.optimize.linprog", tensors="c A_ub b_ub A_eq b_eq bounds")
def _linprog(*args: Any, **kwargs: Any) -> Any:
    given = bound_arguments(optimize.linprog, *args, **kwargs)
    name = "scipy.optimize.linprog"

    def conditions(given: dict[str, Any], size: int) -> Any:
        limits = limits_of(_pairs(given["bounds"], size), size)
        if given["A_ub"] is not None:
            limits.append((_product(given["A_ub"]), -np.inf, given["b_ub"]))
        if given["A_eq"] is not None:
            limits.append((_product(given["A_eq"]), given["b_eq"], given["b_eq"]))
        c = as_tensor(given["c"])
        return lambda x: (c * x).sum(), limits

    def solve(**plain: Any) -> Any:
        result = optimize.linprog(**plain)
        if not result.success:
            return result, None
        cost, limits = conditions(plain, result.x.size)
        return result, active_set(name, cost, limits, result.x)

    samples = Samples(**given)
    runs = samples.run(solve)
    result = joined_result(samples, [run[0] for run in runs])
    if not result.success:
        return result  # SciPy gives None for x
    y = samples.join([run[0].x for run in runs])
    cost, limits = conditions(given, y.size)
    result.x = attach_minimum(name, samples, y, cost, limits, [run[1] for run in runs])
    result.fun = cost(result.x)
    return result


def _pairs(bounds: Any, size: int) -> Any:
    """One pair of bounds for all unknowns, or one for each; None is no bound."""
    if bounds is None:
        return [(None, None)] * size
    first = bounds[0]
    return bounds if isinstance(first, list | tuple | np.ndarray) else [tuple(bounds)] * size


def _product(matrix: Any) -> _Function:
    return lambda x: as_tensor(dense_of(matrix)) @ x
