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
from pullback.scipy.kkt import active_set, attach_minimum
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.optimize_minima import (
    box_of,
    half_squares,
    itself,
    limits_of,
    product_with,
    solve_minimum,
)
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
def _curve_fit(**given: Any) -> Any:
    name = "scipy.optimize.curve_fit"
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


def _linear_least_squares(name: str, solver: _Function, given: dict[str, Any], box: Any) -> Any:
    """Minimizes half of |A x - b|² within a box; the result has `x`, `fun` and `cost`."""

    def residual_of(given: dict[str, Any]) -> _Function:
        product, b = product_with(given["A"]), as_tensor(given["b"])
        return lambda x: product(x) - b

    def conditions(given: dict[str, Any], _: Any) -> Any:
        return half_squares(residual_of(given)), box(given)

    result = solve_minimum(f"scipy.optimize.{name}", solver, given, conditions)
    result.fun, result.cost = residual_of(given)(result.x), result.fun
    return result


@rule("scipy.optimize.nnls", tensors="A b")
def _nnls(**given: Any) -> Any:
    def solver(**plain: Any) -> Any:
        return optimize.OptimizeResult(x=optimize.nnls(**plain)[0], success=True, message="")

    result = _linear_least_squares("nnls", solver, given, lambda _: [(itself, 0.0, np.inf)])
    return result.x, (2 * result.cost) ** 0.5


@rule("scipy.optimize.lsq_linear", tensors="A b bounds")
def _lsq_linear(**given: Any) -> Any:
    return _linear_least_squares(
        "lsq_linear", optimize.lsq_linear, given, lambda given: box_of(given["bounds"])
    )


@rule("scipy.optimize.linprog", tensors="c A_ub b_ub A_eq b_eq bounds")
def _linprog(**given: Any) -> Any:
    def conditions(given: dict[str, Any], x: Any) -> Any:
        limits = limits_of(_pairs(given["bounds"], x.size), x.size)
        if given["A_ub"] is not None:
            limits.append((product_with(given["A_ub"]), -np.inf, given["b_ub"]))
        if given["A_eq"] is not None:
            limits.append((product_with(given["A_eq"]), given["b_eq"], given["b_eq"]))
        c = as_tensor(given["c"])
        return lambda x: (c * x).sum(), limits

    return solve_minimum("scipy.optimize.linprog", optimize.linprog, given, conditions)


def _pairs(bounds: Any, size: int) -> Any:
    """One pair of bounds for all unknowns, or one for each; None is no bound."""
    if bounds is None:
        return [(None, None)] * size
    first = bounds[0]
    return bounds if isinstance(first, list | tuple | np.ndarray) else [tuple(bounds)] * size
