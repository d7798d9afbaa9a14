"""Rules of FITPACK's classes: UnivariateSpline and its kin, RectBivariateSpline."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate as theirs

from pullback._generated.functions_pointwise import clip
from pullback._generated.functions_shape import broadcast_to, stack, swapaxes
from pullback.func.primitive import all_values
from pullback.interop.arguments import as_tensor, hold, plain
from pullback.scipy.conversions import as_float, first_sample
from pullback.scipy.registry import class_rule, option_without_rule, rule
from pullback.scipy.rules.interpolate_bspline import (
    antiderivative_of,
    derivative_of,
    design,
    evaluate_with,
    fit,
    integral_of,
    interpolate,
    not_a_knot,
    root_of,
    smooth,
)
from pullback.scipy.rules.interpolate_local import basis, gather, locate
from pullback.tensor.tensor import Tensor

__all__ = [
    "InterpolatedUnivariateSplineTensor",
    "LSQUnivariateSplineTensor",
    "RectBivariateSplineTensor",
    "UnivariateMethods",
    "UnivariateSplineTensor",
]

_NAME = "scipy.interpolate"
_Array = NDArray[Any]
_Class = TypeVar("_Class", bound=type)
_EXTENSIONS: dict[Any, int] = {0: 0, 1: 1, 2: 2, 3: 3} | dict(
    zip(("extrapolate", "zeros", "raise", "const"), range(4), strict=True)
)


def _sample(value: Any) -> Any:
    """The values of an argument that may be None, for SciPy's checks."""
    return None if value is None else first_sample(value)


# --- UnivariateSpline ---------------------------------------------------------------------------


class UnivariateMethods:
    """Methods of the one-dimensional splines; `_with_methods` copies them into classes."""

    _spline: tuple[Tensor, Tensor, int]
    ext: int
    _fixed: Any

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Tensor:
        """The value, or derivative of order `nu`, at points."""
        if ext is not None and ext not in _EXTENSIONS:
            raise ValueError(f"Unknown extrapolation mode {ext}.")
        mode = self.ext if ext is None else _EXTENSIONS[ext]
        return evaluate_with(*self._spline, x, nu, mode)

    def derivative(self, n: int = 1) -> Any:
        """The spline of a derivative."""
        return _univariate(derivative_of(*self._spline, n), 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n: int = 1) -> Any:
        """The spline of an integral."""
        return _univariate(antiderivative_of(*self._spline, n), self.ext)

    def integral(self, a: Any, b: Any) -> Tensor:
        """The integral from `a` to `b`; the spline is zero outside of its knots."""
        return integral_of(*self._spline, a, b)

    def derivatives(self, x: Any) -> Tensor:
        """All derivatives at one point."""
        return stack([self(x, nu) for nu in range(self._spline[2] + 1)])

    def get_coeffs(self) -> Tensor:
        """The coefficients."""
        return self._spline[1]

    def get_knots(self) -> Tensor:
        """The inner knots and the ends."""
        t, _, k = self._spline
        return t[k : t.shape[0] - k]

    def roots(self) -> Tensor:
        """The zeros of a cubic spline."""
        t, c, k = self._spline
        return root_of(self, _plain_spline(t, c, k).roots(), f"{_NAME}.UnivariateSpline.roots")


def _plain_spline(t: Tensor, c: Tensor, k: int) -> Any:
    coefficients = np.concatenate([plain(c.detach()), np.zeros(k + 1)])
    return theirs.UnivariateSpline._from_tck((plain(t.detach()), coefficients, k))


def _univariate(spline: tuple[Tensor, Tensor, int], ext: int) -> Any:
    """A UnivariateSpline with tensors."""
    made = object.__new__(UnivariateSplineTensor)
    made._spline, made.ext = spline, ext
    return made


def _with_methods(kind: _Class) -> _Class:
    for name, value in vars(UnivariateMethods).items():
        if callable(value) and name not in vars(kind):
            setattr(kind, name, value)
    hold(kind, lambda held: list(held._spline[:2]), lambda held: _plain_spline(*held._spline))
    return kind


@class_rule(f"{_NAME}.UnivariateSpline", tensors="x y w")
@_with_methods
class UnivariateSplineTensor(theirs.UnivariateSpline):  # type: ignore[misc]
    """A `scipy.interpolate.UnivariateSpline` with tensors."""

    def __init__(
        self, x: Any, y: Any, w: Any, bbox: Any, k: int, s: Any, ext: Any, check_finite: bool
    ):
        fixed = theirs.UnivariateSpline(
            _sample(x), _sample(y), _sample(w), list(bbox), k, s, ext, check_finite
        )
        _require_full_interval("UnivariateSpline", bbox)
        x, y, self.ext = as_float(x), as_float(y), fixed.ext
        s = x.shape[0] if s is None else s
        c = smooth(
            x, y, w, k, s, fixed._eval_args[0], fixed.get_residual(), f"{_NAME}.UnivariateSpline"
        )
        t = not_a_knot(x, k) if s == 0 else as_tensor(fixed._eval_args[0])
        self._spline = (t, c, k)


@class_rule(f"{_NAME}.InterpolatedUnivariateSpline", tensors="x y w")
@_with_methods
class InterpolatedUnivariateSplineTensor(theirs.InterpolatedUnivariateSpline):  # type: ignore[misc]
    """A `scipy.interpolate.InterpolatedUnivariateSpline` with tensors."""

    def __init__(self, x: Any, y: Any, w: Any, bbox: Any, k: int, ext: Any, check_finite: bool):
        fixed = theirs.InterpolatedUnivariateSpline(
            _sample(x), _sample(y), _sample(w), list(bbox), k, ext, check_finite
        )
        _require_full_interval("InterpolatedUnivariateSpline", bbox)
        x, y, self.ext = as_float(x), as_float(y), fixed.ext
        t = not_a_knot(x, k)
        self._spline = (t, interpolate(x, y, t, k), k)


@class_rule(f"{_NAME}.LSQUnivariateSpline", tensors="x y w")
@_with_methods
class LSQUnivariateSplineTensor(theirs.LSQUnivariateSpline):  # type: ignore[misc]
    """A `scipy.interpolate.LSQUnivariateSpline` with tensors."""

    def __init__(
        self, x: Any, y: Any, t: Any, w: Any, bbox: Any, k: int, ext: Any, check_finite: bool
    ):
        fixed = theirs.LSQUnivariateSpline(
            _sample(x), _sample(y), t, _sample(w), list(bbox), k, ext, check_finite
        )
        _require_full_interval("LSQUnivariateSpline", bbox)
        knots, self.ext = as_tensor(fixed._eval_args[0]), fixed.ext
        self._spline = (knots, fit(as_float(x), as_float(y), knots, k, w), k)


def _require_full_interval(name: str, bbox: Any) -> None:
    if any(end is not None for end in bbox):
        raise option_without_rule(f"{_NAME}.{name}", "bbox", bbox)


@rule(f"{_NAME}.UnivariateSpline.__call__", tensors="self x")
def _call(self: Any, x: Any, nu: int, ext: Any) -> Any:
    return _as_tensors(self)(x, nu, ext)


@rule(f"{_NAME}.UnivariateSpline.integral", tensors="self a b")
def _integral(self: Any, a: Any, b: Any) -> Any:
    return _as_tensors(self).integral(a, b)


def _as_tensors(spline: Any) -> Any:
    t, c, k = spline._eval_args
    return _univariate((as_tensor(t), as_tensor(c[: len(t) - k - 1]), k), spline.ext)


# --- RectBivariateSpline ------------------------------------------------------------------------


@class_rule(f"{_NAME}.RectBivariateSpline", tensors="x y z")
class RectBivariateSplineTensor(theirs.RectBivariateSpline):  # type: ignore[misc]
    """A `scipy.interpolate.RectBivariateSpline` with tensors."""

    def __init__(self, x: Any, y: Any, z: Any, bbox: Any, kx: int, ky: int, s: Any, **more: Any):
        fixed = theirs.RectBivariateSpline(
            _sample(x), _sample(y), _sample(z), list(bbox), kx, ky, s, **more
        )
        _require_full_interval("RectBivariateSpline", bbox)
        x, y, z = as_float(x), as_float(y), as_float(z)
        if s and not fixed.fp < 0.998 * s:
            raise option_without_rule(f"{_NAME}.RectBivariateSpline", "s", s)
        knots = []
        for nodes, k, chosen in ((x, kx, fixed.tck[0]), (y, ky, fixed.tck[1])):
            t = as_tensor(chosen) if s else not_a_knot(nodes, k)
            z = swapaxes(fit(nodes, z, t, k) if s else interpolate(nodes, z, t, k), 0, 1)
            knots.append(t)
        self._set(knots[0], knots[1], z, (kx, ky))

    def _set(self, tx: Tensor, ty: Tensor, c: Tensor, degrees: tuple[int, int]) -> Any:
        self._tensors, self.degrees = (tx, ty, c), degrees
        return self

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Tensor:
        """Values, or derivatives, on the grid of two vectors, or at points."""
        tx, ty, c = self._tensors
        kx, ky = self.degrees
        x, y = as_float(x), as_float(y)
        if not grid:
            shape = np.broadcast_shapes(x.shape, y.shape)
            across, along = (broadcast_to(part, shape).reshape(-1) for part in (x, y))
            return self._at(across, along, dx, dy).reshape(shape)
        for name, part in (("x", x), ("y", y)):
            if np.any(np.diff(np.atleast_1d(all_values(part))) < 0):
                raise ValueError(f"{name} must be strictly increasing when `grid` is True")
        x, y = _inside(x.reshape(-1), tx, kx), _inside(y.reshape(-1), ty, ky)
        rows = design(tx, kx, x, dx, c)
        return swapaxes(design(ty, ky, y, dy, swapaxes(rows, 0, 1)), 0, 1)

    def _at(self, x: Tensor, y: Tensor, dx: int, dy: int) -> Tensor:
        tx, ty, c = self._tensors
        kx, ky = self.degrees
        x, y = _inside(x, tx, kx), _inside(y, ty, ky)
        i = locate(tx, x, kx, tx.shape[0] - kx - 2)
        j = locate(ty, y, ky, ty.shape[0] - ky - 2)
        bx = stack(basis(tx, kx, x, i, dx), axis=1)
        by = stack(basis(ty, ky, y, j, dy), axis=1)
        rows, columns = i[:, None] + np.arange(-kx, 1), j[:, None] + np.arange(-ky, 1)
        places = rows[:, :, None] * int(c.shape[1]) + columns[:, None]
        return (gather(c.reshape(-1), places) * bx[:, :, None] * by[:, None]).sum((1, 2))

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Tensor:
        """Values, or derivatives, at points."""
        return self(xi, yi, dx, dy, grid=False)

    def integral(self, xa: Any, xb: Any, ya: Any, yb: Any) -> Tensor:
        """The integral over a rectangle."""
        tx, ty, c = self._tensors
        kx, ky = self.degrees
        rows = integral_of(tx, c, kx, xa, xb)
        return integral_of(ty, rows, ky, ya, yb)


def _inside(points: Tensor, t: Tensor, k: int) -> Tensor:
    """FITPACK evaluates at the nearest point of the base rectangle."""
    return clip(points, t[k], t[t.shape[0] - k - 1])


def _plain_surface(held: Any) -> Any:
    tx, ty, c = (plain(part) for part in held._tensors)
    return theirs.BivariateSpline._from_tck((tx, ty, c.ravel(), *held.degrees))


hold(RectBivariateSplineTensor, lambda held: list(held._tensors), _plain_surface)


def _surface(spline: Any) -> Any:
    """The same surface with constant tensors."""
    tx, ty, c = (as_tensor(part) for part in spline.tck[:3])
    kx, ky = spline.degrees
    c = c.reshape(tx.shape[0] - kx - 1, ty.shape[0] - ky - 1)
    return object.__new__(RectBivariateSplineTensor)._set(tx, ty, c, (kx, ky))


@rule(f"{_NAME}._BivariateSplineBase.__call__", tensors="self x y")
def _call_surface(self: Any, x: Any, y: Any, dx: int, dy: int, grid: bool) -> Any:
    return _surface(self)(x, y, dx, dy, grid)


@rule(f"{_NAME}.BivariateSpline.__call__", tensors="self x y")
def _call_bivariate(self: Any, x: Any, y: Any, dx: int, dy: int, grid: bool) -> Any:
    return _surface(self)(x, y, dx, dy, grid)


@rule(f"{_NAME}.BivariateSpline.ev", tensors="self xi yi")
def _ev(self: Any, xi: Any, yi: Any, dx: int, dy: int) -> Any:
    return _surface(self)(xi, yi, dx, dy, grid=False)


@rule(f"{_NAME}.BivariateSpline.integral", tensors="self xa xb ya yb")
def _integral_surface(self: Any, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
    return _surface(self).integral(xa, xb, ya, yb)
