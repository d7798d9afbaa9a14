"""Fourier transforms along several axes, one after the other, and those of mirrored input."""

from __future__ import annotations

from collections.abc import Sequence

from pullback._generated.functions_fft import fft_fft, fft_ifft, fft_irfft, fft_rfft
from pullback._generated.functions_pointwise import conj
from pullback.tensor.tensor import Tensor

__all__ = ["Lengths", "fftn", "hfft", "ifftn", "ihfft", "irfftn", "rfftn"]

Lengths = Sequence[int] | None

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _plan(
    name: str, x: Tensor, s: Lengths, axes: Lengths, last: int | None = None
) -> list[tuple[int, int]]:
    """Axes with their lengths; `last` is the length along the last axis where `s` is not given."""
    if axes is None:
        axes = range(-(x.ndim if s is None else len(s)), 0)
    if s is not None and len(s) != len(axes):
        raise ValueError(f"fft.{name}: s={tuple(s)} and axes={tuple(axes)} differ in length")
    if not all(-x.ndim <= axis < x.ndim for axis in axes):
        raise IndexError(f"fft.{name}: axes={tuple(axes)} are not axes of the shape {x.shape}")
    lengths = [-1] * len(axes) if s is None else list(s)
    if s is None and last is not None and axes:
        lengths[-1] = last
    return [(axis, x.shape[axis] if n == -1 else n) for axis, n in zip(axes, lengths, strict=True)]


def fftn(x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Tensor:
    """The transform along several axes, the last first."""
    for axis, n in reversed(_plan("fftn", x, s, axes)):
        x = fft_fft(x, n, axis, norm)
    return x


def ifftn(x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Tensor:
    """The inverse transform along several axes, the last first."""
    for axis, n in reversed(_plan("ifftn", x, s, axes)):
        x = fft_ifft(x, n, axis, norm)
    return x


def rfftn(x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Tensor:
    """The transform of real numbers: of the last axis first, which leaves half of it."""
    plan = _plan("rfftn", x, s, axes)
    axis, n = plan.pop()
    x = fft_rfft(x, n, axis, norm)
    for axis, n in reversed(plan):
        x = fft_fft(x, n, axis, norm)
    return x


def irfftn(x: Tensor, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`: the last axis comes last, and becomes real."""
    end = -1 if axes is None else axes[-1]
    default = (x.shape[end] - 1) * 2 if -x.ndim <= end < x.ndim else None
    *plan, (last, length) = _plan("irfftn", x, s, axes, default)
    for axis, n in plan:
        x = fft_ifft(x, n, axis, norm)
    return fft_irfft(x, length, last, norm)


def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The transform of numbers whose second half mirrors the first."""
    length = (_plan("hfft", x, None, (axis,))[0][1] - 1) * 2 if n is None else n
    return fft_irfft(conj(x), length, axis, _SWAPPED.get(norm, norm))


def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`."""
    return conj(fft_rfft(x, n, axis, _SWAPPED.get(norm, norm)))
