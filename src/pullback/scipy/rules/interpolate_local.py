"""Operators of piecewise functions: interval search, polynomials and B-splines on intervals.

An interval number is an integer tensor, so that ``vmap`` may map over points and breakpoints. The
derivatives of an `Evaluation` are made of itself and its transpose, to any order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import factorial
from typing import Any

import numpy as np
import scipy.sparse as theirs
from numpy.typing import NDArray
from scipy import linalg

from pullback._generated.functions_shape import concatenate, stack
from pullback.errors import AutogradError
from pullback.func.primitive import Known, Primitive, conjugate, no_tangent
from pullback.interop.arguments import as_tensor
from pullback.operators.array_functions import where
from pullback.scipy.traced import decided
from pullback.sparse.products import Pattern, Solver, solve
from pullback.tensor.tensor import Tensor

__all__ = [
    "BandedSolver",
    "Evaluation",
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
_Kernel = Callable[..., Any]


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
    if not decided(lambda v: np.all(np.isfinite(v)), x):
        raise ValueError(f"`{name}` must contain only finite values.")
    if decided(lambda v: np.any(np.diff(v, axis=-1) <= 0), x):
        raise ValueError(f"`{name}` must be strictly increasing sequence.")


# --- intervals ----------------------------------------------------------------------------------


def _search(breakpoints: _Array, points: _Array, first: int, last: int) -> _Array:
    if breakpoints[-1] < breakpoints[0]:
        breakpoints, points = -breakpoints, -points
    return np.clip(np.searchsorted(breakpoints, points, "right") - 1, first, last)


_LOCATE = Primitive("locate", _search, no_tangent, reads="")


def locate(breakpoints: Tensor, points: Tensor, first: int, last: int) -> Tensor:
    """The number of the interval of each point, between `first` and `last`."""
    found: Tensor = _LOCATE(breakpoints, points, first=first, last=last)
    return found


def fixed_intervals(breakpoints: Tensor, points: Tensor, first: int, last: int) -> _Array:
    """The same as an array; samples of ``vmap`` must agree."""
    shape = (-1, breakpoints.shape[0]), (-1, points.shape[0])

    def find(*given: _Array) -> _Array:
        rows, columns = (array.reshape(s) for array, s in zip(given, shape, strict=True))
        count = max(len(rows), len(columns))
        pairs = [(rows[i % len(rows)], columns[i % len(columns)]) for i in range(count)]
        found = [_search(*pair, first, last) for pair in pairs]
        if any(not np.array_equal(found[0], other) for other in found[1:]):
            raise AutogradError(
                "scipy.interpolate: inside vmap, the nodes of all samples must lie in the same "
                "intervals of the knots; call the function once for each sample"
            )
        return found[0]

    return decided(find, breakpoints, points)


def gather(values: Tensor, index: Tensor | _Array) -> Tensor:
    """``values[index]`` along the first axis; the index may be batched."""
    found: Tensor = _GATHER(values, index)
    return found


def _adder(index: _Array, size: int) -> Any:
    """The matrix that adds the elements of a vector at the places of an index."""
    count = index.size
    return theirs.csc_array(
        (np.ones(count), index.reshape(-1), np.arange(count + 1)), shape=(size, count)
    )


def _gather_vjp(known: Known, grad: Tensor) -> tuple[Any, ...]:
    values, index = known.inputs
    return _ADD(grad, index, size=int(values.shape[0])), None


def _add(grad: _Array, index: _Array, size: int) -> Any:
    """The transpose of ``values[index]``."""
    if grad.ndim == index.ndim and grad.dtype.kind != "c":
        return np.bincount(index.reshape(-1), grad.reshape(-1), size).astype(grad.dtype)
    trailing = grad.shape[index.ndim :]
    found = _adder(index, size) @ grad.reshape(index.size, -1)
    return found.reshape(size, *trailing)


def _first_jvp(known: Known, tangent: Any, _: Any) -> Any:
    """The JVP rule of a map that is linear in the first input; the other is an index."""
    run = _ADD if known.options else _GATHER
    return None if tangent is None else run(tangent, known.inputs[1], **known.options)


_GATHER = Primitive(
    "gather",
    lambda values, index: np.take(values, index, axis=0),
    _first_jvp,
    _gather_vjp,
    "inputs",
)
_ADD = Primitive(
    "add", _add, _first_jvp, lambda known, g: (_GATHER(g, known.inputs[1]), None), "inputs"
)


# --- functions of points that are linear in coefficients ----------------------------------------


class Evaluation:
    """Values at points of a function that is linear in coefficients c, and their derivatives.

    Point p has the coordinates ``s[p]`` in the place `index[p]`. `orders` has the order of the
    derivative by each coordinate. The two kernels give all derivatives:

    - ``evaluate(c, s, index, orders)`` gives the values, points first;
    - ``spread(y, s, index, orders, shape)`` is its transpose by c; `shape` is that of c.
    """

    def __init__(self, name: str, evaluate: _Kernel, spread: _Kernel):
        self._evaluate = Primitive(name, evaluate, self._jvp, self._vjp, "inputs")
        self._spread = Primitive(name, spread, self._spread_jvp, self._spread_vjp, "inputs")

    def __call__(self, c: Tensor, s: Tensor, index: Tensor, orders: tuple[int, ...]) -> Tensor:
        """The values, or derivatives of the given orders."""
        return self._evaluate(c, s, index, orders=orders)  # type: ignore[no-any-return]

    def _jvp(self, known: Known, c_tangent: Any, s_tangent: Any, _: Any) -> Any:
        (c, s, index), orders = known.inputs, known.options["orders"]
        terms = [] if c_tangent is None else [self(c_tangent, s, index, orders)]
        if s_tangent is not None:
            for axis in range(len(orders)):
                slope = self(c, s, index, _raised(orders, axis))
                terms.append(slope * _column(s_tangent, axis, slope.ndim))
        return sum(terms[1:], terms[0])

    def _vjp(self, known: Known, grad: Tensor) -> tuple[Any, ...]:
        (c, s, index), options = known.inputs, known.options
        needs_c, needs_s, _ = known.needs
        by_c = self._spread(grad, s, index, **options, shape=c.shape) if needs_c else None
        return by_c, self._by_s(grad, c, s, index, **options) if needs_s else None, None

    def _spread_jvp(self, known: Known, y_tangent: Any, s_tangent: Any, _: Any) -> Any:
        (y, s, index), options = known.inputs, known.options
        terms = [] if y_tangent is None else [self._spread(y_tangent, s, index, **options)]
        if s_tangent is not None:
            for axis in range(len(options["orders"])):
                part = y * _column(s_tangent, axis, y.ndim)
                raised = {**options, "orders": _raised(options["orders"], axis)}
                terms.append(self._spread(part, s, index, **raised))
        return sum(terms[1:], terms[0])

    def _spread_vjp(self, known: Known, grad: Tensor) -> tuple[Any, ...]:
        (y, s, index), orders = known.inputs, known.options["orders"]
        needs_y, needs_s, _ = known.needs
        by_y = self(grad, s, index, orders) if needs_y else None
        return by_y, self._by_s(y, grad, s, index, orders) if needs_s else None, None

    def _by_s(
        self, y: Tensor, c: Tensor, s: Tensor, index: Tensor, orders: tuple[int, ...]
    ) -> Tensor:
        """The cotangent of the coordinates."""
        columns = []
        for axis in range(len(orders)):
            slope = self(c, s, index, _raised(orders, axis))
            columns.append((y * conjugate(slope)).reshape(y.shape[0], -1).sum(-1))
        return stack(columns, axis=1)


def _raised(orders: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(order + (place == axis) for place, order in enumerate(orders))


def _column(s: Tensor, axis: int, ndim: int) -> Tensor:
    found: Tensor = s[:, axis].reshape(-1, *[1] * (ndim - 1))
    return found


# --- piecewise polynomials ----------------------------------------------------------------------


def _factors(count: int, nu: int) -> list[int]:
    """The factors by which coefficients of falling powers enter the derivative of order `nu`."""
    powers = range(count - 1, nu - 1, -1)
    return [factorial(power) // factorial(power - nu) for power in powers]


def _evaluate(c: _Array, s: _Array, index: _Array, orders: tuple[int]) -> Any:
    """``sum_k c[k, i] s**(K - 1 - k)``, or a derivative of it by s, for each point (i, s)."""
    factors = _factors(len(c), *orders)
    if not factors:
        return np.zeros((len(s), *c.shape[2:]), c.dtype)
    column = s.reshape(-1, *[1] * (c.ndim - 2))
    found = np.take(c[0], index, axis=0) * factors[0]
    for row, factor in zip(c[1:], factors[1:], strict=False):
        found *= column
        found += np.take(row, index, axis=0) * factor
    return found


def _spread(y: _Array, s: _Array, index: _Array, orders: tuple[int], shape: Any) -> Any:
    count, size = shape[:2]
    factors = _factors(count, *orders)
    found = np.zeros((count, size, *y.shape[1:]), y.dtype)
    column = s.reshape(-1, *[1] * (y.ndim - 1))
    power = y
    adder = None if y.ndim == 1 and y.dtype.kind != "c" else _adder(index, size)
    for place in range(len(factors) - 1, -1, -1):
        if adder is None:
            summed = np.bincount(index, power, size)
        else:
            summed = (adder @ power.reshape(len(index), -1)).reshape(found.shape[1:])
        found[place] = summed * factors[place]
        power = power * column
    return found


_POLYNOMIALS = Evaluation("piecewise polynomial", _evaluate, _spread)


def evaluate(c: Tensor, s: Tensor, index: Tensor, nu: int = 0) -> Tensor:
    """The value, or derivative of order `nu`, of polynomials with falling powers.

    Point p has the coefficients ``c[:, index[p]]`` and the distance ``s[p]`` from the interval's
    start.
    """
    return _POLYNOMIALS(c, s.reshape(-1, 1), index, (nu,))


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
