"""``root``: SciPy's root finders with exact Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy import optimize as solvers

from pullback.optimize.derivatives import jacobian_of, on_arrays
from pullback.optimize.unknowns import Progress, Unknowns

__all__ = ["root"]

_WITH_JACOBIAN = ("hybr", "lm")


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    *,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    progress: bool = False,
) -> Any:
    """Finds a root of a vector function by ``scipy.optimize.root``, with its exact Jacobian.

    The arguments are those of SciPy; `x0` may be a list, a number or a tree of arrays, and
    `progress` shows a progress bar for the methods that report iterations (not hybr and lm).

    >>> import numpy as np, pullback as pb
    >>> def equations(x):
    ...     return np.stack([x[0] + x[1] - 3.0, x[0] * x[1] - 2.0])
    >>> np.round(pb.optimize.root(equations, [0, 5]).x, 6).tolist()
    [1.0, 2.0]
    """
    unknowns = Unknowns("root", x0)
    more = args if isinstance(args, tuple) else (args,)
    function = unknowns.of_vector(fun)
    given: dict[str, Any] = {"tol": tol, "options": options, "args": more}
    if method in _WITH_JACOBIAN:
        given["jac"] = jacobian_of(function, unknowns.start, more, sparse=False)
    values = on_arrays(function)
    bar = Progress("root", progress and method not in _WITH_JACOBIAN, callback)
    try:
        result = solvers.root(values, unknowns.start, method=method, callback=bar.callback, **given)
    finally:
        bar.close()
    result.x = unknowns.tree(result.x)
    return result
