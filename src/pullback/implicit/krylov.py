"""GMRES on arrays, for linear systems of which only products with the matrix are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["gmres"]

_RESTART = 60
_CYCLES = 40


def gmres(product: Callable[[NDArray[Any]], NDArray[Any]], b: NDArray[Any]) -> NDArray[Any]:
    """Solves ``A x = b`` by GMRES with restarts; raises LinAlgError without convergence.

    >>> gmres(lambda v: 2 * v, np.array([2.0, 4.0])).round(12).tolist()
    [1.0, 2.0]
    """
    b = np.asarray(b)
    target = 100 * np.finfo(b.dtype).eps * np.linalg.norm(b)
    x = np.zeros_like(b)
    rest = b
    for _ in range(_CYCLES):
        size = np.linalg.norm(rest)
        if size <= target:
            return x
        x = x + _cycle(product, rest, float(size), float(target))
        rest = b - product(x)
    size = np.linalg.norm(rest)
    if size <= 1e3 * target:
        return x
    raise np.linalg.LinAlgError(
        f"GMRES for the derivative of a solution did not converge after {_CYCLES} cycles: relative "
        f"residual {size / np.linalg.norm(b):.1e}; the Jacobian is singular or ill-conditioned"
    )


def _cycle(
    product: Callable[[NDArray[Any]], NDArray[Any]], rest: NDArray[Any], size: float, target: float
) -> NDArray[Any]:
    """One cycle of Arnoldi's method with modified Gram-Schmidt: the correction of x."""
    basis = [rest / size]
    upper = np.zeros((_RESTART + 1, _RESTART), rest.dtype)
    k = 0
    for k in range(_RESTART):
        vector = product(basis[k])
        for i in range(k + 1):
            upper[i, k] = np.vdot(basis[i], vector)
            vector = vector - upper[i, k] * basis[i]
        upper[k + 1, k] = length = np.linalg.norm(vector)
        if length <= np.finfo(rest.dtype).eps * size:
            break
        basis.append(vector / length)
        if k % 5 == 4 and _least_squares(upper, k, size)[1] <= target:
            break
    weights, _ = _least_squares(upper, k, size)
    return np.stack(basis[: k + 1], axis=1) @ weights  # type: ignore[no-any-return]


def _least_squares(upper: NDArray[Any], k: int, size: float) -> tuple[NDArray[Any], float]:
    goal = np.zeros(k + 2, upper.dtype)
    goal[0] = size
    part = upper[: k + 2, : k + 1]
    weights = np.linalg.lstsq(part, goal, rcond=None)[0]
    return weights, float(np.linalg.norm(part @ weights - goal))
