"""Rules of the linear filters of ``scipy.ndimage``, by image and by weights.

A filter extends the image beyond its borders, and correlates. Its transpose correlates a longer
image of zeros with the reversed weights, and adds what lies beyond the borders to the pixels from
which the extension took its values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeVar

import numpy as np
import scipy.ndimage as theirs
from numpy.typing import NDArray

from pullback.autograd.namespaces import tensors as xp
from pullback.errors import DataDependentError
from pullback.func.bilinear import Bilinear, sum_of_products
from pullback.func.primitive import apply_linear, conjugate
from pullback.interop.arguments import as_tensor
from pullback.scipy.conversions import as_double, as_floating
from pullback.scipy.registry import option_without_rule, rule
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = [
    "correlate_axis",
    "declare",
    "is_zero",
    "number_of",
    "require_axis",
    "sequence_of",
]

_Array = NDArray[Any]
_Rule = Callable[..., Any]
_Declared = TypeVar("_Declared", bound=_Rule)


# --- arguments ------------------------------------------------------------------------------------


def declare(name: str, tensors: str) -> Callable[[_Declared], _Declared]:
    """Declares the rule of ``scipy.ndimage.<name>``, which gets all arguments but `output`.

    An array in `output` is refused; a dtype is that of the result. Otherwise the result has the
    dtype of the input, which must not be an integer: rounding has no derivative.
    """
    full = f"scipy.ndimage.{name}"

    def declare_rule(function: _Declared) -> _Declared:
        @rule(full, tensors=tensors)
        def apply(input: Any, output: Any, **options: Any) -> Any:
            given = as_tensor(input)
            if isinstance(output, np.ndarray | Tensor):
                raise option_without_rule(full, "output", "an array")
            dtype = given.dtype if output is None else np.dtype(output)
            if dtype.kind not in "fc":
                raise option_without_rule(full, "output", dtype)
            found = function(as_floating(given), **options)
            if found.dtype.kind == "c" and dtype.kind != "c":
                if isinstance(output, str):
                    raise RuntimeError("output must have complex dtype")
                if output is not None:
                    warnings.warn("promoting specified output dtype to complex", stacklevel=7)
                dtype = np.result_type(dtype, np.complex64)
            return found if found.dtype == dtype else xp.astype(found, dtype)

        return function

    return declare_rule


def is_zero(value: Any) -> bool:
    """Whether an argument is the constant 0."""
    return not isinstance(value, Tensor) and np.ndim(value) == 0 and value == 0


def number_of(name: str, value: Any) -> float:
    """The value of an argument that decides about shapes."""
    if isinstance(value, Tensor):
        if isinstance(value._array, Payload):
            raise DataDependentError(f"vmap: {name} cannot depend on the sample")
        value = value._array
    return float(value)


def sequence_of(value: Any, count: int) -> list[Any]:
    """An argument for each axis."""
    is_many = isinstance(value, list | tuple) or (
        isinstance(value, np.ndarray | Tensor) and value.ndim > 0
    )
    if not is_many:
        return [value] * count
    if len(value) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return [value[place] for place in range(count)]


def require_axis(axis: int, ndim: int) -> None:
    """Raises NumPy's error for an axis that an array does not have."""
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)


def _axes_of(axes: Any, ndim: int) -> list[int]:
    if axes is None:
        return list(range(ndim))
    axes = [axes] if np.isscalar(axes) else list(axes)
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"specified axis: {axis} is out of range")
    found = [int(axis) % ndim for axis in axes]
    if len(set(found)) != len(found):
        raise ValueError("axes must be unique")
    return found


# --- borders --------------------------------------------------------------------------------------


def _sources(mode: str, n: int, before: int, after: int) -> _Array:
    """The pixel that each one of an extended line is taken from; -1 for the constant."""
    place = np.arange(-before, n + after)
    if mode in ("reflect", "grid-mirror"):
        place = place % (2 * n)
        return np.where(place < n, place, 2 * n - 1 - place)
    if mode == "mirror":
        place = place % max(2 * n - 2, 1)
        return np.where(place < n, place, 2 * n - 2 - place)
    if mode in ("wrap", "grid-wrap"):
        return place % n
    if mode == "nearest":
        return np.clip(place, 0, n - 1)
    if mode not in ("constant", "grid-constant"):
        raise RuntimeError("boundary mode not supported")
    return np.where((place < 0) | (place >= n), -1, place)


def _extend(x: _Array, axis: int, mode: str, before: int, after: int) -> Any:
    if not before and not after:
        return x
    sources = _sources(mode, x.shape[axis], before, after)
    found = np.take(x, sources, axis)
    if (sources < 0).any():
        np.moveaxis(found, axis, 0)[sources < 0] = 0
    return found


def _fold(longer: _Array, axis: int, mode: str, before: int, after: int) -> Any:
    """The transpose of `_extend`."""
    if not before and not after:
        return longer
    n = longer.shape[axis] - before - after
    lines = np.moveaxis(longer, axis, 0)
    found = np.moveaxis(lines[before : before + n].copy(), 0, axis)
    inner = np.moveaxis(found, axis, 0)
    sources = _sources(mode, n, before, after)
    for place in (*range(before), *range(before + n, len(lines))):
        if sources[place] >= 0:
            inner[sources[place]] += lines[place]
    return found


def _widths(shape: Sequence[int], origins: Sequence[int]) -> list[tuple[int, int]]:
    """The reach of a filter before and after each pixel, along each axis."""
    before = [n // 2 + origin for n, origin in zip(shape, origins, strict=True)]
    return [(b, n - 1 - b) for n, b in zip(shape, before, strict=True)]


def _transpose(
    y: _Array, shape: Sequence[int], mode: str, origins: Sequence[int], run: _Rule
) -> Any:
    """``run(longer, origins)`` filters with reversed weights; what it gives is folded."""
    longer = np.zeros([n + m - 1 for n, m in zip(y.shape, shape, strict=True)], y.dtype)
    longer[tuple(slice(n) for n in y.shape)] = y
    found = run(longer, [(m - 1) // 2 for m in shape])
    for axis, (before, after) in enumerate(_widths(shape, origins)):
        found = _fold(found, axis, mode, before, after)
    return found


# --- the correlation ------------------------------------------------------------------------------


def _run(x: _Array, w: _Array, mode: str, origins: Sequence[int]) -> Any:
    """SciPy's correlation, without conjugation; along one axis if the weights are a line."""
    w = w.conj() if w.dtype.kind == "c" else w
    long = [axis for axis, n in enumerate(w.shape) if n > 1]
    if len(long) > 1 or any(origins[axis] for axis in range(w.ndim) if axis not in long):
        return theirs.correlate(x, w, mode=mode, origin=list(origins))
    axis = long[0] if long else 0
    return theirs.correlate1d(x, w.ravel(), axis, mode=mode, origin=origins[axis])


def _forward(x: _Array, w: _Array, mode: str, origins: Any, shape: Any) -> Any:
    del shape
    return _run(x, w, mode, origins)


def _to_image(w: _Array, y: _Array, mode: str, origins: Any, shape: Any) -> Any:
    reverse = np.flip(w)
    return _transpose(y, shape, mode, origins, lambda v, o: _run(v, reverse, "constant", o))


def _to_weights(x: _Array, y: _Array, mode: str, origins: Any, shape: Any) -> Any:
    """The product of y with the extended image, shifted to each of the weights."""
    for axis, (before, after) in enumerate(_widths(shape, origins)):
        x = _extend(x, axis, mode, before, after)
    found = np.zeros(shape, np.result_type(x, y))
    for place in product(*map(range, shape)):
        part = x[tuple(slice(at, at + n) for at, n in zip(place, y.shape, strict=True))]
        found[place] = sum_of_products(part, y)
    return found


_CORRELATE = Bilinear("scipy.ndimage.correlate", _forward, _to_image, _to_weights)


def _correlate_all(x: Any, w: Any, mode: str, cval: Any, origins: Sequence[int]) -> Any:
    """The correlation with weights for all axes; a constant border is shifted to zero."""
    _sources(mode, 1, 0, 0)  # raises for unknown modes
    if not isinstance(cval, Tensor) and not np.isfinite(cval):
        raise option_without_rule("scipy.ndimage", "cval", cval)
    shape = tuple(w.shape)
    if mode not in ("constant", "grid-constant") or is_zero(cval):
        return _CORRELATE(x, w, mode=mode, origins=tuple(origins), shape=shape)
    shifted = _CORRELATE(x - cval, w, mode=mode, origins=tuple(origins), shape=shape)
    found = shifted + cval * xp.sum(w)
    return found if found.dtype == shifted.dtype else xp.astype(found, shifted.dtype)


def correlate_axis(
    x: Any, weights: Any, axis: int, mode: str, cval: Any = 0.0, origin: int = 0
) -> Any:
    """The correlation along an axis; complex weights are not conjugated."""
    x, w = as_tensor(x), as_tensor(weights)
    if w.ndim != 1 or not len(w):
        raise RuntimeError("no filter weights given")
    require_axis(axis, x.ndim)
    _require_origin(origin, len(w))
    w = w if w.dtype.kind == "c" else xp.astype(w, np.float64)
    shape, origins = [1] * x.ndim, [0] * x.ndim
    shape[axis], origins[axis] = len(w), origin
    return _correlate_all(x, xp.reshape(w, shape), mode, cval, origins)


def _require_origin(origin: int, n: int) -> None:
    if not -(n // 2) <= origin <= (n - 1) // 2:
        raise ValueError(
            "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= "
            "(len(weights)-1) // 2"
        )


@declare("correlate1d", "input weights cval")
def _correlate1d(input: Any, weights: Any, axis: int, mode: str, cval: Any, origin: int) -> Any:
    return correlate_axis(input, conjugate(as_tensor(weights)), axis, mode, cval, origin)


@declare("convolve1d", "input weights cval")
def _convolve1d(input: Any, weights: Any, axis: int, mode: str, cval: Any, origin: int) -> Any:
    reverse = xp.flip(as_tensor(weights), [0])
    return correlate_axis(input, reverse, axis, mode, cval, -origin - (1 - len(reverse) % 2))


def _declare_all_axes(name: str, *, is_convolution: bool) -> None:
    @declare(name, "input weights cval")
    def apply(input: Any, weights: Any, mode: str, cval: Any, origin: Any, axes: Any = None) -> Any:
        if not isinstance(mode, str):
            raise RuntimeError("A sequence of modes is not supported")
        places = _axes_of(axes, input.ndim)
        weights = as_tensor(weights)
        if weights.ndim != len(places):
            raise RuntimeError(
                f"weights.ndim ({weights.ndim}) must match len(axes) ({len(places)})"
            )
        weights = weights if weights.dtype.kind == "c" else xp.astype(weights, np.float64)
        shape, origins = [1] * input.ndim, [0] * input.ndim
        for axis, n in zip(sorted(places), weights.shape, strict=True):
            shape[axis] = n
        for axis, start in zip(places, sequence_of(origin, len(places)), strict=True):
            shift = 1 - shape[axis] % 2
            origins[axis] = -int(start) - shift if is_convolution else int(start)
            _require_origin(origins[axis], shape[axis])
        if is_convolution:
            weights = xp.flip(weights, list(range(weights.ndim)))
        else:
            weights = conjugate(weights)
        return _correlate_all(input, xp.reshape(weights, shape), mode, cval, origins)


_declare_all_axes("correlate", is_convolution=False)
_declare_all_axes("convolve", is_convolution=True)

# --- means, Gaussians and differences -------------------------------------------------------------


@declare("uniform_filter1d", "input cval")
def _uniform_axis(x: Any, size: int, axis: int, mode: str, cval: Any, origin: int) -> Any:
    """The mean along an axis by SciPy's running sums."""
    _sources(mode, 1, 0, 0)
    if size < 1:
        raise RuntimeError("incorrect filter size")
    if not 0 <= size // 2 + origin < size:
        raise ValueError("invalid origin")
    if mode in ("constant", "grid-constant") and not is_zero(cval):
        return _uniform_axis(x - cval, size, axis, mode, 0.0, origin) + cval
    place = axis % x.ndim
    shape = tuple(size if a == place else 1 for a in range(x.ndim))
    origins = tuple(origin if a == place else 0 for a in range(x.ndim))

    def run(v: _Array, mode: str, origin: int) -> Any:
        return theirs.uniform_filter1d(v, size, place, mode=mode, origin=origin)

    def transpose(y: _Array) -> Any:
        return _transpose(y, shape, mode, origins, lambda v, o: run(v, "constant", o[place]))

    return apply_linear(x, lambda v: run(v, mode, origin), transpose)


@declare("uniform_filter", "input cval")
def _uniform_filter(
    input: Any, size: Any, mode: Any, cval: Any, origin: Any, axes: Any = None
) -> Any:
    places = _axes_of(axes, input.ndim)
    options = (sequence_of(value, len(places)) for value in (size, mode, origin))
    for axis, n, border, start in zip(places, *options, strict=True):
        if n > 1:
            input = _uniform_axis(input, int(n), axis, border, cval, start)
    return input


def _gaussian_weights(sigma: Any, order: int, radius: int) -> Any:
    """The normalized Gaussian, times the polynomial of its derivative of an order."""
    if order < 0:
        raise ValueError("order must be non-negative")
    x = np.arange(-radius, radius + 1.0)
    sigma = as_double(sigma)
    precision = 1.0 / (sigma * sigma)
    weights = xp.exp(-0.5 * precision * x**2)
    weights = weights / xp.sum(weights)
    factors: list[Any] = [1.0]  # coefficients of the polynomial
    for _ in range(order):
        longer = [0.0, *factors, 0.0]  # q' - q x / sigma^2
        slopes = [*[k * factor for k, factor in enumerate(factors)][1:], 0.0, 0.0]
        factors = [s - precision * q for s, q in zip(slopes, longer, strict=False)]
    return weights * sum(factor * x**k for k, factor in enumerate(factors)) if order else weights


@declare("gaussian_filter1d", "input sigma cval")
def _gaussian_axis(
    x: Any, sigma: Any, axis: int, order: int, mode: str, cval: Any, truncate: float, radius: Any
) -> Any:
    if radius is None:
        radius = int(float(truncate) * number_of("sigma", sigma) + 0.5)
    if radius < 0 or int(radius) != radius:
        raise ValueError("Radius must be a nonnegative integer.")
    weights = xp.flip(_gaussian_weights(sigma, order, int(radius)), [0])
    return correlate_axis(x, weights, axis, mode, cval)


@declare("gaussian_filter", "input sigma cval")
def _gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any,
    mode: Any,
    cval: Any,
    truncate: float = 4.0,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    places = _axes_of(axes, input.ndim)
    options = (sequence_of(value, len(places)) for value in (sigma, order, mode, radius))
    for axis, width, degree, border, reach in zip(places, *options, strict=True):
        if isinstance(width, Tensor) or width > 1e-15:
            input = _gaussian_axis(input, width, axis, degree, border, cval, truncate, reach)
    return input


def _declare_edges(name: str, smoothing: list[float]) -> None:
    @declare(name, "input cval")
    def apply(input: Any, axis: int, mode: Any, cval: Any) -> Any:
        require_axis(axis, input.ndim)
        modes = sequence_of(mode, input.ndim)
        place = axis % input.ndim
        found = correlate_axis(input, [-1.0, 0.0, 1.0], place, modes[place], cval)
        for other in range(input.ndim):
            if other != place:
                found = correlate_axis(found, smoothing, other, modes[other], cval)
        return found


_declare_edges("prewitt", [1.0, 1.0, 1.0])
_declare_edges("sobel", [1.0, 2.0, 1.0])


def _sum_over_axes(x: Any, part: _Rule, mode: Any, axes: Any) -> Any:
    """The sum of ``part(axis, mode)`` over axes."""
    places = _axes_of(axes, x.ndim)
    pairs = zip(places, sequence_of(mode, len(places)), strict=True)
    parts = [part(axis, border) for axis, border in pairs]
    return sum(parts[1:], parts[0]) if parts else x


def _magnitude(total: Any) -> Any:
    """The square root, with slope 0 where the image is flat."""
    is_flat = total == 0.0
    return xp.where(is_flat, 0.0 * total, xp.sqrt(xp.where(is_flat, 1.0 + 0.0 * total, total)))


@declare("laplace", "input cval")
def _laplace(input: Any, mode: Any, cval: Any, axes: Any = None) -> Any:
    return _sum_over_axes(
        input, lambda axis, m: correlate_axis(input, [1.0, -2.0, 1.0], axis, m, cval), mode, axes
    )


def _gaussian_parts(input: Any, order: int, axes: Any, options: dict[str, Any]) -> list[Any]:
    """Gaussian derivatives of an order along each axis."""
    places = _axes_of(axes, input.ndim)
    found = []
    for axis in range(len(places)):
        orders = [order if other == axis else 0 for other in range(len(places))]
        found.append(_gaussian_filter(input, order=orders, axes=places, **options))
    return found


@declare("gaussian_laplace", "input sigma cval")
def _gaussian_laplace(input: Any, axes: Any = None, **options: Any) -> Any:
    parts = _gaussian_parts(input, 2, axes, options)
    return sum(parts[1:], parts[0]) if parts else input


@declare("gaussian_gradient_magnitude", "input sigma cval")
def _gaussian_gradient_magnitude(input: Any, axes: Any = None, **options: Any) -> Any:
    squares = [part * part for part in _gaussian_parts(input, 1, axes, options)]
    return _magnitude(sum(squares[1:], squares[0])) if squares else input


def _declare_generic(name: str, callback: str, inner: _Rule, outer: _Rule) -> None:
    @declare(name, "input cval")
    def apply(
        input: Any,
        mode: Any,
        cval: Any,
        extra_arguments: tuple[Any, ...],
        extra_keywords: Any,
        axes: Any = None,
        **callbacks: _Rule,
    ) -> Any:
        derivative, options = callbacks[callback], extra_keywords or {}

        def part(axis: int, border: str) -> Any:
            found = derivative(input, axis, input.dtype, border, cval, *extra_arguments, **options)
            if not isinstance(found, Tensor):
                raise option_without_rule(f"scipy.ndimage.{name}", callback, derivative)
            return inner(found)

        return outer(_sum_over_axes(input, part, mode, axes))


_declare_generic("generic_laplace", "derivative2", lambda part: part, lambda total: total)
_declare_generic("generic_gradient_magnitude", "derivative", lambda part: part * part, _magnitude)
