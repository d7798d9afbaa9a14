"""Random operators inside vmap: one draw for the whole batch, or one per batch element.

The option `randomness` of ``vmap`` decides: ``"error"`` raises, ``"same"`` draws once,
``"different"`` once per batch element, whether or not the argument is batched. Nested ``vmap``
calls each apply their own option.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.batching.align import array_for, finished, union
from pullback.errors import AutogradError
from pullback.operators.nn.layers.kernels import dropout, masked_scale, random_like, uniform_like
from pullback.tensor.levels import active_levels
from pullback.tensor.tensor import Tensor, wrap

__all__ = ["random_kernel"]


def random_kernel(name: str) -> Callable[..., Any]:
    """The kernel of a random operator inside a mapped function."""
    return _KERNELS[name]


class _Draw:
    """The levels along which a draw is repeated, and an array of its shape."""

    def __init__(self, tensor: Tensor, what: str):
        levels, sizes = union([tensor])
        lengths = dict(zip(levels, sizes, strict=True))
        drawn = dict.fromkeys(levels, 1)
        for level in active_levels():
            if level.randomness == "error":
                raise AutogradError(
                    f"vmap: called random operation while in randomness error mode: {what}. Say "
                    f"vmap(..., randomness='same') for one draw for all samples, or 'different' "
                    f"for one draw for each."
                )
            if level.randomness == "different":
                drawn[level.number] = lengths[level.number] = level.size
        self.levels = tuple(sorted(drawn))
        self.sizes = tuple(lengths[level] for level in self.levels)
        self.x = array_for(tensor, self.levels)
        lead = [drawn[level] for level in self.levels]
        self.blank = np.empty((*lead, *self.x.shape[len(lead) :]), self.x.dtype)

    def finished(self, found: Any) -> Any:
        """Results as tensors."""
        if self.levels:
            return finished(found, self.levels, self.sizes)
        return tuple(map(wrap, found)) if isinstance(found, tuple) else wrap(found)


def _dropout(self: Tensor, p: float, generator: Any = None) -> Any:
    draw = _Draw(self, "dropout")
    mask = dropout(np.zeros_like(draw.blank), p, generator)[1]
    return draw.finished((masked_scale(draw.x, mask, 0.0 if p == 1 else 1 / (1 - p)), mask))


def _uniform_like(self: Tensor, low: float, high: float, generator: Any = None) -> Any:
    draw = _Draw(self, "uniform_like")
    return draw.finished(uniform_like(draw.blank, low, high, generator))


def _random_like(
    self: Tensor, kind: str, low: int = 0, high: int = 0, generator: Any = None
) -> Any:
    draw = _Draw(self, "random_like")
    return draw.finished(random_like(draw.blank, kind, low, high, generator))


_KERNELS: dict[str, Callable[..., Any]] = {
    "pullback::_dropout": _dropout,
    "pullback::_random_like": _random_like,
    "pullback::_uniform_like": _uniform_like,
}
