"""``autograd.misc.fixed_points``: solutions of x = f(a)(x), with implicit derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.autograd.linear import plain
from pullback.compat.autograd.misc.flatten import flatten
from pullback.implicit import custom_fixed_point
from pullback.tensor.tensor import Tensor

__all__ = ["fixed_point"]


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]],
    a: Any,
    x0: Any,
    distance: Callable[[Any, Any], Any],
    tol: float,
) -> Any:
    """Iterates ``f(a)`` from `x0` until the distance of two iterates is at most `tol`.

    Derivatives are by `a` and by what `f` captures, of any order, in both modes; `a` and x may be
    containers.

    >>> from pullback.compat.autograd import grad
    >>> def root(a):
    ...     step = lambda a: lambda x: 0.5 * (x + a / x)
    ...     return fixed_point(step, a, 1.0, lambda x, y: abs(x - y), 1e-12)
    >>> round(root(4.0), 6), round(grad(root)(4.0), 6)
    (2.0, 0.25)
    """
    start, unflatten = flatten(x0)

    def step(vector: Any) -> Any:
        return flatten(f(a)(unflatten(vector)))[0]

    def iterate(step: Callable[[Any], Any], vector: Any) -> Any:
        before, vector = vector, step(vector)
        while distance(unflatten(vector), unflatten(before)) > tol:
            before, vector = vector, step(vector)
        return vector

    if isinstance(start, Tensor):
        start = start.detach()
    return plain(unflatten(custom_fixed_point(step, iterate)(start)))
