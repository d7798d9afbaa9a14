"""Gradients of mapped functions, where they meet a value that is the same for all samples.

A mapped function that uses a tensor from outside gives it to every sample. While the function runs,
each sample has a gradient of its own for it: these are per-sample gradients, and they stay apart.
Once the function has returned, what counts is the sum over the samples, as for every value that is
used several times.
"""

from __future__ import annotations

from typing import Any

from pullback.autograd.namespaces import tensors
from pullback.tensor.batched import BatchedArray, BatchShape
from pullback.tensor.levels import is_active
from pullback.tensor.tensor import Tensor

__all__ = ["match_levels"]


def match_levels(grad: Any, shape: tuple[int, ...]) -> Any:
    """A gradient with the levels of what it is the gradient of, as far as these have ended.

    `shape` is that of the value, with its levels as an attribute (``BatchShape``).
    """
    if not isinstance(grad, Tensor):
        return grad
    held = grad._array
    own = shape.levels if type(shape) is BatchShape else ()
    if type(held) is BatchedArray and held.levels != own:
        for level, size in zip(held.levels, held.array.shape, strict=False):
            if level not in own and not is_active(level):
                grad = tensors._sum_level(grad, level, size)
    if own and (type(held) is not BatchedArray or held.levels != own):
        assert isinstance(shape, BatchShape)
        known = held.levels if type(held) is BatchedArray else ()
        for level, size in zip(own, shape.sizes, strict=True):
            if level not in known and not is_active(level):
                grad = tensors._expand_level(grad, level, size)
    return grad
