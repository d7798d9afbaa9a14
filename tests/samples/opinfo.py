"""One record an operator: what to call it with, and what to compare it with.

The record drives every test of the operator: values, dtypes, derivatives of first and second order,
complex numbers, layouts, in-place variants, and the comparison with PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Make", "OpInfo", "Sample", "call"]


@dataclass(frozen=True)
class Sample:
    """One call. Arrays of floating or complex dtype are differentiated; all else is passed on."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Sample:
    """A sample, written like a call."""
    return Sample(args, kwargs)


class Make:
    """Makes the arrays of samples: seeded, real or complex."""

    def __init__(self, seed: int = 0, *, is_complex: bool = False, dtype: str = "float64"):
        self.rng = np.random.default_rng(seed)
        self.is_complex = is_complex
        self.dtype = np.dtype(dtype)

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> NDArray[Any]:
        """An array of a shape with elements between `low` and `high` (in the real part)."""
        real = self.rng.uniform(low, high, shape)
        if self.is_complex:
            return np.asarray(real + 1j * self.rng.uniform(-1.0, 1.0, shape))
        return np.asarray(real).astype(self.dtype)

    def ints(self, *shape: int, low: int = 0, high: int = 5) -> NDArray[Any]:
        """An array of integers, which is not differentiated."""
        return self.rng.integers(low, high, shape)

    def bools(self, *shape: int) -> NDArray[Any]:
        """An array of truth values, which is not differentiated."""
        return self.rng.random(shape) < 0.5


@dataclass(frozen=True)
class OpInfo:
    """What is known of one operator.

    Attributes:
        name: the public function, as ``pullback.<name>``; dots reach into namespaces.
        samples: makes the calls; they should cover broadcasting, zero sizes and every argument.
        reference: the NumPy function that gives the same values with the same arguments, if any.
        torch: the PyTorch function to compare values and gradients with: a function of torch and
            the sample's arguments, arrays as tensors; None where PyTorch has no such function.
        has_complex: whether complex input is defined, and differentiable.
        twice: whether the second derivative exists and is right.
        inplace: the name of the in-place method, if there is one.
        differentiable: whether there is anything to differentiate.
        through: makes the function that is tested out of the public one, where that alone has no
            definite values: of an eigenvector, say, only what does not depend on its sign.
        atol, rtol: tolerance of the derivative checks.
    """

    name: str
    samples: Callable[[Make], Iterator[Sample] | Sequence[Sample]]
    reference: Callable[..., Any] | None = None
    torch: Callable[..., Any] | None = None
    has_complex: bool = True
    twice: bool = True
    inplace: str | None = None
    differentiable: bool = True
    through: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    atol: float = 1e-6
    rtol: float = 1e-5
