"""``least_squares`` and ``curve_fit``: SciPy's fits with exact Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy import optimize as solvers

from pullback.func.numpy_style import jacobian
from pullback.interop.mode import run_in_mode
from pullback.optimize.derivatives import jacobian_of, on_arrays, vector
from pullback.optimize.unknowns import Unknowns

__all__ = ["curve_fit", "least_squares"]

_Function = Callable[..., Any]


def least_squares(
    fun: _Function,
    x0: Any,
    *,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    args: Any = (),
    sparse: bool | None = None,
    standard_errors: bool = False,
    **options: Any,
) -> Any:
    """Minimizes a sum of squares by ``scipy.optimize.least_squares``, with the exact Jacobian.

    Args:
        fun: ``fun(x, *args)``, the residuals, made of differentiable operations.
        x0: the start: a vector, list or number, or a tree of arrays.
        bounds, method, args, options: as in SciPy.
        sparse: whether the Jacobian is sparse; by default if that pays and the method is trf or
            dogbox.
        standard_errors: give the result `covariance` and `standard_errors`, from the Jacobian and
            the variance of the residuals.

    >>> import numpy as np, pullback as pb
    >>> t = np.linspace(0.0, 1.0, 5)
    >>> fit = pb.optimize.least_squares(lambda p: p[0] * np.exp(p[1] * t) - np.exp(2 * t), [1, 1])
    >>> np.round(fit.x, 6).tolist()
    [1.0, 2.0]
    """
    unknowns = Unknowns("least_squares", x0)
    more = args if isinstance(args, tuple) else (args,)
    function = unknowns.of_vector(fun)
    allowed = False if method == "lm" else sparse
    result = solvers.least_squares(
        on_arrays(function),
        unknowns.start,
        jac=jacobian_of(function, unknowns.start, more, allowed),
        bounds=bounds,
        method=method,
        args=more,
        **options,
    )
    if standard_errors:
        dense = result.jac.toarray() if hasattr(result.jac, "toarray") else result.jac
        freedom = dense.shape[0] - dense.shape[1]
        if freedom <= 0:
            raise ValueError(
                f"least_squares: {dense.shape[0]} residuals leave no freedom for "
                f"{dense.shape[1]} parameters, so there are no standard errors"
            )
        result.covariance = np.linalg.inv(dense.T @ dense) * (2 * result.cost / freedom)
        result.standard_errors = unknowns.tree(np.sqrt(np.diagonal(result.covariance)))
    result.x = unknowns.tree(result.x)
    return result


def curve_fit(
    f: _Function, xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None, **options: Any
) -> tuple[Any, ...]:
    """Fits a function to data by ``scipy.optimize.curve_fit``, with the exact Jacobian.

    Args:
        f: ``f(xdata, *parameters)``; with a tree as `p0`, ``f(xdata, tree)``.
        xdata, ydata, sigma, options: as in SciPy.
        p0: the start: a list or vector, or a tree of arrays such as a dict; by default ones, or
            the middle of the bounds, as many as `f` has parameters.

    Returns the parameters, in the structure of `p0`, their covariance matrix, and what else SciPy
    returns with ``full_output=True``.

    >>> import numpy as np, pullback as pb
    >>> t = np.linspace(0.0, 1.0, 6)
    >>> def line(t, p):
    ...     return p["a"] * t + p["b"]
    >>> p, _ = pb.optimize.curve_fit(line, t, 2 * t + 1, {"a": 0, "b": 0})
    >>> round(float(p["a"]), 6), round(float(p["b"]), 6)
    (2.0, 1.0)
    """
    unknowns = None if p0 is None else Unknowns("curve_fit", p0)
    in_mode = run_in_mode(f)

    def of_vector(parameters: Any, xdata: Any) -> Any:
        if unknowns is not None and unknowns.is_tree:
            return in_mode(xdata, unknowns.tree(parameters))
        return in_mode(xdata, *(parameters[place] for place in range(len(parameters))))

    whole = vector(of_vector)

    @wraps(f)  # SciPy counts the parameters if no start is given
    def values(xdata: Any, *parameters: Any) -> Any:
        return on_arrays(of_vector)(np.stack(parameters), xdata)

    def slopes(xdata: Any, *parameters: Any) -> Any:
        return jacobian(whole)(np.stack(parameters), xdata)

    start = None if unknowns is None else unknowns.start
    found = solvers.curve_fit(values, xdata, ydata, start, sigma, jac=slopes, **options)
    return (found[0] if unknowns is None else unknowns.tree(found[0])), *found[1:]
