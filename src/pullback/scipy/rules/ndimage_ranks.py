"""Rules of the filters of ``scipy.ndimage`` and ``scipy.signal`` that select a pixel.

The filter runs on the places of the pixels in the sorted image. It commutes with monotone maps, so
its result says which pixel was selected, and the value is gathered from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage as theirs
from numpy.typing import NDArray

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor
from pullback.scipy.batches import call_on_values
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.ndimage_filters import declare
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

_Array = NDArray[Any]


def _select(name: str, x: Any, cval: Any, run: Callable[[_Array, float], Any]) -> Any:
    """The pixels that ``run(ranks, rank of cval)`` selects; the constant comes after the last."""
    if x.dtype.kind == "c":
        raise TypeError("Complex type not supported")

    def selected(image: _Array, constant: Any) -> Any:
        flat = image.ravel()
        order = np.argsort(flat)  # ties in any order: four times as fast
        ranks = np.empty(flat.size)
        ranks[order] = np.arange(flat.size)
        beyond = np.searchsorted(flat, constant, sorter=order) - 0.5
        found = np.asarray(run(ranks.reshape(image.shape), float(beyond)))
        place = found.astype(np.intp)
        return np.append(order, flat.size)[np.where(found == place, place, flat.size)]

    index = as_tensor(call_on_values(name, selected, (x, cval), {}))
    last = xp.reshape(xp.astype(as_tensor(cval), x.dtype), [1])
    values = xp.concatenate([xp.reshape(x, [-1]), last], 0)
    return xp.reshape(xp.take(values, xp.reshape(index, [-1])), list(index.shape))


_FILTERS = """
    minimum_filter maximum_filter minimum_filter1d maximum_filter1d median_filter rank_filter
    percentile_filter grey_erosion grey_dilation grey_opening grey_closing
"""


def _selecting(name: str) -> Callable[..., Any]:
    """Declares a filter that selects pixels."""

    @declare(name, "input cval")
    def apply(input: Any, cval: Any, structure: Any = None, **options: Any) -> Any:
        if structure is not None:
            raise option_without_rule(f"scipy.ndimage.{name}", "structure", "an array")

        def run(ranks: _Array, beyond: float) -> Any:
            return getattr(theirs, name)(ranks, cval=beyond, **options)

        return _select(f"scipy.ndimage.{name}", input, cval, run)

    return apply


_RULES = {name: _selecting(name) for name in _FILTERS.split()}


def _declare_combination(name: str, combine: Callable[..., Any]) -> None:
    """Declares a difference of an image and selected pixels."""

    @declare(name, "input cval")
    def apply(input: Any, **options: Any) -> Any:
        return combine(input, lambda filter_name: _RULES[filter_name](input, **options))


_declare_combination("white_tophat", lambda x, run: x - run("grey_opening"))
_declare_combination("black_tophat", lambda x, run: run("grey_closing") - x)
_declare_combination(
    "morphological_gradient", lambda _, run: run("grey_dilation") - run("grey_erosion")
)
_declare_combination(
    "morphological_laplace", lambda x, run: run("grey_dilation") + run("grey_erosion") - 2.0 * x
)

# --- scipy.signal: zeros beyond the border --------------------------------------------------------


def _odd_sizes(kernel_size: Any, ndim: int) -> list[int]:
    sizes = np.asarray(3 if kernel_size is None else kernel_size)
    sizes = np.repeat(sizes.item(), ndim) if sizes.ndim == 0 else sizes
    if len(sizes) != ndim or (sizes % 2 != 1).any():
        raise ValueError("Each element of kernel_size should be odd.")
    return [int(n) for n in sizes]


@rule("scipy.signal.medfilt", tensors="volume")
def _medfilt(volume: Any, kernel_size: Any) -> Any:
    x = as_tensor(volume)
    x = xp.reshape(x, [1]) if x.ndim == 0 else x
    sizes = _odd_sizes(kernel_size, x.ndim)
    return _select(
        "scipy.signal.medfilt",
        x,
        0.0,
        lambda v, zero: theirs.median_filter(v, sizes, mode="constant", cval=zero),
    )


@rule("scipy.signal.medfilt2d", tensors="input")
def _medfilt2d(input: Any, kernel_size: Any) -> Any:
    x = as_tensor(input)
    if x.ndim != 2:
        raise ValueError(f"medfilt2d: input must be two-dimensional, not of shape {x.shape}")
    return _medfilt(x, kernel_size)


@rule("scipy.signal.order_filter", tensors="a")
def _order_filter(a: Any, domain: Any, rank: int) -> Any:
    x, domain = as_tensor(a), np.asarray(domain)
    if any(n % 2 != 1 for n in domain.shape):
        raise ValueError("Each dimension of domain argument should have an odd number of elements.")
    return _select(
        "scipy.signal.order_filter",
        x,
        0.0,
        lambda v, zero: theirs.rank_filter(v, rank, footprint=domain, mode="constant", cval=zero),
    )


# --- labelled regions -----------------------------------------------------------------------------


def _extremum(name: str, input: Any, labels: Any, index: Any) -> Any:
    """The values at the positions of the minima or maxima of regions."""
    x = as_tensor(input)
    find = getattr(theirs, f"{name}_position")

    def position(image: _Array, regions: Any, numbers: Any) -> Any:
        places = find(image, regions, numbers)
        axes = np.moveaxis(np.asarray(places, dtype=np.intp), -1, 0)
        return np.asarray(np.ravel_multi_index(tuple(axes), image.shape))

    where = as_tensor(call_on_values(f"scipy.ndimage.{name}", position, (x, labels, index), {}))
    found: Tensor = xp.take(xp.reshape(x, [-1]), xp.reshape(where, [-1]))
    return xp.reshape(found, list(where.shape))


@rule("scipy.ndimage.minimum", tensors="input")
def _minimum(input: Any, labels: Any, index: Any) -> Any:
    return _extremum("minimum", input, labels, index)


@rule("scipy.ndimage.maximum", tensors="input")
def _maximum(input: Any, labels: Any, index: Any) -> Any:
    return _extremum("maximum", input, labels, index)


@rule("scipy.ndimage.extrema", tensors="input")
def _extrema(input: Any, labels: Any, index: Any) -> Any:
    places = call_on_values("scipy.ndimage.extrema", theirs.extrema, (input, labels, index), {})[2:]
    low, high = (_extremum(name, input, labels, index) for name in ("minimum", "maximum"))
    return (low, high, *places)
