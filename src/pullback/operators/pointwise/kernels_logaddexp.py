"""The logarithm of a sum of two exponentials, and its gradients, by several threads.

Both gradients are made of one exponential, block by block, so that nothing leaves the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.kernels.errstate import errstate
from pullback.kernels.threads import MIN_THREADED_HEAVY_SIZE, in_blocks

__all__ = ["logaddexp", "logaddexp_grads"]

_Array = NDArray[Any]


def logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)).

    >>> float(logaddexp(np.float64(0), np.float64(0)) / np.log(2))
    1.0
    """
    if not _are_large(a, b):
        return np.logaddexp(a, b)
    result = np.empty(a.shape)
    in_blocks(np.logaddexp, a.size, a.reshape(-1), b.reshape(-1), result.reshape(-1))
    return result


def logaddexp_grads(
    grad: _Array, a: Any, b: Any, wanted: tuple[bool, bool]
) -> tuple[_Array | None, _Array | None] | None:
    """The gradients of `logaddexp` in both arguments; None where the arrays are not large."""
    if not (_are_large(a, b) and grad.dtype == a.dtype and grad.shape == a.shape):
        return None
    first, second = (np.empty(a.shape) if each else None for each in wanted)
    results = [each.reshape(-1) for each in (first, second) if each is not None]
    is_number = not any(grad.strides)  # the gradient of a sum

    def run(x: _Array, y: _Array, *rest: _Array) -> None:
        outs = iter(rest if is_number else rest[1:])
        with errstate(all="ignore"):
            power = np.exp(y - x)
            scale = grad.flat[0] if is_number else rest[0]
            if first is not None:
                np.divide(scale, power + 1, out=next(outs))
            if second is not None:
                np.reciprocal(power, out=power)  # of inf and 0, too: the slopes are 1 and 0
                power += 1
                np.divide(scale, power, out=next(outs))

    given = [a.reshape(-1), b.reshape(-1)]
    if not is_number:
        given.append(np.ascontiguousarray(grad).reshape(-1))
    in_blocks(run, a.size, *given, *results)
    return first, second


def _are_large(a: Any, b: Any) -> bool:
    """Whether two arrays are double precision, of one shape, large, and lie in order."""
    return (
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and a.size >= MIN_THREADED_HEAVY_SIZE
        and a.shape == b.shape
        and a.dtype == b.dtype == np.float64
        and a.flags.c_contiguous
        and b.flags.c_contiguous
    )
