from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def _exclusive_cumprod(self: ArrayLike, /, axis: int, reverse: bool) -> Tensor: ...
def _recurrence(self: ArrayLike, /, factor: ArrayLike, axis: int, reverse: bool) -> Tensor: ...
def _shift(self: ArrayLike, /, axis: int, by: int, fill: complex) -> Tensor: ...
def _tie_weights(
    self: ArrayLike, /, extreme: ArrayLike, axis: Sequence[int] | int | None, keepdims: bool
) -> Tensor: ...
def all(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def any(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def argmax(self: ArrayLike, /, axis: int | None = ..., *, keepdims: bool = ...) -> Tensor: ...
def argmin(self: ArrayLike, /, axis: int | None = ..., *, keepdims: bool = ...) -> Tensor: ...
def average(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    weights: ArrayLike | None = ...,
    *,
    keepdims: bool = ...,
) -> Tensor: ...
def corrcoef(self: ArrayLike, /, y: ArrayLike | None = ..., *, rowvar: bool = ...) -> Tensor: ...
def count_nonzero(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., *, keepdims: bool = ...
) -> Tensor: ...
def cov(
    self: ArrayLike,
    /,
    y: ArrayLike | None = ...,
    *,
    rowvar: bool = ...,
    bias: bool = ...,
    ddof: int | None = ...,
    fweights: ArrayLike | None = ...,
    aweights: ArrayLike | None = ...,
) -> Tensor: ...
def cummax(self: ArrayLike, /, axis: int) -> tuple[Tensor, Tensor]: ...
def cummin(self: ArrayLike, /, axis: int) -> tuple[Tensor, Tensor]: ...
def cumprod(
    self: ArrayLike, /, axis: int | None = ..., *, dtype: DTypeLike | None = ...
) -> Tensor: ...
def cumsum(
    self: ArrayLike, /, axis: int | None = ..., *, dtype: DTypeLike | None = ...
) -> Tensor: ...
def cumulative_prod(
    self: ArrayLike,
    /,
    *,
    axis: int | None = ...,
    dtype: DTypeLike | None = ...,
    include_initial: bool = ...,
) -> Tensor: ...
def cumulative_sum(
    self: ArrayLike,
    /,
    *,
    axis: int | None = ...,
    dtype: DTypeLike | None = ...,
    include_initial: bool = ...,
) -> Tensor: ...
def cumulative_trapezoid(
    self: ArrayLike, /, x: ArrayLike | None = ..., dx: complex = ..., axis: int = ...
) -> Tensor: ...
def diff(
    self: ArrayLike,
    /,
    n: int = ...,
    axis: int = ...,
    prepend: ArrayLike | None = ...,
    append: ArrayLike | None = ...,
) -> Tensor: ...
def _gradient(
    self: ArrayLike,
    /,
    spacing: Sequence[ArrayLike] = ...,
    *,
    axis: Sequence[int] | int | None = ...,
    edge_order: int = ...,
) -> list[Tensor]: ...
def logcumsumexp(self: ArrayLike, /, axis: int) -> Tensor: ...
def logsumexp(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def max(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def mean(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def min(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def nanargmax(self: ArrayLike, /, axis: int | None = ..., *, keepdims: bool = ...) -> Tensor: ...
def nanargmin(self: ArrayLike, /, axis: int | None = ..., *, keepdims: bool = ...) -> Tensor: ...
def nancumprod(
    self: ArrayLike, /, axis: int | None = ..., *, dtype: DTypeLike | None = ...
) -> Tensor: ...
def nancumsum(
    self: ArrayLike, /, axis: int | None = ..., *, dtype: DTypeLike | None = ...
) -> Tensor: ...
def nanmax(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def nanmean(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def nanmin(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def nanprod(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def nanstd(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    ddof: float = ...,
    correction: float | None = ...,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def nansum(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def nanvar(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    ddof: float = ...,
    correction: float | None = ...,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def prod(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def ptp(
    self: ArrayLike, /, axis: Sequence[int] | int | None = ..., keepdims: bool = ...
) -> Tensor: ...
def std(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    ddof: float = ...,
    correction: float | None = ...,
) -> Tensor: ...
def sum(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def trapezoid(
    self: ArrayLike, /, x: ArrayLike | None = ..., dx: complex = ..., axis: int = ...
) -> Tensor: ...
def var(
    self: ArrayLike,
    /,
    axis: Sequence[int] | int | None = ...,
    keepdims: bool = ...,
    *,
    ddof: float = ...,
    correction: float | None = ...,
) -> Tensor: ...
