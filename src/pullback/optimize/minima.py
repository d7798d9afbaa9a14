"""``minimize``: SciPy's minimizers with exact gradients, Hessians and constraint Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize as solvers

from pullback.func.numpy_style import hessian
from pullback.optimize.derivatives import (
    hessian_of,
    jacobian_of,
    on_arrays,
    product_of,
    scalar,
    value_and_slope,
    vector,
)
from pullback.optimize.unknowns import Progress, Unknowns
from pullback.tensor.tensor import Tensor

__all__ = ["minimize"]

_Function = Callable[..., Any]
_WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_WITH_PRODUCT = ("newton-cg", "trust-ncg", "trust-krylov")
_WITH_HESSIAN = ("dogleg", "trust-exact", "trust-constr")


def minimize(
    fun: _Function,
    x0: Any,
    args: Any = (),
    method: str | None = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: _Function | None = None,
    options: dict[str, Any] | None = None,
    sparse: bool | None = None,
    standard_errors: bool = False,
    progress: bool = False,
) -> Any:
    """Minimizes a function by ``scipy.optimize.minimize``, with exact derivatives.

    Args:
        fun: ``fun(x, *args)``, a scalar made of differentiable operations.
        x0: the start: a vector, list or number, or a tree of arrays (a dict, a tuple of arrays),
            which the function then gets as tensors in the same structure.
        args: further arguments of `fun`.
        method: SciPy's; each gets the derivatives that it can use: the gradient, Hessian products
            (Newton-CG, trust-ncg, trust-krylov) or the Hessian (trust-exact, dogleg, trust-constr).
        bounds: as in SciPy, for the vector of unknowns.
        constraints: as in SciPy; Jacobians and Hessians that are not given are exact.
        tol, callback, options: as in SciPy.
        sparse: whether the Hessian of trust-constr and constraint Jacobians are sparse; by default
            if that pays.
        standard_errors: give the result `covariance`, the inverse Hessian at the minimum, and
            `standard_errors`, the roots of its diagonal in the structure of `x0`. They are right
            if `fun` is a negative log-likelihood.
        progress: show a progress bar, by tqdm if it is installed.

    Returns SciPy's OptimizeResult; `x` has the structure of `x0`.

    >>> import pullback as pb
    >>> def cost(p):
    ...     return (p["a"] - 2.0) ** 2 + ((p["b"] - p["a"]) ** 2).sum()
    >>> result = pb.optimize.minimize(cost, {"a": 0.0, "b": [0, 0]}, method="trust-exact")
    >>> round(float(result.x["a"]), 6), result.x["b"].round(6).tolist()
    (2.0, [2.0, 2.0])
    """
    unknowns = Unknowns("minimize", x0)
    more = args if isinstance(args, tuple) else (args,)
    function = unknowns.of_vector(fun)
    given = _derivatives(function, unknowns, more, (method or "").lower(), sparse)
    given["constraints"] = _exact_constraints(unknowns, constraints, method, sparse)
    given.update(bounds=bounds, tol=tol, options=options, args=more)
    bar = Progress("minimize", progress, callback)
    try:
        result = solvers.minimize(x0=unknowns.start, method=method, callback=bar.callback, **given)
    finally:
        bar.close()
    if standard_errors:
        _add_standard_errors(result, unknowns, function, more)
    result.x = unknowns.tree(result.x)
    return result


def _derivatives(
    function: _Function, unknowns: Unknowns, args: tuple[Any, ...], method: str, sparse: Any
) -> dict[str, Any]:
    """The function and the derivatives that a method uses, as arguments of SciPy."""
    if method in _WITHOUT_GRADIENT:
        return {"fun": lambda x, *args: _number(function(x, *args))}
    given: dict[str, Any] = {"fun": value_and_slope(function), "jac": True}
    if method in _WITH_PRODUCT:
        given["hessp"] = product_of(function)
    elif method in _WITH_HESSIAN:
        wants_sparse = sparse if method == "trust-constr" else False
        given["hess"] = hessian_of(function, unknowns.start, args, wants_sparse)
    return given


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _add_standard_errors(
    result: Any, unknowns: Unknowns, function: _Function, args: tuple[Any, ...]
) -> None:
    matrix = hessian(scalar(function))(np.asarray(result.x), *args)
    result.covariance = np.linalg.inv(matrix)
    spread = np.diagonal(result.covariance)
    if np.any(spread < 0):
        raise np.linalg.LinAlgError(
            "minimize: the Hessian at the result is not positive definite, so there are no "
            "standard errors; the result is no strict minimum"
        )
    result.standard_errors = unknowns.tree(np.sqrt(spread))


def _exact_constraints(
    unknowns: Unknowns, constraints: Any, method: str | None, sparse: Any
) -> Any:
    """The constraints with exact derivatives where the user gives none."""
    kinds = dict | solvers.LinearConstraint | solvers.NonlinearConstraint
    single = isinstance(constraints, kinds)
    listed = [constraints] if single else list(constraints)
    allows_sparse = None if method == "trust-constr" and sparse is None else bool(sparse)
    made = [_exact_constraint(unknowns, each, allows_sparse) for each in listed]
    return made if made else ()


def _exact_constraint(unknowns: Unknowns, given: Any, sparse: Any) -> Any:
    start = unknowns.start
    if isinstance(given, dict):
        function = unknowns.of_vector(given["fun"])
        made = {**given, "fun": on_arrays(function)}
        more = given.get("args", ())
        if given.get("jac") is None:
            made["jac"] = jacobian_of(function, start, more, sparse=False)
        return made
    if isinstance(given, solvers.LinearConstraint):
        return given
    function = unknowns.of_vector(given.fun)
    jac = given.jac if callable(given.jac) else jacobian_of(function, start, (), sparse)
    hess = given.hess if callable(given.hess) else _weighted_hessian(function)
    return solvers.NonlinearConstraint(
        on_arrays(function), given.lb, given.ub, jac, hess, given.keep_feasible
    )


def _weighted_hessian(function: _Function) -> _Function:
    whole = vector(function)

    def found(x: Any, weights: Any) -> Any:
        return hessian(lambda x: (whole(x) * weights).sum())(x)

    return found
