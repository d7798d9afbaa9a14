"""Rules of ``scipy.ndimage``; its parts declare most of them, this module the Fourier filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage as theirs

from pullback.autograd.namespaces import tensors as xp
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import refused, rule
from pullback.scipy.rules import ndimage_filters, ndimage_ranks, ndimage_splines
from pullback.scipy.rules.ndimage_filters import declare, require_axis, sequence_of
from pullback.tensor.tensor import Tensor

__all__ = ["ndimage_filters", "ndimage_ranks", "ndimage_splines"]


def _factor(
    shape: list[int], values: list[Any], n: int, axis: int, part: Callable[..., Any]
) -> Any:
    """The product over the axes of ``part(frequency, value)``, frequencies in cycles per pixel."""
    found: Any = 1.0
    for place, value in enumerate(values):
        count = shape[place]
        if place == axis % len(shape) and n > 0:
            frequency: Any = np.arange(count) / n
        else:
            frequency = np.fft.fftfreq(count)
        extent = [1] * len(shape)
        extent[place] = count
        found = found * part(frequency.reshape(extent), as_tensor(value))
    return found


def _gaussian(frequency: Any, sigma: Any) -> Any:
    return xp.exp(-0.5 * (2 * np.pi * frequency * sigma) ** 2)


def _uniform(frequency: Any, size: Any) -> Any:
    return xp.sinc(frequency * size)


def _turn(frequency: Any, shift: Any) -> Any:
    phase = -2 * np.pi * frequency * shift
    return xp.cos(phase) + 1j * xp.sin(phase)


def _declare_fourier(name: str, argument: str, part: Callable[..., Any] | None) -> None:
    """Declares a filter that multiplies with a function of the frequencies."""

    @declare(name, f"input {argument}" if part is not None else "input")
    def apply(input: Any, n: int, axis: int, **options: Any) -> Any:
        require_axis(axis, input.ndim)
        given = sequence_of(options[argument], input.ndim)
        if part is None or not any(isinstance(v, Tensor) for v in given):
            return input * getattr(theirs, name)(np.ones(input.shape), given, n, axis)
        return input * _factor(list(input.shape), given, n, axis, part)


_declare_fourier("fourier_gaussian", "sigma", _gaussian)
_declare_fourier("fourier_uniform", "size", _uniform)
_declare_fourier("fourier_shift", "shift", _turn)
_declare_fourier("fourier_ellipsoid", "size", None)

# --- regions --------------------------------------------------------------------------------------


@rule("scipy.ndimage.center_of_mass", tensors="input")
def _center_of_mass(input: Any, labels: Any, index: Any) -> Any:
    x = as_tensor(input)
    mass = as_tensor(theirs.sum_labels(x, labels, index))
    grids = np.meshgrid(*map(np.arange, x.shape), indexing="ij", sparse=True)
    parts = [as_tensor(theirs.sum_labels(x * grid, labels, index)) / mass for grid in grids]
    if not mass.ndim:
        return tuple(parts)
    return [tuple(part[number] for part in parts) for number in range(len(mass))]


for _name in ("generic_filter", "generic_filter1d", "geometric_transform", "labeled_comprehension"):
    refused(f"scipy.ndimage.{_name}", "it calls a function for each pixel, which takes numbers")
