"""Rules of B-splines: BSpline, make_interp_spline, make_lsq_spline, splrep, splev and their kin.

A spline is (t, c, k) with tensors t and c. Interpolation and least squares solve one sparse system
whose entries are B-splines at the nodes, so that nodes and knots have derivatives too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy import interpolate as theirs

from pullback._generated.functions_pointwise import clip
from pullback._generated.functions_reduction import cumsum
from pullback._generated.functions_shape import concatenate, moveaxis, stack
from pullback.func.primitive import all_values
from pullback.implicit.attach import attach
from pullback.interop.arguments import as_tensor, hold, plain
from pullback.operators.creation import functions as creation
from pullback.scipy.conversions import as_float, first_sample
from pullback.scipy.registry import class_rule, option_without_rule, rule
from pullback.scipy.rules.interpolate_local import (
    BandedSolver,
    basis,
    choose,
    fixed_intervals,
    gather,
    locate,
    without_values,
)
from pullback.scipy.rules.interpolate_ppoly import (
    integrate_between,
    outside_to_nan,
    wrap_periodically,
)
from pullback.scipy.traced import decided
from pullback.sparse import arrays
from pullback.sparse.arrays import pattern_and_values
from pullback.sparse.products import Pattern, product, solve
from pullback.sparse.solvers import DirectSolver
from pullback.tensor.tensor import Tensor, constant_tensor

__all__ = [
    "BSplineTensor",
    "antiderivative_of",
    "derivative_of",
    "design",
    "evaluate_with",
    "fit",
    "integral_of",
    "interpolate",
    "not_a_knot",
    "root_of",
    "smooth",
    "spline_of",
]

_NAME = "scipy.interpolate"
_Array = NDArray[Any]


# --- (t, c, k) ----------------------------------------------------------------------------------


def _evaluate_spline(t: Tensor, c: Tensor, k: int, points: Tensor, nu: int = 0) -> Tensor:
    """A spline, or its derivative of order `nu`, at a vector of points, extrapolated."""
    index = locate(t, points, k, t.shape[0] - k - 2)
    terms = [
        b.reshape(-1, *[1] * (c.ndim - 1)) * gather(c, index + (place - k))
        for place, b in enumerate(basis(t, k, points, index, nu))
    ]
    return sum(terms[1:], terms[0])


def derivative_of(t: Tensor, c: Tensor, k: int, nu: int = 1) -> tuple[Tensor, Tensor, int]:
    """The spline of a derivative; c has as many rows as there are B-splines."""
    for _ in range(nu):
        if k == 0:
            raise ValueError(f"Order of derivative (n = {nu!r}) must be <= order of spline")
        widths = t[k + 1 : -1] - t[1 : -k - 1]
        if np.any(all_values(widths) <= 0):
            raise ValueError("The spline has internal repeated knots and is not differentiable")
        widths = widths.reshape(-1, *[1] * (c.ndim - 1))
        t, c, k = t[1:-1], (c[1:] - c[:-1]) * k / widths, k - 1
    return t, c, k


def antiderivative_of(t: Tensor, c: Tensor, k: int, nu: int = 1) -> tuple[Tensor, Tensor, int]:
    """The spline of an integral that is zero at the first knot."""
    for _ in range(nu):
        widths = (t[k + 1 :] - t[: -k - 1]).reshape(-1, *[1] * (c.ndim - 1))
        sums = cumsum(c * widths, axis=0) / (k + 1)
        c = concatenate([sums[:1] * 0.0, sums])
        t, k = concatenate([t[:1], t, t[-1:]]), k + 1
    return t, c, k


def integral_of(t: Tensor, c: Tensor, k: int, a: Any, b: Any) -> Tensor:
    """The integral of a spline that is zero outside of its base interval."""
    low, high = t[k], t[t.shape[0] - k - 1]
    limits = stack([clip(as_float(limit), low, high) for limit in (a, b)])
    found = _evaluate_spline(*antiderivative_of(t, c, k), limits)
    return found[1] - found[0]


def root_of(spline: Any, roots: _Array, name: str) -> Tensor:
    """Roots with derivatives by what the spline depends on."""
    if roots.size == 0:
        return constant_tensor(roots)
    return attach(constant_tensor(np.array(roots)), spline, name=name)


# --- BSpline ------------------------------------------------------------------------------------


@class_rule(f"{_NAME}.BSpline", tensors="t c")
class BSplineTensor(theirs.BSpline):  # type: ignore[misc] # SciPy has no types
    """A `scipy.interpolate.BSpline` with tensors."""

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0):
        knots, c = as_float(t), as_float(c)
        sample = first_sample(knots)
        checked = theirs.BSpline(sample, np.zeros(c.shape), k, extrapolate, axis)
        c = moveaxis(c, checked.axis, 0) if checked.axis else c
        self._set(knots, c, checked.k, checked.extrapolate, checked.axis)

    @property
    def k(self) -> int:
        """The degree."""
        return self._degree

    @property
    def extrapolate(self) -> Any:
        """Whether points outside are extrapolated: True, False or "periodic"."""
        return self._mode

    @property
    def axis(self) -> int:
        """The interpolation axis."""
        return self._place

    @property
    def t(self) -> Tensor:
        """The knots."""
        return self._t

    @property
    def c(self) -> Tensor:
        """The coefficients."""
        return self._c

    def _set(self, t: Tensor, c: Tensor, k: int, extrapolate: Any, axis: int) -> Any:
        self._t, self._c = t, c
        self._degree, self._mode, self._place = k, extrapolate, axis
        return self

    def _tck(self) -> tuple[Tensor, Tensor, int]:
        return self._t, self._c[: self._t.shape[0] - self.k - 1], self.k

    def _base_interval(self) -> tuple[Tensor, Tensor]:
        return self._t[self.k], self._t[self._t.shape[0] - self.k - 1]

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Tensor:
        """The value, or derivative of order `nu`, at points."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        given = as_float(x)
        flat = given.reshape(-1)
        low, high = self._base_interval()
        if extrapolate == "periodic":
            flat, extrapolate = wrap_periodically(flat, low, high), False
        found = _evaluate_spline(*self._tck(), flat, nu)
        if not extrapolate:
            found = outside_to_nan(found, flat, low, high)
        found = found.reshape(*given.shape, *self._c.shape[1:])
        if self.axis and given.ndim:
            axes = list(range(given.ndim))
            found = moveaxis(found, axes, [self.axis + axis for axis in axes])
        return found

    def derivative(self, nu: int = 1) -> Any:
        """The spline of a derivative."""
        return spline_of(derivative_of(*self._tck(), nu), self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> Any:
        """The spline of an integral."""
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return spline_of(antiderivative_of(*self._tck(), nu), extrapolate, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Tensor:
        """The integral from `a` to `b`; outside of the base interval zero if not extrapolated."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if not extrapolate:
            return integral_of(*self._tck(), a, b)
        primitive = spline_of(antiderivative_of(*self._tck()), True, 0)
        if extrapolate != "periodic":
            return integrate_between(primitive, a, b, True, 0.0, 0.0)
        low, high = self._base_interval()

        def from_start(x: Any, extrapolate: Any) -> Tensor:
            found: Tensor = primitive(x, extrapolate=extrapolate) - primitive(low, extrapolate=True)
            return found

        return integrate_between(from_start, a, b, "periodic", low, high)


def spline_of(tck: tuple[Tensor, Tensor, int], extrapolate: Any = True, axis: int = 0) -> Any:
    """A BSpline with tensors, without checks."""
    return object.__new__(BSplineTensor)._set(*tck, extrapolate, axis)


hold(
    BSplineTensor,
    lambda held: [held._t, held._c],
    lambda held: theirs.BSpline.construct_fast(
        plain(held._t), plain(held._c), held.k, held.extrapolate, held.axis
    ),
)


def _as_tensors(spline: Any) -> Any:
    tck = (as_tensor(spline.t), as_tensor(spline.c), spline.k)
    return spline_of(tck, spline.extrapolate, spline.axis)


@rule(f"{_NAME}.BSpline.__call__", tensors="self x")
def _call(self: Any, x: Any, nu: int, extrapolate: Any) -> Any:
    return _as_tensors(self)(x, nu, extrapolate)


@rule(f"{_NAME}.BSpline.integrate", tensors="self a b")
def _integrate(self: Any, a: Any, b: Any, extrapolate: Any) -> Any:
    return _as_tensors(self).integrate(a, b, extrapolate)


@rule(f"{_NAME}.PPoly.from_spline", tensors="tck")
def _from_spline(cls: Any, tck: Any, extrapolate: Any) -> Any:  # noqa: ARG001 - a class method
    if isinstance(tck, theirs.BSpline):
        extrapolate = tck.extrapolate if extrapolate is None else extrapolate
        tck = tck.tck
    t, c, k = as_float(tck[0]), as_float(tck[1]), int(tck[2])
    c = c[: t.shape[0] - k - 1]
    rows, scale = [], 1.0
    for order in range(k + 1):
        scale *= max(order, 1)
        rows.append(_evaluate_spline(t, c, k, t[:-1], order) / scale)
    return theirs.PPoly(stack(rows[::-1]), t, True if extrapolate is None else extrapolate)


# --- interpolation ------------------------------------------------------------------------------


def not_a_knot(x: Tensor, k: int) -> Tensor:
    """Knots at the nodes, without those near the ends."""
    half = (k + 1) // 2 if k % 2 else k // 2
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    inner = inner[half:-half] if half else inner
    return concatenate([x[:1]] * (k + 1) + [inner] + [x[-1:]] * (k + 1))


def interpolate(x: Tensor, y: Tensor, t: Tensor, k: int, left: Any = (), right: Any = ()) -> Tensor:
    """The coefficients of the spline through data, with derivatives given at the ends.

    `left` and `right` list pairs of an order and a value.
    """
    size = t.shape[0] - k - 1
    rows = [_end_values(x[:1], t, k, order) for order, _ in left]
    index = fixed_intervals(t, x, k, size - 1)
    rows.append((stack(basis(t, k, x, index), axis=1), index))
    rows += [_end_values(x[-1:], t, k, order) for order, _ in right]
    values = concatenate([part for part, _ in rows]).reshape(-1)
    last = np.concatenate([place for _, place in rows])
    columns = (last[:, None] + np.arange(-k, 1)).ravel()
    pattern = Pattern(np.arange(size + 1) * (k + 1), columns, (size, size))
    flat = y.reshape(y.shape[0], -1)
    ends = [
        [as_float(value).reshape(1, -1) for _, value in conditions] for conditions in (left, right)
    ]
    whole = concatenate([*ends[0], flat, *ends[1]])
    if values.dtype != whole.dtype:
        values = values.astype(whole.dtype)
    found = solve(values, whole, pattern, BandedSolver(k, k))
    return found.reshape(size, *y.shape[1:])


def _end_values(end: Tensor, t: Tensor, k: int, order: int) -> tuple[Tensor, _Array]:
    index = fixed_intervals(t, end, k, t.shape[0] - k - 2)
    return stack(basis(t, k, end, index, int(order)), axis=1), index


@rule(f"{_NAME}.make_interp_spline", tensors="x y t bc_type")
def _make_interp_spline(
    x: Any, y: Any, k: int, t: Any, bc_type: Any, axis: int, check_finite: bool
) -> Any:
    if isinstance(bc_type, str) and bc_type == "periodic":
        raise option_without_rule(f"{_NAME}.make_interp_spline", "bc_type", bc_type)
    x, y = as_float(x), as_float(y)
    axis = _checked_spline(x, y, k, t, bc_type, axis, check_finite)
    data = moveaxis(y, axis, 0) if axis else y
    if t is None and k <= 1:
        knots = concatenate([x[:1]] * k + [x, x[-1:]])
        return spline_of((knots, data, k), True, axis)
    if bc_type is None or isinstance(bc_type, str):
        bc_type = (None, None) if bc_type in (None, "not-a-knot") else (bc_type, bc_type)
    orders = {"clamped": 1, "natural": 2}
    zeros = creation.zeros(data.shape[1:], dtype=data.dtype)
    left, right = (
        () if end is None else [(orders[end], zeros)] if isinstance(end, str) else list(end)
        for end in bc_type
    )
    if t is not None:
        knots = as_float(t)
    elif left or right:
        knots = concatenate([x[:1]] * k + [x] + [x[-1:]] * k)
    else:
        knots = not_a_knot(x, k)
    return spline_of((knots, interpolate(x, data, knots, k, left, right), k), True, axis)


def _checked_spline(
    x: Tensor, y: Tensor, k: int, t: Any, bc_type: Any, axis: int, check_finite: bool
) -> int:
    """The axis of SciPy's result for one sample, after SciPy's checks."""
    shapes = x.shape, y.shape

    def check(*arrays: _Array) -> int:
        first = [a.reshape(-1, *shape)[0] for a, shape in zip(arrays, shapes, strict=False)]
        knots = None if t is None else arrays[2].reshape(-1, *as_tensor(t).shape)[0]
        ends = without_values(bc_type)
        return theirs.make_interp_spline(  # type: ignore[no-any-return]
            *first, k, knots, ends, axis, check_finite=check_finite
        ).axis

    return int(decided(check, x, y, *([] if t is None else [t])))


# --- least squares ------------------------------------------------------------------------------


def fit(x: Tensor, y: Tensor, t: Tensor, k: int, w: Any = None) -> Tensor:
    """The coefficients of the spline with given knots that fits data best.

    They solve ``[[I, A], [A.T, 0]] [r, c] = [y, 0]``, with the B-splines at the nodes as A; rows
    are multiplied by weights.
    """
    count, size = x.shape[0], t.shape[0] - k - 1
    index = fixed_intervals(t, x, k, size - 1)
    values = stack(basis(t, k, x, index), axis=1)
    flat = y.reshape(count, -1)
    if w is not None:
        column = as_float(w).reshape(-1, 1)
        values, flat = values * column, flat * column
    values = values.reshape(-1)
    rows = np.repeat(np.arange(count), k + 1)
    columns = (index[:, None] + np.arange(-k, 1)).ravel() + count
    diagonal = np.arange(count)
    whole = arrays.from_entries(
        concatenate([values, values, creation.ones(count, dtype=values.dtype)]),
        np.concatenate([rows, columns, diagonal]),
        np.concatenate([columns, rows, diagonal]),
        scipy.sparse.csr_array((count + size, count + size)),
    )
    pattern, entries, _ = pattern_and_values(whole)
    zeros = creation.zeros((size, flat.shape[1]), dtype=flat.dtype)
    found = solve(entries, concatenate([flat, zeros]), pattern, DirectSolver())
    return found[count:].reshape(size, *y.shape[1:])


@rule(f"{_NAME}.make_lsq_spline", tensors="x y t w")
def _make_lsq_spline(
    x: Any, y: Any, t: Any, k: int, w: Any, axis: int, check_finite: bool, **_: Any
) -> Any:
    x, y, knots = as_float(x), as_float(y), as_float(t)
    samples = [first_sample(value) for value in (x, y, knots)]
    fixed = theirs.make_lsq_spline(*samples, k, None, axis, check_finite)  # SciPy's checks
    data = moveaxis(y, fixed.axis, 0) if fixed.axis else y
    return spline_of((knots, fit(x, data, knots, k, w), k), True, fixed.axis)


# --- FITPACK's functions ------------------------------------------------------------------------


def smooth(
    x: Tensor, y: Tensor, w: Any, k: int, s: Any, knots: _Array, residual: float, name: str
) -> Tensor:
    """The coefficients of a smoothing spline whose knots FITPACK chose.

    If the knots alone make the residual less than `s`, it is a fit; otherwise FITPACK searched for
    a parameter, to three digits, and there is no derivative.
    """
    if s == 0:
        return interpolate(x, y, not_a_knot(x, k), k)
    if not residual < 0.998 * s:
        raise option_without_rule(name, "s", s)
    return fit(x, y, as_tensor(knots), k, w)


@rule(f"{_NAME}.splrep", tensors="x y w")
def _splrep(
    x: Any,
    y: Any,
    w: Any,
    xb: Any,
    xe: Any,
    k: int,
    task: int,
    s: Any,
    t: Any,
    full_output: Any,
    per: Any,
    quiet: Any,
) -> Any:
    for option, value in (("per", per), ("full_output", full_output)):
        if value:
            raise option_without_rule(f"{_NAME}.splrep", option, value)
    x, y = as_float(x), as_float(y)
    given = [None if v is None else first_sample(as_float(v)) for v in (x, y, w)]
    (knots, _, _), residual, _, _ = theirs.splrep(
        *given, xb, xe, k, task, s, t, full_output=1, quiet=quiet
    )
    if s is None:
        s = 0.0 if w is None else x.shape[0] - np.sqrt(2 * x.shape[0])
    if task == -1 or t is not None:
        found, made = fit(x, y, as_tensor(knots), k, w), as_tensor(knots)
    else:
        found = smooth(x, y, w, k, s, knots, residual, f"{_NAME}.splrep")
        made = not_a_knot(x, k) if s == 0 else as_tensor(knots)
    return made, concatenate([found, creation.zeros(k + 1, dtype=found.dtype)]), k


def _tck(tck: Any) -> tuple[Tensor, Tensor, int]:
    if isinstance(tck, theirs.BSpline):
        tck = tck.tck
    t, c, k = as_float(tck[0]), as_float(tck[1]), int(tck[2])
    return t, c[: t.shape[0] - k - 1], k


@rule(f"{_NAME}.splev", tensors="x tck")
def _splev(x: Any, tck: Any, der: int, ext: Any) -> Any:
    t, c, k = _tck(tck)
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3) ")
    return evaluate_with(t, c, k, x, der, ext)


def evaluate_with(t: Tensor, c: Tensor, k: int, x: Any, nu: int, ext: int) -> Tensor:
    """A spline outside of its knots by FITPACK's rule `ext`: 0 to 3."""
    given = as_float(x)
    flat = given.reshape(-1)
    low, high = t[k], t[t.shape[0] - k - 1]
    outside = (flat < low) | (flat > high)
    if ext == 2 and np.any(all_values(outside)):
        raise ValueError("A value in x is outside the interval of the knots")
    if ext == 3:
        flat = clip(flat, low, high)
    found = _evaluate_spline(t, c, k, flat, nu)
    if ext == 1:
        found = choose(outside, 0.0, found)
    return found.reshape(given.shape)


@rule(f"{_NAME}.splint", tensors="a b tck")
def _splint(a: Any, b: Any, tck: Any, full_output: Any) -> Any:
    if full_output:
        raise option_without_rule(f"{_NAME}.splint", "full_output", full_output)
    return integral_of(*_tck(tck), a, b)


@rule(f"{_NAME}.splder", tensors="tck")
def _splder(tck: Any, n: int) -> Any:
    if isinstance(tck, theirs.BSpline):
        return tck.derivative(n)
    if n < 0:
        return _splantider(tck, -n)
    return _padded(*derivative_of(*_tck(tck), n))


@rule(f"{_NAME}.splantider", tensors="tck")
def _splantider(tck: Any, n: int) -> Any:
    if isinstance(tck, theirs.BSpline):
        return tck.antiderivative(n)
    t, c, k = antiderivative_of(*_tck(tck), n)
    return t, concatenate([c, *[c[-1:]] * (k + 1)]), k


def _padded(t: Tensor, c: Tensor, k: int) -> Any:
    return t, concatenate([c, creation.zeros((k + 1, *c.shape[1:]), dtype=c.dtype)]), k


@rule(f"{_NAME}.sproot", tensors="tck")
def _sproot(tck: Any, mest: int) -> Any:
    t, c, k = _tck(tck)
    fixed = theirs.sproot((plain(t.detach()), plain(_padded(t, c, k)[1].detach()), k), mest)
    return root_of(lambda r: _evaluate_spline(t, c, k, r), fixed, f"{_NAME}.sproot")


def design(t: Tensor, k: int, points: Tensor, nu: int, c: Tensor) -> Tensor:
    """The product of the matrix of B-splines at points with coefficients, along the first axis."""
    index = fixed_intervals(t, points, k, t.shape[0] - k - 2)
    values = stack(basis(t, k, points, index, nu), axis=1).reshape(-1)
    columns = (index[:, None] + np.arange(-k, 1)).ravel()
    count, size = points.shape[0], t.shape[0] - k - 1
    pattern = Pattern(np.arange(count + 1) * (k + 1), columns, (count, size))
    return product(values, c.reshape(size, -1), pattern).reshape(count, *c.shape[1:])


# --- smoothing ----------------------------------------------------------------------------------


@rule(f"{_NAME}.make_smoothing_spline", tensors="x y w lam")
def _make_smoothing_spline(x: Any, y: Any, w: Any, lam: Any, axis: int = 0) -> Any:
    """The natural spline of Reinsch: its bends g solve ``(R + lam Q.T Q / w) g = Q.T y``."""
    x, y, penalty = as_float(x), as_float(y), None if lam is None else as_float(lam)
    if penalty is None or penalty.ndim:
        raise option_without_rule(f"{_NAME}.make_smoothing_spline", "lam", lam)
    given = [None if v is None else first_sample(as_float(v)) for v in (x, y, w)]
    more = {"axis": axis} if axis else {}  # SciPy 1.14 does not have it
    fixed = theirs.make_smoothing_spline(*given, lam=1.0, **more)  # SciPy's checks
    if np.any(all_values(penalty) < 0):
        raise ValueError("Regularization parameter should be non-negative")
    data = moveaxis(y, fixed.axis, 0) if fixed.axis else y
    size, h = x.shape[0], x[1:] - x[:-1]
    inner = np.arange(size - 2)
    steep = arrays.from_entries(
        concatenate([1 / h[:-1], -1 / h[:-1] - 1 / h[1:], 1 / h[1:]]),
        np.concatenate([inner, inner + 1, inner + 2]),
        np.tile(inner, 3),
        scipy.sparse.csr_array((size, size - 2)),
    )
    mass = arrays.from_entries(
        concatenate([(h[:-1] + h[1:]) / 3, h[1:-1] / 6, h[1:-1] / 6]),
        np.concatenate([inner, inner[:-1], inner[1:]]),
        np.concatenate([inner, inner[1:], inner[:-1]]),
        scipy.sparse.csr_array((size - 2, size - 2)),
    )
    weights = creation.ones(size, dtype=x.dtype) if w is None else as_float(w)
    scaled = steep.multiply((1 / weights).reshape(-1, 1))
    flat = data.reshape(size, -1)
    pattern, values, _ = pattern_and_values(mass + (steep.T @ scaled) * penalty)
    bends = solve(values, steep.T @ flat, pattern, DirectSolver())
    smoothed = (flat - penalty * (scaled @ bends)).reshape(data.shape)
    t = concatenate([x[:1]] * 3 + [x] + [x[-1:]] * 3)
    natural = [(2, creation.zeros(data.shape[1:], dtype=data.dtype))]
    return spline_of((t, interpolate(x, smoothed, t, 3, natural, natural), 3), True, fixed.axis)
