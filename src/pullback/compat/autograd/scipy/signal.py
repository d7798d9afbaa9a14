"""``autograd.scipy.signal``: ``convolve``, along chosen axes and with sums over others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.errors import AutogradValueError

__all__ = ["convolve"]


def convolve(
    A: Any,  # noqa: N803 - HIPS autograd's names
    B: Any,  # noqa: N803
    axes: Any = None,
    dot_axes: Sequence[Sequence[int]] = ((), ()),
    mode: str = "full",
) -> Any:
    """The convolution of two arrays of any dimension.

    Args:
        A: the first array.
        B: the second array.
        axes: the pairs of axes to convolve, as two lists; all of them by default.
        dot_axes: pairs of axes to multiply and sum over, as two lists.
        mode: "full", "same" (as long as `A`) or "valid".

    The axes of the result: those of `A` that are not named, those of `B`, the convolved ones.

    >>> convolve(np.array([1.0, 2.0]), np.array([1.0, 10.0, 100.0]))
    array([  1.,  12., 120., 200.])
    """
    if mode not in ("full", "same", "valid"):
        raise AutogradValueError(f"convolve: mode must be 'full', 'same' or 'valid', not {mode!r}")
    A, B = anp.asarray(A), anp.asarray(B)  # noqa: N806 - HIPS autograd's names
    axes = [list(range(A.ndim))] * 2 if axes is None else [list(part) for part in axes]
    dots = [list(part) for part in dot_axes]
    first, second = _ordered(A, axes[0], dots[0]), _ordered(B, axes[1], dots[1])
    count, summed = len(axes[0]), len(dots[0])
    long = [A.shape[axis] for axis in axes[0]]
    short = [B.shape[axis] for axis in axes[1]]
    bigger = all(n >= m for n, m in zip(long, short, strict=True))
    if mode == "valid" and not bigger and any(n > m for n, m in zip(long, short, strict=True)):
        raise AutogradValueError(
            f"convolve: with mode='valid' one array must be at least as long as the other along "
            f"all convolved axes, and the lengths are {long} and {short}"
        )
    product = _full(first, second, count, summed)
    if mode == "full":
        return product
    keep = [slice(None)] * (product.ndim - count)
    for n, m in zip(long, short, strict=True):
        length = n if mode == "same" else abs(n - m) + 1
        start = (m - 1) // 2 if mode == "same" else min(n, m) - 1
        keep.append(slice(start, start + length))
    return product[tuple(keep)]


def _ordered(array: Any, convolved: list[int], summed: list[int]) -> Any:
    """The axes as: all others, those to sum over, those to convolve."""
    others = [a for a in range(array.ndim) if a not in convolved and a not in summed]
    return anp.transpose(array, (*others, *summed, *convolved))


def _full(a: Any, b: Any, count: int, summed: int) -> Any:
    """The convolution over the last `count` axes: a shifted product for each element of b."""
    lengths = a.shape[a.ndim - count :], b.shape[b.ndim - count :]
    shape = tuple(n + m - 1 for n, m in zip(*lengths, strict=True))
    total = 0
    axes = [
        list(range(a.ndim - count - summed, a.ndim - count)),
        list(range(b.ndim - count - summed, b.ndim - count)),
    ]
    for place in np.ndindex(*lengths[1]):
        part = anp.tensordot(a, b[(..., *place)], axes)  # others of a, convolved, others of b
        part = anp.moveaxis(
            part,
            range(a.ndim - count - summed, a.ndim - summed),
            range(part.ndim - count, part.ndim),
        )
        widths = [(0, 0)] * (part.ndim - count)
        ends = zip(place, lengths[0], shape, strict=True)
        widths += [(at, n - at - m) for at, m, n in ends]
        total = total + anp.pad(part, widths)
    return total
