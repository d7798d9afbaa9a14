"""``autograd.scipy.linalg``: triangular systems, square roots and Sylvester equations.

Other functions of ``scipy.linalg`` are there for arrays, and refuse what carries a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.extend import defjvp, defjvp_argnum, defvjp, defvjp_argnums, primitive
from pullback.compat.autograd.namespace import constant
from pullback.compat.autograd.scipy.lazy import scipy_module

__all__ = ["solve_sylvester", "solve_triangular", "sqrtm"]


def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The solution of a triangular system; only one triangle of `a` is read.

    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
    array([1., 2.])
    """
    del overwrite_b
    if check_finite and not all(np.isfinite(anp.asarray(part)).all() for part in (a, b)):
        raise ValueError("array must not contain infs or NaNs")
    matrix = anp.tril(a) if lower else anp.triu(a)
    if unit_diagonal:
        matrix = matrix - anp.diag(anp.diag(matrix)) + np.eye(anp.shape(a)[0])
    if trans in (1, "T"):
        matrix = matrix.T
    elif trans in (2, "C"):
        matrix = anp.conj(matrix.T)
    return anp.linalg.solve(matrix, b)


def _square_root(a: Any) -> Any:
    return scipy_module("linalg").sqrtm(a)


def _sylvester(a: Any, b: Any, q: Any) -> Any:
    return scipy_module("linalg").solve_sylvester(a, b, q)


sqrtm = primitive(_square_root)
sqrtm.__doc__ = "The square root of a matrix."
solve_sylvester = primitive(_sylvester)
solve_sylvester.__doc__ = "The solution x of a x + x b = q."

# A tangent dr of r = sqrtm(a) solves r dr + dr r = da, and the transpose of this is the same kind.
defjvp(sqrtm, lambda g, ans, _: solve_sylvester(ans, ans, g))
defvjp(sqrtm, lambda ans, _: lambda g: solve_sylvester(ans.T, ans.T, g))


def _sylvester_tangent(argnum: int, g: Any, ans: Any, args: Any, _: Any) -> Any:
    a, b, _ = args
    changed = g if argnum == 2 else -(g @ ans) if argnum == 0 else -(ans @ g)
    return solve_sylvester(a, b, changed)


def _sylvester_gradients(argnums: tuple[int, ...], ans: Any, args: Any, _: Any) -> Any:
    a, b, _ = args

    def back(g: Any) -> list[Any]:
        to_q = solve_sylvester(a.T, b.T, g)
        found = {0: -(to_q @ ans.T), 1: -(ans.T @ to_q), 2: to_q}
        return [found[argnum] for argnum in argnums]

    return back


defjvp_argnum(solve_sylvester, _sylvester_tangent)
defvjp_argnums(solve_sylvester, _sylvester_gradients)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    found = getattr(scipy_module("linalg"), name)
    if isinstance(found, type) or not callable(found):
        return found
    return constant(f"scipy.linalg.{name}", found)
