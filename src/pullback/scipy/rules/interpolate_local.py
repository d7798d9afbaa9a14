"""Operators of piecewise functions: interval search, polynomials and B-splines on intervals.

An interval number is an integer tensor, so that ``vmap`` may map over points and breakpoints. The
derivatives of `evaluate` are made of `evaluate` and its transpose, to any order.
"""

from __future__ import annotations

from itertools import pairwise
from math import factorial
from typing import Any

import numpy as np
import scipy.sparse as theirs
from numpy.typing import NDArray
from scipy import linalg

from pullback._generated.functions_shape import concatenate, stack
from pullback.autograd.function.array_function import (
    ArrayFunction,
    all_values,
    conjugate,
    cotangent_for,
)
from pullback.errors import AutogradError
from pullback.interop.arguments import as_tensor
from pullback.operators.array_functions import where
from pullback.sparse.products import Pattern, Solver, solve
from pullback.tensor.tensor import Tensor

__all__ = [
    "BandedSolver",
    "as_float",
    "basis",
    "choose",
    "evaluate",
    "fixed_intervals",
    "gather",
    "locate",
    "require_increasing",
    "solve_tridiagonal",
    "without_values",
]

_Array = NDArray[Any]


def as_float(value: Any) -> Tensor:
    """A tensor of float64 or complex128, in which SciPy's interpolation computes."""
    tensor = as_tensor(value)
    dtype = np.complex128 if tensor.dtype.kind == "c" else np.float64
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def choose(condition: Any, one: Any, other: Any) -> Tensor:
    """``where`` with numbers or tensors."""
    found: Tensor = where(condition, as_tensor(one), as_tensor(other))
    return found


def without_values(value: Any) -> Any:
    """An argument with zeros in the place of tensors, for checks that read shapes only."""
    if isinstance(value, list | tuple):
        return type(value)(without_values(item) for item in value)
    return np.zeros(value.shape) if isinstance(value, Tensor) else value


def require_increasing(x: Tensor, name: str = "x") -> None:
    """Raises as SciPy does for nodes that are not finite and strictly increasing."""
    values = all_values(x)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"`{name}` must contain only finite values.")
    if np.any(np.diff(values, axis=-1) <= 0):
        raise ValueError(f"`{name}` must be strictly increasing sequence.")


# --- intervals ----------------------------------------------------------------------------------


def _search(breakpoints: _Array, points: _Array, first: int, last: int) -> _Array:
    if breakpoints[-1] < breakpoints[0]:
        breakpoints, points = -breakpoints, -points
    return np.clip(np.searchsorted(breakpoints, points, "right") - 1, first, last)


class _Locate(ArrayFunction):
    @staticmethod
    def kernel(breakpoints: _Array, points: _Array, first: int, last: int) -> Any:
        return _search(breakpoints, points, first, last)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.mark_non_differentiable(output)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:  # noqa: ARG004 - integers have no tangent
        return None


def locate(breakpoints: Tensor, points: Tensor, first: int, last: int) -> Tensor:
    """The number of the interval of each point, between `first` and `last`."""
    return _Locate.apply(breakpoints, points, first, last)  # type: ignore[no-any-return]


def fixed_intervals(breakpoints: Tensor, points: Tensor, first: int, last: int) -> _Array:
    """The same as an array; samples of ``vmap`` must agree."""
    shape = (-1, breakpoints.shape[0]), (-1, points.shape[0])
    rows, columns = (
        all_values(t).reshape(s) for t, s in zip((breakpoints, points), shape, strict=True)
    )
    count = max(len(rows), len(columns))
    found = [
        _search(rows[i % len(rows)], columns[i % len(columns)], first, last) for i in range(count)
    ]
    if any(not np.array_equal(found[0], other) for other in found[1:]):
        raise AutogradError(
            "scipy.interpolate: inside vmap, the nodes of all samples must lie in the same "
            "intervals of the knots; call the function once for each sample"
        )
    return found[0]


def gather(values: Tensor, index: Tensor | _Array) -> Tensor:
    """``values[index]`` along the first axis; the index may be batched."""
    return _Gather.apply(values, as_tensor(index))  # type: ignore[no-any-return]


def _adder(index: _Array, size: int) -> Any:
    """The matrix that adds the elements of a vector at the places of an index."""
    count = index.size
    return theirs.csc_array(
        (np.ones(count), index.reshape(-1), np.arange(count + 1)), shape=(size, count)
    )


class _Gather(ArrayFunction):
    @staticmethod
    def kernel(values: _Array, index: _Array) -> Any:
        return np.take(values, index, axis=0)

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        values, index = ctx.saved_tensors
        return _Add.apply(grad, index, int(values.shape[0])), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return None if tangent is None else _Gather.apply(tangent, ctx.saved_tensors[1])


class _Add(ArrayFunction):
    """The transpose of `_Gather`."""

    @staticmethod
    def kernel(grad: _Array, index: _Array, size: int) -> Any:
        if grad.ndim == index.ndim and grad.dtype.kind != "c":
            return np.bincount(index.reshape(-1), grad.reshape(-1), size).astype(grad.dtype)
        trailing = grad.shape[index.ndim :]
        found = _adder(index, size) @ grad.reshape(index.size, -1)
        return found.reshape(size, *trailing)

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Gather.apply(grad, ctx.saved_tensors[1]), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        (size,) = ctx.constants
        return None if tangent is None else _Add.apply(tangent, ctx.saved_tensors[1], size)


# --- piecewise polynomials ----------------------------------------------------------------------


def _factors(count: int, nu: int) -> list[int]:
    """The factors by which coefficients of falling powers enter the derivative of order `nu`."""
    powers = range(count - 1, nu - 1, -1)
    return [factorial(power) // factorial(power - nu) for power in powers]


class _Evaluate(ArrayFunction):
    """``sum_k c[k, i] s**(K - 1 - k)``, or a derivative of it by s, for each point (i, s)."""

    @staticmethod
    def kernel(c: _Array, s: _Array, index: _Array, nu: int) -> Any:
        factors = _factors(len(c), nu)
        if not factors:
            return np.zeros((len(s), *c.shape[2:]), c.dtype)
        column = s.reshape(-1, *[1] * (c.ndim - 2))
        found = np.take(c[0], index, axis=0) * factors[0]
        for row, factor in zip(c[1:], factors[1:], strict=False):
            found *= column
            found += np.take(row, index, axis=0) * factor
        return found

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (c, s, index), (nu,) = ctx.saved_tensors, ctx.constants
        by_c = by_s = None
        if ctx.needs_input_grad[0]:
            count, size = map(int, c.shape[:2])
            by_c = cotangent_for(c, _Spread.apply(grad, s, index, count, size, nu))
        if ctx.needs_input_grad[1]:
            by_s = _row_sums(grad * conjugate(_Evaluate.apply(c, s, index, nu + 1)), s)
        return by_c, by_s, None, None

    @staticmethod
    def jvp(ctx: Any, c_tangent: Any, s_tangent: Any, *_: Any) -> Any:
        (c, s, index), (nu,) = ctx.saved_tensors, ctx.constants
        terms = []
        if c_tangent is not None:
            terms.append(_Evaluate.apply(c_tangent, s, index, nu))
        if s_tangent is not None:
            slope = _Evaluate.apply(c, s, index, nu + 1)
            terms.append(slope * s_tangent.reshape(-1, *[1] * (c.ndim - 2)))
        return sum(terms[1:], terms[0])


class _Spread(ArrayFunction):
    """The transpose of `_Evaluate` in its coefficients."""

    @staticmethod
    def kernel(grad: _Array, s: _Array, index: _Array, count: int, size: int, nu: int) -> Any:
        factors = _factors(count, nu)
        found = np.zeros((count, size, *grad.shape[1:]), grad.dtype)
        column = s.reshape(-1, *[1] * (grad.ndim - 1))
        power = grad
        adder = None if grad.ndim == 1 and grad.dtype.kind != "c" else _adder(index, size)
        for place in range(len(factors) - 1, -1, -1):
            if adder is None:
                summed = np.bincount(index, power, size)
            else:
                summed = (adder @ power.reshape(len(index), -1)).reshape(found.shape[1:])
            found[place] = summed * factors[place]
            power = power * column
        return found

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (given, s, index), (_, _, nu) = ctx.saved_tensors, ctx.constants
        by_given = by_s = None
        if ctx.needs_input_grad[0]:
            by_given = _Evaluate.apply(grad, s, index, nu)
        if ctx.needs_input_grad[1]:
            by_s = _row_sums(given * conjugate(_Evaluate.apply(grad, s, index, nu + 1)), s)
        return by_given, by_s, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, given_tangent: Any, s_tangent: Any, *_: Any) -> Any:
        (given, s, index), (count, size, nu) = ctx.saved_tensors, ctx.constants
        terms = []
        if given_tangent is not None:
            terms.append(_Spread.apply(given_tangent, s, index, count, size, nu))
        if s_tangent is not None:
            column = s_tangent.reshape(-1, *[1] * (given.ndim - 1))
            terms.append(_Spread.apply(given * column, s, index, count, size, nu + 1))
        return sum(terms[1:], terms[0])


def _row_sums(products: Tensor, like: Tensor) -> Tensor:
    flat = products.reshape(products.shape[0], -1).sum(-1)
    return cotangent_for(like, flat)


def evaluate(c: Tensor, s: Tensor, index: Tensor, nu: int = 0) -> Tensor:
    """The value, or derivative of order `nu`, of polynomials with falling powers.

    Point p has the coefficients ``c[:, index[p]]`` and the distance ``s[p]`` from the interval's
    start.
    """
    return _Evaluate.apply(c, s, index, nu)  # type: ignore[no-any-return]


# --- B-splines ----------------------------------------------------------------------------------


def basis(t: Tensor, k: int, points: Tensor, index: Tensor | _Array, nu: int = 0) -> list[Tensor]:
    """The k + 1 B-splines of degree k that are not zero at each point, or their derivatives.

    `index` has the interval of each point between the knots. The recursion of Cox and de Boor.
    """
    knots = {place: gather(t, index + place) for place in range(1 - k, k + 1)}
    return _basis(knots, k, points, nu)


def _basis(knots: dict[int, Tensor], k: int, points: Tensor, nu: int) -> list[Tensor]:
    if nu > k:
        return [points * 0.0] * (k + 1)
    if nu:
        lower = _basis(knots, k - 1, points, nu - 1)
        scaled = [k * b / (knots[j + 1] - knots[j + 1 - k]) for j, b in enumerate(lower)]
        inner = [left - right for left, right in pairwise(scaled)]
        return [-scaled[0], *inner, scaled[-1]]
    found = [points * 0.0 + 1.0]
    for degree in range(1, k + 1):
        parts = []
        saved: Any = None
        for place, b in enumerate(found):
            right, left = knots[place + 1], knots[place + 1 - degree]
            share = b / (right - left)
            above = (right - points) * share
            parts.append(above if saved is None else saved + above)
            saved = (points - left) * share
        found = [*parts, saved]
    return found


# --- linear systems -----------------------------------------------------------------------------


class BandedSolver:
    """Solver of banded systems by LAPACK."""

    def __init__(self, below: int, above: int):
        self._below, self._above = below, above

    def solve(self, matrix: Any, right: _Array, transposed: bool) -> _Array:
        """The solution by Gaussian elimination in the band."""
        size = matrix.shape[0]
        rows = np.repeat(np.arange(size), np.diff(matrix.indptr))
        columns = matrix.indices
        below, above = self._below, self._above
        if transposed:
            rows, columns, below, above = columns, rows, above, below
        bands = np.zeros((below + above + 1, size), matrix.dtype)
        bands[above + rows - columns, columns] = matrix.data
        return np.asarray(linalg.solve_banded((below, above), bands, right, check_finite=False))

    def for_derivatives(self) -> Solver:
        """The same solver."""
        return self


class _TridiagonalSolver:
    """Solver by LAPACK's ``gtsv`` of a tridiagonal matrix that `solve_tridiagonal` made."""

    def solve(self, matrix: Any, right: _Array, transposed: bool) -> _Array:
        """The solution by Gaussian elimination."""
        rows = np.empty(3 * matrix.shape[0], matrix.dtype)
        rows[1:-1] = matrix.data
        table = rows.reshape(-1, 3)
        lower, upper = table[1:, 0], table[:-1, 2]
        if transposed:
            lower, upper = upper, lower
        (gtsv,) = linalg.get_lapack_funcs(("gtsv",), (table, right))
        *_, found, info = gtsv(lower, table[:, 1], upper, right)
        if info > 0:
            raise linalg.LinAlgError("singular matrix")
        return np.asarray(found).reshape(right.shape)

    def for_derivatives(self) -> Solver:
        """The same solver."""
        return self


def solve_tridiagonal(lower: Tensor, diagonal: Tensor, upper: Tensor, right: Tensor) -> Tensor:
    """Solves with a tridiagonal matrix; ``lower[i]`` stands in row i + 1, ``upper[i]`` in row i."""
    size = diagonal.shape[0]
    zero = as_tensor(np.zeros(1))
    rows = stack(
        [concatenate([zero, lower]), diagonal, concatenate([upper, zero])], axis=1
    ).reshape(-1)[1:-1]
    columns = (np.arange(size)[:, None] + np.arange(-1, 2)).ravel()[1:-1]
    indptr = np.clip(np.arange(size + 1) * 3 - 1, 0, 3 * size - 2)
    pattern = Pattern(indptr, columns, (size, size))
    flat = right.reshape(size, -1) if right.ndim > 1 else right
    return solve(rows, flat, pattern, _TridiagonalSolver()).reshape(right.shape)
