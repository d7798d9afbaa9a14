from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def _col2im(
    self: ArrayLike,
    /,
    output_size: Sequence[int] | int,
    kernel_size: Sequence[int] | int,
    dilation: Sequence[int] | int,
    padding: Sequence[int] | int,
    stride: Sequence[int] | int,
) -> Tensor: ...
def _conv(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    dilation: Sequence[int] | int,
    groups: int,
) -> Tensor: ...
def _conv_input(
    grad_output: ArrayLike,
    weight: ArrayLike,
    space: Sequence[int] | int,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    dilation: Sequence[int] | int,
    groups: int,
) -> Tensor: ...
def _conv_weight(
    self: ArrayLike,
    /,
    grad_output: ArrayLike,
    kernel_size: Sequence[int] | int,
    stride: Sequence[int] | int,
    padding: Sequence[int] | int,
    dilation: Sequence[int] | int,
    groups: int,
) -> Tensor: ...
def _im2col(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    dilation: Sequence[int] | int,
    padding: Sequence[int] | int,
    stride: Sequence[int] | int,
) -> Tensor: ...
def fold(
    self: ArrayLike,
    /,
    output_size: Sequence[int] | int,
    kernel_size: Sequence[int] | int,
    dilation: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    stride: Sequence[int] | int = ...,
) -> Tensor: ...
def conv1d(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None = ...,
    stride: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    groups: int = ...,
) -> Tensor: ...
def conv2d(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None = ...,
    stride: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    groups: int = ...,
) -> Tensor: ...
def conv3d(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None = ...,
    stride: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    dilation: Sequence[int] | int = ...,
    groups: int = ...,
) -> Tensor: ...
def conv_transpose1d(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None = ...,
    stride: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    output_padding: Sequence[int] | int = ...,
    groups: int = ...,
    dilation: Sequence[int] | int = ...,
) -> Tensor: ...
def conv_transpose2d(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None = ...,
    stride: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    output_padding: Sequence[int] | int = ...,
    groups: int = ...,
    dilation: Sequence[int] | int = ...,
) -> Tensor: ...
def conv_transpose3d(
    self: ArrayLike,
    /,
    weight: ArrayLike,
    bias: ArrayLike | None = ...,
    stride: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    output_padding: Sequence[int] | int = ...,
    groups: int = ...,
    dilation: Sequence[int] | int = ...,
) -> Tensor: ...
def unfold(
    self: ArrayLike,
    /,
    kernel_size: Sequence[int] | int,
    dilation: Sequence[int] | int = ...,
    padding: Sequence[int] | int = ...,
    stride: Sequence[int] | int = ...,
) -> Tensor: ...
