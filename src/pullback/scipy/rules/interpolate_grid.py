"""Rules of interpolation on grids: RegularGridInterpolator, interpn and interp1d."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate as theirs

from pullback._generated.functions_shape import broadcast_to, concatenate, flip, moveaxis, stack
from pullback.func.primitive import all_values
from pullback.interop.arguments import as_tensor, hold, plain
from pullback.scipy.conversions import as_float, first_sample
from pullback.scipy.registry import class_rule, option_without_rule, rule
from pullback.scipy.rules.interpolate_bspline import interpolate, not_a_knot, spline_of
from pullback.scipy.rules.interpolate_local import (
    Evaluation,
    basis,
    choose,
    gather,
    locate,
    require_increasing,
    without_values,
)
from pullback.scipy.rules.interpolate_ppoly import hermite, pchip_slopes, piecewise
from pullback.scipy.traced import decided
from pullback.tensor.tensor import Tensor

__all__ = [
    "Interp1dTensor",
    "RegularGridInterpolatorTensor",
]

_NAME = "scipy.interpolate"
_Array = NDArray[Any]
_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}


# --- multilinear interpolation ------------------------------------------------------------------


def _corners(index: _Array, shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], _Array]]:
    """The corners of each point's cell, with their places in the flattened grid."""
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    start = sum(column * stride for column, stride in zip(index.T, strides, strict=True))
    corners = product((0, 1), repeat=len(shape))
    return [(c, start + int(np.dot(c, strides))) for c in corners]


def _weight(corner: tuple[int, ...], s: _Array, orders: tuple[int, ...]) -> Any:
    """The weight of a corner in the value, or in a derivative of the orders 0 or 1."""
    found: Any = 1.0
    for side, column, order in zip(corner, s.T, orders, strict=True):
        if order == 0:
            found = found * (column if side else 1.0 - column)
        elif not side:
            found = -found
    return np.asarray(found)


def _multilinear(values: _Array, s: _Array, index: _Array, orders: tuple[int, ...]) -> Any:
    """Values at the corners of cells, weighted by the distances s from their first corners."""
    if max(orders) > 1:
        return np.zeros((len(s), *values.shape[len(orders) :]), values.dtype)
    shape = values.shape[: len(orders)]
    flat = values.reshape(int(np.prod(shape)), -1)
    flat = flat[:, 0] if values.ndim == len(orders) else flat
    found: Any = 0.0
    for corner, place in _corners(index, shape):
        weight = _weight(corner, s, orders)
        weight = weight[..., None] if flat.ndim > 1 else weight
        found = found + np.take(flat, place, axis=0) * weight
    return found.reshape(len(s), *values.shape[len(orders) :])


def _multilinear_spread(
    y: _Array, s: _Array, index: _Array, orders: tuple[int, ...], shape: tuple[int, ...]
) -> Any:
    grid = shape[: len(orders)]
    count = int(np.prod(grid))
    found = np.zeros((count, *y.shape[1:]), y.dtype)
    if max(orders) <= 1:
        for corner, place in _corners(index, grid):
            weight = _weight(corner, s, orders)
            if y.ndim == 1 and y.dtype.kind != "c":
                found += np.bincount(place, y * weight, count)
            else:
                np.add.at(found, place, y * weight.reshape(-1, *[1] * (y.ndim - 1)))
    return found.reshape(*grid, *y.shape[1:])


_MULTILINEAR = Evaluation("multilinear interpolation", _multilinear, _multilinear_spread)


# --- RegularGridInterpolator --------------------------------------------------------------------


@class_rule(f"{_NAME}.RegularGridInterpolator", tensors="points values fill_value")
class RegularGridInterpolatorTensor(theirs.RegularGridInterpolator):  # type: ignore[misc]
    """A `scipy.interpolate.RegularGridInterpolator` with tensors."""

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ):
        del solver, solver_args  # splines are computed axis by axis
        if method not in self._ALL_METHODS:
            raise ValueError(f"Method '{method}' is not defined")
        axes, values = [as_tensor(axis) for axis in points], as_tensor(values)
        samples = [first_sample(axis) for axis in axes]
        if method in self._SPLINE_METHODS:
            self._validate_grid_dimensions(samples, method)
        checked = theirs.RegularGridInterpolator(samples, np.zeros(values.shape, values.dtype))
        checked._check_fill_value(np.zeros(0, values.dtype), plain(fill_value))
        turned = list(checked._descending_dimensions)
        axes = [flip(a, [0]) if i in turned else a for i, a in enumerate(axes)]
        values = values if values.dtype.kind in "fc" else values.astype(np.float64)
        self._set(axes, flip(values, turned) if turned else values, method)
        self.bounds_error, self.fill_value = bounds_error, fill_value

    @property
    def grid(self) -> tuple[Tensor, ...]:
        """The nodes of each axis."""
        return self._grid

    @property
    def values(self) -> Tensor:
        """The values on the grid."""
        return self._values

    def _set(self, grid: Any, values: Any, method: str) -> Any:
        self._grid = tuple(map(as_float, grid))
        self._values: Tensor = values
        self.method = method
        return self

    def __call__(self, xi: Any, method: Any = None, *, nu: Any = None) -> Tensor:
        """The interpolated values at points."""
        method = self.method if method is None else method
        if method not in self._ALL_METHODS:
            raise ValueError(f"Method '{method}' is not defined")
        if nu is not None and method not in _DEGREES:
            raise ValueError(
                f"Can only compute derivatives for methods "
                f"{self._SPLINE_METHODS_ndbspl}, got {method =}."
            )
        ndim = len(self._grid)
        given = _coordinates(xi, ndim)
        if given.shape[-1] != ndim:
            raise ValueError(
                f"The requested sample points xi have dimension {given.shape[-1]} but this "
                f"RegularGridInterpolator has dimension {ndim}"
            )
        flat = given.reshape(-1, ndim)
        outside = self._outside(flat)
        if method in _DEGREES:
            found = _tensor_product(self._grid, self._values, flat, _DEGREES[method], nu)
        elif method == "pchip":
            found = _nested_pchip(self._grid, self._values, flat).astype(self._values.dtype)
        else:
            found = self._in_cells(flat, method)
        if outside is not None and self.fill_value is not None:
            mask = outside.reshape(-1, *[1] * (found.ndim - 1))
            found = choose(mask, as_tensor(self.fill_value).astype(found.dtype), found)
        return found.reshape(*given.shape[:-1], *self._values.shape[ndim:])

    def _outside(self, points: Tensor) -> Any:
        masks = [
            (points[:, axis] < grid[0]) | (points[:, axis] > grid[-1])
            for axis, grid in enumerate(self._grid)
        ]
        if self.bounds_error:
            for axis, mask in enumerate(masks):
                if np.any(all_values(mask)) or np.any(np.isnan(all_values(points[:, axis]))):
                    raise ValueError(
                        f"One of the requested xi is out of bounds in dimension {axis}"
                    )
            return None
        found = masks[0]
        for mask in masks[1:]:
            found = found | mask
        return found

    def _in_cells(self, points: Tensor, method: str) -> Tensor:
        distances, places = [], []
        for axis, grid in enumerate(self._grid):
            column = points[:, axis]
            if grid.shape[0] == 1:  # SciPy's convention: the only value, whatever the point
                raise option_without_rule(f"{_NAME}.RegularGridInterpolator", "grid length", 1)
            index = locate(grid, column, 0, grid.shape[0] - 2)
            start = gather(grid, index)
            distances.append((column - start) / (gather(grid, index + 1) - start))
            places.append(index)
        s, index = stack(distances, axis=1), stack(places, axis=1)
        values = self._values
        if method == "linear":
            values = values if values.dtype.kind == "c" else as_float(values)
            return _MULTILINEAR(values, s, index, (0,) * len(self._grid))
        nearest = index + (s > 0.5).astype(np.int64)
        strides = [int(np.prod(values.shape[a + 1 : len(self._grid)])) for a in range(s.shape[1])]
        flat = values.reshape(-1, *values.shape[len(self._grid) :])
        found = gather(flat, (nearest * np.array(strides)).sum(-1))
        zero = (s * 0.0).sum(-1).reshape(-1, *[1] * (found.ndim - 1))
        return found + zero.astype(found.dtype)  # piecewise constant in points and grid


def _coordinates(xi: Any, ndim: int) -> Tensor:
    """Points as the last axis, from one array or from a tuple of coordinates."""
    if isinstance(xi, tuple) and len(xi) == 1:
        xi = xi[0]
    if isinstance(xi, tuple):
        parts = [as_float(part) for part in xi]
        shape = np.broadcast_shapes(*(part.shape for part in parts))
        return stack([broadcast_to(part, shape) for part in parts], axis=-1)
    found = as_float(xi)
    return found.reshape(-1, ndim) if found.ndim == 1 else found


def _dtype_of(xi: Any) -> Any:
    """The dtype in which SciPy's ``splinef2d`` returns its values: that of the points."""
    parts = [as_tensor(part).dtype for part in (xi if isinstance(xi, tuple) else (xi,))]
    return np.result_type(*parts) if all(part.kind == "f" for part in parts) else np.float64


def _tensor_product(grid: Any, values: Tensor, points: Tensor, k: int, nu: Any) -> Tensor:
    """A spline of degree k in each axis, with its knots at the nodes (not-a-knot)."""
    ndim = len(grid)
    nu = [0] * ndim if nu is None else [int(order) for order in np.asarray(nu)]
    c = as_float(values)
    weights: Any = None
    places: Any = 0
    for axis, x in enumerate(grid):
        require_increasing(x, "points")
        t = not_a_knot(x, k) if k > 1 else concatenate([x[:1], x, x[-1:]])
        moved = moveaxis(c, axis, 0)
        c = moveaxis(interpolate(x, moved, t, k), 0, axis) if k > 1 else c
        index = locate(t, points[:, axis], k, t.shape[0] - k - 2)
        local = stack(basis(t, k, points[:, axis], index, nu[axis]), axis=1)
        weights = (
            local
            if weights is None
            else (weights[:, :, None] * local[:, None]).reshape(points.shape[0], -1)
        )
        offsets = np.arange(-k, 1)
        here = index[:, None] + offsets
        places = (
            here
            if axis == 0
            else ((places * int(x.shape[0]))[:, :, None] + here[:, None]).reshape(
                points.shape[0], -1
            )
        )
    flat = c.reshape(-1, *c.shape[ndim:])
    found = gather(flat, places)
    weights = weights.reshape(*weights.shape, *[1] * (found.ndim - 2))
    return (found * weights).sum(1)  # type: ignore[no-any-return]


def _nested_pchip(grid: Any, values: Tensor, points: Tensor) -> Tensor:
    """Monotonic interpolation along the last axis, then along the others, point by point."""
    ndim, count = len(grid), points.shape[0]
    trailing = values.ndim - ndim
    moved = moveaxis(as_float(values), ndim - 1, 0)
    x = grid[-1]
    c = hermite(x, moved, pchip_slopes(x, moved))
    found = piecewise(c, x, points[:, ndim - 1], 0, True)  # points, other axes, trailing axes
    for axis in range(ndim - 2, -1, -1):
        x = grid[axis]
        data = moveaxis(found, axis + 1, 0)  # nodes, points, other axes, trailing axes
        c = hermite(x, data, pchip_slopes(x, data))
        index = locate(x, points[:, axis], 0, x.shape[0] - 2)
        flat = c.reshape(4, -1, *c.shape[3:])
        places = index * count + np.arange(count)
        s = points[:, axis] - gather(x, index)
        s = s.reshape(-1, *[1] * (flat.ndim - 2))
        found = gather(flat[0], places)
        for row in range(1, 4):
            found = found * s + gather(flat[row], places)
    assert found.ndim == 1 + trailing
    return found


hold(
    RegularGridInterpolatorTensor,
    lambda held: [*held._grid, held._values],
    lambda held: theirs.RegularGridInterpolator(
        plain(list(held._grid)),
        plain(held._values),
        held.method,
        held.bounds_error,
        held.fill_value,
    ),
)


@rule(f"{_NAME}.RegularGridInterpolator.__call__", tensors="self xi")
def _call_grid(self: Any, xi: Any, method: Any, nu: Any) -> Any:
    made = object.__new__(RegularGridInterpolatorTensor)
    made._set(self.grid, as_tensor(self.values), self.method)
    made.bounds_error, made.fill_value = self.bounds_error, self.fill_value
    return made(xi, method, nu=nu)


@rule(f"{_NAME}.interpn", tensors="points values xi fill_value")
def _interpn(
    points: Any, values: Any, xi: Any, method: str, bounds_error: bool, fill_value: Any
) -> Any:
    if method != "splinef2d":
        made = RegularGridInterpolatorTensor(points, values, method, bounds_error, fill_value)
        return made(xi)
    given = _coordinates(xi, 2)
    flat = given.reshape(-1, 2)
    made = RegularGridInterpolatorTensor(points, values, "cubic", bounds_error, fill_value)
    return made(flat).reshape(given.shape[:-1]).astype(_dtype_of(xi))


# --- interp1d -----------------------------------------------------------------------------------


@class_rule(f"{_NAME}.interp1d", tensors="x y fill_value")
class Interp1dTensor(theirs.interp1d):  # type: ignore[misc] # SciPy has no types
    """A `scipy.interpolate.interp1d` with tensors."""

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: Any = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ):
        x, y = as_tensor(x), as_tensor(y)
        shapes, fill = (x.shape, y.shape), without_values(fill_value)

        def check(*arrays: _Array) -> Any:
            first = [a.reshape(-1, *shape)[0] for a, shape in zip(arrays, shapes, strict=True)]
            made = theirs.interp1d(*first, kind, axis, copy, bounds_error, fill, assume_sorted)
            return [made.axis, made.bounds_error, made._extrapolate]

        checked = decided(check, x, y)
        if not assume_sorted:
            lines = (-1, x.shape[0])
            orders = decided(lambda v: np.argsort(v.reshape(lines), axis=-1, kind="stable"), x)
            if np.any(orders != orders[0]):
                raise ValueError("interp1d: inside vmap, x must be sorted alike in all samples")
            x, y = x[orders[0]], moveaxis(moveaxis(y, axis, 0)[orders[0]], 0, axis)
        state = {"_kind_given": kind, "_tensors": (as_float(x), as_float(y)), "_fill": fill_value}
        self.__dict__.update(state)
        self._rules = (int(checked[0]), bool(checked[1]), bool(checked[2]))
        keeps_dtype = kind in ("nearest", "nearest-up", "previous", "next")
        self._dtype = y.dtype if keeps_dtype and y.dtype.kind in "fc" else as_float(y).dtype

    def __call__(self, x: Any) -> Tensor:
        """The interpolated values at points."""
        (nodes, y), (axis, bounds_error, extrapolate) = self._tensors, self._rules
        data = moveaxis(y, axis, 0)
        given = as_float(x)
        flat = given.reshape(-1)
        below, above = flat < nodes[0], flat > nodes[-1]
        if bounds_error and not extrapolate:
            decided(_require_inside, below, above, flat, nodes)
        found = _interpolate_line(nodes, data, flat, self._kind_given)
        if not extrapolate:
            low, high = _fills(self._fill)
            for mask, fill in ((below, low), (above, high)):
                mask = mask.reshape(-1, *[1] * (found.ndim - 1))
                found = choose(mask, as_float(fill), found)
        found = found.reshape(*given.shape, *data.shape[1:])
        if axis and given.ndim:
            places = list(range(given.ndim))
            found = moveaxis(found, places, [axis + place for place in places])
        return found if found.dtype == self._dtype else found.astype(self._dtype)


def _fills(fill_value: Any) -> tuple[Any, Any]:
    if isinstance(fill_value, tuple) and len(fill_value) == 2:
        return fill_value
    return fill_value, fill_value


def _require_inside(below: _Array, above: _Array, points: _Array, nodes: _Array) -> bool:
    for mask, side, edge, place in (
        (below, "below", "minimum", 0),
        (above, "above", "maximum", -1),
    ):
        if mask.any():
            value, limit = points[mask][0], nodes[..., place].flat[0]
            raise ValueError(
                f"A value ({value}) in x_new is {side} the interpolation range's {edge} value "
                f"({limit})."
            )
    return True


def _interpolate_line(x: Tensor, y: Tensor, points: Tensor, kind: Any) -> Tensor:
    """Interpolation along the first axis, extrapolated."""
    orders = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
    last = x.shape[0] - 1
    if kind in ("linear", "slinear") or kind == 1:
        steps = (x[1:] - x[:-1]).reshape(-1, *[1] * (y.ndim - 1))
        return piecewise(stack([(y[1:] - y[:-1]) / steps, y[:-1]]), x, points, 0, True)
    order = kind if isinstance(kind, int) else orders.get(kind)
    if order:
        t = not_a_knot(x, order)
        return spline_of((t, interpolate(x, y, t, order), order))(points)  # type: ignore[no-any-return]
    if kind in ("nearest", "nearest-up"):
        middle = (x[1:] + x[:-1]) / 2
        # A point in the middle belongs to the left node, for "nearest-up" to the right one.
        if kind == "nearest-up":
            index = locate(middle, points, -1, last - 1) + 1
        else:
            index = last - 1 - locate(-flip(middle, [0]), -points, -1, last - 1)
    elif kind == "next":
        index = last - locate(-flip(x, [0]), -points, 0, last)
    else:  # previous, zero
        index = locate(x, points, 0, last)
    zero = ((points + gather(x, index)) * 0.0).reshape(-1, *[1] * (y.ndim - 1))
    return gather(y, index) + zero  # piecewise constant in points and nodes


@rule(f"{_NAME}._Interpolator1D.__call__", tensors="self x")
def _call_line(self: Any, x: Any) -> Any:
    """An interpolator of arrays at points that are tensors."""
    if not isinstance(self, theirs.interp1d):
        raise option_without_rule(f"{_NAME}.{type(self).__name__}", "interpolator", self)
    kind = self._kind if self._kind != "spline" else int(self._spline.k)
    fill = "extrapolate" if self._extrapolate else (self._fill_value_below, self._fill_value_above)
    made = Interp1dTensor(
        self.x, self.y, kind, self.axis, True, self.bounds_error, fill, assume_sorted=True
    )
    return made(x)
