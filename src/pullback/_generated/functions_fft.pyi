from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def fft_fft(
    self: ArrayLike, /, n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Tensor: ...
def fft_fft2(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_fftn(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int | None = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_fftshift(self: ArrayLike, /, axes: Sequence[int] | int | None = ...) -> Tensor: ...
def fft_hfft(
    self: ArrayLike, /, n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Tensor: ...
def fft_ifft(
    self: ArrayLike, /, n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Tensor: ...
def fft_ifft2(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_ifftn(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int | None = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_ifftshift(self: ArrayLike, /, axes: Sequence[int] | int | None = ...) -> Tensor: ...
def fft_ihfft(
    self: ArrayLike, /, n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Tensor: ...
def fft_irfft(
    self: ArrayLike, /, n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Tensor: ...
def fft_irfft2(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_irfftn(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int | None = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_rfft(
    self: ArrayLike, /, n: int | None = ..., axis: int = ..., norm: str | None = ...
) -> Tensor: ...
def fft_rfft2(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int = ...,
    norm: str | None = ...,
) -> Tensor: ...
def fft_rfftn(
    self: ArrayLike,
    /,
    s: Sequence[int] | int | None = ...,
    axes: Sequence[int] | int | None = ...,
    norm: str | None = ...,
) -> Tensor: ...
