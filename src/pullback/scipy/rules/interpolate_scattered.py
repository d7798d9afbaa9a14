"""Rules of global and scattered interpolation: RBFInterpolator, polynomials, griddata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate as theirs
from scipy.spatial import Delaunay, KDTree

from pullback._generated.functions_linalg import linalg_solve
from pullback._generated.functions_pointwise import exp, log, sqrt
from pullback._generated.functions_products import matmul
from pullback._generated.functions_shape import concatenate, moveaxis, stack
from pullback.func.primitive import Primitive, all_values, no_tangent
from pullback.interop.arguments import as_tensor, hold, plain
from pullback.operators.creation import functions as creation
from pullback.scipy.conversions import as_float, first_sample
from pullback.scipy.registry import class_rule, option_without_rule, rule
from pullback.scipy.rules.interpolate_local import choose, gather
from pullback.tensor.tensor import Tensor

__all__ = [
    "BarycentricInterpolatorTensor",
    "KroghInterpolatorTensor",
    "NearestNDInterpolatorTensor",
    "PolynomialMethods",
    "RBFInterpolatorTensor",
]

_NAME = "scipy.interpolate"
_Array = NDArray[Any]


_INDEX = Primitive(  # integers that a function of points and nodes computes
    "index", lambda points, nodes, function: function(points, nodes), no_tangent, reads=""
)

# --- radial basis functions ---------------------------------------------------------------------


def _distance(squared: Tensor) -> Tensor:
    """The square root, with derivative zero at zero."""
    is_zero = squared == 0
    return choose(is_zero, 0.0, sqrt(choose(is_zero, 1.0, squared)))


def _thin_plate(squared: Tensor) -> Tensor:
    is_zero = squared == 0
    safe = choose(is_zero, 1.0, squared)
    return choose(is_zero, 0.0, 0.5 * squared * log(safe))


_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {  # of the squared distance
    "linear": lambda q: -_distance(q),
    "thin_plate_spline": _thin_plate,
    "cubic": lambda q: q * _distance(q),
    "quintic": lambda q: -(q**2) * _distance(q),
    "multiquadric": lambda q: -sqrt(q + 1),
    "inverse_multiquadric": lambda q: 1 / sqrt(q + 1),
    "inverse_quadratic": lambda q: 1 / (q + 1),
    "gaussian": lambda q: exp(-q),
}


@class_rule(f"{_NAME}.RBFInterpolator", tensors="y d smoothing epsilon")
class RBFInterpolatorTensor(theirs.RBFInterpolator):  # type: ignore[misc] # SciPy has no types
    """A `scipy.interpolate.RBFInterpolator` with tensors."""

    def __init__(self, y: Any, d: Any, smoothing: Any, epsilon: Any, **options: Any):
        y, d = as_float(y), as_float(d)
        samples = [first_sample(value) for value in (y, d)]
        size = None if epsilon is None else 1.0
        checked = theirs.RBFInterpolator(*samples, epsilon=size, **options)  # SciPy's checks
        self._set(checked, y, d, smoothing, 1.0 if epsilon is None else epsilon)

    def _set(self, checked: Any, y: Tensor, d: Tensor, smoothing: Any, epsilon: Any) -> Any:
        self.kernel, self.powers, self.neighbors = checked.kernel, checked.powers, checked.neighbors
        self._tensors = (y, d, as_float(smoothing), as_float(epsilon))
        return self

    def __call__(self, x: Any) -> Tensor:
        """The interpolated values at points."""
        points = as_float(x)
        y, d, smoothing, epsilon = self._tensors
        if points.ndim != 2:
            raise ValueError("`x` must be a 2-dimensional array.")
        if points.shape[1] != y.shape[1]:
            raise ValueError(f"Expected the second axis of `x` to have length {y.shape[1]}.")
        data = d.reshape(d.shape[0], -1)
        ridge = smoothing * creation.ones(y.shape[0], dtype=y.dtype)
        if self.neighbors is None:
            found = self._local(points, y, data, ridge, epsilon)
        else:
            count = self.neighbors

            def nearest(at: _Array, nodes: _Array) -> _Array:
                return np.asarray(KDTree(nodes).query(at, count)[1]).reshape(len(at), count)

            index = _INDEX(points, y, function=nearest)
            nodes, local, weights = (gather(part, index) for part in (y, data, ridge))
            found = self._local(points[:, None], nodes, local, weights, epsilon)[:, 0]
        return found.reshape(points.shape[0], *d.shape[1:])

    def _local(self, x: Tensor, y: Tensor, d: Tensor, ridge: Tensor, epsilon: Tensor) -> Tensor:
        """Interpolation of the data at the nodes y, in the last two axes."""
        function = _KERNELS[self.kernel]
        size, count = y.shape[-2], len(self.powers)
        # Polynomials of shifted and scaled coordinates: better conditioned, the same result.
        low, high = y.detach().min(-2)[..., None, :], y.detach().max(-2)[..., None, :]
        scale = (high - low) / 2
        scale = choose(scale == 0, 1.0, scale)
        shift = (high + low) / 2
        basis = self._monomials((y - shift) / scale)
        radial = function(_squares(y, y) * epsilon**2) + ridge[..., None] * np.eye(size)
        zeros = creation.zeros((*y.shape[:-2], count, count), dtype=y.dtype)
        top = concatenate([radial, basis], axis=-1)
        bottom = concatenate([basis.swapaxes(-1, -2), zeros], axis=-1)
        rows = concatenate(
            [d, creation.zeros((*d.shape[:-2], count, d.shape[-1]), dtype=d.dtype)], axis=-2
        )
        coefficients = linalg_solve(concatenate([top, bottom], axis=-2), rows)
        at = concatenate(
            [function(_squares(x, y) * epsilon**2), self._monomials((x - shift) / scale)], axis=-1
        )
        return matmul(at, coefficients)

    def _monomials(self, x: Tensor) -> Tensor:
        columns = []
        for powers in self.powers:
            column = x[..., 0] * 0.0 + 1.0
            for axis, power in enumerate(powers):
                for _ in range(int(power)):
                    column = column * x[..., axis]
            columns.append(column)
        if not columns:
            return creation.zeros((*x.shape[:-1], 0), dtype=x.dtype)
        return stack(columns, axis=-1)


def _squares(x: Tensor, y: Tensor) -> Tensor:
    """The squared distances of points."""
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)


hold(
    RBFInterpolatorTensor,
    lambda held: list(held._tensors),
    lambda held: theirs.RBFInterpolator(
        *plain(list(held._tensors[:2])),
        held.neighbors,
        plain(held._tensors[2]),
        held.kernel,
        float(plain(held._tensors[3])),
        int(held.powers.sum(1).max(initial=-1)),
    ),
)


@rule(f"{_NAME}.RBFInterpolator.__call__", tensors="self x")
def _call_rbf(self: Any, x: Any) -> Any:
    made = object.__new__(RBFInterpolatorTensor)
    data = self.d.view(self.d_dtype).reshape(len(self.d), *self.d_shape)
    return made._set(self, as_tensor(self.y), as_tensor(data), self.smoothing, self.epsilon)(x)


# --- polynomials --------------------------------------------------------------------------------


class PolynomialMethods:
    """Evaluation of the polynomial through data, in Newton's form."""

    _polynomial: tuple[Tensor, list[Tensor], int]

    def __call__(self, x: Any) -> Tensor:
        """The value at points."""
        return self.derivative(x, 0)

    def derivative(self, x: Any, der: int = 1) -> Tensor:
        """The derivative of order `der` at points."""
        nodes, coefficients, axis = self._polynomial
        given = as_float(x)
        flat = given.reshape(-1, *[1] * coefficients[0].ndim)
        # Horner's scheme for Taylor coefficients up to the order of the derivative.
        taylor: list[Any] = [coefficients[-1] + flat * 0.0] + [flat * 0.0 * coefficients[-1]] * der
        for place in range(len(coefficients) - 2, -1, -1):
            distance = flat - nodes[place]
            for order in range(der, 0, -1):
                taylor[order] = taylor[order] * distance + taylor[order - 1]
            taylor[0] = taylor[0] * distance + coefficients[place]
        found: Tensor = taylor[der] * float(np.prod(np.arange(1, der + 1)))
        found = found.reshape(*given.shape, *coefficients[0].shape)
        if axis and given.ndim:
            places = list(range(given.ndim))
            found = moveaxis(found, places, [axis + place for place in places])
        return found


def _newton(x: Any, y: Any, axis: int, name: str) -> tuple[Tensor, list[Tensor], int]:
    """Nodes, divided differences, and the interpolation axis."""
    x, y = as_float(x), as_float(y)
    if x.ndim != 1 or x.shape[0] != y.shape[axis]:
        raise ValueError("x and y arrays must be equal in length along interpolation axis.")
    values = all_values(x).reshape(-1, x.shape[0])
    if any(len(np.unique(row)) < len(row) for row in values):
        raise option_without_rule(f"{_NAME}.{name}", "repeated nodes", "xi")
    axis %= y.ndim
    level = moveaxis(y, axis, 0) if axis else y
    found = [level[0]]
    for order in range(1, x.shape[0]):
        steps = (x[order:] - x[:-order]).reshape(-1, *[1] * (y.ndim - 1))
        level = (level[1:] - level[:-1]) / steps
        found.append(level[0])
    return x, found, axis


def _with_polynomial(kind: Any) -> Any:
    for name, value in vars(PolynomialMethods).items():
        if callable(value):
            setattr(kind, name, value)
    hold(kind, lambda held: [held._polynomial[0], *held._polynomial[1]], _unchanged)
    return kind


def _unchanged(held: Any) -> Any:
    return held


@class_rule(f"{_NAME}.BarycentricInterpolator", tensors="xi yi")
@_with_polynomial
class BarycentricInterpolatorTensor(theirs.BarycentricInterpolator):  # type: ignore[misc]
    """A `scipy.interpolate.BarycentricInterpolator` with tensors; computes in Newton's form."""

    def __init__(
        self,
        xi: Any,
        yi: Any = None,
        axis: int = 0,
        *,
        wi: Any = None,
        rng: Any = None,
        random_state: Any = None,
    ):
        del rng, random_state  # the order in which SciPy computes weights
        if wi is not None or yi is None:
            option = "wi" if wi is not None else "yi"
            raise option_without_rule(f"{_NAME}.BarycentricInterpolator", option, wi)
        self._polynomial = _newton(xi, yi, axis, "BarycentricInterpolator")


@class_rule(f"{_NAME}.KroghInterpolator", tensors="xi yi")
@_with_polynomial
class KroghInterpolatorTensor(theirs.KroghInterpolator):  # type: ignore[misc]
    """A `scipy.interpolate.KroghInterpolator` with tensors, of different nodes."""

    def __init__(self, xi: Any, yi: Any, axis: int = 0):
        self._polynomial = _newton(xi, yi, axis, "KroghInterpolator")


def _constant_polynomial(interpolator: Any) -> Any:
    kind = (
        BarycentricInterpolatorTensor
        if isinstance(interpolator, theirs.BarycentricInterpolator)
        else KroghInterpolatorTensor
    )
    made: Any = object.__new__(kind)
    data = interpolator.yi.reshape(len(interpolator.xi), *interpolator._y_extra_shape)
    axis = interpolator._y_axis
    made._polynomial = _newton(
        interpolator.xi, np.moveaxis(data, 0, axis), axis, type(interpolator).__name__
    )
    return made


for _class in ("BarycentricInterpolator", "KroghInterpolator"):

    @rule(f"{_NAME}.{_class}.__call__", tensors="self x")
    def _call_polynomial(self: Any, x: Any) -> Any:
        return _constant_polynomial(self)(x)

    @rule(f"{_NAME}.{_class}.derivative", tensors="self x")
    def _derivative(self: Any, x: Any, der: int) -> Any:
        return _constant_polynomial(self).derivative(x, der)


@rule(f"{_NAME}.barycentric_interpolate", tensors="xi yi x")
def _barycentric_interpolate(xi: Any, yi: Any, x: Any, axis: int, der: Any, **_: Any) -> Any:
    return _orders(BarycentricInterpolatorTensor(xi, yi, axis), x, der)


@rule(f"{_NAME}.krogh_interpolate", tensors="xi yi x")
def _krogh_interpolate(xi: Any, yi: Any, x: Any, der: Any, axis: int) -> Any:
    return _orders(KroghInterpolatorTensor(xi, yi, axis), x, der)


def _orders(made: Any, x: Any, der: Any) -> Any:
    if np.ndim(der) == 0:
        return made.derivative(x, int(der))
    return stack([made.derivative(x, int(order)) for order in der])


# --- scattered data -----------------------------------------------------------------------------


@rule(f"{_NAME}.griddata", tensors="values xi")
def _griddata(
    points: Any, values: Any, xi: Any, method: str, fill_value: Any, rescale: bool
) -> Any:
    nodes = np.stack(np.broadcast_arrays(*points), -1) if isinstance(points, tuple) else points
    nodes = np.asarray(nodes, float)
    at = stack([as_float(part) for part in xi], axis=-1) if isinstance(xi, tuple) else as_float(xi)
    data = as_float(values)
    if nodes.ndim < 2 or nodes.shape[1] < 2:
        raise option_without_rule(f"{_NAME}.griddata", "dimensions", 1)
    if rescale or method == "cubic":
        option = ("rescale", rescale) if rescale else ("method", method)
        raise option_without_rule(f"{_NAME}.griddata", *option)
    flat = at.reshape(-1, nodes.shape[1])
    run = _nearest_node if method == "nearest" else _in_simplices
    if method not in ("nearest", "linear"):
        raise ValueError(f"Unknown interpolation method {method!r} for 2 dimensional data")
    found = run(nodes, data, flat, fill_value)
    return found.reshape(*at.shape[:-1], *data.shape[1:])


def _nearest_node(nodes: _Array, data: Tensor, points: Tensor, fill_value: Any) -> Tensor:
    del fill_value  # every point has a nearest node
    index = _INDEX(points, nodes, function=lambda at, y: KDTree(y).query(at)[1])
    zero = (points * 0.0).sum(-1).reshape(-1, *[1] * (data.ndim - 1))
    return gather(data, index) + zero  # piecewise constant in points


def _in_simplices(nodes: _Array, data: Tensor, points: Tensor, fill_value: Any) -> Tensor:
    """Linear interpolation in the simplices of a Delaunay triangulation."""
    mesh = Delaunay(nodes)
    simplex = _INDEX(points, nodes, function=lambda at, _: mesh.find_simplex(at))
    inside = simplex >= 0
    ndim = nodes.shape[1]
    transform = gather(as_tensor(mesh.transform), simplex * inside)
    shares = matmul(transform[:, :ndim], (points - transform[:, ndim])[:, :, None])[:, :, 0]
    weights = concatenate([shares, 1 - shares.sum(-1)[:, None]], axis=1)
    corners = gather(data, gather(as_tensor(mesh.simplices.astype(np.int64)), simplex * inside))
    found = (corners * weights.reshape(*weights.shape, *[1] * (data.ndim - 1))).sum(1)
    mask = inside.reshape(-1, *[1] * (found.ndim - 1))
    return choose(mask, found, as_float(fill_value))


@class_rule(f"{_NAME}.NearestNDInterpolator", tensors="y")
class NearestNDInterpolatorTensor(theirs.NearestNDInterpolator):  # type: ignore[misc]
    """A `scipy.interpolate.NearestNDInterpolator` with a tensor of values."""

    def __init__(self, x: Any, y: Any, rescale: bool = False, tree_options: Any = None):
        self._data = as_float(y)
        numbers = np.arange(float(self._data.shape[0]))
        self._numbers = theirs.NearestNDInterpolator(plain(x), numbers, rescale, tree_options)

    def __call__(self, *args: Any, **query_options: Any) -> Tensor:
        """The value at the node that is nearest to each point; NaN if none is near enough."""
        numbers = self._numbers(*plain(args), **query_options)
        is_far = np.isnan(numbers)
        found = gather(self._data, np.where(is_far, 0, numbers).astype(np.int64))
        if not is_far.any():
            return found
        mask = is_far.reshape(*is_far.shape, *[1] * (self._data.ndim - 1))
        return choose(as_tensor(mask), np.nan, found)


hold(NearestNDInterpolatorTensor, lambda held: [held._data], _unchanged)
