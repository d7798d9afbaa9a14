"""NumPy's functions on polynomials, whose coefficients stand from the highest power down."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pullback._generated import functions_creation as creation
from pullback._generated import functions_linalg as linalg
from pullback._generated import functions_pointwise as pointwise
from pullback._generated import functions_products as products
from pullback._generated import functions_reduction as reduction
from pullback._generated import functions_shape as shape
from pullback.interop.adapt import typed
from pullback.interop.arguments import as_tensor, raw
from pullback.interop.spectra import eigvals
from pullback.operators.shape import functions_padding as padding
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub"]
__all__ += ["polyval", "roots"]


def _coefficients(p: Any) -> Any:
    """At least one axis; a ``poly1d`` has its coefficients as its array."""
    tensor = as_tensor(p)
    return tensor if tensor.ndim else shape.reshape(tensor, 1)


def poly(seq_of_zeros: Any) -> Tensor:
    """``numpy.poly``: from roots, or the characteristic polynomial of a matrix."""
    zeros = _coefficients(seq_of_zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        real = zeros.dtype.kind != "c"
        zeros = linalg.linalg_eigvals(zeros)
    elif zeros.ndim == 1:
        real = zeros.dtype.kind != "c" or _come_in_pairs(raw(zeros))
    else:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    kind = zeros.dtype if zeros.dtype.char in "fdFD" else np.dtype(float)
    zeros = typed(zeros, kind)
    result = fresh(np.ones(1, kind))
    for zero in shape.unbind(zeros):
        factor = shape.stack([fresh(np.ones((), kind)), pointwise.negative(zero)])
        result = products.convolve(result, factor)
    return pointwise.real(result) if real and result.dtype.kind == "c" else result


def _come_in_pairs(zeros: Any) -> bool:
    """Whether complex roots are conjugate to each other, so that the polynomial is real."""
    return bool(np.all(np.sort(zeros) == np.sort(zeros.conjugate())))


def polyval(p: Any, x: Any) -> Any:
    """``numpy.polyval``."""
    if isinstance(x, np.poly1d):
        x = x.coeffs
    return products.polyval(_coefficients(p), as_tensor(x))


def _aligned(a1: Any, a2: Any) -> tuple[Any, Any]:
    """Two polynomials with as many coefficients."""
    first, second = _coefficients(a1), _coefficients(a2)
    length = max(first.shape[0], second.shape[0])
    padded = [
        shape.concatenate([fresh(np.zeros(length - p.shape[0], p.dtype)), p])
        for p in (first, second)
    ]
    return padded[0], padded[1]


def polyadd(a1: Any, a2: Any) -> Any:
    """``numpy.polyadd``."""
    first, second = _aligned(a1, a2)
    return first + second


def polysub(a1: Any, a2: Any) -> Any:
    """``numpy.polysub``."""
    first, second = _aligned(a1, a2)
    return first - second


def polymul(a1: Any, a2: Any) -> Any:
    """``numpy.polymul``."""
    return products.convolve(_without_zeros(a1), _without_zeros(a2))


def _without_zeros(p: Any) -> Tensor:
    """Coefficients without the leading zeros; one always stays."""
    tensor: Tensor = _coefficients(p)
    while tensor.shape[0] > 1 and not bool(tensor[0] != 0):
        tensor = tensor[1:]
    return tensor


def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """``numpy.polydiv``: quotient and remainder."""
    rest, divisor = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    steps = rest.shape[0] - divisor.shape[0] + 1
    if steps < 1:
        kind = np.result_type(rest.dtype, divisor.dtype)
        return fresh(np.zeros(1, kind)), _trimmed(rest)
    quotient = []
    for step in range(steps):
        factor = rest[step] / divisor[0]
        quotient.append(factor)
        after = rest.shape[0] - step - divisor.shape[0]
        rest = rest - padding.pad(factor * divisor, (step, after))
    return shape.stack(quotient), _trimmed(rest)


def _trimmed(rest: Tensor) -> Tensor:
    """A remainder without leading coefficients that are nearly zero; one always stays."""
    values = raw(rest)
    first = 0
    while first < values.shape[0] - 1 and np.allclose(values[first], 0, rtol=1e-14):
        first += 1
    return rest[first:]


def polyder(p: Any, m: int = 1) -> Any:
    """``numpy.polyder``."""
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    result = _coefficients(p)
    for _ in range(m):
        n = result.shape[0] - 1
        result = result[:-1] * fresh(np.arange(n, 0, -1))
    return result


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """``numpy.polyint``; gradients pass to the constants `k` too."""
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = as_tensor(0.0 if k is None else k)
    constants = shape.reshape(constants, -1)
    if constants.shape[0] == 1 and m > 1:
        constants = shape.repeat(constants, m)
    if constants.shape[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    result = _coefficients(p)
    for step in range(m):
        n = result.shape[0]
        raised = result / fresh(np.arange(n, 0, -1))
        result = shape.concatenate([raised, constants[step : step + 1]])
    return result


def roots(p: Any) -> Tensor:
    """``numpy.roots``: the eigenvalues of the companion matrix, and zeros."""
    given = _coefficients(p)
    if given.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    places = np.flatnonzero(raw(given))
    if not places.size:
        return fresh(np.array([]))
    zeros = given.shape[0] - 1 - int(places[-1])
    core = given[int(places[0]) : int(places[-1]) + 1] + 0.0
    n = core.shape[0] - 1
    found = fresh(np.array([]))
    if n:
        below = fresh(np.eye(n - 1, n, dtype=core.dtype))
        first = shape.reshape(pointwise.negative(core[1:]) / core[0], (1, n))
        found = eigvals(shape.concatenate([first, below]))
    return shape.concatenate([found, fresh(np.zeros(zeros, found.dtype))]) if zeros else found


def polyfit(
    x: Any,
    y: Any,
    deg: Any,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
) -> Any:
    """``numpy.polyfit``: least squares, with columns scaled to length one as NumPy does."""
    points, values = as_tensor(x) + 0.0, as_tensor(y) + 0.0
    powers = int(deg) + 1
    if points.ndim != 1 or not points.size or values.ndim not in (1, 2):
        raise TypeError("expected 1D, non-empty vector for x and 1D or 2D array for y")
    if points.shape[0] != values.shape[0]:
        raise TypeError("expected x and y to have same length")
    rcond = points.shape[0] * np.finfo(points.dtype).eps if rcond is None else rcond
    left: Any = creation.vander(points, powers)
    if w is not None:
        weights = as_tensor(w)
        if weights.ndim != 1 or weights.shape[0] != points.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * shape.reshape(weights, (-1, 1))
        values = values * (weights if values.ndim == 1 else shape.reshape(weights, (-1, 1)))
    scale = pointwise.sqrt(reduction.sum(left * left, 0))
    solution, residues, rank, singular = linalg.linalg_lstsq(left / scale, values, rcond)
    solution = solution / (scale if values.ndim == 1 else shape.reshape(scale, (-1, 1)))
    if rank.item() != powers and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=3)
    if full:
        return solution, residues, rank, singular, rcond
    return (solution, _covariance(left, scale, values, residues, cov)) if cov else solution


def _covariance(left: Any, scale: Any, values: Any, residues: Any, cov: Any) -> Any:
    """The covariance matrix of the coefficients."""
    scaled = left / scale
    inverse = linalg.linalg_inv(products.matmul(shape.permute_dims(scaled), scaled))
    base = inverse / products.outer(scale, scale)
    factor: Any = 1
    if not (isinstance(cov, str) and cov == "unscaled"):
        free = values.shape[0] - left.shape[1]
        if free <= 0:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance matrix"
            )
        factor = residues / free
    if values.ndim == 1:
        return base * factor
    return shape.expand_dims(base, -1) * factor
