from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers

def cube(self: ArrayLike, /) -> Tensor: ...
def cube_(self: ArrayLike, /) -> Tensor: ...
def weighted_cubes(self: ArrayLike, /, weight: ArrayLike, power: float = ...) -> Tensor: ...
