"""Recorded quadrature: the derivatives of integrals that SciPy has computed on arrays.

The value is SciPy's. The derivatives are those of a fixed rule: Gauss-Kronrod nodes on the
subintervals that SciPy's adaptive rule has chosen, with all nodes in one vmapped call. Derivatives
by the limits come from short integrals beside them, whose value is zero. The fixed rule has to
reproduce SciPy's value, else the call raises: then it would not resolve the derivatives either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback._generated import functions_shape as shapes
from pullback.errors import AutogradError
from pullback.func.vmap import vmap
from pullback.implicit.attach import constant_of
from pullback.interop.arguments import as_tensor, carries_gradient, refusal
from pullback.tensor.tensor import Tensor, fresh

__all__ = [
    "Rule1D",
    "beside_limit",
    "disagreement",
    "evaluate",
    "gauss",
    "require_agreement",
    "rule_on",
    "weighted_sum",
]

_Array = NDArray[Any]
_Function = Callable[..., Any]


class Rule1D(NamedTuple):
    """Nodes and weights of a rule on [0, 1]."""

    nodes: _Array
    weights: _Array


def gauss(count: int) -> Rule1D:
    """Gauss-Legendre quadrature on [0, 1].

    >>> rule = gauss(3)
    >>> round(float(rule.weights @ rule.nodes**4), 12)
    0.2
    """
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return Rule1D((nodes + 1) / 2, weights / 2)


_INNER = gauss(21)
_SHORT = gauss(4)


def rule_on(breaks: _Array) -> Rule1D:
    """A composite rule with the given breakpoints."""
    widths = np.diff(breaks)
    nodes = breaks[:-1, None] + widths[:, None] * _INNER.nodes
    weights = widths[:, None] * _INNER.weights
    return Rule1D(nodes.reshape(-1), weights.reshape(-1))


def evaluate(f: _Function, *points: Tensor) -> Tensor:
    """Evaluates a function at many points: in one vmapped call, or one by one."""

    def single(*point: Tensor) -> Tensor:
        return as_tensor(f(*point))

    try:
        return vmap(single)(*points)  # type: ignore[no-any-return]
    except AutogradError:
        rows = range(points[0].shape[0])
        return shapes.stack([single(*(each[row] for each in points)) for row in rows])


def weighted_sum(weights: Any, values: Tensor) -> Tensor:
    """The sum over the first axis."""
    scaled = as_tensor(weights)
    scaled = shapes.reshape(scaled, [scaled.shape[0], *(1 for _ in values.shape[1:])])
    return (scaled * values).sum(0)


def beside_limit(f: _Function, limit: Any) -> Any:
    """The integral from a limit's constant value to the limit: zero, with f as its derivative."""
    if not isinstance(limit, Tensor) or not carries_gradient(limit):
        return 0.0
    length = limit - constant_of(limit)
    nodes = constant_of(limit) + length * _SHORT.nodes
    return weighted_sum(fresh(_SHORT.weights.copy()), evaluate(f, nodes)) * length


def require_agreement(name: str, ours: Tensor, values: Sequence[Any], errors: Any) -> None:
    """Raises if the fixed rule does not reproduce SciPy's values."""
    if not disagreement(ours, values, errors):
        return
    raise refusal(
        name,
        "the fixed rule that derivatives are computed with does not reproduce SciPy's value, "
        "because the integrand is singular or not smooth",
        "Transform the integral, or split it at the singular points (points=).",
    )


def disagreement(ours: Tensor, values: Sequence[Any], errors: Any) -> bool:
    """Whether the fixed rule differs from SciPy's values by more than their error estimates."""
    held: Any = ours._array
    found = np.asarray(held.array if hasattr(held, "levels") else held)
    expected = np.asarray(values).reshape(found.shape)
    limit = 1e-8 * (1 + np.abs(expected)) + 10 * np.max(np.asarray(errors))
    return not bool(np.all(np.abs(found - expected) <= limit))
