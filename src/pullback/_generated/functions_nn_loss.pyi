from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def _bce(self: ArrayLike, /, target: ArrayLike) -> Tensor: ...
def _bce_with_logits(
    self: ArrayLike, /, target: ArrayLike, pos_weight: ArrayLike | None = ...
) -> Tensor: ...
def _pick(self: ArrayLike, /, target: ArrayLike, ignore_index: int) -> Tensor: ...
def _pick_sum(self: ArrayLike, /, target: ArrayLike, ignore_index: int, scale: float) -> Tensor: ...
def _place(
    grad_output: ArrayLike, target: ArrayLike, classes: int, ignore_index: int
) -> Tensor: ...
def binary_cross_entropy(
    self: ArrayLike, /, target: ArrayLike, weight: ArrayLike | None = ..., *, reduction: str = ...
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    self: ArrayLike,
    /,
    target: ArrayLike,
    weight: ArrayLike | None = ...,
    *,
    reduction: str = ...,
    pos_weight: ArrayLike | None = ...,
) -> Tensor: ...
def cosine_embedding_loss(
    self: ArrayLike,
    other: ArrayLike,
    /,
    target: ArrayLike,
    *,
    margin: float = ...,
    reduction: str = ...,
) -> Tensor: ...
def cross_entropy(
    self: ArrayLike,
    /,
    target: ArrayLike,
    weight: ArrayLike | None = ...,
    *,
    ignore_index: int = ...,
    reduction: str = ...,
    label_smoothing: float = ...,
) -> Tensor: ...
def gaussian_nll_loss(
    self: ArrayLike,
    /,
    target: ArrayLike,
    var: ArrayLike,
    *,
    full: bool = ...,
    eps: float = ...,
    reduction: str = ...,
) -> Tensor: ...
def hinge_embedding_loss(
    self: ArrayLike, /, target: ArrayLike, *, margin: float = ..., reduction: str = ...
) -> Tensor: ...
def huber_loss(
    self: ArrayLike, /, target: ArrayLike, *, reduction: str = ..., delta: float = ...
) -> Tensor: ...
def kl_div(
    self: ArrayLike, /, target: ArrayLike, *, reduction: str = ..., log_target: bool = ...
) -> Tensor: ...
def l1_loss(self: ArrayLike, /, target: ArrayLike, *, reduction: str = ...) -> Tensor: ...
def margin_ranking_loss(
    self: ArrayLike,
    other: ArrayLike,
    /,
    target: ArrayLike,
    *,
    margin: float = ...,
    reduction: str = ...,
) -> Tensor: ...
def mse_loss(self: ArrayLike, /, target: ArrayLike, *, reduction: str = ...) -> Tensor: ...
def nll_loss(
    self: ArrayLike,
    /,
    target: ArrayLike,
    weight: ArrayLike | None = ...,
    *,
    ignore_index: int = ...,
    reduction: str = ...,
) -> Tensor: ...
def poisson_nll_loss(
    self: ArrayLike,
    /,
    target: ArrayLike,
    *,
    log_input: bool = ...,
    full: bool = ...,
    eps: float = ...,
    reduction: str = ...,
) -> Tensor: ...
def smooth_l1_loss(
    self: ArrayLike, /, target: ArrayLike, *, reduction: str = ..., beta: float = ...
) -> Tensor: ...
def soft_margin_loss(self: ArrayLike, /, target: ArrayLike, *, reduction: str = ...) -> Tensor: ...
def triplet_margin_loss(
    self: ArrayLike,
    /,
    positive: ArrayLike,
    negative: ArrayLike,
    *,
    margin: float = ...,
    p: float = ...,
    eps: float = ...,
    swap: bool = ...,
    reduction: str = ...,
) -> Tensor: ...
