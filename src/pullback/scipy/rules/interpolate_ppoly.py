"""Rules of piecewise polynomials: PPoly, BPoly and the cubic interpolators.

Coefficients and breakpoints are tensors. The coefficients of a cubic spline come from one
tridiagonal solution; everything else is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, prod
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
from scipy import interpolate as theirs

from pullback._generated.functions_pointwise import abs as absolute
from pullback._generated.functions_pointwise import floor, remainder, sign
from pullback._generated.functions_reduction import cumsum
from pullback._generated.functions_shape import broadcast_to, concatenate, moveaxis, stack
from pullback.func.primitive import all_values
from pullback.implicit.attach import attach
from pullback.interop.arguments import as_tensor, hold, plain
from pullback.operators.creation import functions as creation
from pullback.scipy.conversions import as_float, first_sample
from pullback.scipy.registry import class_rule, option_without_rule, rule
from pullback.scipy.rules.interpolate_local import (
    choose,
    evaluate,
    gather,
    locate,
    require_increasing,
    solve_tridiagonal,
    without_values,
)
from pullback.scipy.traced import decided
from pullback.tensor.tensor import Tensor, constant_tensor

__all__ = [
    "Akima1DInterpolatorTensor",
    "BPolyTensor",
    "CubicHermiteSplineTensor",
    "CubicSplineTensor",
    "PPolyTensor",
    "PchipInterpolatorTensor",
    "PiecewiseMethods",
    "hermite",
    "integrate_between",
    "outside_to_nan",
    "pchip_slopes",
    "piecewise",
    "wrap_periodically",
]

_NAME = "scipy.interpolate"
_Class = TypeVar("_Class", bound=type)


def wrap_periodically(points: Tensor, start: Any, end: Any) -> Tensor:
    """The points moved by whole periods into the base interval."""
    found: Tensor = start + remainder(points - start, end - start)
    return found


def outside_to_nan(values: Tensor, points: Tensor, start: Any, end: Any) -> Tensor:
    """The values, with NaN for points outside of the base interval."""
    outside = (points < start) | (points > end)
    outside = outside.reshape(*points.shape, *[1] * (values.ndim - points.ndim))
    return choose(outside, np.nan, values)


def piecewise(
    c: Tensor, x: Tensor, points: Any, nu: int, extrapolate: Any, axis: int = 0
) -> Tensor:
    """The value, or derivative of order `nu`, of a piecewise polynomial."""
    if nu < 0:
        raise ValueError("Order of derivative cannot be negative")
    given = as_float(points)
    flat = given.reshape(-1)
    if extrapolate == "periodic":
        flat, extrapolate = wrap_periodically(flat, x[0], x[-1]), False
    index = locate(x, flat, 0, x.shape[0] - 2)
    found = evaluate(c, flat - gather(x, index), index, nu)
    if not extrapolate:
        is_rising = decided(lambda v: np.all(v[..., -1] >= v[..., 0]), x)
        low, high = (x[0], x[-1]) if is_rising else (x[-1], x[0])
        found = outside_to_nan(found, flat, low, high)
    found = found.reshape(*given.shape, *c.shape[2:])
    return _move_axes(found, given.ndim, axis)


def _move_axes(found: Tensor, count: int, axis: int) -> Tensor:
    """Moves the axes of the points to the interpolation axis."""
    if axis == 0 or count == 0:
        return found
    return moveaxis(found, list(range(count)), list(range(axis, axis + count)))


class PiecewiseMethods:
    """Methods of piecewise polynomials with tensors; `_with_methods` copies them into classes.

    They are no base class, because an instance of SciPy's class can become one of a subclass only
    if that has no other base.
    """

    _c: Tensor
    _x: Tensor
    _mode: Any
    _place: int

    @property
    def c(self) -> Tensor:
        """The coefficients."""
        return self._c

    @c.setter
    def c(self, value: Any) -> None:
        self._c = as_float(value)

    @property
    def x(self) -> Tensor:
        """The breakpoints."""
        return self._x

    @x.setter
    def x(self, value: Any) -> None:
        self._x = as_float(value)

    @property
    def extrapolate(self) -> Any:
        """Whether points outside are extrapolated: True, False or "periodic"."""
        return self._mode

    @extrapolate.setter
    def extrapolate(self, value: Any) -> None:
        self._mode = value

    @property
    def axis(self) -> int:
        """The interpolation axis."""
        return self._place

    @axis.setter
    def axis(self, value: int) -> None:
        self._place = value

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_c": self._c, "_x": self._x}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _set(self, c: Any, x: Any, extrapolate: Any, axis: int = 0) -> Any:
        self._c, self._x = as_float(c), as_float(x)
        self.extrapolate = extrapolate if extrapolate == "periodic" else bool(extrapolate)
        self.axis = axis
        return self

    def _like(self, c: Any, extrapolate: Any) -> Any:
        made = object.__new__(type(self))
        return made._set(c, self._x, extrapolate, self.axis)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Tensor:
        """The value, or derivative of order `nu`, at points."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        return piecewise(self._c, self._x, x, nu, extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> Any:
        """The piecewise polynomial of a derivative."""
        if nu < 0:
            return self.antiderivative(-nu)
        c = self._c
        for _ in range(nu):
            powers = np.arange(c.shape[0] - 1.0, 0.0, -1.0).reshape(-1, *[1] * (c.ndim - 1))
            c = c[:-1] * powers if c.shape[0] > 1 else c * 0.0
        return self._like(c, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> Any:
        """The continuous piecewise polynomial of an integral, zero at the first breakpoint."""
        if nu <= 0:
            return self.derivative(-nu)
        c = self._c
        steps = (self._x[1:] - self._x[:-1]).reshape(-1, *[1] * (c.ndim - 2))
        for _ in range(nu):
            powers = np.arange(float(c.shape[0]), 0.0, -1.0).reshape(-1, *[1] * (c.ndim - 1))
            c = c / powers
            total = c[0]
            for row in range(1, c.shape[0]):
                total = total * steps + c[row]
            ends = cumsum(total * steps, axis=0)
            c = concatenate([c, concatenate([ends[:1] * 0.0, ends[:-1]])[None]])
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return self._like(c, extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Tensor:
        """The integral from `a` to `b`."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        primitive = self.antiderivative()
        primitive.axis = 0
        return integrate_between(primitive, a, b, extrapolate, self._x[0], self._x[-1])

    def solve(self, y: Any = 0.0, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """The points at which a one-dimensional piecewise polynomial is equal to `y`."""
        if self._c.ndim > 2:
            raise option_without_rule(f"{_NAME}.PPoly.solve", "c of shape", tuple(self._c.shape))
        fixed = theirs.PPoly(plain(self._c.detach()), plain(self._x.detach()), self.extrapolate)
        roots = fixed.solve(float(plain(y)), discontinuity, extrapolate)
        slopes = fixed(roots, 1, extrapolate=True)
        # Jumps, intervals of zeros (NaN) and double roots have no derivative.
        misses = np.abs(fixed(roots, extrapolate=True) - float(plain(y)))
        kept = np.isfinite(roots) & (slopes != 0) & (misses <= 1e-9 * (1 + np.abs(slopes)))
        if not kept.any():
            return constant_tensor(roots)
        found = attach(
            constant_tensor(roots[kept]),
            lambda r: self(r, extrapolate=True) - y,
            name="scipy.interpolate.PPoly.solve",
        )
        places = np.cumsum(kept) - 1
        return choose(as_tensor(kept), found[np.maximum(places, 0)], as_tensor(roots))

    def roots(self, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """The zeros of a one-dimensional piecewise polynomial."""
        return self.solve(0.0, discontinuity, extrapolate)


def integrate_between(
    primitive: Callable[..., Tensor], a: Any, b: Any, extrapolate: Any, start: Any, end: Any
) -> Tensor:
    """The difference of an antiderivative that is zero at `start`."""
    limits = [as_float(limit) for limit in (a, b)]
    if extrapolate != "periodic":
        high, low = (primitive(limit, extrapolate=extrapolate) for limit in (limits[1], limits[0]))
        return high - low
    whole = primitive(end, extrapolate=True)

    def accumulated(limit: Tensor) -> Tensor:
        inside = wrap_periodically(limit, start, end)
        return floor((limit - start) / (end - start)) * whole + primitive(inside, extrapolate=True)

    return accumulated(limits[1]) - accumulated(limits[0])


def _with_methods(kind: _Class) -> _Class:
    """Gives a subclass of a piecewise polynomial the methods of `PiecewiseMethods`."""
    for name, value in vars(PiecewiseMethods).items():
        if isinstance(value, FunctionType | property) and name not in vars(kind):
            setattr(kind, name, value)
    hold(kind, _tensors_in, _plain_polynomial)
    return kind


def _tensors_in(held: Any) -> list[Tensor]:
    return [held._c, held._x]


def _plain_polynomial(held: Any) -> Any:
    base: Any = type(held).__base__
    return base.construct_fast(plain(held._c), plain(held._x), held.extrapolate, held.axis)


# --- classes ------------------------------------------------------------------------------------


@class_rule(f"{_NAME}.PPoly", tensors="c x")
@_with_methods
class PPolyTensor(theirs.PPoly):  # type: ignore[misc] # SciPy has no types
    """A `scipy.interpolate.PPoly` with tensors."""

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0):
        theirs.PPoly(_shaped(c), _shaped(x, sample=True), extrapolate, axis)  # SciPy's checks
        c = as_float(c)
        if axis:
            c = moveaxis(moveaxis(c, axis + 1, 0), axis + 1, 0)
        self._set(c, x, True if extrapolate is None else extrapolate, axis)


def _shaped(value: Any, sample: bool = False) -> Any:
    """An array of the same shape for checks: zeros, or the values of the first sample."""
    return first_sample(value) if sample else np.zeros(as_tensor(value).shape)


@class_rule(f"{_NAME}.BPoly", tensors="c x")
@_with_methods
class BPolyTensor(theirs.BPoly):  # type: ignore[misc] # SciPy has no types
    """A `scipy.interpolate.BPoly` with tensors; computes with powers."""

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0):
        theirs.BPoly(_shaped(c), _shaped(x, sample=True), extrapolate, axis)  # SciPy's checks
        c, x = as_float(c), as_float(x)
        if axis:
            c = moveaxis(moveaxis(c, axis + 1, 0), axis + 1, 0)
        degree = c.shape[0] - 1
        steps = (x[1:] - x[:-1]).reshape(-1, *[1] * (c.ndim - 2))
        rows: list[Any] = []
        for power in range(degree, -1, -1):
            terms = [
                (-1) ** (power - a) * comb(degree, a) * comb(degree - a, power - a) * c[a]
                for a in range(power + 1)
            ]
            rows.append(sum(terms[1:], terms[0]) / steps**power)
        self._set(stack(rows), x, True if extrapolate is None else extrapolate, axis)


def _prepared(x: Any, y: Any, axis: int, dydx: Any = None) -> tuple[Tensor, Tensor, int, Any]:
    """Nodes, and data with the interpolation axis first, after SciPy's checks."""
    x, y = as_float(x), as_float(y)
    if x.dtype.kind == "c":
        raise ValueError("`x` must contain real values.")
    slopes = None if dydx is None else as_float(dydx)
    if slopes is not None and slopes.shape != y.shape:
        raise ValueError("The shapes of `y` and `dydx` must be identical.")
    axis %= y.ndim
    if x.ndim != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if x.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if x.shape[0] != y.shape[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    require_increasing(x)
    for name, value in (("y", y), ("dydx", slopes)):
        if value is not None and not decided(lambda v: np.all(np.isfinite(v)), value):
            raise ValueError(f"`{name}` must contain only finite values.")
    slopes = slopes if slopes is None or not axis else moveaxis(slopes, axis, 0)
    return x, moveaxis(y, axis, 0) if axis else y, axis, slopes


def hermite(x: Tensor, y: Tensor, slopes: Tensor) -> Tensor:
    """The coefficients of the cubic polynomials with these values and slopes at their ends."""
    steps = (x[1:] - x[:-1]).reshape(-1, *[1] * (y.ndim - 1))
    secant = (y[1:] - y[:-1]) / steps
    bend = (slopes[:-1] + slopes[1:] - 2 * secant) / steps
    return stack([bend / steps, (secant - slopes[:-1]) / steps - bend, slopes[:-1], y[:-1]])


@class_rule(f"{_NAME}.CubicHermiteSpline", tensors="x y dydx")
@_with_methods
class CubicHermiteSplineTensor(theirs.CubicHermiteSpline):  # type: ignore[misc]
    """A `scipy.interpolate.CubicHermiteSpline` with tensors."""

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None):
        x, y, axis, slopes = _prepared(x, y, axis, dydx)
        extrapolate = True if extrapolate is None else extrapolate
        self._set(hermite(x, y, slopes), x, extrapolate, axis)


@class_rule(f"{_NAME}.PchipInterpolator", tensors="x y")
@_with_methods
class PchipInterpolatorTensor(theirs.PchipInterpolator):  # type: ignore[misc]
    """A `scipy.interpolate.PchipInterpolator` with tensors."""

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None):
        x, y, axis, _ = _prepared(x, y, axis)
        _require_real("PchipInterpolator", y)
        extrapolate = True if extrapolate is None else extrapolate
        self._set(hermite(x, y, pchip_slopes(x, y)), x, extrapolate, axis)


def _require_real(name: str, y: Tensor) -> None:
    if y.dtype.kind == "c":
        raise ValueError(
            f"`{name}` only works with real values for `y`. If you are trying to use the real "
            f"components of the passed array, use `np.real` on the array before passing to "
            f"`{name}`."
        )


def pchip_slopes(x: Tensor, y: Tensor) -> Tensor:
    """Slopes by the weighted harmonic mean of Fritsch and Butland, zero at extrema."""
    steps = (x[1:] - x[:-1]).reshape(-1, *[1] * (y.ndim - 1))
    secant = (y[1:] - y[:-1]) / steps
    if y.shape[0] == 2:
        return concatenate([secant, secant])
    left, right = secant[:-1], secant[1:]
    is_monotonic = left * right > 0
    one = as_tensor(1.0)
    left, right = choose(is_monotonic, left, one), choose(is_monotonic, right, one)
    w1, w2 = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
    inner = choose(is_monotonic, (w1 + w2) / (w1 / left + w2 / right), 0.0)
    first = _end_slope(steps[0], steps[1], secant[0], secant[1])
    last = _end_slope(steps[-1], steps[-2], secant[-1], secant[-2])
    return concatenate([first[None], inner, last[None]])


def _end_slope(h0: Tensor, h1: Tensor, m0: Tensor, m1: Tensor) -> Tensor:
    slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    is_turned = sign(slope) != sign(m0)
    is_steep = (sign(m0) != sign(m1)) & (absolute(slope) > 3 * absolute(m0))
    return choose(is_turned, 0.0, choose(is_steep, 3 * m0, slope))


@class_rule(f"{_NAME}.Akima1DInterpolator", tensors="x y")
@_with_methods
class Akima1DInterpolatorTensor(theirs.Akima1DInterpolator):  # type: ignore[misc]
    """A `scipy.interpolate.Akima1DInterpolator` with tensors."""

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ):
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, y, axis, _ = _prepared(x, y, axis)
        _require_real("Akima1DInterpolator", y)
        extrapolate = False if extrapolate is None else extrapolate
        self._set(hermite(x, y, _akima_slopes(x, y, method)), x, extrapolate, axis)


def _akima_slopes(x: Tensor, y: Tensor, method: str) -> Tensor:
    steps = (x[1:] - x[:-1]).reshape(-1, *[1] * (y.ndim - 1))
    m = (y[1:] - y[:-1]) / steps
    if y.shape[0] == 2:
        return concatenate([m, m])
    before = 2 * m[:1] - m[1:2]
    after = 2 * m[-1:] - m[-2:-1]
    m = concatenate([2 * before - m[:1], before, m, after, 2 * after - m[-1:]])
    change = absolute(m[1:] - m[:-1])
    if method == "makima":
        mean = absolute(m[1:] + m[:-1])
        f1, f2 = change[2:] + 0.5 * mean[2:], change[:-2] + 0.5 * mean[:-2]
    else:
        f1, f2 = change[2:], change[:-2]
    total = f1 + f2
    is_defined = total > 1e-9 * all_values(total).max(initial=0.0)
    share = f2 / choose(is_defined, total, 1.0)
    return choose(is_defined, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))


@class_rule(f"{_NAME}.CubicSpline", tensors="x y bc_type")
@_with_methods
class CubicSplineTensor(theirs.CubicSpline):  # type: ignore[misc] # SciPy has no types
    """A `scipy.interpolate.CubicSpline` with tensors."""

    def __init__(self, x: Any, y: Any, axis: int, bc_type: Any, extrapolate: Any):
        x, y, axis, _ = _prepared(x, y, axis)
        given = [bc_type] if isinstance(bc_type, str) else bc_type
        is_periodic = any(isinstance(end, str) and end == "periodic" for end in given)
        sample = _shaped(y, sample=is_periodic)  # other conditions do not read it
        ends, _ = theirs.CubicSpline._validate_bc(
            without_values(bc_type), sample, y.shape[1:], axis
        )
        if not isinstance(bc_type, str):
            pairs = zip(ends, bc_type, strict=True)
            ends = [end if isinstance(own, str) else tuple(own) for end, own in pairs]
        if extrapolate is None:
            extrapolate = "periodic" if isinstance(ends[0], str) and ends[0] == "periodic" else True
        slopes = _cubic_slopes(x, y, list(ends)) if prod(y.shape) else y
        self._set(hermite(x, y, slopes), x, extrapolate, axis)


def _cubic_slopes(x: Tensor, y: Tensor, ends: list[Any]) -> Tensor:
    """The slopes of a cubic spline with continuous second derivative."""
    dx = x[1:] - x[:-1]
    steps = dx.reshape(-1, *[1] * (y.ndim - 1))
    secant = (y[1:] - y[:-1]) / steps
    size = x.shape[0]
    if size == 2:
        ends = [(1, secant[0]) if isinstance(end, str) else end for end in ends]
    is_periodic = isinstance(ends[0], str) and ends[0] == "periodic"
    if size == 3 and is_periodic:
        mean = (secant / steps).sum(0) / (1 / steps).sum(0)
        return broadcast_to(mean, y.shape)
    lower, upper, diagonal = dx[1:], dx[:-1], 2 * (dx[:-1] + dx[1:])
    right = 3 * (steps[1:] * secant[:-1] + steps[:-1] * secant[1:])
    if is_periodic:
        return _periodic_slopes(dx, steps, secant, right)
    if size == 3 and all(isinstance(end, str) for end in ends):  # a parabola
        one = creation.ones(1, dtype=dx.dtype)
        first = (one, one, 2 * secant[0])
        last = (one, one, 2 * secant[-1])
    else:
        first = _end_row(ends[0], dx, steps, secant, 1)
        last = _end_row(ends[1], dx[::-1], steps[::-1], secant[::-1], -1)
    return solve_tridiagonal(
        concatenate([lower, last[1]]),
        concatenate([first[0], diagonal, last[0]]),
        concatenate([first[1], upper]),
        concatenate([first[2][None], right, last[2][None]]),
    )


def _end_row(
    end: Any, dx: Tensor, steps: Tensor, secant: Tensor, side: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The diagonal and outer entry and the right side of the equation at the end of a spline."""
    if isinstance(end, str):  # not-a-knot
        width = dx[:1] + dx[1:2]
        wide = width.reshape(-1, *[1] * (secant.ndim - 1))[0]
        right = (steps[0] + 2 * wide) * steps[1] * secant[0] + steps[0] ** 2 * secant[1]
        return dx[1:2], width, right / wide
    order, value = int(plain(end[0])), as_float(end[1])
    if order == 1:
        one = creation.ones(1, dtype=dx.dtype)
        return one, 0.0 * one, broadcast_to(value, secant.shape[1:])
    right = 3 * secant[0] * steps[0] - side * 0.5 * value * steps[0] ** 2
    return 2 * dx[:1], dx[:1], right


def _periodic_slopes(dx: Tensor, steps: Tensor, secant: Tensor, right: Tensor) -> Tensor:
    """Slopes of a periodic spline: the last unknown is eliminated from the cyclic system."""
    first = 3 * (steps[0] * secant[-1] + steps[-1] * secant[0])
    right = concatenate([first[None], right])  # of the unknowns 0 ... n - 2
    diagonal = 2 * (dx + concatenate([dx[-1:], dx[:-1]]))
    lower, upper = dx[1:], concatenate([dx[-1:], dx[:-2]])
    # The matrix without its last row and column, for the data and for the last column.
    size = dx.shape[0] - 1
    column = concatenate([-dx[:1], creation.zeros(size - 2, dtype=dx.dtype), -dx[-3:-2]])
    shape = (size, *[1] * (secant.ndim - 1))
    inner = (lower[: size - 1], diagonal[:size], upper[: size - 1])
    known = solve_tridiagonal(*inner, right[:-1])
    share = solve_tridiagonal(*inner, column).reshape(shape)
    numerator = right[-1] - steps[-2] * known[0] - steps[-1] * known[-1]
    denominator = 2 * (steps[-1] + steps[-2]) + steps[-2] * share[0] + steps[-1] * share[-1]
    last = numerator / denominator
    found = known + last * share
    return concatenate([found, last[None], found[:1]])


# --- splines of arrays, at tensors --------------------------------------------------------------


@rule(f"{_NAME}.PPoly.__call__", tensors="self x")
@rule(f"{_NAME}.BPoly.__call__", tensors="self x")
def _call(self: Any, x: Any, nu: int, extrapolate: Any) -> Any:
    """A piecewise polynomial of arrays at points that are tensors."""
    return _as_tensors(self)(x, nu, extrapolate)


@rule(f"{_NAME}.PPoly.integrate", tensors="self a b")
def _integrate(self: Any, a: Any, b: Any, extrapolate: Any) -> Any:
    return _as_tensors(self).integrate(a, b, extrapolate)


@rule(f"{_NAME}.BPoly.integrate", tensors="self a b")
def _integrate_bernstein(self: Any, a: Any, b: Any, extrapolate: Any) -> Any:
    return _as_tensors(self).integrate(a, b, extrapolate)


def _as_tensors(polynomial: Any) -> Any:
    """The same piecewise polynomial with constant tensors."""
    if isinstance(polynomial, theirs.BPoly):
        made = BPolyTensor(polynomial.c, polynomial.x, polynomial.extrapolate)
        made.axis = polynomial.axis
        return made
    made = object.__new__(PPolyTensor)
    return made._set(
        as_tensor(polynomial.c), as_tensor(polynomial.x), polynomial.extrapolate, polynomial.axis
    )


@rule(f"{_NAME}.pchip_interpolate", tensors="xi yi x")
def _pchip_interpolate(xi: Any, yi: Any, x: Any, der: Any, axis: int) -> Any:
    made = PchipInterpolatorTensor(xi, yi, axis=axis)
    if np.ndim(der) == 0:
        return made(x, int(der))
    return [made(x, int(nu)) for nu in der]
