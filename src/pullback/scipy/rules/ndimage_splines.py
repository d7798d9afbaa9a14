"""Rules of the interpolation of ``scipy.ndimage``, by image and by coordinates.

An image is filtered to the coefficients of a spline, which is a linear map, and the spline is
evaluated at coordinates. `_EVALUATE` gives values and partial derivatives, `_SPREAD` its transpose
by the coefficients; they are each other's derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.ndimage as theirs
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import cosdg, sindg

from pullback.autograd.namespaces import tensors as xp
from pullback.func.primitive import Known, Primitive, apply_linear, conjugate
from pullback.interop.arguments import as_tensor
from pullback.operators.shape.functions_padding import pad
from pullback.scipy.conversions import as_float
from pullback.scipy.registry import option_without_rule
from pullback.scipy.rules.ndimage_filters import (
    declare,
    is_zero,
    number_of,
    require_axis,
    sequence_of,
)
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]
_Shape = tuple[int, ...]
_Orders = tuple[tuple[int, ...], ...]  # for each result, the order of the derivative by each axis
_MODES = {
    *("constant", "grid-constant", "grid-mirror", "grid-wrap", "mirror", "nearest", "reflect"),
    "wrap",
}
_PAD = 12  # pixels that SciPy adds where the border of the filter is not that of the mode
_BLOCK = 1 << 16  # coefficients read at a time: they stay in the cache
_SHORT = 48  # pixels of a line whose filter SciPy begins inexactly

# --- coefficients ---------------------------------------------------------------------------------


def _filter_axis(x: Any, order: int, axis: int, mode: str) -> Any:
    """The coefficients along an axis; the transpose is the same filter, with other end weights."""
    n = x.shape[axis]
    if order < 2 or n < 2:
        return x

    def run(v: _Array) -> Any:
        return theirs.spline_filter1d(v, order, axis, v.dtype, mode)

    def transpose(y: _Array) -> Any:
        if n <= _SHORT:
            matrix = theirs.spline_filter1d(np.eye(n), order, 0, np.float64, mode)
            return np.moveaxis(np.moveaxis(y, axis, -1) @ matrix, -1, axis)
        if mode in ("reflect", "grid-mirror", "nearest", "grid-wrap"):
            return run(y)
        shape = [1] * y.ndim
        shape[axis] = n
        weights = np.ones(n)
        weights[[0, -1]] = 2.0
        weights = weights.reshape(shape)
        return run(y * weights) / weights

    return apply_linear(x, run, transpose)


def _require_order(order: int, lowest: int = 0) -> None:
    if not lowest <= order <= 5:
        raise RuntimeError("spline order not supported")


def _require_mode(mode: str) -> None:
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")


@declare("spline_filter1d", "input")
def _spline_filter1d(input: Any, order: int, axis: int, mode: str) -> Any:
    _require_order(order)
    _require_mode(mode)
    require_axis(axis, input.ndim)
    return _filter_axis(as_float(input), order, axis % input.ndim, mode)


@declare("spline_filter", "input")
def _spline_filter(input: Any, order: int, mode: str) -> Any:
    _require_order(order, 2)
    _require_mode(mode)
    found = as_float(input)
    for axis in range(input.ndim):
        found = _filter_axis(found, order, axis, mode)
    return found


# --- evaluation -----------------------------------------------------------------------------------


class _Line(NamedTuple):
    """The coefficients along an axis that points read, and their weights."""

    places: _Array  # for each of the order + 1 coefficients
    weights: dict[int, _Array]  # of each derivative


def _fold_coordinate(at: _Array, n: int, mode: str) -> tuple[_Array, Any]:
    """Coordinates inside of the image, and their slopes by the given ones."""
    if mode in ("grid-constant", "nearest"):  # coefficients continue there
        return at, 1.0
    if mode == "constant":
        is_outside = (at < 0) | (at > n - 1)
        return np.clip(at, 0, n - 1), np.where(is_outside, 0.0, 1.0)
    if n == 1:
        return np.zeros_like(at), 0.0
    if mode == "wrap":  # the last pixel lies on the first; both ends belong to the image
        inside = np.where(at < 0, at + (n - 1) * (np.trunc(-at / (n - 1)) + 1), at)
        return np.where(at > n - 1, at - (n - 1) * np.trunc(at / (n - 1)), inside), 1.0
    if mode == "grid-wrap":
        return np.where((at < 0) | (at > n - 1), at % n, at), 1.0
    if mode == "mirror":
        turned = at % (2 * n - 2)
        is_back = turned > n - 1
        return np.where(is_back, 2 * n - 2 - turned, turned), np.where(is_back, -1.0, 1.0)
    turned = (at + 0.5) % (2 * n) - 0.5
    is_back = turned > n - 0.5
    return np.where(is_back, 2 * n - 1 - turned, turned), np.where(is_back, -1.0, 1.0)


def _basis(order: int, fraction: _Array, derivative: int) -> list[Any]:
    """The B-splines that are not zero at a point, by the recursion of Cox and de Boor."""
    values: list[Any] = [np.ones_like(fraction)]
    if derivative > order:
        return [np.zeros_like(fraction)] * (order + 1)
    for n in range(1, order - derivative + 1):
        before = [0.0, *values, 0.0]
        values = [
            ((fraction + (n - k)) * before[k] + (k + 1 - fraction) * before[k + 1]) / n
            for k in range(n + 1)
        ]
    for _ in range(derivative):
        before = [0.0, *values, 0.0]
        values = [before[k] - before[k + 1] for k in range(len(values) + 1)]
    return values


def _line(at: _Array, n: int, order: int, mode: str, derivatives: set[int]) -> _Line:
    inside, slope = _fold_coordinate(at, n, mode)
    from_left = inside if order % 2 else inside + 0.5
    start = np.floor(from_left)
    places = start.astype(np.intp) + (np.arange(order + 1) - order // 2)[:, None]
    fraction = from_left - start
    weights = {
        d: np.stack(_basis(order, fraction, d)) * (slope**d if d else 1.0) for d in derivatives
    }
    unused: Any = None
    if mode == "grid-constant":
        unused = (places < 0) | (places >= n)
    elif mode == "constant":
        unused = (at < 0) | (at > n - 1)
    if unused is not None:
        weights = {d: np.where(unused, 0.0, w) for d, w in weights.items()}
    return _Line(_fold_places(places, n, mode), weights)


def _fold_places(places: _Array, n: int, mode: str) -> _Array:
    """The coefficients that continue those of the image beyond its borders."""
    if n == 1 or mode in ("grid-constant", "nearest"):
        return np.clip(places, 0, n - 1)
    if mode == "grid-wrap":
        return places % n
    period = 2 * n if mode in ("reflect", "grid-mirror") else 2 * n - 2
    places = places % period
    return np.where(places < n, places, period - places - (1 if period == 2 * n else 0))


class _Block(NamedTuple):
    """A block of points: the coefficients that they read, an axis of taps for each of the image."""

    points: slice
    places: _Array  # in the flat coefficients
    lines: list[_Line]


def _blocks(coordinates: _Array, shape: _Shape, order: int, mode: str, orders: _Orders) -> Any:
    """The blocks of all points; a block is small enough for the cache."""
    count, size = coordinates.shape[1], max(_BLOCK // (order + 1) ** len(shape), 1)
    for first in range(0, count, size):
        points = slice(first, first + size)
        lines = [
            _line(at[points], n, order, mode, {wanted[axis] for wanted in orders})
            for axis, (at, n) in enumerate(zip(coordinates, shape, strict=True))
        ]
        places: Any = lines[0].places
        for line, n in zip(lines[1:], shape[1:], strict=True):
            places = places[..., None, :] * n + line.places
        yield _Block(points, places, lines)


def _evaluate(
    c: _Array, coordinates: _Array, order: int, mode: str, orders: _Orders, shape: _Shape
) -> Any:
    if not any(map(any, orders)):
        options = {"order": order, "mode": mode, "prefilter": False, "output": c.dtype}
        return theirs.map_coordinates(c, coordinates, **options)[None]
    flat = np.ascontiguousarray(c).ravel()
    found = np.empty((len(orders), coordinates.shape[1]), c.dtype)
    for block in _blocks(coordinates, shape, order, mode, orders):
        values = flat[block.places]
        for number, wanted in enumerate(orders):
            part = values
            for line, derivative in zip(block.lines[::-1], wanted[::-1], strict=True):
                part = np.einsum("...kn,kn->...n", part, line.weights[derivative])
            found[number, block.points] = part
    return found


def _spread(
    y: _Array, coordinates: _Array, order: int, mode: str, orders: _Orders, shape: _Shape
) -> Any:
    size = int(np.prod(shape))
    parts = [y.real, y.imag] if y.dtype.kind == "c" else [y]
    found = np.zeros((len(parts), size))
    for block in _blocks(coordinates, shape, order, mode, orders):
        low, high = int(block.places.min(initial=size)), int(block.places.max(initial=-1)) + 1
        places = (block.places - low).ravel()
        for part, total in zip(parts, found, strict=True):
            given: Any = 0.0
            for number, wanted in enumerate(orders):
                weights = block.lines[0].weights[wanted[0]] * part[number, block.points]
                for line, derivative in zip(block.lines[1:], wanted[1:], strict=True):
                    weights = weights[..., None, :] * line.weights[derivative]
                given = given + weights
            total[low:high] += np.bincount(places, given.ravel(), max(high - low, 0))
    return (found[0] if len(parts) == 1 else found[0] + 1j * found[1]).reshape(shape)


def _raise_orders(orders: _Orders) -> _Orders:
    """The derivatives of each result by each coordinate."""
    return tuple(
        tuple(d + (axis == by) for axis, d in enumerate(wanted))
        for wanted in orders
        for by in range(len(wanted))
    )


def _slopes(c: Any, coordinates: Any, options: dict[str, Any]) -> Any:
    """The derivatives of each result by each coordinate: (results, coordinates, points)."""
    orders = options["orders"]
    found = _EVALUATE(c, coordinates, **{**options, "orders": _raise_orders(orders)})
    return xp.reshape(found, [len(orders), *coordinates.shape])


def _by_coordinates(c: Any, coordinates: Any, y: Any, options: dict[str, Any]) -> Any:
    """The cotangent of the coordinates of ``sum(y * evaluate(c, coordinates))``."""
    slopes = _slopes(c, coordinates, options)
    found = xp.sum(conjugate(slopes) * xp.expand_dims(y, 1), 0)
    return xp.real(found) if found.dtype.kind == "c" else found


def _spread_slopes(y: Any, coordinates: Any, tangent: Any, options: dict[str, Any]) -> Any:
    """The transpose of the slopes along the tangent of the coordinates."""
    products = xp.expand_dims(y, 1) * xp.expand_dims(tangent, 0)
    options = {**options, "orders": _raise_orders(options["orders"])}
    return _SPREAD(xp.reshape(products, [-1, y.shape[-1]]), coordinates, **options)


def _evaluate_vjp(known: Known, y: Tensor) -> Any:
    c, coordinates = known.inputs
    by_c = _SPREAD(y, coordinates, **known.options) if known.needs[0] else None
    needs = known.needs[1]
    return by_c, _by_coordinates(c, coordinates, y, known.options) if needs else None


def _evaluate_jvp(known: Known, by_c: Any, by_coordinates: Any) -> Any:
    c, coordinates = known.inputs
    terms = []
    if by_c is not None:
        terms.append(_EVALUATE(by_c, coordinates, **known.options))
    if by_coordinates is not None:
        slopes = _slopes(c, coordinates, known.options)
        terms.append(xp.sum(slopes * xp.expand_dims(by_coordinates, 0), 1))
    return sum(terms[1:], terms[0])


def _spread_vjp(known: Known, c: Tensor) -> Any:
    y, coordinates = known.inputs
    by_y = _EVALUATE(c, coordinates, **known.options) if known.needs[0] else None
    needs = known.needs[1]
    return by_y, _by_coordinates(c, coordinates, y, known.options) if needs else None


def _spread_jvp(known: Known, by_y: Any, by_coordinates: Any) -> Any:
    y, coordinates = known.inputs
    terms = []
    if by_y is not None:
        terms.append(_SPREAD(by_y, coordinates, **known.options))
    if by_coordinates is not None:
        terms.append(_spread_slopes(y, coordinates, by_coordinates, known.options))
    return sum(terms[1:], terms[0])


_EVALUATE = Primitive("scipy.ndimage.map_coordinates", _evaluate, _evaluate_jvp, _evaluate_vjp)
_SPREAD = Primitive("scipy.ndimage.map_coordinates", _spread, _spread_jvp, _spread_vjp)


def _coefficients(c: Any, order: int, mode: str) -> tuple[Any, int]:
    """The coefficients of the spline through an image, and by how much they extend it."""
    width = _PAD if order > 1 and mode in ("nearest", "grid-constant") else 0
    if width:
        c = pad(c, width, mode="edge" if mode == "nearest" else "constant")
    for axis in range(c.ndim):
        c = _filter_axis(c, order, axis, mode)
    return c, width


def _interpolate_axis(c: Any, at: _Array, order: int, axis: int, mode: str) -> Any:
    """The spline along one axis: a product with a sparse matrix."""
    n, count = c.shape[axis], len(at)
    line = _line(at, n, order, mode, {0})
    rows = np.broadcast_to(np.arange(count), line.places.shape)
    entries = (line.weights[0].ravel(), (rows.ravel(), line.places.ravel()))
    matrix = csr_array(entries, shape=(count, n))

    def run(matrix: Any, v: _Array) -> Any:
        moved = np.moveaxis(v, axis, 0)
        found = (matrix @ moved.reshape(len(moved), -1)).reshape(-1, *moved.shape[1:])
        return np.moveaxis(found, 0, axis)

    return apply_linear(c, partial(run, matrix), partial(run, matrix.T.tocsr()))


def _interpolate(
    input: Any, coordinates: Any, order: int, mode: str, cval: Any, prefilter: bool
) -> Any:
    """The spline through an image at coordinates."""
    _require_order(order)
    _require_mode(mode)
    c, shape = as_float(input), coordinates.shape[1:]
    flat = xp.reshape(as_float(coordinates), [c.ndim, -1])
    is_shifted = mode == "grid-constant" and not is_zero(cval)
    if is_shifted:
        c = c - cval
    if prefilter:
        c, width = _coefficients(c, order, mode)
        flat = flat + float(width) if width else flat
    size = tuple(c.shape)
    options = {"order": order, "mode": mode, "orders": ((0,) * c.ndim,), "shape": size}
    found = _EVALUATE(c, flat, **options)[0]
    if is_shifted:
        found = found + cval
    elif mode == "constant" and not is_zero(cval):
        ends = np.array(size)[:, None] - 1
        is_outside = xp.any((flat < 0) | (flat > ends), 0)
        found = xp.where(is_outside, as_tensor(cval) + 0.0 * xp.zeros_like(found), found)
    return xp.reshape(found, list(shape))


# --- the rules ------------------------------------------------------------------------------------


@declare("map_coordinates", "input coordinates cval")
def _map_coordinates(input: Any, coordinates: Any, **spline: Any) -> Any:
    coordinates = as_tensor(coordinates)
    if coordinates.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    if input.ndim < 1 or coordinates.ndim < 2:
        raise RuntimeError("input and output rank must be > 0")
    if coordinates.shape[0] != input.ndim:
        raise RuntimeError("invalid shape for coordinate array")
    return _interpolate(input, coordinates, **spline)


def _mesh(shape: Sequence[int]) -> list[_Array]:
    """The coordinates of the result along each axis, to be broadcast."""
    return list(np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True))


def _stack(parts: Sequence[Any], shape: Sequence[int]) -> Any:
    return xp.stack([xp.broadcast_to(as_float(p), list(shape)) for p in parts])


@declare("affine_transform", "input matrix offset cval")
def _affine_transform(
    input: Any, matrix: Any, offset: Any, output_shape: Any, **spline: Any
) -> Any:
    shape = tuple(input.shape if output_shape is None else output_shape)
    if input.ndim < 1 or len(shape) < 1:
        raise RuntimeError("input and output rank must be > 0")
    matrix, n = as_float(matrix), input.ndim
    if matrix.ndim not in (1, 2) or matrix.shape[0] < 1:
        raise RuntimeError("no proper affine matrix provided")
    if matrix.ndim == 2 and matrix.shape[1] == n + 1 and matrix.shape[0] in (n, n + 1):
        _require_homogeneous(matrix, n)
        matrix, offset = matrix[:n, :n], matrix[:n, n]
    if matrix.shape[0] != n:
        raise RuntimeError("affine matrix has wrong number of rows")
    if matrix.ndim == 2 and matrix.shape[1] != len(shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    mesh, parts = _mesh(shape), []
    for axis, start in enumerate(sequence_of(offset, n)):
        if matrix.ndim == 1:  # as SciPy rounds it
            parts.append((mesh[axis] + as_tensor(start) / matrix[axis]) * matrix[axis])
            continue
        total = as_tensor(start) + 0.0
        for other, at in enumerate(mesh):
            total = total + matrix[axis, other] * at
        parts.append(total)
    return _interpolate(input, _stack(parts, shape), **spline)


def _require_homogeneous(matrix: Any, n: int) -> None:
    if matrix.shape[0] == n + 1:
        last = [number_of("matrix", matrix[n, k]) for k in range(n + 1)]
        if last != [0.0] * n + [1.0]:
            raise ValueError(
                f"Expected homogeneous transformation matrix with shape {tuple(matrix.shape)}, "
                f"but bottom row was {last}"
            )


@declare("shift", "input shift cval")
def _shift(input: Any, shift: Any, **spline: Any) -> Any:
    if input.ndim < 1:
        raise RuntimeError("input and output rank must be > 0")
    pairs = zip(_mesh(input.shape), sequence_of(shift, input.ndim), strict=True)
    coordinates = _stack([at - as_tensor(by) for at, by in pairs], input.shape)
    return _interpolate(input, coordinates, **spline)


@declare("zoom", "input cval")
def _zoom(
    input: Any,
    zoom: Any,
    order: int,
    mode: str,
    cval: Any,
    prefilter: bool,
    grid_mode: bool,
) -> Any:
    _require_order(order)
    _require_mode(mode)
    if input.ndim < 1:
        raise RuntimeError("input and output rank must be > 0")
    if grid_mode and input.dtype.kind == "c":  # which SciPy ignores
        raise option_without_rule("scipy.ndimage.zoom", "grid_mode", grid_mode)
    factors = sequence_of(zoom, input.ndim)
    if all(factor == 1 for factor in factors) and prefilter:
        return input + 0.0
    pairs = zip(input.shape, factors, strict=True)
    shape = tuple(round(n * float(factor)) for n, factor in pairs)
    parts: list[_Array] = []
    for at, n, m in zip(map(np.arange, shape), input.shape, shape, strict=True):
        ends = (n, m) if grid_mode else (n - 1, m - 1)
        step = ends[0] / ends[1] if ends[1] else 1.0
        parts.append((at + 0.5) * step - 0.5 if grid_mode else at * step)
    if is_zero(cval):  # axis by axis
        found, width = as_float(input), 0
        if prefilter:
            found, width = _coefficients(found, order, mode)
        for axis, part in enumerate(parts):
            found = _interpolate_axis(found, part + width, order, axis, mode)
        return found
    coordinates = _stack(np.meshgrid(*parts, indexing="ij", sparse=True), shape)
    return _interpolate(input, coordinates, order, mode, cval, prefilter)


@declare("rotate", "input angle cval")
def _rotate(input: Any, angle: Any, axes: Any, reshape: bool, **spline: Any) -> Any:
    if input.ndim < 2:
        raise ValueError("input array should be at least 2D")
    places = sorted(axis + input.ndim if axis < 0 else axis for axis in axes)
    if len(places) != 2:
        raise ValueError("axes should contain exactly two values")
    if places[0] < 0 or places[1] >= input.ndim:
        raise ValueError("invalid rotation plane specified")
    degrees = as_float(angle) if isinstance(angle, Tensor) else angle
    # exact at quarter turns, where pixels meet the border
    c, s = as_tensor(cosdg(degrees)), as_tensor(sindg(degrees))
    sizes = [input.shape[axis] for axis in places]
    extents = sizes
    if reshape:
        at = number_of("angle", angle)
        turned = np.array([[cosdg(at), sindg(at)], [-sindg(at), cosdg(at)]])
        bounds = turned @ [[0, 0, sizes[0], sizes[0]], [0, sizes[1], 0, sizes[1]]]
        extents = [int(extent + 0.5) for extent in np.ptp(bounds, axis=1)]
    centre = [(n - 1) / 2 for n in extents]
    matrix = xp.stack([xp.stack([c, s]), xp.stack([-s, c])])
    offset = [
        (sizes[0] - 1) / 2 - (c * centre[0] + s * centre[1]),
        (sizes[1] - 1) / 2 - (c * centre[1] - s * centre[0]),
    ]

    def turn(plane: Any) -> Any:
        return _affine_transform(plane, matrix, offset, extents, **spline)

    if input.ndim == 2:
        return turn(input)
    # Each plane for itself, as SciPy does: without `prefilter` a spline would smooth across them.
    planes = xp.moveaxis(input, places, [-2, -1])
    lead = list(planes.shape[:-2])
    planes = xp.reshape(planes, [-1, *sizes])
    found = xp.stack([turn(planes[number]) for number in range(planes.shape[0])])
    return xp.moveaxis(xp.reshape(found, [*lead, *extents]), [-2, -1], places)
