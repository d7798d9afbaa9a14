from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def _norm(
    self: ArrayLike,
    /,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    axis: Sequence[int] | int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]: ...
def _rms_norm(
    self: ArrayLike, /, weight: ArrayLike | None, axis: Sequence[int] | int, eps: float
) -> tuple[Tensor, Tensor]: ...
def batch_norm(
    self: ArrayLike,
    /,
    running_mean: ArrayLike | None,
    running_var: ArrayLike | None,
    weight: ArrayLike | None = ...,
    bias: ArrayLike | None = ...,
    training: bool = ...,
    momentum: float = ...,
    eps: float = ...,
) -> Tensor: ...
def group_norm(
    self: ArrayLike,
    /,
    num_groups: int,
    weight: ArrayLike | None = ...,
    bias: ArrayLike | None = ...,
    eps: float = ...,
) -> Tensor: ...
def instance_norm(
    self: ArrayLike,
    /,
    running_mean: ArrayLike | None = ...,
    running_var: ArrayLike | None = ...,
    weight: ArrayLike | None = ...,
    bias: ArrayLike | None = ...,
    use_input_stats: bool = ...,
    momentum: float = ...,
    eps: float = ...,
) -> Tensor: ...
def layer_norm(
    self: ArrayLike,
    /,
    normalized_shape: Sequence[int] | int,
    weight: ArrayLike | None = ...,
    bias: ArrayLike | None = ...,
    eps: float = ...,
) -> Tensor: ...
def rms_norm(
    self: ArrayLike,
    /,
    normalized_shape: Sequence[int] | int,
    weight: ArrayLike | None = ...,
    eps: float | None = ...,
) -> Tensor: ...
