"""The tensor: an array, the flags that dispatch reads, and its place in the graph."""

from __future__ import annotations

from pullback.tensor.tensor import Tensor

__all__ = ["Tensor"]
