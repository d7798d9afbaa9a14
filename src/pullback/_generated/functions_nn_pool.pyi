from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def _adaptive_avg(self: ArrayLike, /, axis: int, size: int) -> Tensor: ...
def _adaptive_avg_backward(grad_output: ArrayLike, axis: int, length: int) -> Tensor: ...
def _adaptive_max_pool(self: ArrayLike, /, size: Sequence[int] | int) -> tuple[Tensor, Tensor]: ...
def _avg_pool(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor: ...
def _avg_pool_backward(
    grad_output: ArrayLike,
    space: Sequence[int] | int,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor: ...
def _max_pool(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    dilation: Sequence[int] | int,
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]: ...
def _plane_gather(self: ArrayLike, /, indices: ArrayLike) -> Tensor: ...
def _plane_scatter(
    grad_output: ArrayLike, indices: ArrayLike, shape: Sequence[int] | int
) -> Tensor: ...
def _resize(
    self: ArrayLike, /, axis: int, size: int, mode: str, align_corners: bool, scale: float | None
) -> Tensor: ...
def _resize_backward(
    grad_output: ArrayLike,
    axis: int,
    length: int,
    mode: str,
    align_corners: bool,
    scale: float | None,
) -> Tensor: ...
def adaptive_avg_pool1d(self: ArrayLike, /, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_avg_pool2d(self: ArrayLike, /, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_max_pool1d(self: ArrayLike, /, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_max_pool1d_with_indices(
    self: ArrayLike, /, output_size: Sequence[int] | int
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(self: ArrayLike, /, output_size: Sequence[int] | int) -> Tensor: ...
def adaptive_max_pool2d_with_indices(
    self: ArrayLike, /, output_size: Sequence[int] | int
) -> tuple[Tensor, Tensor]: ...
def avg_pool1d(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = ...,
    padding: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
    count_include_pad: bool = ...,
) -> Tensor: ...
def avg_pool2d(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = ...,
    padding: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
    count_include_pad: bool = ...,
    divisor_override: int | None = ...,
) -> Tensor: ...
def interpolate(
    self: ArrayLike,
    /,
    size: Sequence[int] | int | None = ...,
    scale_factor: Sequence[float] | None = ...,
    mode: str = ...,
    align_corners: bool | None = ...,
    recompute_scale_factor: bool | None = ...,
) -> Tensor: ...
def max_pool1d(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
) -> Tensor: ...
def max_pool1d_with_indices(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
) -> Tensor: ...
def max_pool2d_with_indices(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int | None = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
) -> tuple[Tensor, Tensor]: ...
