"""``x.new_zeros(...)`` and its kin: new tensors of a tensor's dtype and device, without history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pullback._generated import functions_shape as functions
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor

__all__ = [
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
]


def _lengths(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape that came in a row, or as one sequence."""
    return tuple(np.atleast_1d(shape[0] if len(shape) == 1 else shape).tolist()) if shape else ()


def new_zeros(
    self: Tensor,
    *shape: Any,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of a shape: ``x.new_zeros(2, 3)`` or ``x.new_zeros((2, 3))``."""
    kind = self.dtype if dtype is None else dtype
    place = self.device if device is None else device
    return creation.zeros(_lengths(shape), kind, device=place, requires_grad=requires_grad)


def new_ones(
    self: Tensor,
    *shape: Any,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of a shape."""
    kind = self.dtype if dtype is None else dtype
    place = self.device if device is None else device
    return creation.ones(_lengths(shape), kind, device=place, requires_grad=requires_grad)


def new_empty(
    self: Tensor,
    *shape: Any,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uninitialised memory of a shape."""
    kind = self.dtype if dtype is None else dtype
    place = self.device if device is None else device
    return creation.empty(_lengths(shape), kind, device=place, requires_grad=requires_grad)


def new_empty_strided(
    self: Tensor,
    shape: Sequence[int],
    strides: Sequence[int],
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uninitialised memory of a shape, whose axes have these strides, counted in elements."""
    if len(shape) != len(strides):
        raise ValueError(
            f"new_empty_strided: {len(shape)} lengths but {len(strides)} strides are given"
        )
    if any(n < 0 for n in (*shape, *strides)):
        raise ValueError(
            f"new_empty_strided: lengths and strides must not be negative, but the shape is "
            f"{tuple(shape)} and the strides are {tuple(strides)}"
        )
    reach = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    size = 0 if 0 in shape else 1 + reach
    memory = new_empty(self, size, dtype=dtype, device=device)
    made = functions.as_strided(memory, list(shape), list(strides)).detach()
    made.requires_grad = requires_grad
    return made


def new_full(
    self: Tensor,
    shape: creation.Shape,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """One number in a shape."""
    kind = self.dtype if dtype is None else dtype
    place = self.device if device is None else device
    return creation.full(shape, fill_value, kind, device=place, requires_grad=requires_grad)


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A copy of some data, never connected to a graph."""
    kind = self.dtype if dtype is None else dtype
    place = self.device if device is None else device
    return creation.tensor(data, dtype=kind, device=place, requires_grad=requires_grad)


for _method in (new_empty, new_empty_strided, new_full, new_ones, new_tensor, new_zeros):
    setattr(Tensor, _method.__name__, _method)
