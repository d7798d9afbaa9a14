"""Records of Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.samples.opinfo import Make, OpInfo, Sample, call

__all__ = ["OPS"]

_NORMS = (None, "backward", "ortho", "forward")


def _one_axis(make: Make) -> Iterator[Sample]:
    for n in (2, 4, 5):
        yield call(make(n))
    for norm in _NORMS:
        yield call(make(3, 4), 4, 0, norm)
        yield call(make(3, 5), norm=norm)
    for n in (3, 4, 5, 7):
        yield call(make(2, 4), n)
        yield call(make(4, 2), n=n, axis=-2)
    yield call(make(2, 3, 2), axis=1)
    yield call(make(0, 3))


def _several_axes(make: Make) -> Iterator[Sample]:
    yield call(make(4))
    yield call(make(3, 4))
    yield call(make(2, 3, 4))
    yield call(make(2, 3, 4), axes=(0, 2))
    yield call(make(2, 3, 4), (4, 3), (-1, 0))
    yield call(make(3, 4), s=(5, -1), axes=(0, 1))
    for norm in _NORMS:
        yield call(make(3, 4), norm=norm)


def _two_axes(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4))
    yield call(make(2, 3, 4))
    yield call(make(3, 2, 4), axes=(0, 2))
    yield call(make(2, 3, 4), (4, 3))
    yield call(make(3, 4), s=(2, 5), axes=(-1, -2), norm="ortho")


def _inverse_of_several(make: Make) -> Iterator[Sample]:
    yield call(make(3, 4))
    yield call(make(3, 4), s=(3, 7), axes=(0, 1))
    yield call(make(2, 3, 4), s=(2, 4), axes=(2, 0))
    yield call(make(2, 3, 4), axes=(2, 1), norm="ortho")


def _shift(make: Make) -> Iterator[Sample]:
    yield call(make(5))
    yield call(make(3, 4))
    yield call(make(3, 4), 0)
    yield call(make(3, 4, 5), (0, -1))
    yield call(make(0, 2))


def _renamed(name: str, several: bool = False) -> Any:
    """PyTorch's function of the same name, whose axes are called dim."""

    def function(
        t: Any, x: Any, n: Any = None, axis: Any = None, norm: Any = None, **kwargs: Any
    ) -> Any:
        length = kwargs.get("s", n)
        axes = kwargs.get("axes", axis)
        if not x.numel():  # which PyTorch refuses
            return function(t, t.cat([x, x.new_ones(1, *x.shape[1:])]))[:0]
        if not several:
            return getattr(t.fft, name)(x, length, -1 if axes is None else axes, norm)
        if length is not None and axes is None:
            axes = (-2, -1)
        return getattr(t.fft, name)(x, length, **({"dim": axes} if axes else {}), norm=norm)

    return function


def _record(name: str, samples: Any, several: bool = False, **kwargs: Any) -> OpInfo:
    return OpInfo(f"fft.{name}", samples, getattr(np.fft, name), _renamed(name, several), **kwargs)


OPS = [
    _record("fft", _one_axis),
    _record("ifft", _one_axis),
    _record("rfft", _one_axis, has_complex=False),
    _record("irfft", _one_axis),
    _record("hfft", _one_axis),
    _record("ihfft", _one_axis, has_complex=False),
    _record("fftn", _several_axes, True),
    _record("ifftn", _several_axes, True),
    _record("rfftn", _several_axes, True, has_complex=False),
    _record("irfftn", _inverse_of_several, True),
    _record("fft2", _two_axes, True),
    _record("ifft2", _two_axes, True),
    _record("rfft2", _two_axes, True, has_complex=False),
    _record("irfft2", _inverse_of_several, True),
    OpInfo(
        "fft.fftshift", _shift, np.fft.fftshift, lambda t, x, axes=None: t.fft.fftshift(x, axes)
    ),
    OpInfo(
        "fft.ifftshift", _shift, np.fft.ifftshift, lambda t, x, axes=None: t.fft.ifftshift(x, axes)
    ),
]
