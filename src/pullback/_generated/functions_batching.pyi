from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def _add_level(self: ArrayLike, /, axis: int, level: int) -> Tensor: ...
def _expand_level(self: ArrayLike, /, level: int, size: int) -> Tensor: ...
def _remove_level(self: ArrayLike, /, axis: int, level: int) -> Tensor: ...
def _sum_level(self: ArrayLike, /, level: int, size: int) -> Tensor: ...
