"""Numerical checks of derivatives, in random directions.

One identity serves real and complex numbers, first and second order: for a change `u` of the input
and a weight `v` of the output, the change of ``<v, f(x)>`` is ``<grad, u>``, with the real inner
product ``<a, b> = sum(Re(conj(a) * b))`` and `grad` the gradient for the output gradient `v`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Arrays", "check_gradient", "inner", "random_like"]

Arrays = Sequence[NDArray[Any]]


def inner(a: Arrays, b: Arrays) -> float:
    """The real inner product of lists of arrays."""
    return float(sum(np.sum(np.real(np.conj(x) * y)) for x, y in zip(a, b, strict=True)))


def random_like(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    """A random array of the same shape and dtype, with elements of size about one."""
    real = rng.uniform(-1.0, 1.0, array.shape)
    if array.dtype.kind == "c":
        return np.asarray(real + 1j * rng.uniform(-1.0, 1.0, array.shape)).astype(array.dtype)
    return np.asarray(real).astype(array.dtype)


def check_gradient(
    f: Callable[[Arrays], Arrays],
    vjp: Callable[[Arrays, Arrays], Arrays],
    inputs: Arrays,
    *,
    atol: float,
    rtol: float,
    directions: int = 3,
    step: float = 1e-6,
    what: str = "gradient",
) -> None:
    """Compares ``vjp(inputs, v)`` with central differences of `f` in random directions."""
    rng = np.random.default_rng(len(inputs) + sum(x.size for x in inputs))
    outputs = f(inputs)
    for _ in range(directions):
        v = [random_like(rng, np.asarray(y)) for y in outputs]
        u = [random_like(rng, x) for x in inputs]
        above = f([x + step * d for x, d in zip(inputs, u, strict=True)])
        below = f([x - step * d for x, d in zip(inputs, u, strict=True)])
        change = [
            (np.asarray(p) - np.asarray(m)) / (2 * step) for p, m in zip(above, below, strict=True)
        ]
        numerical, analytical = inner(v, change), inner(vjp(inputs, v), u)
        scale = 1.0 + abs(numerical)
        assert abs(numerical - analytical) <= atol * scale * 10 + rtol * scale, (
            f"{what}: numerical {numerical!r}, analytical {analytical!r}"
        )
